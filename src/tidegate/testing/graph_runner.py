"""Running a case of a graph: what was sent against what was expected.

    GraphForm -> [epoch of each step -> GraphEngine -> GraphSent] -> mismatches

A step is one epoch. The runner knows nothing of an engine but its protocol.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from msgspec import UNSET

from tidegate.errors import ConfigError, ScenarioError
from tidegate.testing.compare import row_mismatches, same_row, text_of_row, unmatched
from tidegate.testing.forms import Row, ms_of, read, us_of
from tidegate.testing.graph_form import GraphForm, GraphStep
from tidegate.testing.scenario import Scenario, ScenarioResult, StepResult

TIME = "ts"
_WORDS = {"+I": "insert", "-D": "delete", "-U": "update_before", "+U": "update_after"}
_TAKEN_BACK = ("delete", "update_before")
_COUNTS = ("late", "duplicates", "duplicate_differs")


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSent:
    """What one epoch sent and counted; names are those of sources and operators."""

    rows: Mapping[str, Sequence[Row]]
    """Of each operator, as a case writes them: times in ms; `op` in words where a row is taken
    back and in changelogs, take-backs first."""
    watermarks_us: Mapping[str, int | None]
    """Output watermarks after the epoch, None before there is one: the lowest over the edges of a
    node; of one that is not read, by its default time column."""
    late: Mapping[str, int] = field(default_factory=dict)
    duplicates: Mapping[str, int] = field(default_factory=dict)
    duplicate_differs: Mapping[str, int] = field(default_factory=dict)
    """Of the duplicates those whose time or content is not that of the first row."""
    held: Sequence[str] = ()
    """Sources of which alignment let nothing be read in this epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphFed:
    """What one epoch is given; rows without a time are there too, with None."""

    rows: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    advance_us: Mapping[str, int] = field(default_factory=dict)
    idle: Sequence[str] = ()
    """Sources that are idle from the end of this epoch on, until a row or `active` wakes them."""
    active: Sequence[str] = ()


class GraphEngine(Protocol):
    """A graph, fed epoch by epoch."""

    def epoch(self, fed: GraphFed) -> GraphSent:
        """Run one epoch; in mode `explicit` rows move no watermark."""
        ...

    def flush(self) -> GraphSent:
        """End the input: read what alignment held, send what is not out, forget everything."""
        ...

    def restart(self) -> None:
        """Save the state, forget everything, load the state."""
        ...

    def close(self) -> None:
        """Clean up."""
        ...


GraphFactory = Callable[[GraphForm], GraphEngine]
"""Makes an engine for a case; raises `ConfigError` for a graph that is refused."""


def read_graph(case: Mapping[str, Any]) -> GraphForm:
    """A case in its form, the times of its rows checked too."""
    form = read(case, GraphForm)
    for n, step in enumerate(form.steps):
        for source, rows in step.fed.items():
            for place, row in enumerate(rows):
                _check_time(row, f"steps[{n}].rows.{source}[{place}]")
    return form


def _check_time(row: Row, at: str) -> None:
    if TIME not in row:
        raise ScenarioError(f"{at}: no {TIME}")
    try:
        _ = row[TIME] is None or us_of(row[TIME])
    except ValueError as error:
        raise ScenarioError(f"{at}.{TIME}: {error}") from None


def run_graph(
    scenario: Scenario, factory: GraphFactory, *, restart_each_step: bool = False
) -> ScenarioResult:
    """Run a case to its last step, and through a flush if it names a final table."""
    form = read_graph(scenario.case)
    if form.config_error is not None:
        lines = _refusal_mismatches(form, form.config_error, factory)
        return ScenarioResult(scenario=scenario, mismatches=lines)
    engine = factory(form)
    try:
        sent = [_step(engine, n, step, restart_each_step) for n, step in enumerate(form.steps)]
        flushed = engine.flush() if form.final is not None else None
    finally:
        engine.close()
    return _result(scenario, form, sent, flushed)


def _refusal_mismatches(form: GraphForm, words: Sequence[str], factory: GraphFactory) -> list[str]:
    try:
        factory(form).close()
    except ConfigError as error:
        message = " ".join(str(error).split())
        missing = [word for word in words if word.lower() not in message.lower()]
        return [f"config_error: expected {missing} in the message, found: {message}"][
            : len(missing)
        ]
    return ["config_error: expected an error, found none"]


def _step(
    engine: GraphEngine, n: int, step: GraphStep, restart_each_step: bool
) -> GraphSent | None:
    """One step; None: a restart, which is no epoch."""
    try:
        if step.restart is not UNSET:
            engine.restart()
            return None
        fed = GraphFed(
            rows=step.fed,
            advance_us={name: int(us) for name, us in step.advanced.items()},
            idle=tuple(step.idle),
            active=tuple(step.active),
        )
        sent = engine.epoch(fed)
        if restart_each_step:
            engine.restart()
    except Exception as error:
        error.add_note(f"step {n}")
        raise
    return sent


