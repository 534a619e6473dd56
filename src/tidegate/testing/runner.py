"""Running a case of a window or of a join: what was sent against what was expected out.

    OperatorCase -> [epochs of each step -> engine -> Sent] -> mismatches

A step is one epoch, but in mode `per_record` two for each row: the watermark moves, then the
row comes. FORM.md makes each row an epoch of its own there, and also has what follows from
rows come "at the end of a step"; where a window is sent several times in such a step the two
say different things, and either is accepted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import UNSET

from tidegate.errors import ScenarioError
from tidegate.pipeline import ORIGINAL_EVENT_TS, Aggregation, Window, sending_of
from tidegate.pipeline.aggregate_lookup import spec_of
from tidegate.pipeline.datatypes import STRING
from tidegate.testing.compare import row_mismatches, value_mismatches
from tidegate.testing.engines import EVENT_US, Engine, EngineChoice, Row, Sent
from tidegate.testing.forms import ms_of
from tidegate.testing.operator_case import ID, TIME, OperatorCase
from tidegate.testing.scenario import Scenario, ScenarioResult, StepResult

OPERATIONS = {"+I": "insert", "-U": "update_before", "+U": "update_after", "-D": "delete"}
_TAKEN_BACK = ("-U", "-D")
_TO_SIDE_OUTPUT = ("side_output", "dlq")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fed:
    """One epoch of a step: its rows, each with the number of its input, and the watermark to move
    to (None: leave it).
    """

    rows: Sequence[tuple[int, Row]] = ()
    watermark_us: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A step as it went: its epochs, what each sent, and the watermark after the last."""

    fed: list[Fed]
    sent: list[Sent]
    watermark_us: int | None


def run_operator(scenario: Scenario, case: OperatorCase, choice: EngineChoice) -> ScenarioResult:
    """Run a case to its last step, and on to the end of input if it speaks of that."""
    if not _expects_something(case):
        raise ScenarioError("the case expects nothing, so nothing could be found wrong")
    engine = choice.factory(case.operator, case.type_names)
    try:
        steps = list(take_steps(engine, case, choice.restart_each_step))
        sends_at_end = case.window is not None and case.window.emit == "final"
        flushed = [engine.flush()] if case.final is not None or sends_at_end else []
    finally:
        engine.close()
    return _result(scenario, case, steps, flushed)


def _expects_something(case: OperatorCase) -> bool:
    in_steps = any(
        step.expect is not UNSET or step.expect_watermark is not UNSET for step in case.steps
    )
    at_end = (case.final, case.dropped_late, case.side_output)
    return in_steps or any(each is not None for each in at_end)


def take_steps(
    engine: Engine, case: OperatorCase, restart_each_step: bool = False
) -> Iterator[Taken]:
    """Feed the engine step by step; an exception of the engine gets the step as a note."""
    clock, inputs = _Clock(case), case.inputs
    watermark_us = clock.watermark_us
    if watermark_us is not None:
        engine.epoch([[] for _ in range(inputs)], watermark_us)
    for n, step in enumerate(case.steps):
        try:
            if step.restart is not UNSET:
                engine.restart()
            fed = list(clock.epochs(n))
            sent = [engine.epoch(_by_input(each, inputs), each.watermark_us) for each in fed]
            if restart_each_step:
                engine.restart()
        except Exception as error:
            error.add_note(f"step {n}")
            raise
        watermark_us = sent[-1].watermark_us if sent else watermark_us
        yield Taken(fed=fed, sent=sent, watermark_us=watermark_us)


def _by_input(fed: Fed, inputs: int) -> list[list[Row]]:
    return [[row for nth, row in fed.rows if nth == each] for each in range(inputs)]


