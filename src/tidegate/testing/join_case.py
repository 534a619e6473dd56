"""A join case as values, and running it.

    Scenario -> [JoinCase] -> epochs of each step -> engine -> mismatches

Rows carry a side and an id, results name the ids. Everything that a case may leave out is filled
in here, and what no case may say raises `ScenarioError`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidegate.errors import ScenarioError
from tidegate.eventtime import US_PER_MS
from tidegate.pipeline import Join
from tidegate.testing.columns import Column, key_column, value_column
from tidegate.testing.compare import row_mismatches
from tidegate.testing.engines import Engine, JoinEngine, Sent, ended
from tidegate.testing.scenario import Scenario, ScenarioResult, StepResult
from tidegate.testing.wellformed import Row, integer_at, list_at, mapping_at, rows_at, us_at
from tidegate.testing.window_case import (
    EVENT_US,
    KEY,
    NO_CAP_MS,
    TIME,
    Clock,
    clock_of,
    step_action,
)

SIDE, ID = "side", "id"
SIDES = ("L", "R")
LEFT_ONLY = ("semi", "anti")
_SAME_NAMES = (
    "type",
    "kind",
    "left_size_ms",
    "right_size_ms",
    "right_slide_ms",
    "match",
    "gap_ms",
    "max_session_duration_ms",
    "allowed_lateness_ms",
    "null_keys_equal",
    "late_data",
    "max_lateness_ms",
    "size_ms",
    "offset_ms",
)
_KNOWN = {
    *_SAME_NAMES,
    "lower_ms",
    "upper_ms",
    "lower_inclusive",
    "upper_inclusive",
    "max_state_age_ms",
    "window",
    "residual",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinCase:
    """All that running a join case takes; None where the case does not say."""

    join: Join
    columns: Mapping[str, Column]
    clock: Clock
    steps: tuple[Row, ...]
    dropped_late: list[Any] | int | None
    final: list[Row] | None


def join_case(case: Mapping[str, Any]) -> JoinCase:
    """Read a case; raises `ScenarioError` or `ConfigError` where it cannot be run as written."""
    steps = rows_at(case.get("steps"), "steps")
    rows = [
        row
        for n, step in enumerate(steps)
        for row in rows_at(step.get("rows", []), f"step {n}: rows")
    ]
    written = mapping_at(case.get("join"), "join")
    if case.get("kind") not in (None, "join"):
        written.setdefault("kind", case["kind"])
    final = case.get("final")
    return JoinCase(
        join=Join(**join_keywords(written)),
        columns=_columns(rows),
        clock=clock_of(mapping_at(case.get("watermark") or {}, "watermark")),
        steps=tuple(steps),
        dropped_late=_late_at(case.get("dropped_late")),
        final=None if final is None else rows_at(final, "final"),
    )


def _late_at(written: Any) -> list[Any] | int | None:
    """The ids of the rows turned away, or their number."""
    if written is None or type(written) is int:
        return written
    return list_at(written, "dropped_late")


def join_keywords(written: Mapping[str, Any]) -> dict[str, Any]:
    """Give all keywords of the case's `Join`."""
    unknown = [name for name in written if name not in _KNOWN]
    if unknown:
        raise ScenarioError(f"join: unknown keys {unknown}, expected {sorted(_KNOWN)}")
    said = {name: written[name] for name in _SAME_NAMES if written.get(name) is not None}
    window = mapping_at(written.get("window") or {}, "join.window")
    filled: dict[str, Any] = {"left": "left", "right": "right", "on": KEY}
    kind = said.get("kind") or ("tumbling_tumbling" if window else "interval")
    filled["kind"] = kind
    if kind == "interval":
        filled |= _bounds(written)
    if kind == "tumbling_tumbling":
        filled |= {"size_ms": window.get("width_ms", said.get("size_ms"))}
        filled |= {"offset_ms": window.get("offset_ms", said.get("offset_ms", 0))}
    if kind == "session_session":
        filled |= {"max_session_duration_ms": NO_CAP_MS}
    if written.get("residual") is not None:
        filled["condition"] = condition_text(mapping_at(written["residual"], "join.residual"))
    return filled | said


