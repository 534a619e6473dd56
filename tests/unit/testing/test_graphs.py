"""Cases of graphs: what their form refuses, and what the comparison with a run finds."""

from typing import Any

import pytest

from tidegate.errors import ConfigError, Problem, ScenarioError
from tidegate.testing import Scenario, ScenarioResult
from tidegate.testing.graph_form import GraphForm
from tidegate.testing.graph_runner import GraphFed, GraphSent, read_graph, run_graph

Row = dict[str, Any]
WINDOW = {"kind": "tumbling", "width_ms": 10}
CASE: Row = {
    "kind": "graph",
    "sources": {"s": {}, "t": None},
    "operators": [
        {"id": "w", "from": "s", "window": WINDOW},
        {"id": "x", "left": "w", "right": "t", "join": {"type": "inner"}, "on": "user"},
    ],
}
STEP: Row = {"rows": {"s": [{"ts": 1, "user": "a"}]}, "expect": {"x": []}}


def case(*steps: Row, **changes: Any) -> Row:
    return CASE | {"steps": list(steps or [STEP])} | changes


class ScriptedGraph:
    """Answers epoch after epoch, flush included, with `answers`; with nothing when they end."""

    def __init__(self, *answers: GraphSent) -> None:
        self.answers = list(answers)
        self.fed: list[object] = []

    def __call__(self, form: GraphForm) -> "ScriptedGraph":
        return self

    def epoch(self, fed: GraphFed) -> GraphSent:
        self.fed.append(fed)
        return self._answer()

    def flush(self) -> GraphSent:
        self.fed.append("flush")
        return self._answer()

    def restart(self) -> None:
        self.fed.append("restart")

    def close(self) -> None:
        self.fed.append("close")

    def _answer(self) -> GraphSent:
        return self.answers.pop(0) if self.answers else sent()


def sent(**said: Any) -> GraphSent:
    return GraphSent(**({"rows": {}, "watermarks_us": {}} | said))


def run(written: Row, *answers: GraphSent) -> ScenarioResult:
    return run_graph(Scenario(id="case", case=written), ScriptedGraph(*answers))


# the form