class _Clock:
    """Splits steps into epochs. In mode `per_batch` each input is a source of its own, and the
    slowest counts; else there is one clock for all. The watermark never moves back.
    """

    def __init__(self, case: OperatorCase) -> None:
        self._case = case
        initial_us = case.clock.initial
        self.watermark_us = None if initial_us is None else int(initial_us)
        self._of_input = [self.watermark_us] * case.inputs

    def epochs(self, n: int) -> Iterator[Fed]:
        """The epochs of a step."""
        step, rows, clock = self._case.steps[n], self._case.rows[n], self._case.clock
        if step.advance_watermark is not UNSET:
            yield Fed(watermark_us=self._moved_to(step.advance_watermark))
        elif step.rows is not UNSET and clock.mode == "per_record":
            for nth, row in rows:
                yield Fed(watermark_us=self._moved_to(row[EVENT_US] - clock.max_out_of_order_ms))
                yield Fed(rows=[(nth, row)])
        elif rows and clock.mode == "per_batch":
            for nth, row in rows:
                seen_us = row[EVENT_US] - clock.max_out_of_order_ms
                self._of_input[nth] = _later(self._of_input[nth], seen_us)
            known = [each for each in self._of_input if each is not None]
            all_known = len(known) == len(self._of_input)
            yield Fed(rows=rows, watermark_us=self._moved_to(min(known)) if all_known else None)
        elif step.rows is not UNSET:
            yield Fed(rows=rows)

    def _moved_to(self, watermark_us: int) -> int:
        """A plain integer: engines send it to tasks, and msgspec encodes no subclass of it."""
        self.watermark_us = moved_us = int(_later(self.watermark_us, watermark_us))
        return moved_us


def _later(watermark_us: int | None, other_us: int) -> int:
    return other_us if watermark_us is None else max(watermark_us, other_us)


def _result(
    scenario: Scenario, case: OperatorCase, steps: Sequence[Taken], flushed: Sequence[Sent]
) -> ScenarioResult:
    sent = [*(each for step in steps for each in step.sent), *flushed]
    late = [_late_row(row, case) for each in sent for row in each.late]
    late_count = sum(each.turned_away for each in sent)
    if case.window is None:
        final = _written(_rows(flushed), case) if flushed else None
        side_output = []
    else:
        final = _written(out_after(sent, case.window), case)
        side_output = late if case.window.late_data in _TO_SIDE_OUTPUT else []
    mismatches = [line for n, step in enumerate(steps) for line in _step_mismatches(n, step, case)]
    if case.final is not None and final is not None:
        mismatches += row_mismatches("final", _expected(case.final), final)
    if case.dropped_late is not None:
        mismatches += _late_mismatches(case.dropped_late, late, late_count)
    if case.side_output is not None:
        mismatches += row_mismatches("side_output", case.side_output, side_output)
    return ScenarioResult(
        scenario=scenario,
        steps=tuple(
            StepResult(
                emitted=_written(_rows(step.sent), case), watermark_ms=_ms(step.watermark_us)
            )
            for step in steps
        ),
        late_count=late_count,
        side_output=side_output,
        final=final,
        mismatches=mismatches,
    )


def _late_mismatches(expected: list[Any] | int, late: Sequence[Row], count: int) -> list[str]:
    """By their ids, where these are expected and the engine has kept the rows; else by number."""
    if isinstance(expected, list) and len(late) == count:
        return row_mismatches("dropped_late", [{ID: each} for each in expected], late)
    number = len(expected) if isinstance(expected, list) else expected
    return value_mismatches("dropped_late", number, count)


def _step_mismatches(n: int, taken: Taken, case: OperatorCase) -> list[str]:
    lines, step = [], case.steps[n]
    if step.expect is not UNSET:
        lines += _row_mismatches(f"step {n}", _expected(step.expect), taken, case)
    if step.expect_watermark is not UNSET:
        found = _ms(taken.watermark_us)
        lines += value_mismatches(f"step {n}: watermark", step.expect_watermark, found)
    return lines


def _expected(rows: Sequence[Row]) -> list[Row]:
    """Expected rows; an `op` may be written as a word or as a sign."""
    return [
        row | {"op": OPERATIONS.get(row["op"], row["op"])} if "op" in row else row for row in rows
    ]


