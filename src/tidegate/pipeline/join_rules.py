"""What has to hold between the fields of a join.

Rules see the fields alone, of a join that may not come to be: what they share with it is here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from tidegate.errors import ConfigError, Problem
from tidegate.eventtime import us_of_ms
from tidegate.pipeline.expression_text import parse, position
from tidegate.pipeline.expressions import Node, columns
from tidegate.pipeline.masking import listed, shown
from tidegate.pipeline.paths import located
from tidegate.pipeline.validation import readable

if TYPE_CHECKING:
    from tidegate.pipeline.join import Join, JoinLateData, Side

JOIN_COLUMNS: Final = ("left_event_ts", "right_event_ts", "match_ts", "pair_id")
"""Columns that results of joins may have; no key can be called so."""

SESSION_COLUMNS: Final = (
    *("left_window_start", "left_window_end", "left_session_id"),
    *("right_window_start", "right_window_end", "right_session_id"),
    *("match_ts", "pair_id"),
)
"""The same of results that are pairs of sessions; no aggregate can be called so either."""

Problems = Iterator[Problem]

_OF_KIND: Final = {
    "interval": ("min_delta_ms", "max_delta_ms", "time_window_ms", "max_state_age_ms"),
    "tumbling_tumbling": ("size_ms",),
    "tumbling_sliding": ("left_size_ms", "right_size_ms", "right_slide_ms", "match"),
    "session_session": ("gap_ms", "max_session_duration_ms", "output"),
}
"""The fields that only one kind has."""

_NEEDED: Final = {
    "interval": (),
    "tumbling_tumbling": (("size_ms", "60_000 makes panes of a minute"),),
    "tumbling_sliding": (
        ("left_size_ms", "60_000 makes panes of a minute on the left"),
        ("right_size_ms", "60_000 makes panes of a minute on the right"),
        ("right_slide_ms", "10_000 begins one every 10 s"),
    ),
    "session_session": (
        ("gap_ms", "30_000 ends a session after 30 s of silence"),
        ("max_session_duration_ms", "86_400_000 ends a session after a day at the latest"),
    ),
}


_OF_ONE_INPUT: Final = {
    "where": "say it in condition, over left.column and right.column, or filter in the sources",
    "select": "a join hands on the columns of both sides; an operator that reads it may select",
    "event_time": "both sides are read by their event time",
}


def of_one_input(data: Mapping[str, object]) -> Problems:
    """Keys that stand in front of a single input."""
    for name, hint in _OF_ONE_INPUT.items():
        if data.get(name) is not None:
            yield Problem(name, shown(data[name]), f"no {name} for a join: it has two inputs", hint)


def something_is_compared(join: Join) -> Problems:
    """Rows of nobody in particular would all meet in one place."""
    if not join.on:
        hint = "name the columns that both sides have, such as on='user_id'"
        yield Problem("on", "nothing", "at least one key column", hint)


def keys_differ(join: Join) -> Problems:
    """No key column twice."""
    lowered = [name.casefold() for name in join.on]
    for place, name in enumerate(join.on):
        if name.casefold() in lowered[:place]:
            hint = "Spark takes names that differ only in case for the same column"
            yield Problem(f"on[{place}]", shown(name), "a name not used before", hint)


def keys_are_free(join: Join) -> Problems:
    """No key column is called like a column of the system."""
    reserved = _reserved(join)
    for place, name in enumerate(join.on):
        if name.casefold() in reserved:
            hint = "rename it in the transforms of both sources"
            expected = f"a name other than {listed(reserved)}"
            yield Problem(f"on[{place}]", shown(name), expected, hint)


def _reserved(join: Join) -> tuple[str, ...]:
    return SESSION_COLUMNS if join.output == "sessions" else JOIN_COLUMNS


def fields_fit_kind(join: Join) -> Problems:
    """No field of another kind."""
    for kind, names in _OF_KIND.items():
        for name in names if kind != join.kind else ():
            if getattr(join, name) is not None:
                hint = f"remove it, or use kind={kind!r}"
                yield Problem(name, shown(getattr(join, name)), f"no {name} for {join.kind}", hint)


def other_fields_fit_kind(join: Join) -> Problems:
    """The same of fields that have defaults."""
    for name, default, kind in (
        ("min_inclusive", True, "interval"),
        ("max_inclusive", True, "interval"),
        ("offset_ms", 0, "tumbling_tumbling"),
    ):
        found = getattr(join, name)
        if join.kind != kind and found != default:
            hint = f"remove it, or use kind={kind!r}"
            yield Problem(name, shown(found), f"no {name} for {join.kind}", hint)


def kind_has_its_fields(join: Join) -> Problems:
    """What a kind cannot do without."""
    for name, hint in _NEEDED[join.kind]:
        if getattr(join, name) is None:
            yield Problem(name, "nothing", f"{name} for {join.kind}", f"{name}={hint}")


def interval_has_bounds(join: Join) -> Problems:
    """What is unbounded is kept for ever: how long is a decision."""
    if join.kind != "interval":
        return
    low, high = join.min_delta_ms, join.max_delta_ms
    if join.time_window_ms is not None:
        found = f"{join.time_window_ms} beside min_delta_ms or max_delta_ms"
        yield Problem("time_window_ms", found, "one of the two ways", "remove one of them")
        return
    open_ = [
        name for name, value in (("min_delta_ms", low), ("max_delta_ms", high)) if value is None
    ]
    if len(open_) == 2 and join.max_state_age_ms is None:
        hint = "time_window_ms=10_000 joins rows that are at most 10 s apart"
        yield Problem("time_window_ms", "nothing", "how far apart rows may be", hint)
    elif open_ and join.max_state_age_ms is None:
        hint = f"add {open_[0]}, or max_state_age_ms: how long rows are kept without it"
        yield Problem("max_state_age_ms", "nothing", f"a limit, without {open_[0]}", hint)
    elif not open_ and join.max_state_age_ms is not None:
        hint = "remove it: the bounds say how long rows are kept"
        found = str(join.max_state_age_ms)
        yield Problem("max_state_age_ms", found, "no limit where both bounds are given", hint)


def bounds_us(join: Join) -> tuple[int, int]:
    """The least and the greatest distance that match, both in."""
    age_us = us_of_ms(join.max_state_age_ms or 0)
    low, high = join.min_delta_ms, join.max_delta_ms
    return (
        -age_us if low is None else us_of_ms(low) + (not join.min_inclusive),
        age_us if high is None else us_of_ms(high) - (not join.max_inclusive),
    )


def bounds_are_in_order(join: Join) -> Problems:
    """Else nothing would ever match."""
    low, high, age = join.min_delta_ms, join.max_delta_ms, join.max_state_age_ms
    if join.kind != "interval" or (age is None and None in (low, high)):
        return
    lower_us, upper_us = bounds_us(join)
    if lower_us <= upper_us:
        return
    if low is not None and high is not None:
        at_least = "at least" if low > high else "more, where a bound is exclusive, than"
        hint = "min_delta_ms <= right time - left time <= max_delta_ms"
        yield Problem("max_delta_ms", str(high), f"{at_least} min_delta_ms, which is {low}", hint)
        return
    name, bound = ("min_delta_ms", low) if high is None else ("max_delta_ms", high)
    hint = "raise it: rows further apart never match"
    yield Problem("max_state_age_ms", str(age), f"more than {name} is away, which is {bound}", hint)


def cap_is_above_gap(join: Join) -> Problems:
    """Otherwise every second row would seal a session."""
    cap, gap = join.max_session_duration_ms, join.gap_ms
    if cap is not None and gap is not None and cap <= gap:
        hint = "raise the cap or lower the gap"
        yield Problem("max_session_duration_ms", str(cap), f"more than gap_ms, {gap}", hint)


def sessions_have_aggregations(join: Join) -> Problems:
    """Aggregations are for sessions, and sessions need them."""
    given = [*join.left_aggregations, *join.right_aggregations]
    if join.output == "sessions" and not given:
        hint = "left_aggregations=[Aggregation(kind='count', output_name='clicks')]"
        yield Problem("left_aggregations", "nothing", "what to compute of sessions", hint)
    if join.output != "sessions" and given:
        side = "left" if join.left_aggregations else "right"
        hint = "remove them, or use kind='session_session' with output='sessions'"
        expected = "no aggregations for pairs of rows"
        yield Problem(f"{side}_aggregations", f"{len(given)} of them", expected, hint)


def sessions_have_no_condition(join: Join) -> Problems:
    """A condition is about rows."""
    if join.output == "sessions" and join.condition is not None:
        hint = "filter rows in the transforms of the sources, or results where they are read"
        yield Problem("condition", shown(join.condition), "none with output='sessions'", hint)


def sessions_have_two_sides(join: Join) -> Problems:
    """Of rows that match one can be sent alone; a session is sent with the one it overlaps."""
    if join.output == "sessions" and join.type in ("semi", "anti"):
        hint = "use type='inner' or an outer one, or output='pairs'"
        yield Problem("type", shown(join.type), "inner, left, right or full for sessions", hint)


def late_policy(join: Join, side: Side) -> JoinLateData:
    """What becomes of late rows of a side."""
    own = join.left_late_data if side == "left" else join.right_late_data
    return own or join.late_data


def reassign_has_a_limit(join: Join) -> Problems:
    """`max_lateness_ms` is needed by `reassign`, and by nothing else."""
    policies = (late_policy(join, "left"), late_policy(join, "right"))
    if "reassign" in policies and join.max_lateness_ms is None:
        hint = "rows later than max_lateness_ms are dropped; 3_600_000 keeps an hour"
        yield Problem("max_lateness_ms", "nothing", "a limit for late_data='reassign'", hint)
    if "reassign" not in policies and join.max_lateness_ms is not None:
        hint = "remove it, or use late_data='reassign'"
        expected = "no max_lateness_ms without late_data='reassign'"
        yield Problem("max_lateness_ms", str(join.max_lateness_ms), expected, hint)


def prefixes_differ(join: Join) -> Problems:
    """Else columns of both sides would have one name."""
    if join.left_prefix.casefold() == join.right_prefix.casefold():
        found = shown(join.right_prefix)
        yield Problem("right_prefix", found, "another prefix than left_prefix", "change one")


def condition_is_readable(join: Join) -> Problems:
    """SQL that can be understood."""
    if join.condition is None:
        return
    try:
        tree = parsed_condition(join.condition)
    except ConfigError as error:
        yield from located(error.problems, "condition")
        return
    for each in columns(tree):
        if each.qualifier not in ("left", "right"):
            found = shown(str(each)) + position(str(each), join.condition, each.at)
            hint = f"write left.{each.name} or right.{each.name}"
            yield Problem("condition", found, "a column with its side", hint)


def parsed_condition(text: str) -> Node:
    """The tree of a condition."""
    return parse(text, wanted="an SQL expression that is true or false")


def output_names_differ(join: Join) -> Problems:
    """Each result has a name of its own."""
    taken: dict[str, str] = {name.casefold(): "on" for name in join.on}
    for side in ("left", "right"):
        for place, each in readable(getattr(join, f"{side}_aggregations"), "output_name"):
            at, name = f"{side}_aggregations[{place}].output_name", each.output_name
            if name.casefold() in taken:
                expected = f"a name not used before, as at {taken[name.casefold()]}"
                yield Problem(at, shown(name), expected, "give it another output_name")
            elif name.casefold() in SESSION_COLUMNS:
                expected = f"a name other than {listed(SESSION_COLUMNS)}"
                yield Problem(at, shown(name), expected, "give it another output_name")
            taken.setdefault(name.casefold(), at)


JOIN: Final = (
    something_is_compared,
    keys_differ,
    keys_are_free,
    fields_fit_kind,
    other_fields_fit_kind,
    kind_has_its_fields,
    interval_has_bounds,
    bounds_are_in_order,
    cap_is_above_gap,
    sessions_have_aggregations,
    sessions_have_no_condition,
    sessions_have_two_sides,
    output_names_differ,
    reassign_has_a_limit,
    prefixes_differ,
    condition_is_readable,
)