def _bounds(written: Mapping[str, Any]) -> dict[str, Any]:
    bounds = {"min_delta_ms": written.get("lower_ms"), "max_delta_ms": written.get("upper_ms")}
    bounds["min_inclusive"] = written.get("lower_inclusive", True)
    bounds["max_inclusive"] = written.get("upper_inclusive", True)
    if None in (written.get("lower_ms"), written.get("upper_ms")):
        bounds["max_state_age_ms"] = written.get("max_state_age_ms", NO_CAP_MS)
    return bounds


def condition_text(residual: Mapping[str, Any]) -> str:
    """The residual of a case as SQL."""
    for name in ("and", "or"):
        if name in residual:
            parts = rows_at(residual[name], f"residual.{name}")
            return "(" + f" {name} ".join(condition_text(part) for part in parts) + ")"
    if "not" in residual:
        return f"not ({condition_text(mapping_at(residual['not'], 'residual.not'))})"
    try:
        other = residual["col2"] if "col2" in residual else _literal(residual["lit"])
        operator = {"==": "=", "!=": "<>"}.get(residual["op"], residual["op"])
        return f"{residual['col']} {operator} {other}"
    except KeyError as missing:
        raise ScenarioError(f"join.residual: {dict(residual)} has no {missing}") from None


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "\\'") + "'"
    return "null" if value is None else str(value).lower()


def _columns(rows: Sequence[Row]) -> dict[str, Column]:
    names = dict.fromkeys([KEY, ID, *(name for row in rows for name in row)])
    return {
        name: (key_column if name in (KEY, ID) else value_column)(
            name, (row.get(name) for row in rows)
        )
        for name in names
        if name not in (TIME, SIDE)
    }


def run_join(scenario: Scenario, engine: Engine) -> ScenarioResult:
    """Run a join case to its last step, and on to the end of input if it speaks of that."""
    case = join_case(scenario.case)
    if not any("expect" in step for step in case.steps) and case.final is None:
        raise ScenarioError("the case expects nothing, so nothing could be found wrong")
    running = _Running(case=case, engine=engine.join(case.join, _type_names(case)))
    mismatches, results = [], []
    try:
        running.begin()
        for n, step in enumerate(case.steps):
            try:
                emitted = running.step(step, n)
                if engine.restart_each_step:
                    running.engine.restart()
            except Exception as error:
                error.add_note(f"step {n}")
                raise
            results.append(StepResult(emitted=emitted, watermark_ms=running.watermark_ms))
            if "expect" in step:
                expected = rows_at(step["expect"], f"step {n}: expect")
                mismatches += row_mismatches(f"step {n}", expected, emitted)
        final = None
        if case.final is not None:
            final = running.told(running.engine.flush())
            mismatches += row_mismatches("final", case.final, final)
    finally:
        ended(running.engine)
    mismatches += _late_mismatches(case, running)
    return ScenarioResult(
        scenario=scenario,
        steps=tuple(results),
        late_count=running.late_count,
        final=final,
        mismatches=mismatches,
    )


def _late_mismatches(case: JoinCase, running: _Running) -> list[str]:
    """By their ids, where the engine has kept the late rows; else by their number."""
    expected = case.dropped_late
    if expected is None:
        return []
    if isinstance(expected, int) or len(running.late) < running.late_count:
        count = expected if isinstance(expected, int) else len(expected)
        same = count == running.late_count
        return [] if same else [f"late: expected {count} rows, found {running.late_count}"]
    found = [{ID: each} for each in running.late]
    return row_mismatches("late", [{ID: each} for each in expected], found)


def _type_names(case: JoinCase) -> dict[str, str]:
    return {name: column.type_name for name, column in case.columns.items()}


