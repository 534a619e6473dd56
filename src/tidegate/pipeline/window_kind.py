"""Windows as operators of a pipeline: what they read, cost, say and are known by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from tidegate.errors import Problem
from tidegate.pipeline.aggregate_lookup import spec_of
from tidegate.pipeline.aggregates import OPTIONS
from tidegate.pipeline.binding import BoundWindow, Columns, bind, check_columns, columns_used
from tidegate.pipeline.edges import Reading
from tidegate.pipeline.emit_strategies import sending_of
from tidegate.pipeline.masking import listed, shown
from tidegate.pipeline.sizing import bytes_per_window, growing_parts
from tidegate.pipeline.store import StateStore
from tidegate.pipeline.validation import given
from tidegate.pipeline.window import Aggregation, Window
from tidegate.text import bytes_text, count_text, duration_text

BOUNDS: Final = {name for name, option in OPTIONS.items() if option.bound}
"""The options of aggregations that may change between two runs."""


def aggregations(window: Window) -> Sequence[Aggregation]:
    """What it computes."""
    return window.aggregations


def named_inputs(window: Window, at: str) -> list[tuple[str, str]]:
    """What it reads, each with the path where it says so."""
    return [(f"{at}.inputs[{nth}]", name) for nth, name in enumerate(window.inputs)]


def late_policies(window: Window) -> list[str]:
    """What becomes of late rows."""
    return [window.late_data]


def reading(window: Window) -> Reading:
    """How it reads its input."""
    return Reading(where=window.where, select=window.select, event_time=window.event_time)


def corrects_itself(window: Window) -> bool:
    """Whether what it sent may be replaced or taken back later."""
    return sending_of(window).corrects_itself


def not_reversible(window: Window) -> Iterator[tuple[str, str]]:
    """What of it cannot take rows back: each its path, and what it is."""
    if window.kind == "session":
        yield "", "a session"
        return
    for place, each in enumerate(window.aggregations):
        if not spec_of(each.kind).reversible:
            yield f"aggregations[{place}].kind", each.kind


def column_problems(window: Window, inputs: Mapping[str, Columns]) -> Sequence[Problem]:
    """What it reads and its inputs do not have, or have in different types."""
    selected = " that select keeps" if window.select is not None else ""
    problems = [
        problem
        for name, columns in inputs.items()
        for problem in check_columns(window, columns, of=f"{name!r}{selected}")
    ]
    return [*dict.fromkeys(problems), *_disagreements(window, inputs)]


def _disagreements(window: Window, inputs: Mapping[str, Columns]) -> Iterator[Problem]:
    for at, column in columns_used(window):
        types = {
            name: str(columns[column]) for name, columns in inputs.items() if column in columns
        }
        if len(set(types.values())) > 1:
            found = listed([f"{kind} in {name!r}" for name, kind in types.items()], "and")
            hint = "cast it in the transform of one of the sources"
            yield Problem(at, f"{shown(column)}: {found}", "one type in all inputs", hint)


def bind_window(window: Window, inputs: Mapping[str, Columns]) -> BoundWindow:
    """Give it the types of its inputs, which agree."""
    return bind(window, next(iter(inputs.values())))


def fingerprint(
    window: Window, inputs: tuple[str, ...], bound: BoundWindow | None
) -> dict[str, Any]:
    """Everything that its state and output depend on, as JSON."""
    fields = given(window, leave_out={"id", "inputs", "group_by", "aggregations", "target"})
    aggregations = {
        each.output_name: given(each, leave_out={"output_name", *BOUNDS})
        for each in window.aggregations
    }
    return {
        **fields,
        "inputs": [*inputs],
        "group_by": [*window.group_by],
        "aggregations": aggregations,
        "output_order": [*aggregations],
        **(
            {"types": {name: str(each) for name, each in bound.types_read.items()}} if bound else {}
        ),
    }


def restored(name: str, fields: Mapping[str, Any]) -> tuple[Window, dict[str, Columns]]:
    """The window that a fingerprint was made of, and the columns that it reads."""
    given = {k: v for k, v in fields.items() if k not in ("types", "output_order", "inputs")}
    given["aggregations"] = [
        {**fields["aggregations"][each], "output_name": each} for each in fields["output_order"]
    ]
    window = Window.from_dict({**given, "id": name})
    columns = dict(fields["types"])
    if window.gap_column is not None:
        columns.setdefault(window.gap_column, "long")  # read of rows only, not of state
    return window, {"rows": columns}


def lines(window: Window) -> Iterator[str]:
    """What it does, for people."""
    if window.where is not None:
        yield f"where     {' '.join(window.where.split())}"
    for place, (name, text) in enumerate((window.select or {}).items()):
        yield f"{'' if place else 'selects':<9} {name} = {' '.join(text.split())}"
    yield f"windows   {_windows(window)}"
    yield f"keys      {', '.join(window.group_by) or 'none: one group for all rows'}"
    names = [each.output_name for each in window.aggregations]
    width = max(map(len, names))
    for place, each in enumerate(window.aggregations):
        title = "computes" if place == 0 else ""
        yield f"{title:<9} {each.output_name:<{width}} = {aggregation_text(each)}"
    yield f"late      {_late(window)}"
    yield f"sends     a window {_emit(window)}"


def _windows(window: Window) -> str:
    if window.kind == "session":
        return f"{_session(window)}, sealed at {duration_text(window.max_session_duration_ms or 0)}"
    width = duration_text(window.width_ms or 0)
    text = f"tumbling, {width} each"
    if window.kind == "hopping":
        text = f"hopping, {width} each, a new one every {duration_text(window.hop_ms or 0)}"
    offset = window.offset_ms
    sign = "-" if offset < 0 else ""
    return f"{text}, bounds moved by {sign}{duration_text(abs(offset))}" if offset else text


def _session(window: Window) -> str:
    if window.gap_ms is not None:
        return f"session, over after {duration_text(window.gap_ms)} of silence"
    without = "left out" if window.nonpositive_gap == "drop" else "a session of length 0"
    return (
        f"session, over after the silence that column {window.gap_column} gives in ms "
        f"(a row without: {without})"
    )


def _late(window: Window) -> str:
    held = window.allowed_lateness_ms
    if held == "unbounded":
        return "never: a window takes rows for ever, and is held for ever"
    over = f"is {duration_text(held)} past" if held else "passes"
    return f"once the watermark {over} the end of their window, rows {_fate(window)}"


def _fate(window: Window) -> str:
    if window.late_data in ("side_output", "dlq"):
        return f"go to channel {window.late_channel}, with the reason"
    if window.late_data == "reassign":
        most = duration_text(window.max_lateness_ms or 0)
        return f"count at the watermark if at most {most} late, else are dropped and counted"
    return "are dropped and counted"


def _emit(window: Window) -> str:
    return sending_of(window).text.format(every=duration_text(window.every_ms or 0))


def aggregation_text(each: Aggregation) -> str:
    """An aggregation, for people."""
    spec, value_of = spec_of(each.kind), partial(getattr, each)
    if spec.takes is None:
        return "number of rows"
    options = "".join(
        f", {'at most ' if option.bound else ''}{value_of(option.name)}"
        for option in spec.active(value_of)
    )
    return f"{each.kind}({each.input_column}){options}"


def state_lines(window: Window, bound: BoundWindow | None, store: StateStore) -> Iterator[str]:
    """About how much it holds, for people."""
    size = bytes_per_window(window, bound)
    yield f"about {bytes_text(size)} per key and open window{_total(store, size)}"
    yield from growing_parts(window)


def _total(store: StateStore, size: int) -> str:
    if store.max_keys is None:
        return ""
    keys = count_text(store.max_keys, "keys")
    return f", {bytes_text(size * store.max_keys)} with one window for each of {keys}"