def _row_mismatches(
    where: str, expected: Sequence[Row], taken: Taken, case: OperatorCase
) -> list[str]:
    """Compare with all that was sent, or else with what is left of it at the end of the step."""
    as_sent = row_mismatches(where, expected, _written(_rows(taken.sent), case))
    window = case.window
    if not as_sent or case.clock.mode != "per_record" or window is None:
        return as_sent
    if sending_of(window).as_changes:
        return as_sent
    at_end = _written(left_at_end(taken, window), case)
    return as_sent if row_mismatches(where, expected, at_end) else []


def left_at_end(taken: Taken, window: Window) -> list[Row]:
    """Keep, of what rows caused in a step, the last row of each window that is not taken back.

    What the watermark caused came when it moved, and stays.
    """
    by_watermark = [sent for fed, sent in zip(taken.fed, taken.sent, strict=True) if not fed.rows]
    by_rows = [sent for fed, sent in zip(taken.fed, taken.sent, strict=True) if fed.rows]
    return [*_rows(by_watermark), *_table(by_rows, window)]


def out_after(sent: Iterable[Sent], window: Window) -> list[Row]:
    """List what a target holds: every row where a window is sent once, else the last of each."""
    return _rows(sent) if sending_of(window).once else _table(sent, window)


def _table(sent: Iterable[Sent], window: Window) -> list[Row]:
    """Apply what was sent as upserts and deletions by (group columns, window_start)."""
    id_columns = (*window.group_by, "window_start")
    table: dict[tuple[object, ...], Row] = {}
    for each in sent:
        for row in each.retracted:
            table.pop(tuple(row[name] for name in id_columns), None)
        for row in each.rows:
            table.pop(identity := tuple(row[name] for name in id_columns), None)
            if row.get("op") not in _TAKEN_BACK:
                table[identity] = row
    return list(table.values())


def _rows(sent: Iterable[Sent]) -> list[Row]:
    return [row for each in sent for row in each.rows]


def _written(rows: Iterable[Row], case: OperatorCase) -> list[Row]:
    """Write sent rows as a case would: of joins the ids of both sides, or of the left one."""
    if case.window is not None:
        return _written_windows(rows, case, case.window)
    places = {ID: "left", f"left_{ID}": "left", f"right_{ID}": "right"}
    decoded = case.columns[ID].decoded
    return [
        {side: decoded(row[name]) for name, side in places.items() if name in row} for row in rows
    ]


def _written_windows(rows: Iterable[Row], case: OperatorCase, window: Window) -> list[Row]:
    """Times in ms, `op` in words, keys and values as they were given."""
    kept = {
        each.output_name: each.input_column
        for each in window.aggregations
        if each.input_column is not None and _gives_values(each)
    }
    origins = {name: case.columns[name] for name in window.group_by}
    origins |= {name: case.columns[of] for name, of in kept.items() if of in case.columns}
    instants = ["window_start", "window_end"]
    instants += [name for name, column in kept.items() if column == ORIGINAL_EVENT_TS]
    written = []
    for row in rows:
        as_given = {n: origins[n].decoded(v) if n in origins else v for n, v in row.items()}
        as_given |= {name: _in_ms(row[name]) for name in instants if name in row}
        written.append(as_given | {"op": OPERATIONS[row["op"]]} if "op" in row else as_given)
    return written


def _gives_values(aggregation: Aggregation) -> bool:
    """Whether a result is values of the column: of texts a text, or a list of them."""
    result = spec_of(aggregation.kind).result(STRING)
    return result is not None and STRING in (result, result.element)


def _late_row(row: Row, case: OperatorCase) -> Row:
    """Write a row that was turned away as the case gave it, with the reason."""
    given = {name: column.decoded(row.get(name)) for name, column in case.columns.items()}
    return given | {TIME: _ms(row[EVENT_US]), "reason": row.get("reason")}


def _in_ms(instant: Any) -> Any:
    return [_ms(us) for us in instant] if isinstance(instant, list) else _ms(instant)


def _ms(us: int | None) -> float | None:
    return None if us is None else ms_of(us)
