"""A window case as values: what it configures, what it feeds, what it expects.

    Scenario -> [WindowCase] -> runner

Everything that a case may leave out is filled in here, and everything that no case may say
raises `ScenarioError`, which names the place in the case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tidegate.errors import ScenarioError
from tidegate.pipeline import ORIGINAL_EVENT_TS, Aggregation, Window
from tidegate.testing.columns import Column, key_column, value_column
from tidegate.testing.wellformed import Row, integer_at, mapping_at, rows_at, us_at

T = TypeVar("T")

TIME, KEY, VALUE, GAP = "ts", "key", "value", "gap_ms"
EVENT_US = "event_us"
"""The time of a row as an engine gets it."""
NO_CAP_MS = 10**12
"""Stands for no cap: longer than any case, and far from the end of int64."""

MODES = ("explicit", "per_record", "per_batch")
OPERATIONS: Mapping[str, str] = {
    "+I": "insert",
    "-U": "update_before",
    "+U": "update_after",
    "-D": "delete",
}
_ACTIONS = ("rows", "advance_watermark", "restart")
_KINDS_OF_NO_COLUMN = ("count",)
_KINDS_THAT_KEEP_VALUES = ("min", "max", "first", "last", "collect")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Rows, a watermark to move to, or (neither) a restart; and what must come of it."""

    rows: list[Row] | None = None
    """As an engine gets them; rows without a time, which admission rejects, are not among them."""
    advance_to_us: int | None = None
    expect: list[Row] | None = None
    """None: the step does not say."""
    expect_watermark_ms: tuple[int | None] | None = None
    """The watermark after the step, if the step says one: it may say that there is none yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """How the watermark moves: its mode, how far behind the rows it stays, its first value."""

    mode: str = "explicit"
    delay_us: int = 0
    initial_us: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowCase:
    """All that the runner needs to know of a window case; None where the case does not say."""

    window: Window
    columns: Mapping[str, Column]
    clock: Clock
    steps: tuple[Step, ...]
    dropped_late: int | None
    side_output: list[Row] | None
    final: list[Row] | None

    @property
    def type_names(self) -> dict[str, str]:
        """The columns as an engine wants them: name -> Spark type name."""
        return {name: column.type_name for name, column in self.columns.items()}

    @property
    def origins(self) -> dict[str, Column]:
        """Every output that holds values of an input column, and that column."""
        groups = {name: self.columns[name] for name in self.window.group_by}
        return groups | {
            name: self.columns[column]
            for name, column in self._kept.items()
            if column in self.columns
        }

    @property
    def instants(self) -> tuple[str, ...]:
        """The outputs that are times, in microseconds where an engine gives them."""
        original = (name for name, column in self._kept.items() if column == ORIGINAL_EVENT_TS)
        return ("window_start", "window_end", *original)

    @property
    def _kept(self) -> dict[str, str]:
        return {
            each.output_name: each.input_column
            for each in self.window.aggregations
            if each.kind in _KINDS_THAT_KEEP_VALUES and each.input_column is not None
        }


def window_case(case: Mapping[str, Any]) -> WindowCase:
    """Read a case; raises `ScenarioError` or `ConfigError` where it cannot be run as written."""
    steps = rows_at(case.get("steps"), "steps")
    rows = [
        row
        for n, step in enumerate(steps)
        for row in rows_at(step.get("rows", []), f"step {n}: rows")
    ]
    written = mapping_at(case.get("window"), "window")
    window = Window(**window_keywords(case, written, rows))
    columns = _columns(window, rows)
    usual: Row = {}
    if window.gap_column == GAP and written.get(GAP) is not None:
        usual = {GAP: written[GAP]}
    return WindowCase(
        window=window,
        columns=columns,
        clock=clock_of(mapping_at(case.get("watermark") or {}, "watermark")),
        steps=tuple(_step(step, n, columns, usual) for n, step in enumerate(steps)),
        dropped_late=_if_said(case, "dropped_late", integer_at),
        side_output=_if_said(case, "side_output", rows_at),
        final=_if_said(case, "final", _expected_rows),
    )


def window_keywords(
    case: Mapping[str, Any], written: Mapping[str, Any], rows: Sequence[Row]
) -> dict[str, Any]:
    """Give all keywords of the case's `Window`: as written, else such that nothing is changed."""
    said = {name: value for name, value in written.items() if value is not None}
    session = said.get("kind") == "session"
    keyed = session or any(KEY in row for row in rows)
    filled = {
        "group_by": case.get("group_by") or ([KEY] if keyed else []),
        "aggregations": [aggregation_of(each) for each in case.get("aggregates") or ["count"]],
    }
    if not session:
        return filled | said
    own_gaps = any(GAP in row for row in rows)
    if own_gaps or ("nonpositive_gap" in said and GAP not in said):
        said = {"gap_column": GAP} | {n: v for n, v in said.items() if n != GAP}
    return filled | {"max_session_duration_ms": cap_beyond(said.get(GAP))} | said