@pytest.mark.parametrize(
    ("written", "words"),
    [
        (case(steps=[]), "expected sources, operators and steps"),
        (case({"rows": {}}), "expects nothing"),
        (case(config_error=["x"]), "found both"),
        (case(config_error=[]), "config_error: expected"),
        (case({"expect": {}}), "steps[0]: expected one of rows"),
        (case({"rows": {}, "restart": 1}), "found rows and restart"),
        (case({"rows": {"u": []}, "expect": {}}), "steps[0].rows: expected names of s, t, found u"),
        (case({"rows": {}, "expect": {"w": []}}), "steps[0].expect: expected names of x, found w"),
        (case({"rows": {}, "expect_watermark": {"v": 1}}), "expect_watermark: expected names of"),
        (case({"rows": {}, "expect_watermark": {"w": 0.0001}}), "steps[0].expect_watermark"),
        (case({"rows": {}, "expect_held": ["w"]}), "steps[0].expect_held"),
        (case({"idle": ["w"], "expect": {}}), "steps[0].idle"),
        (case({"advance_watermark": 5, "expect": {}}), "advance_watermark: expected a mapping"),
        (case({"rows": {"s": [{"user": "a"}]}, "expect": {}}), "steps[0].rows.s[0]: no ts"),
        (case({"rows": {"s": [{"ts": "1"}]}, "expect": {}}), "steps[0].rows.s[0].ts: expected"),
        (case(outputs=["s"]), "outputs: expected names of w, x, found s"),
        (case(final={"w": []}), "final: expected names of x, found w"),
        (case(late={"y": 0}), "late: expected names of"),
        (case(watermark={"mode": "per_record"}), "mode: expected explicit or per_batch"),
        (case(operators=[{"id": "w", "window": WINDOW}]), "w: expected `from`"),
        (case(operators=[{"id": "w", "from": "s", "join": {}}]), "w: expected `left` and `right`"),
        (case(operators=[{"id": "w", "from": "s", "window": {}, "dedupe": {}}]), "expected one of"),
        (case(operators=[{"from": "s"}]), "missing required field `id`"),
    ],
)
def test_a_case_without_the_form_of_a_graph_is_refused(written: Row, words: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        read_graph(written)
    assert words in str(caught.value)


def test_a_form_has_the_defaults_and_times_in_microseconds() -> None:
    expected = {"x": 9999.999, "w": None, "s": 1700000000000.007}
    form = read_graph(case(STEP | {"expect_watermark": expected}))
    found = form.steps[0].expect_watermark
    assert found == {"x": 9999999, "w": None, "s": 1700000000000007}
    assert (form.compared, form.watermark.mode, form.watermark.initial) == (
        ("x",),
        "per_batch",
        None,
    )
    assert (form.settings("t").max_out_of_order_ms, form.operator("x").keys) == (0, ("user",))


# running


def test_steps_are_epochs_and_a_final_table_asks_for_a_flush() -> None:
    engine = ScriptedGraph()
    steps = (STEP, {"restart": 1}, {"advance_watermark": {"s": 7}, "active": ["t"], "idle": ["s"]})
    run_graph(Scenario(id="case", case=case(*steps, final={})), engine)
    assert engine.fed == [
        GraphFed(rows={"s": [{"ts": 1, "user": "a"}]}),
        "restart",
        GraphFed(advance_us={"s": 7000}, active=("t",), idle=("s",)),
        "flush",
        "close",
    ]


def test_a_restart_may_follow_each_step() -> None:
    engine = ScriptedGraph()
    run_graph(Scenario(id="case", case=case()), engine, restart_each_step=True)
    assert engine.fed[1:] == ["restart", "close"]


@pytest.mark.parametrize(
    ("expected", "found", "mismatches"),
    [
        ([{"n": 1}], [{"n": 1, "op": "insert"}], []),
        ([{"n": 1, "op": "+I"}], [{"n": 1, "op": "insert"}], []),
        ([{"n": 1, "op": "insert"}], [{"n": 1}], []),
        ([{"op": "delete"}], [{"n": 1, "op": "delete"}], []),
        (
            [{"n": 1}],
            [{"n": 1, "op": "delete"}],
            ["expected and not sent", "sent and not expected"],
        ),
        ([{"op": "delete"}], [{"n": 1}], ["expected and not sent", "sent and not expected"]),
        (
            [{"op": "update_before"}],
            [{"op": "delete"}],
            ["expected and not sent", "sent and not expected"],
        ),
        ([], [{"n": 1}], ["sent and not expected"]),
        ([{"n": 1}, {"n": 2}], [{"n": 2}], ["expected and not sent"]),
    ],
)
def test_rows_are_compared_by_their_columns_and_whether_they_take_back(
    expected: list[Row], found: list[Row], mismatches: list[str]
) -> None:
    result = run(case({"rows": {}, "expect": {"x": expected}}), sent(rows={"x": found}))
    assert [line.split(": ")[2] for line in result.mismatches] == mismatches


def test_an_output_without_an_entry_must_send_nothing() -> None:
    result = run(case({"rows": {}, "expect": {}}), sent(rows={"x": [{"n": 1}], "w": [{"n": 2}]}))
    assert result.mismatches == ["step 0: x: sent and not expected: {n: 1}"]


def test_watermarks_are_compared_to_the_microsecond() -> None:
    step = {"rows": {}, "expect_watermark": {"s": 1700000000000.001, "w": None, "x": 5}}
    found = {"s": 1700000000000000, "w": None, "x": 5000, "t": 9}
    assert run(case(step), sent(watermarks_us=found)).mismatches == [
        "step 0: watermark of s: expected 1700000000000.001, found 1700000000000"
    ]


def test_counts_are_summed_over_all_epochs_and_held_sources_are_compared() -> None:
    step = {"rows": {}, "expect_held": ["s"]}
    written = case(step, step, late={"w": 3, "x": 0}, duplicates={"s": 1}, final={})
    answers = (
        sent(late={"w": 1}, held=["s"]),
        sent(late={"w": 1, "x": 1}, duplicates={"s": 1}),
        sent(late={"w": 1}),
    )
    result = run(written, *answers)
    assert result.mismatches == [
        "step 1: held: expected ['s'], found []",
        "late: x: expected 0, found 1",
    ]
    assert result.late_count == 4


@pytest.mark.parametrize(
    ("window", "table"),
    [
        ({"emit": "on_update"}, [{"window_start": 0, "n": 3}]),
        ({"emit": "complete"}, [{"window_start": 0, "n": 3}]),
        ({"late_data": "reopen"}, [{"window_start": 0, "n": 3}]),
        (
            {},
            [{"window_start": 0, "n": 1}, {"window_start": 5, "n": 2}, {"window_start": 0, "n": 3}],
        ),
    ],
)
def test_a_final_table_has_upserts_and_retractions_applied(window: Row, table: list[Row]) -> None:
    operators = [{"id": "w", "from": "s", "window": WINDOW | window}]
    written = case({"rows": {}}, operators=operators, sources={"s": {}}, final={"w": table})
    first = sent(rows={"w": [{"window_start": 0, "n": 1}, {"window_start": 5, "n": 2}]})
    gone = [] if window in ({}, {"emit": "complete"}) else [{"window_start": 5, "op": "delete"}]
    flushed = sent(rows={"w": [*gone, {"window_start": 0, "n": 3}]})
    assert run(written, first, flushed).mismatches == []


def test_cumulating_windows_are_told_apart_by_their_ends() -> None:
    window = {"kind": "cumulate", "width_ms": 10, "step_ms": 5, "emit": "changelog"}
    rows = [{"window_start": 0, "window_end": end, "op": "insert"} for end in (5, 10)]
    written = case(
        {"rows": {}},
        operators=[{"id": "w", "from": "s", "window": window}],
        sources={"s": {}},
        final={"w": [{"window_end": 5}, {"window_end": 10}]},
    )
    assert run(written, sent(rows={"w": rows})).mismatches == []


# graphs that must be refused


def refusing(problem: Problem | None) -> ScenarioResult:
    def factory(form: GraphForm) -> ScriptedGraph:
        if problem is not None:
            raise ConfigError([problem])
        return ScriptedGraph()

    written = {"kind": "graph", "config_error": ["hours", "MAX"]}
    return run_graph(Scenario(id="case", case=written), factory)


def test_a_refusal_has_the_words_in_any_case() -> None:
    assert refusing(Problem("operators.Hours", "max(n)", "sum")).passed


def test_a_refusal_in_other_words_or_none_is_a_mismatch() -> None:
    assert refusing(Problem("operators.hours", "min(n)", "sum")).mismatches == [
        "config_error: expected ['MAX'] in the message, found: "
        "operators.hours: found min(n), expected sum"
    ]
    assert refusing(None).mismatches == ["config_error: expected an error, found none"]
