"""A case of a window or a join as values: the operator, its columns, and the rows it is fed.

    WindowForm | JoinForm -> [window_case, join_case] -> OperatorCase -> runner

Everything that a case may leave out is filled in here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import UNSET

from tidegate.core.operators.spec import Config
from tidegate.errors import ScenarioError
from tidegate.pipeline import ORIGINAL_EVENT_TS, Aggregation, Join, Window
from tidegate.testing.columns import Column, key_column, value_column
from tidegate.testing.engines import EVENT_US, inputs_of
from tidegate.testing.forms import (
    Clock,
    JoinForm,
    JoinKeys,
    OperatorForm,
    Residual,
    Row,
    Step,
    WindowForm,
    read,
    us_of,
)

TIME, KEY, VALUE, GAP, SIDE, ID = "ts", "key", "value", "gap_ms", "side", "id"
SIDES = ("L", "R")
NO_CAP_MS = 10**12
"""Stands for no cap: longer than any case, and far from the end of int64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorCase:
    """All that the runner needs to know; None where the case does not say."""

    operator: Config
    window: Window | None = None
    """The operator, if what it sends are windows; else these are pairs of rows."""
    columns: Mapping[str, Column]
    clock: Clock
    steps: Sequence[Step]
    rows: Sequence[Sequence[tuple[int, Row]]]
    """The rows of each step as an engine gets them, each with the number of its input; those
    without a time, which admission rejects, are not among them."""
    final: list[Row] | None
    dropped_late: list[Any] | int | None = None
    side_output: list[Row] | None = None

    @property
    def inputs(self) -> int:
        """How many inputs the operator has."""
        return inputs_of(self.operator, self.type_names)

    @property
    def type_names(self) -> dict[str, str]:
        """The columns as an engine wants them: name -> Spark type name."""
        return {name: column.type_name for name, column in self.columns.items()}


def window_case(form: WindowForm) -> OperatorCase:
    """Fill a case of a window; raises `ScenarioError` or `ConfigError` where it cannot be run."""
    rows = _all_rows(form)
    window = Window(**_window_keywords(form, rows))
    inputs = [name for each in window.aggregations if (name := each.input_column)]
    gap = [window.gap_column] if window.gap_column else []
    named = dict.fromkeys(
        [*window.group_by, *gap, *inputs, *(name for row in rows for name in row)]
    )
    columns = _columns(named, window.group_by, rows, without=(TIME, ORIGINAL_EVENT_TS))
    usual = {GAP: form.window.get(GAP)} if window.gap_column == GAP else {}
    return OperatorCase(
        operator=window,
        window=window,
        columns=columns,
        clock=form.watermark or Clock(),
        steps=form.steps,
        rows=[_engine_rows(step, n, columns, usual) for n, step in enumerate(form.steps)],
        final=form.final,
        dropped_late=None if form.dropped_late is UNSET else form.dropped_late,
        side_output=None if form.side_output is UNSET else form.side_output,
    )


def join_case(form: JoinForm) -> OperatorCase:
    """Fill a case of a join; raises `ScenarioError` or `ConfigError` where it cannot be run."""
    rows = _all_rows(form)
    named = dict.fromkeys([KEY, ID, *(name for row in rows for name in row)])
    columns = _columns(named, (KEY, ID), rows, without=(TIME, SIDE))
    return OperatorCase(
        operator=Join(**join_keywords(form.join, form.kind)),
        columns=columns,
        clock=form.watermark or Clock(),
        steps=form.steps,
        rows=[_engine_rows(step, n, columns, {}, SIDES) for n, step in enumerate(form.steps)],
        final=form.final,
        dropped_late=form.dropped_late,
    )


def _all_rows(form: OperatorForm) -> list[Row]:
    return [row for step in form.steps if step.rows is not UNSET for row in step.rows]


def _columns(
    names: Iterable[str], keys: Collection[str], rows: Sequence[Row], without: Collection[str]
) -> dict[str, Column]:
    return {
        name: (key_column if name in keys else value_column)(name, (row.get(name) for row in rows))
        for name in names
        if name not in without
    }


