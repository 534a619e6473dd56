"""Running a window case: epochs in, what was sent against what was expected out.

    WindowCase -> [epochs of each step -> engine -> Sent] -> mismatches

A step is one epoch, but in mode `per_record` two for each row: the watermark moves, then the
row comes. FORM.md makes each row an epoch of its own there, and also has what follows from
rows come "at the end of a step"; where a window is sent several times in such a step the two
say different things, and either is accepted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.errors import ScenarioError
from tidegate.eventtime import US_PER_MS
from tidegate.pipeline import Window
from tidegate.testing.compare import row_mismatches, value_mismatches
from tidegate.testing.engines import Engine, Sent, WindowEngine, ended
from tidegate.testing.scenario import Scenario, ScenarioResult, StepResult
from tidegate.testing.wellformed import Row
from tidegate.testing.window_case import (
    EVENT_US,
    OPERATIONS,
    TIME,
    Clock,
    Step,
    WindowCase,
    window_case,
)

_TAKEN_BACK = ("-U", "-D")
_TO_SIDE_OUTPUT = ("side_output", "dlq")
_ONCE = ("on_window_close", "final")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fed:
    """One epoch of a step: its rows and the watermark to move to (None: leave it)."""

    rows: list[Row]
    watermark_us: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A step as it went: its epochs, what each sent, and the watermark after the last."""

    fed: list[Fed]
    sent: list[Sent]
    watermark_us: int | None


def run_window(scenario: Scenario, engine: Engine) -> ScenarioResult:
    """Run a window case to its last step, and on to the end of input if it speaks of that."""
    case = window_case(scenario.case)
    if not _expects_something(case):
        raise ScenarioError("the case expects nothing, so nothing could be found wrong")
    running = engine.factory(case.window, case.type_names)
    try:
        steps = list(take_steps(running, case, restart_each_step=engine.restart_each_step))
        sent = [each for step in steps for each in step.sent]
        if case.final is not None or case.window.emit == "final":
            sent.append(running.flush())
    finally:
        ended(running)
    return _result(scenario, case, steps, sent)


def _expects_something(case: WindowCase) -> bool:
    in_steps = any(
        step.expect is not None or step.expect_watermark_ms is not None for step in case.steps
    )
    at_end = (case.final, case.dropped_late, case.side_output)
    return in_steps or any(each is not None for each in at_end)


def take_steps(
    running: WindowEngine, case: WindowCase, restart_each_step: bool = False
) -> Iterator[Taken]:
    """Feed the engine step by step; an exception of the engine gets the step as a note."""
    watermark_us = case.clock.initial_us
    if watermark_us is not None:
        running.epoch([], watermark_us)
    for n, step in enumerate(case.steps):
        try:
            taken = _take(running, step, case.clock, watermark_us)
            if restart_each_step:
                running.restart()
        except Exception as error:
            error.add_note(f"step {n}")
            raise
        watermark_us = taken.watermark_us
        yield taken


def _take(running: WindowEngine, step: Step, clock: Clock, watermark_us: int | None) -> Taken:
    if step.rows is None and step.advance_to_us is None:
        running.restart()
    fed = list(epochs_of(step, clock, watermark_us))
    sent = [running.epoch(each.rows, each.watermark_us) for each in fed]
    after_us = sent[-1].watermark_us if sent else watermark_us
    return Taken(fed=fed, sent=sent, watermark_us=after_us)


def epochs_of(step: Step, clock: Clock, watermark_us: int | None) -> Iterator[Fed]:
    """Split a step into epochs, given the watermark before it; the watermark never moves back."""
    if step.advance_to_us is not None:
        yield Fed(rows=[], watermark_us=_later(watermark_us, step.advance_to_us))
    elif step.rows is not None and clock.mode == "per_record":
        for row in step.rows:
            watermark_us = _later(watermark_us, row[EVENT_US] - clock.delay_us)
            yield Fed(rows=[], watermark_us=watermark_us)
            yield Fed(rows=[row])
    elif step.rows and clock.mode == "per_batch":
        seen_us = max(row[EVENT_US] for row in step.rows) - clock.delay_us
        yield Fed(rows=step.rows, watermark_us=_later(watermark_us, seen_us))
    elif step.rows is not None:
        yield Fed(rows=step.rows)