@dataclass(kw_only=True)
class _Running:
    """A case on its way: the engine, and the clocks that the mode of the watermark asks for."""

    case: JoinCase
    engine: JoinEngine
    late: list[Any] = field(default_factory=list)
    late_count: int = 0
    watermark_us: int | None = None
    _clocks: dict[str, int | None] = field(default_factory=dict)

    @property
    def watermark_ms(self) -> float | None:
        return None if self.watermark_us is None else self.watermark_us / US_PER_MS

    def begin(self) -> None:
        initial_us = self.case.clock.initial_us
        self._clocks = dict.fromkeys(SIDES, initial_us)
        if initial_us is not None:
            self._epoch([], initial_us)

    def step(self, step: Row, n: int) -> list[Row]:
        action = step_action(step, n)
        if action == "restart":
            self.engine.restart()
            return []
        if action == "advance_watermark":
            return self._epoch([], us_at(step[action], f"step {n}: {action}"))
        rows = [*self._rows(rows_at(step["rows"], f"step {n}: rows"), n)]
        if self.case.clock.mode == "per_record":
            return [sent for row in rows for sent in self._record(row)]
        if self.case.clock.mode == "per_batch":
            return self._epoch(rows, self._slowest(rows))
        return self._epoch(rows, None)

    def _rows(self, rows: Sequence[Row], n: int) -> Iterator[Row]:
        for place, row in enumerate(rows):
            at = f"step {n}: rows[{place}]"
            if row.get(SIDE) not in SIDES:
                raise ScenarioError(f"{at}.{SIDE}: expected L or R, found {row.get(SIDE)!r}")
            if TIME in row and row[TIME] is None:
                continue  # R9, R12: rejected before any join sees it
            values = {name: each.encoded(row.get(name)) for name, each in self.case.columns.items()}
            yield {SIDE: row[SIDE], EVENT_US: us_at(row.get(TIME), f"{at}.{TIME}"), **values}

    def _record(self, row: Row) -> list[Row]:
        """The watermark moves before the row, by its time too."""
        moved = self._epoch([], row[EVENT_US] - self.case.clock.delay_us)
        return moved + self._epoch([row], None)

    def _slowest(self, rows: Sequence[Row]) -> int | None:
        """Each side is a source of its own, and the slower one counts."""
        for row in rows:
            own_us, before_us = row[EVENT_US] - self.case.clock.delay_us, self._clocks[row[SIDE]]
            self._clocks[row[SIDE]] = own_us if before_us is None else max(before_us, own_us)
        known = [clock_us for clock_us in self._clocks.values() if clock_us is not None]
        return min(known) if len(known) == len(SIDES) else None

    def _epoch(self, rows: Sequence[Row], watermark_us: int | None) -> list[Row]:
        left, right = (
            [{n: v for n, v in row.items() if n != SIDE} for row in rows if row[SIDE] == side]
            for side in SIDES
        )
        sent = self.engine.epoch(left, right, watermark_us)
        self.watermark_us = sent.watermark_us
        return self.told(sent)

    def told(self, sent: Sent) -> list[Row]:
        """What was sent, by the ids of the rows."""
        id_ = self.case.columns[ID]
        self.late += [id_.decoded(row[ID]) for row in sent.late]
        self.late_count += sent.turned_away
        if self.case.join.type in LEFT_ONLY:
            return [{"left": id_.decoded(row[ID])} for row in sent.rows]
        return [
            {"left": id_.decoded(row["left_id"]), "right": id_.decoded(row["right_id"])}
            for row in sent.rows
        ]


def run_output_watermark(scenario: Scenario, engine: Engine) -> ScenarioResult:
    """How far the watermark behind a join is held back: by its larger bound, or a ms more."""
    del engine
    case, mismatches = scenario.case, []
    input_us = us_at(case.get("input_watermark", 0), "input_watermark")
    for n, each in enumerate(rows_at(case.get("cases"), "cases")):
        low, high = _bounds_at(each.get("left_minus_right_ms"), f"cases[{n}].left_minus_right_ms")
        join = Join(left="left", right="right", on=KEY, min_delta_ms=-high, max_delta_ms=-low)
        found = (input_us - join.hold_back_us) / US_PER_MS
        expected = integer_at(
            each.get("expect_output_watermark"), f"cases[{n}].expect_output_watermark"
        )
        if found not in (expected, expected + 1):
            mismatches.append(f"cases[{n}]: expected {expected}, found {found}")
    return ScenarioResult(scenario=scenario, mismatches=mismatches)


def _bounds_at(value: Any, where: str) -> tuple[int, int]:
    bounds = list_at(value, where)
    if len(bounds) != 2:
        raise ScenarioError(f"{where}: expected two bounds, found {value!r}")
    return integer_at(bounds[0], where), integer_at(bounds[1], where)