def _engine_rows(
    step: Step, n: int, columns: Mapping[str, Column], usual: Row, sides: Sequence[str] = ()
) -> list[tuple[int, Row]]:
    """Number the input of each row: its side, or the only one there is."""
    engine_rows = []
    for place, row in enumerate([] if step.rows is UNSET else step.rows):
        at = f"steps[{n}].rows[{place}]"
        if sides and row.get(SIDE) not in sides:
            expected = " or ".join(sides)
            raise ScenarioError(f"{at}.{SIDE}: expected {expected}, found {row.get(SIDE)!r}")
        if TIME not in row:
            raise ScenarioError(f"{at}: no {TIME}")
        if row[TIME] is None:
            continue  # R9, R12: rejected before any operator sees it
        try:
            time = {EVENT_US: int(us_of(row[TIME]))}
        except ValueError as error:
            raise ScenarioError(f"{at}.{TIME}: {error}") from None
        full = usual | row
        values = {name: each.encoded(full.get(name)) for name, each in columns.items()}
        engine_rows.append((sides.index(row[SIDE]) if sides else 0, time | values))
    return engine_rows


def _window_keywords(form: WindowForm, rows: Sequence[Row]) -> Row:
    """Give all keywords of the case's `Window`: as written, else such that nothing is changed."""
    said = {name: value for name, value in form.window.items() if value is not None}
    session = said.get("kind") == "session"
    keyed = session or any(KEY in row for row in rows)
    filled = {
        "group_by": form.group_by or ([KEY] if keyed else []),
        "aggregations": [aggregation_of(each) for each in form.aggregates or ["count"]],
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


def aggregation_of(written: str | Row) -> Aggregation:
    """Make an aggregate over `value`, named as it is written; a mapping may say otherwise."""
    if isinstance(written, str):
        written = {"kind": "collect" if written == "values" else written, "output_name": written}
    said: Row = {"output_name": written.get("kind")} | written
    column: Row = {} if said.get("kind") == "count" else {"input_column": VALUE}
    return Aggregation(**column | said)


def join_keywords(written: Row, kind: str | None = None) -> Row:
    """Give all keywords of the case's `Join`; `kind` is that of the case."""
    ours = read(written, JoinKeys, "join")
    renamed = JoinKeys.__struct_fields__
    said = {
        name: each for name, each in written.items() if each is not None and name not in renamed
    }
    if kind not in (None, "join"):
        said.setdefault("kind", kind)
    filled: Row = {"left": "left", "right": "right", "on": KEY}
    filled["kind"] = said.get("kind") or ("tumbling_tumbling" if ours.window else "interval")
    if filled["kind"] == "interval":
        filled |= {"min_delta_ms": ours.lower_ms, "max_delta_ms": ours.upper_ms}
        filled |= {"min_inclusive": ours.lower_inclusive, "max_inclusive": ours.upper_inclusive}
        if ours.lower_ms is None or ours.upper_ms is None:
            age_ms = ours.max_state_age_ms
            filled["max_state_age_ms"] = NO_CAP_MS if age_ms is None else age_ms
    if filled["kind"] == "tumbling_tumbling" and ours.window:
        filled |= {"size_ms": ours.window.width_ms, "offset_ms": ours.window.offset_ms}
    if filled["kind"] == "session_session":
        filled["max_session_duration_ms"] = NO_CAP_MS
    if ours.residual:
        filled["condition"] = condition_text(ours.residual)
    return filled | said


def condition_text(residual: Residual) -> str:
    """The residual of a case as SQL."""
    if residual.negated:
        return f"not ({condition_text(residual.negated)})"
    for word, parts in (("and", residual.all_of), ("or", residual.any_of)):
        if parts:
            return "(" + f" {word} ".join(map(condition_text, parts)) + ")"
    other = _literal(residual.lit) if residual.col2 is UNSET else residual.col2
    operator = {"==": "=", "!=": "<>"}.get(str(residual.op), residual.op)
    return f"{residual.col} {operator} {other}"


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "\\'") + "'"
    return "null" if value is None else str(value).lower()