def _result(
    scenario: Scenario,
    form: GraphForm,
    sent: Sequence[GraphSent | None],
    flushed: GraphSent | None,
) -> ScenarioResult:
    epochs = [each for each in [*sent, flushed] if each is not None]
    final = {name: final_table(form, name, epochs) for name in form.compared}
    lines = [
        line
        for n, (step, each) in enumerate(zip(form.steps, sent, strict=True))
        for line in _step_mismatches(f"step {n}", form, step, each)
    ]
    for name, rows in (form.final or {}).items():
        lines += row_mismatches(f"final: {name}", rows, final[name])
    counts = {name: _total(epochs, name) for name in _COUNTS}
    for name, found in counts.items():
        lines += _named_mismatches(name, getattr(form, name), found)
    return ScenarioResult(
        scenario=scenario,
        steps=tuple(
            StepResult(emitted=_listed(each.rows if each else {}), watermark_ms=None)
            for each in sent
        ),
        late_count=sum(counts["late"].values()),
        final=None if form.final is None else _listed(final),
        mismatches=lines,
    )


def _listed(rows: Mapping[str, Sequence[Row]]) -> list[Row]:
    return [{"operator": name} | row for name, each in rows.items() for row in each]


def _total(epochs: Sequence[GraphSent], name: str) -> Counter[str]:
    total: Counter[str] = Counter()
    for each in epochs:
        total.update(getattr(each, name))
    return total


def _named_mismatches(what: str, expected: Mapping[str, Any], found: Counter[str]) -> list[str]:
    return [
        f"{what}: {name}: expected {number}, found {found[name]}"
        for name, number in expected.items()
        if number != found[name]
    ]


def _step_mismatches(
    where: str, form: GraphForm, step: GraphStep, sent: GraphSent | None
) -> list[str]:
    if sent is None:
        return []
    lines = []
    if step.expect is not UNSET:
        for name in form.compared:
            found = sent.rows.get(name, ())
            lines += _sent_mismatches(f"{where}: {name}", step.expect.get(name, ()), found)
    for name, expected_us in step.expect_watermark.items():
        found_us = sent.watermarks_us[name]
        if found_us != expected_us:
            texts = ["none" if us is None else str(ms_of(us)) for us in (expected_us, found_us)]
            lines.append(f"{where}: watermark of {name}: expected {texts[0]}, found {texts[1]}")
    if step.expect_held is not UNSET and sorted(step.expect_held) != sorted(sent.held):
        lines.append(f"{where}: held: expected {step.expect_held}, found {list(sent.held)}")
    return lines


def _sent_mismatches(where: str, expected: Sequence[Row], found: Sequence[Row]) -> list[str]:
    missing, surplus = unmatched(expected, found, same_sent)
    return [
        f"{where}: {what}: {', '.join(map(text_of_row, rows))}"
        for what, rows in (
            ("expected and not sent", missing),
            ("sent and not expected", surplus),
        )
        if rows
    ]


def same_sent(expected: Row, found: Row) -> bool:
    """Whether a row is as expected: without `op` it is an insert or an upsert.

    >>> same_sent({"n": 1}, {"n": 1, "op": "update_after"}), same_sent({}, {"op": "delete"})
    (True, False)
    """
    written = expected.get("op")
    op, sent = _WORDS.get(str(written), written), found.get("op")
    same_op = sent == op if sent in _TAKEN_BACK or op in _TAKEN_BACK else None in (op, sent)
    columns = {name: value for name, value in expected.items() if name != "op"}
    return (same_op or op == sent) and same_row(columns, found)


def final_table(form: GraphForm, name: str, epochs: Sequence[GraphSent]) -> list[Row]:
    """List what a target of an operator holds, its upserts and retractions applied in order."""
    operator, sent = form.operator(name), [each.rows.get(name, ()) for each in epochs]
    if operator.complete:
        return list(sent[-1]) if sent else []
    if operator.window is None or not operator.corrects_itself:
        return [row for rows in sent for row in rows]
    id_columns = [*(operator.group_by or []), "window_start"]
    if operator.window.get("kind") == "cumulate":  # its windows share their start
        id_columns.append("window_end")
    table: dict[tuple[object, ...], Row] = {}
    for row in (row for rows in sent for row in rows):
        table.pop(identity := tuple(row[column] for column in id_columns), None)
        if row.get("op") not in _TAKEN_BACK:
            table[identity] = {column: value for column, value in row.items() if column != "op"}
    return list(table.values())