def _later(watermark_us: int | None, other_us: int) -> int:
    return other_us if watermark_us is None else max(watermark_us, other_us)


def _result(
    scenario: Scenario, case: WindowCase, steps: Sequence[Taken], sent: Sequence[Sent]
) -> ScenarioResult:
    late = [_late_row(row, case) for each in sent for row in each.late]
    late_count = sum(each.turned_away for each in sent)
    side_output = late if case.window.late_data in _TO_SIDE_OUTPUT else []
    final = [_written(row, case) for row in out_after(sent, case.window)]
    return ScenarioResult(
        scenario=scenario,
        steps=tuple(_step_result(step, case) for step in steps),
        late_count=late_count,
        side_output=side_output,
        final=final,
        mismatches=[
            *(line for n, step in enumerate(steps) for line in _step_mismatches(n, step, case)),
            *([] if case.final is None else row_mismatches("final", case.final, final)),
            *_late_mismatches(case, late_count, side_output),
        ],
    )


def _late_mismatches(case: WindowCase, late_count: int, side_output: Sequence[Row]) -> list[str]:
    lines = []
    if case.dropped_late is not None:
        lines += value_mismatches("dropped_late", case.dropped_late, late_count)
    if case.side_output is not None:
        lines += row_mismatches("side_output", case.side_output, side_output)
    return lines


def _step_mismatches(n: int, taken: Taken, case: WindowCase) -> list[str]:
    lines, step = [], case.steps[n]
    if step.expect is not None:
        lines += _row_mismatches(f"step {n}", step.expect, taken, case)
    if step.expect_watermark_ms is not None:
        expected, found = step.expect_watermark_ms[0], _ms(taken.watermark_us)
        lines += value_mismatches(f"step {n}: watermark", expected, found)
    return lines


def _row_mismatches(
    where: str, expected: Sequence[Row], taken: Taken, case: WindowCase
) -> list[str]:
    """Compare with all that was sent, or else with what is left of it at the end of the step."""
    as_sent = row_mismatches(where, expected, [_written(row, case) for row in _rows(taken.sent)])
    if not as_sent or case.clock.mode != "per_record" or case.window.emit == "changelog":
        return as_sent
    at_end = [_written(row, case) for row in left_at_end(taken, case.window)]
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
    once = window.emit in _ONCE
    if once or (window.emit == "on_watermark" and window.late_data != "reopen"):
        return _rows(sent)
    return _table(sent, window)


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


def _step_result(taken: Taken, case: WindowCase) -> StepResult:
    emitted = [_written(row, case) for row in _rows(taken.sent)]
    return StepResult(emitted=emitted, watermark_ms=_ms(taken.watermark_us))


def _written(row: Row, case: WindowCase) -> Row:
    """Write a sent row as a case would: times in ms, `op` in words, keys as they were given."""
    origins = case.origins
    written = {name: origins[name].decoded(v) if name in origins else v for name, v in row.items()}
    written |= {name: _in_ms(row[name]) for name in case.instants if name in row}
    return written | {"op": OPERATIONS[row["op"]]} if "op" in row else written


def _late_row(row: Row, case: WindowCase) -> Row:
    """Write a row that was turned away as the case gave it, with the reason."""
    given = {name: column.decoded(row.get(name)) for name, column in case.columns.items()}
    return given | {TIME: _ms(row[EVENT_US]), "reason": row.get("reason")}


def _in_ms(instant: Any) -> Any:
    return [_ms(us) for us in instant] if isinstance(instant, list) else _ms(instant)


def _ms(us: int | None) -> float | None:
    """Convert to ms; what is no whole number of them, and so in no case, stays visible."""
    if us is None:
        return None
    return us // US_PER_MS if us % US_PER_MS == 0 else us / US_PER_MS