def cap_beyond(gap_ms: Any) -> int:
    """Give a cap that no session of the case reaches, and that is valid with its gap."""
    return max(NO_CAP_MS, gap_ms + 1) if isinstance(gap_ms, int) else NO_CAP_MS


def aggregation_of(written: Any) -> Aggregation:
    """Make an aggregate over `value`, named as it is written; a mapping may say otherwise."""
    if isinstance(written, Mapping):
        said = dict(written)
        kind = said.get("kind")
    else:
        said, kind = {}, "collect" if written == "values" else written
    column = {} if kind in _KINDS_OF_NO_COLUMN else {"input_column": VALUE}
    name = kind if isinstance(written, Mapping) else written
    return Aggregation(**{"kind": kind, "output_name": name} | column | said)


def _columns(window: Window, rows: Sequence[Row]) -> dict[str, Column]:
    inputs = [name for each in window.aggregations if (name := each.input_column)]
    gap = [window.gap_column] if window.gap_column else []
    in_rows = (name for row in rows for name in row if name != TIME)
    columns = {}
    named = dict.fromkeys([*window.group_by, *gap, *inputs, *in_rows])
    for name in (name for name in named if name != ORIGINAL_EVENT_TS):
        make = key_column if name in window.group_by else value_column
        columns[name] = make(name, (row.get(name) for row in rows))
    return columns


def clock_of(watermark: Mapping[str, Any]) -> Clock:
    """How the watermark of a case moves."""
    mode = watermark.get("mode", "explicit")
    if mode not in MODES:
        raise ScenarioError(f"watermark.mode: expected one of {', '.join(MODES)}, found {mode!r}")
    initial = watermark.get("initial")
    return Clock(
        mode=mode,
        delay_us=us_at(watermark.get("max_out_of_order_ms", 0), "watermark.max_out_of_order_ms"),
        initial_us=None if initial is None else us_at(initial, "watermark.initial"),
    )


def _step(step: Row, n: int, columns: Mapping[str, Column], usual: Row) -> Step:
    at = f"step {n}: "
    step_action(step, n)
    rows = _if_said(step, "rows", rows_at, at)
    return Step(
        rows=None if rows is None else _engine_rows(rows, n, columns, usual),
        advance_to_us=_if_said(step, "advance_watermark", us_at, at),
        expect=_if_said(step, "expect", _expected_rows, at),
        expect_watermark_ms=_if_said(step, "expect_watermark", _watermark, at),
    )


def step_action(step: Row, n: int) -> str:
    """What a step does: exactly one thing."""
    actions = [name for name in _ACTIONS if name in step]
    if len(actions) != 1:
        expected = f"expected one of {', '.join(_ACTIONS)}"
        raise ScenarioError(f"step {n}: {expected}, found {actions or list(step)}")
    return actions[0]


def _engine_rows(
    rows: Iterable[Row], n: int, columns: Mapping[str, Column], usual: Row
) -> list[Row]:
    engine_rows = []
    for place, row in enumerate(rows):
        if TIME not in row:
            raise ScenarioError(f"step {n}: rows[{place}]: no {TIME}")
        if row[TIME] is None:
            continue  # R9, R12: rejected before any window sees it
        time = {EVENT_US: us_at(row[TIME], f"step {n}: rows[{place}].{TIME}")}
        full = usual | row
        values = {name: each.encoded(full.get(name)) for name, each in columns.items()}
        engine_rows.append(time | values)
    return engine_rows


def _expected_rows(value: Any, where: str) -> list[Row]:
    """Take expected rows; an `op` may be written as a word or as a sign."""
    return [
        row | {"op": OPERATIONS.get(row["op"], row["op"])} if "op" in row else row
        for row in rows_at(value, where)
    ]


def _watermark(value: Any, where: str) -> tuple[int | None]:
    return (None if value is None else integer_at(value, where),)


def _if_said(
    part: Mapping[str, Any], name: str, take: Callable[[Any, str], T], at: str = ""
) -> T | None:
    return take(part[name], f"{at}{name}") if name in part else None
