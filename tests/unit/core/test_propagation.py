from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.propagation import Graph, Node, Propagation
from tidegate.errors import ConfigError, WatermarkViolation
from tidegate.eventtime import BEGINNING, FOREVER

SOURCES = ("clicks", "orders")


def node(name: str, *inputs: str, hold_back_us: int = 0) -> Node:
    return Node(id=name, inputs=inputs, hold_back_us=hold_back_us)


def over(*operators: Node) -> Propagation:
    return Propagation(graph=Graph(sources=SOURCES, operators=operators))


CHAIN = (
    node("count", "sessions", hold_back_us=100),
    node("join", "clicks", "orders", hold_back_us=5),
    node("sessions", "join", hold_back_us=10),
    node("audit", "orders"),
)


def test_an_operator_sends_the_least_of_its_inputs_minus_what_it_holds_back() -> None:
    sent = over(*CHAIN).advance({"clicks": 1000, "orders": 2000})
    assert sent.sent_us == {
        "clicks": 1000,
        "orders": 2000,
        "join": 995,
        "sessions": 985,
        "count": 885,
        "audit": 2000,
    }


def test_an_operator_closes_by_the_least_of_its_inputs() -> None:
    sent = over(*CHAIN).advance({"clicks": 1000, "orders": 2000})
    assert {name: sent.heard_us(name) for name in ("join", "sessions", "count", "audit")} == {
        "join": 1000,
        "sessions": 995,
        "count": 985,
        "audit": 2000,
    }


def test_the_global_watermark_is_the_least_of_the_sinks() -> None:
    sent = over(*CHAIN).advance({"clicks": 1000, "orders": 2000})
    assert (sent.graph.sinks, sent.global_us) == (("count", "audit"), 885)


def test_a_graph_without_operators_has_sent_nothing_out() -> None:
    assert over().advance({"clicks": 5}).global_us == BEGINNING


def test_a_source_that_is_not_named_stays_where_it_is() -> None:
    sent = over(*CHAIN).advance({"clicks": 1000, "orders": 2000}).advance({"clicks": 1500})
    assert (sent.output_us("orders"), sent.output_us("join")) == (2000, 1495)


def test_before_the_first_watermark_everything_is_at_minus_infinity() -> None:
    sent = over(*CHAIN).advance({"clicks": 1000})
    assert (sent.output_us("join"), sent.global_us) == (BEGINNING, BEGINNING)


def test_an_ended_input_ends_the_output_whatever_is_held_back() -> None:
    sent = over(*CHAIN).advance({"clicks": FOREVER, "orders": FOREVER})
    assert sent.global_us == FOREVER


def test_who_holds_back_for_ever_sends_nothing_until_the_input_is_over() -> None:
    held = over(node("all", "clicks", hold_back_us=FOREVER))
    assert held.advance({"clicks": 10**15}).output_us("all") == BEGINNING
    assert held.advance({"clicks": FOREVER}).output_us("all") == FOREVER


def test_an_operator_may_hold_back_less_as_it_goes() -> None:
    sent = over(*CHAIN).advance({"clicks": 1000, "orders": 2000})
    assert sent.advance({}, hold_back_us={"join": 1}).output_us("sessions") == 989


def test_an_operator_that_steps_back_is_named() -> None:
    sent = over(*CHAIN).advance({"clicks": 1000, "orders": 2000})
    with pytest.raises(WatermarkViolation) as violation:
        sent.advance({"clicks": 1001, "orders": 2000}, hold_back_us={"join": 50})
    assert violation.value.args == ("join", 995, 951)


def test_a_source_that_steps_back_is_named_even_where_another_one_is_slower() -> None:
    sent = over(*CHAIN).advance({"clicks": 1000, "orders": 2000})
    with pytest.raises(WatermarkViolation) as violation:
        sent.advance({"orders": 1500})
    assert violation.value.args == ("orders", 2000, 1500)


def test_a_cycle_is_refused_by_name() -> None:
    with pytest.raises(ConfigError) as refused:
        over(node("a", "clicks", "c"), node("b", "a"), node("c", "b"))
    found = refused.value.problems[0].found
    assert found in {
        "a cycle: a -> b -> c -> a",
        "a cycle: b -> c -> a -> b",
        "a cycle: c -> a -> b -> c",
    }


def test_an_operator_that_reads_itself_is_a_cycle() -> None:
    with pytest.raises(ConfigError, match="a cycle: a -> a"):
        over(node("a", "a"))


def test_all_problems_of_a_graph_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as refused:
        over(node("a", "klicks"), node("b"), node("orders", "a", hold_back_us=-1))
    assert [(problem.at, problem.found) for problem in refused.value.problems] == [
        ("operators.orders", "2 sources or operators of this name"),
        ("operators.a.inputs", "'klicks'"),
        ("operators.b.inputs", "none"),
        ("operators.orders.hold_back_us", "-1"),
    ]


@pytest.mark.parametrize("wrong", [{"source_us": {"join": 5}}, {"hold_back_us": {"clicks": 5}}])
def test_a_watermark_for_the_wrong_kind_of_node_is_refused(
    wrong: dict[str, dict[str, int]],
) -> None:
    with pytest.raises(ValueError, match="expected one of"):
        over(*CHAIN).advance(**{"source_us": {}, **wrong})


def test_a_restart_keeps_what_was_sent() -> None:
    sent = over(*CHAIN).advance({"clicks": 1000, "orders": 2000})
    assert over(*CHAIN).restored(json.loads(json.dumps(sent.to_dict()))) == sent


def test_a_restart_forgets_operators_that_are_gone() -> None:
    committed = over(*CHAIN).advance({"clicks": 1000, "orders": 2000}).to_dict()
    assert over(node("audit", "orders")).restored(committed).sent_us == {
        "clicks": 1000,
        "orders": 2000,
        "audit": 2000,
    }


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Operators o0, o1, ... each reading sources and operators before it, in any order."""
    operators: list[Node] = []
    for n in range(draw(st.integers(1, 6))):
        names = [*SOURCES, *(each.id for each in operators)]
        inputs = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
        operators.append(node(f"o{n}", *inputs, hold_back_us=draw(st.integers(0, 20))))
    return Graph(sources=SOURCES, operators=tuple(draw(st.permutations(operators))))


steps = st.lists(st.tuples(st.sampled_from(SOURCES), st.integers(0, 50)), max_size=10)


@given(graph=graphs(), steps=steps)
def test_outputs_agree_with_their_definition_and_never_move_back(
    graph: Graph, steps: list[tuple[str, int]]
) -> None:
    by_id = {each.id: each for each in graph.operators}
    at_us = dict.fromkeys(SOURCES, 0)

    def expected_us(name: str) -> int:
        if name in at_us:
            return at_us[name]
        return min(expected_us(each) for each in by_id[name].inputs) - by_id[name].hold_back_us

    sent = Propagation(graph=graph).advance(at_us)
    for source, more_us in steps:
        at_us[source] += more_us
        before, sent = sent, sent.advance({source: at_us[source]})
        assert sent.sent_us == {name: expected_us(name) for name in (*SOURCES, *by_id)}
        assert all(sent.output_us(name) >= before.output_us(name) for name in sent.sent_us)
        assert sent.global_us == min(expected_us(sink) for sink in graph.sinks)
