"""The oracle of graphs against plain Python, and against itself: no kernel takes part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.graph import GraphOracle
from tests.properties.random_graphs import Given, Graph, Row, cuts, given_rows, graphs, split
from tidegate.testing.compare import unmatched
from tidegate.testing.graph_form import GraphForm
from tidegate.testing.graph_runner import GraphFed, GraphSent, final_table, read_graph

NOT_COMPARED = ("revision",)


def play(case: Row) -> tuple[GraphForm, list[GraphSent]]:
    """What each step and a flush send."""
    form = read_graph(case)
    oracle = GraphOracle(form)
    sent = [oracle.epoch(GraphFed(rows=step.fed)) for step in form.steps]
    return form, [*sent, oracle.flush()]


def final_tables(case: Row) -> dict[str, list[Row]]:
    form, sent = play(case)
    return {
        name: [_without(row, NOT_COMPARED) for row in final_table(form, name, sent)]
        for name in form.compared
    }


def _without(row: Row, names: Sequence[str]) -> Row:
    return {name: value for name, value in row.items() if name not in names and name != "op"}


def assert_same_tables(one: dict[str, list[Row]], other: dict[str, list[Row]]) -> None:
    assert one.keys() == other.keys()
    for name, rows in one.items():
        left, right = unmatched(rows, other[name], _same)
        assert (name, left, right) == (name, [], [])


def _same(one: Row, other: Row) -> bool:
    """The same columns and values, floats but for their rounding (R13)."""
    return one.keys() == other.keys() and all(_alike(v, other[n]) for n, v in one.items())


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= 1e-9 * max(abs(one), abs(other), 1)
    return bool(one == other)


@st.composite
def fed(draw: st.DrawFn, *, disorder: bool = False) -> tuple[Graph, list[Given]]:
    graph = draw(graphs())
    return graph, draw(given_rows(graph, disorder=disorder))


# a chain of fixed windows against plain Python


@st.composite
def chains(draw: st.DrawFn) -> list[Row]:
    """One to three fixed windows that send once, each reading the one before."""
    windows = []
    for nth in range(draw(st.integers(1, 3))):
        width_ms = draw(st.integers(1, 40))
        windows.append(
            {
                "id": f"o{nth}",
                "from": "s" if nth == 0 else f"o{nth - 1}",
                "window": {
                    "kind": "hopping",
                    "width_ms": width_ms,
                    "hop_ms": draw(st.integers(1, width_ms + 5)),
                    "allowed_lateness_ms": draw(st.integers(0, 10)),
                },
                "group_by": ["user"],
                "aggregates": {"n": "count", "v": "sum(v)"},
            }
        )
    return windows


def batch(rows: list[tuple[int, str, Any]], window: Row) -> list[tuple[int, str, Any, Row]]:
    """(time in us, user, v, row) of each window over all (time in us, user, v), in plain Python."""
    width_us, hop_us = window["width_ms"] * 1000, window["hop_ms"] * 1000
    tables: dict[tuple[str, int], list[Any]] = {}
    for at_us, user, value in rows:
        start_us = at_us // hop_us * hop_us
        while start_us + width_us > at_us:
            tables.setdefault((user, start_us), []).append(value)
            start_us -= hop_us
    found = []
    for (user, start_us), values in tables.items():
        known = [value for value in values if value is not None]
        total, end_us = sum(known) if known else None, start_us + width_us
        row = {"user": user, "window_start": start_us / 1000, "n": len(values), "v": total}
        found.append((end_us - 1, user, total, row))
    return found


@given(windows=chains(), data=st.data(), cuts=cuts)
def test_a_chain_of_fixed_windows_is_what_a_batch_computes(
    windows: list[Row], data: st.DataObject, cuts: list[int]
) -> None:
    sources = {"s": {"max_out_of_order_ms": data.draw(st.sampled_from((0, 10)))}}
    graph = Graph(sources=sources, operators=tuple(windows))
    rows = data.draw(given_rows(graph, disorder=False))
    found = final_tables(graph.case(split(rows, cuts)))

    level = [(row["ts"] * 1000, row["user"], row["v"]) for _, row in rows]
    for operator in windows:
        computed = batch(level, operator["window"])
        columns = [{name: row[name] for name in computed[0][3]} for row in found[operator["id"]]]
        assert unmatched([each[3] for each in computed], columns, _same) == ([], [])
        level = [(at_us, user, value) for at_us, user, value, _ in computed]


# R13


@given(fed=fed(), cuts_one=cuts, cuts_other=cuts)
def test_other_epochs_leave_the_same_tables_behind_every_operator(
    fed: tuple[Graph, list[Given]], cuts_one: list[int], cuts_other: list[int]
) -> None:
    graph, rows = fed
    one, other = (final_tables(graph.case(split(rows, cuts))) for cuts in (cuts_one, cuts_other))
    assert_same_tables(one, other)


@given(fed=fed(), cuts=cuts)
def test_how_windows_are_sent_leaves_the_same_tables(
    fed: tuple[Graph, list[Given]], cuts: list[int]
) -> None:
    graph, rows = fed
    one = final_tables(graph.case(split(rows, cuts)))
    other = final_tables(graph.sent_once().case(split(rows, cuts)))
    assert_same_tables(one, other)


@given(fed=fed(), cuts=cuts)
def test_without_disorder_no_row_is_late_anywhere(
    fed: tuple[Graph, list[Given]], cuts: list[int]
) -> None:
    graph, rows = fed
    _, sent = play(graph.case(split(rows, cuts)))
    assert {name for each in sent for name, late in each.late.items() if late} == set()


# R16


@given(fed=fed(disorder=True), cuts=cuts)
def test_what_windows_and_joins_hand_on_is_never_late(
    fed: tuple[Graph, list[Given]], cuts: list[int]
) -> None:
    graph, rows = fed
    passing = {*graph.sources}  # behind these the reader judges rows older than the watermark
    for operator in graph.operators:
        if operator.get("from") in passing and not {"window", "join"} & operator.keys():
            passing.add(operator["id"])
    _, sent = play(graph.case(split(rows, cuts)))
    for operator in graph.operators:
        inputs = {operator[side] for side in ("from", "left", "right") if side in operator}
        if not inputs & passing:
            assert [each.late[operator["id"]] for each in sent] == [0] * len(sent)
