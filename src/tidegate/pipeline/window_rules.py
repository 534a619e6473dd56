"""What has to hold between the fields of a window and of an aggregation."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final, get_args

from tidegate.errors import Problem
from tidegate.pipeline.aggregate_lookup import spec_of
from tidegate.pipeline.aggregates import AGGREGATES, OPTIONS
from tidegate.pipeline.emit_strategies import EMIT_STRATEGIES, LateData
from tidegate.pipeline.masking import listed, shown
from tidegate.pipeline.validation import Rule, readable

if TYPE_CHECKING:
    from tidegate.pipeline.window import Aggregation, Window

SYSTEM_COLUMNS: Final = ("window_start", "window_end", "session_id", "revision", "op")
"""Columns that every result may have; no key and no aggregate can be called so."""

MOST_WINDOWS_PER_ROW: Final = 10_000
"""Each row is copied into all the windows that it falls in."""

ORIGINAL_EVENT_TS: Final = "original_event_ts"
"""The own time of a row that was reassigned: a column only under `late_data = "reassign"`."""

Problems = Iterator[Problem]


def column_fits_kind(aggregation: Aggregation) -> Problems:
    """`count` counts rows, every other kind needs a column."""
    kind, column = aggregation.kind, aggregation.input_column
    takes = spec_of(kind).takes
    if takes is None and column is not None:
        hint = "use kind='count_col' to count the rows where the column is not NULL"
        yield Problem("input_column", shown(column), f"no column for {kind}", hint)
    if takes is not None and column is None:
        hint = "name it, or use kind='count' to count rows"
        yield Problem("input_column", "nothing", f"the column that {kind} reads", hint)


def option_fits_kind(name: str, aggregation: Aggregation) -> Problems:
    """An option is there only for the kinds that have it, and beside the options it goes with."""
    value, option = getattr(aggregation, name), OPTIONS[name]
    if value is None:
        return
    kind, value_of = aggregation.kind, partial(getattr, aggregation)
    if name in [each.name for each in spec_of(kind).active(value_of)]:
        return
    expected = f"no {name} for {kind}"
    if option.only_with is not None:
        other, needed = option.only_with
        of = next(each.name for each in AGGREGATES.values() if option in each.options)
        expected = f"{name} only for {of} with {other}={needed!r}"
    yield Problem(name, shown(value), expected, f"remove it, or {option.instead}")


AGGREGATION: Final[tuple[Rule, ...]] = (
    column_fits_kind,
    *(partial(option_fits_kind, name) for name in OPTIONS),
)


def session_has_one_gap(window: Window) -> Problems:
    """Exactly one of `gap_ms` and `gap_column`."""
    if window.kind != "session":
        return
    if window.gap_ms is None and window.gap_column is None:
        hint = "gap_ms=30_000 ends a session after 30 s of silence; gap_column reads it per row"
        yield Problem("gap_ms", "nothing", "gap_ms or gap_column for a session", hint)
    if window.gap_ms is not None and window.gap_column is not None:
        found = f"gap_ms {window.gap_ms} and gap_column {shown(window.gap_column)}"
        yield Problem("gap_column", found, "only one of the two", "remove one of them")


def session_has_cap(window: Window) -> Problems:
    """Every session is capped: without it one that never rests would never be seen."""
    if window.kind == "session" and window.max_session_duration_ms is None:
        hint = "max_session_duration_ms=86_400_000 ends a session after a day at the latest"
        yield Problem("max_session_duration_ms", "nothing", "a cap for a session", hint)


def cap_is_above_gap(window: Window) -> Problems:
    """Otherwise every second event would seal a session."""
    cap, gap = window.max_session_duration_ms, window.gap_ms
    if window.kind == "session" and cap is not None and gap is not None and cap <= gap:
        hint = "raise the cap or lower the gap"
        expected = f"more than gap_ms, which is {gap}"
        yield Problem("max_session_duration_ms", str(cap), expected, hint)


def session_has_keys(window: Window) -> Problems:
    """Sessions are sessions of somebody."""
    if window.kind == "session" and not window.group_by:
        hint = "name the columns whose values make a session's owner, such as group_by='user_id'"
        yield Problem("group_by", "nothing", "at least one column for a session", hint)


def session_has_no_grid(window: Window) -> Problems:
    """Sessions lie where the events are."""
    if window.kind != "session":
        return
    given = {"width_ms": window.width_ms, "hop_ms": window.hop_ms}
    given["offset_ms"] = window.offset_ms or None
    for name, value in given.items():
        if value is not None:
            hint = "remove it, or use kind='tumbling' or kind='hopping'"
            yield Problem(name, str(value), f"no {name} for a session", hint)


def fixed_has_no_session_fields(window: Window) -> Problems:
    """Tumbling and hopping windows have neither gap nor cap."""
    if window.kind == "session":
        return
    given = {"gap_ms": window.gap_ms, "gap_column": window.gap_column}
    given["max_session_duration_ms"] = window.max_session_duration_ms
    for name, value in given.items():
        if value is not None:
            hint = "remove it, or use kind='session'"
            yield Problem(name, shown(value), f"no {name} for a {window.kind} window", hint)


def fixed_has_width(window: Window) -> Problems:
    """Tumbling and hopping windows have a length."""
    if window.kind != "session" and window.width_ms is None:
        hint = "width_ms=60_000 makes windows of a minute"
        yield Problem("width_ms", "nothing", f"a width for a {window.kind} window", hint)


def hop_fits_width(window: Window) -> Problems:
    """0 < hop <= width; a tumbling window hops by its width."""
    hop, width = window.hop_ms, window.width_ms
    if window.kind == "hopping" and hop is None:
        hint = "hop_ms=10_000 opens a window every 10 s; without hops use kind='tumbling'"
        yield Problem("hop_ms", "nothing", "a hop for a hopping window", hint)
    if window.kind == "hopping" and hop is not None and width is not None and hop > width:
        hint = "with a longer hop, rows between two windows would be in none"
        yield Problem("hop_ms", str(hop), f"at most width_ms, which is {width}", hint)
    if window.kind == "tumbling" and hop not in (None, width):
        hint = "remove it, or use kind='hopping' for windows that overlap"
        yield Problem("hop_ms", str(hop), "no hop_ms for a tumbling window", hint)


def windows_per_row_are_few(window: Window) -> Problems:
    """A row of a day in windows that hop by a second would be 86 400 rows."""
    hop, width = window.hop_ms, window.width_ms
    if window.kind != "hopping" or hop is None or width is None:
        return
    least = -(-width // MOST_WINDOWS_PER_ROW)
    if hop < least:
        expected = f"at least {least}: a row is in width_ms / hop_ms windows, 10000 at most"
        yield Problem("hop_ms", str(hop), expected, "raise hop_ms, or lower width_ms")


def keys_differ(window: Window) -> Problems:
    """No group column twice."""
    yield from _repeated([(f"group_by[{n}]", name) for n, name in enumerate(window.group_by)])


def keys_are_free(window: Window) -> Problems:
    """No group column is called like a column of the system."""
    for place, name in enumerate(window.group_by):
        yield from _taken(f"group_by[{place}]", name)


def inputs_differ(window: Window) -> Problems:
    """No input twice: its rows would count twice."""
    for place, name in enumerate(window.inputs):
        if name in window.inputs[:place]:
            at, expected = f"inputs[{place}]", "each input once"
            yield Problem(at, shown(name), expected, "remove one of the two")


def window_computes_something(window: Window) -> Problems:
    """At least one aggregation."""
    if not window.aggregations:
        hint = "Aggregation(kind='count') counts the rows of each window"
        yield Problem("aggregations", "nothing", "at least one aggregation", hint)


def output_names_differ(window: Window) -> Problems:
    """Each result has a name of its own."""
    named = readable(window.aggregations, "output_name")
    yield from _repeated(
        [(f"aggregations[{n}].output_name", each.output_name) for n, each in named]
    )


def output_names_are_free(window: Window) -> Problems:
    """No result is called like a column of the system."""
    for place, aggregation in readable(window.aggregations, "output_name"):
        yield from _taken(f"aggregations[{place}].output_name", aggregation.output_name)


def output_names_are_not_keys(window: Window) -> Problems:
    """No result is called like a group column."""
    keys = {name.casefold() for name in window.group_by}
    for place, aggregation in readable(window.aggregations, "output_name"):
        name = aggregation.output_name
        if name.casefold() in keys:
            hint = "give the aggregation another output_name"
            at = f"aggregations[{place}].output_name"
            yield Problem(at, shown(name), "a name that is not in group_by", hint)


def original_time_needs_reassign(window: Window) -> Problems:
    """`original_event_ts` is a column only where rows are reassigned."""
    if window.late_data == "reassign":
        return
    expected = f"another column: {ORIGINAL_EVENT_TS} exists only with late_data='reassign'"
    hint = "use late_data='reassign', or rename your own column in the source's transform"
    for place, name in enumerate(window.group_by):
        if name == ORIGINAL_EVENT_TS:
            yield Problem(f"group_by[{place}]", shown(name), expected, hint)
    for place, aggregation in readable(window.aggregations, "input_column"):
        if aggregation.input_column == ORIGINAL_EVENT_TS:
            at = f"aggregations[{place}].input_column"
            yield Problem(at, shown(ORIGINAL_EVENT_TS), expected, hint)


def reassign_has_a_limit(window: Window) -> Problems:
    """`max_lateness_ms` is needed by `reassign`, and by nothing else."""
    reassigns, limit = window.late_data == "reassign", window.max_lateness_ms
    if reassigns and limit is None:
        hint = "rows later than max_lateness_ms are dropped; 3_600_000 keeps an hour"
        yield Problem("max_lateness_ms", "nothing", "a limit for late_data='reassign'", hint)
    if not reassigns and limit is not None:
        hint = "remove it, or use late_data='reassign'; windows are held for allowed_lateness_ms"
        expected = f"no max_lateness_ms for late_data={window.late_data!r}"
        yield Problem("max_lateness_ms", str(limit), expected, hint)


def emit_has_what_it_needs(window: Window) -> Problems:
    """An option of a strategy, such as `every_ms`, is needed by it, and by nothing else."""
    for strategy in EMIT_STRATEGIES.values():
        for name, need in strategy.needs.items():
            value, named = getattr(window, name), f"emit={strategy.name!r}"
            if window.emit == strategy.name and value is None:
                yield Problem(name, "nothing", f"{need.expected} for {named}", need.hint)
            if window.emit != strategy.name and value is not None:
                expected = f"no {name} for emit={window.emit!r}"
                yield Problem(name, str(value), expected, f"remove it, or use {named}")


def emit_takes_late_data(window: Window) -> Problems:
    """Some strategies cannot be combined with some late policies."""
    strategy = EMIT_STRATEGIES[window.emit]
    if window.late_data in strategy.refuses:
        policies = [each for each in get_args(LateData) if each not in strategy.refuses]
        expected = f"late_data={listed(map(repr, policies))} with emit={strategy.name!r}"
        yield Problem("late_data", shown(window.late_data), expected, strategy.instead)


WINDOW: Final = (
    session_has_one_gap,
    session_has_cap,
    cap_is_above_gap,
    session_has_keys,
    session_has_no_grid,
    fixed_has_no_session_fields,
    fixed_has_width,
    hop_fits_width,
    windows_per_row_are_few,
    keys_differ,
    keys_are_free,
    inputs_differ,
    window_computes_something,
    output_names_differ,
    output_names_are_free,
    output_names_are_not_keys,
    original_time_needs_reassign,
    reassign_has_a_limit,
    emit_has_what_it_needs,
    emit_takes_late_data,
)


def _repeated(named: list[tuple[str, str]]) -> Problems:
    first: dict[str, str] = {}
    for at, name in named:
        if name.casefold() in first:
            expected = f"a name not used before, as at {first[name.casefold()]}"
            hint = "Spark takes names that differ only in case for the same column"
            yield Problem(at, shown(name), expected, hint)
        first.setdefault(name.casefold(), at)


def _taken(at: str, name: str) -> Problems:
    if name.casefold() in SYSTEM_COLUMNS:
        expected = f"a name other than {', '.join(SYSTEM_COLUMNS)}"
        hint = f"the result has a column {name.casefold()} already; choose another name"
        yield Problem(at, shown(name), expected, hint)
