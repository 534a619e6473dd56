"""What cases of graphs cannot say: they end with a flush, and name no positions."""

from typing import Any

from tidegate.testing.graph_runner import GraphFed, read_graph

from .edges import EdgeRow
from .graph import GraphOracle

Row = dict[str, Any]


def oracle(*operators: Row, **changes: Any) -> GraphOracle:
    case: Row = {"sources": {"s": {}}, "operators": operators, "steps": [{"rows": {}}], "final": {}}
    return GraphOracle(read_graph(case | changes))


def tumbling(id_: str, source: str, width_ms: int, **changes: Any) -> Row:
    window = {"kind": "tumbling", "width_ms": width_ms} | changes
    return {"id": id_, "from": source, "window": window, "aggregates": {"n": "count"}}


def at(*times_ms: int) -> GraphFed:
    return GraphFed(rows={"s": [{"ts": ts} for ts in times_ms]})


# R15


def test_after_a_flush_each_operator_judges_by_its_own_latest_forgetting_time() -> None:
    graph = oracle(tumbling("secs", "s", 1000), tumbling("tens", "secs", 10000))
    graph.epoch(at(100))
    flushed = graph.flush()
    assert flushed.watermarks_us == {"s": 100_000, "secs": 1_000_001, "tens": 10_000_001}
    later = graph.epoch(at(999, 1500, 2500))
    assert [row["window_start"] for row in later.rows["secs"]] == [1000]
    assert later.late == {"s": 0, "secs": 1, "tens": 1}  # the hand-over of [1000, 2000) is late


def test_a_flush_reads_what_alignment_held() -> None:
    sources: Row = {"s": {}, "t": {}}
    operators = (tumbling("w", "s", 1000), tumbling("x", "t", 1000))
    graph = oracle(*operators, sources=sources, watermark={"max_drift_ms": 10})
    graph.epoch(GraphFed(rows={"s": [{"ts": 100}], "t": [{"ts": 0}]}))
    held = graph.epoch(at(101))
    flushed = graph.flush()
    assert (held.held, flushed.held, flushed.rows["w"][0]["n"]) == (["s"], (), 2)


# R16


def test_the_position_of_a_derived_row_is_the_same_in_whatever_epoch_it_is_sent() -> None:
    """Of a window, of its correction, and of what takes it back."""

    def positions(*epochs: GraphFed) -> set[tuple[int, int]]:
        graph = oracle(tumbling("secs", "s", 1000, emit="on_update"), tumbling("x", "secs", 10000))
        sent: list[EdgeRow] = []
        run = graph._running["secs"]
        deliver = run.epoch

        def recorded(inputs: Any, watermark_us: int | None) -> Any:
            delivered = deliver(inputs, watermark_us)
            sent.extend(delivered.edge)
            return delivered

        run.epoch = recorded  # type: ignore[method-assign]
        for fed in epochs:
            graph.epoch(fed)
        return {(row.lane, row.offset) for row in sent}

    one, other = positions(at(1, 2)), positions(at(1), at(2))
    assert one == other
    assert len(one) == 1
