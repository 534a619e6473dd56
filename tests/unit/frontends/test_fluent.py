"""Three ways to write a graph: keywords, a chain of calls, and a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.frontends.test_toml import GRAPH, loaded
from tests.unit.pipeline.examples import problems_of
from tidegate import (
    Aggregation,
    Pipeline,
    Source,
    StateStore,
    Stream,
    Target,
    Window,
    pipeline_of,
    stream,
)

CLICKS = Source(name="clicks", format="memory", event_time="ts")
ORDERS = Source(name="orders", format="memory", event_time="ts")
COUNT = Aggregation(kind="count", output_name="n")
ASIDE = Target(format="memory", options={"name": "visits"})
DAY_MS = 86_400_000


def by_calls() -> Pipeline:
    visits = (
        stream(CLICKS)
        .window(
            id="visits",
            kind="session",
            gap_ms=30_000,
            max_session_duration_ms=DAY_MS,
            group_by="user",
            aggregations=[COUNT],
        )
        .to(ASIDE)
    )
    hours = (
        visits.where("n > 1")
        .select(clicks="n")
        .by_time("window_start")
        .window(
            id="hours",
            kind="tumbling",
            width_ms=3_600_000,
            aggregations=[Aggregation(kind="sum", input_column="clicks")],
        )
        .to(Target(format="memory"))
    )
    return pipeline_of("shop", hours, state_store=StateStore())


def by_keywords() -> Pipeline:
    visits = Window(
        id="visits",
        kind="session",
        gap_ms=30_000,
        max_session_duration_ms=DAY_MS,
        group_by="user",
        aggregations=[COUNT],
        target=ASIDE,
    )
    hours = Window(
        id="hours",
        inputs="visits",
        where="n > 1",
        select={"clicks": "n"},
        event_time="window_start",
        kind="tumbling",
        width_ms=3_600_000,
        aggregations=[Aggregation(kind="sum", input_column="clicks")],
    )
    return Pipeline(
        name="shop",
        sources=CLICKS,
        operators=[visits, hours],
        target=Target(format="memory"),
        state_store=StateStore(),
    )


def test_three_ways_lead_to_one_pipeline(tmp_path: Path) -> None:
    file = loaded(tmp_path, GRAPH)
    assert by_calls() == file
    assert {each.fingerprint() for each in (by_keywords(), by_calls(), file)} == {
        file.fingerprint()
    }


def test_a_stream_that_is_read_twice_is_there_once() -> None:
    clicks = stream(CLICKS)
    counts = clicks.window(
        id="counts", kind="tumbling", width_ms=5, group_by="user", aggregations=[COUNT]
    )
    pairs = counts.join(stream(ORDERS), id="pairs", on="user", time_window_ms=5)
    made = pipeline_of(
        "shop",
        pairs.to(Target(format="console")),
        counts.window(id="more", kind="tumbling", width_ms=9, aggregations=[COUNT]).to(ASIDE),
    )
    assert made.inputs() == {
        "counts": ("clicks",),
        "pairs": ("counts", "orders"),
        "more": ("counts",),
    }
    assert [source.name for source in made.sources] == ["clicks", "orders"]


def test_conditions_one_after_another_must_all_hold() -> None:
    made = (
        stream(CLICKS)
        .where("a > 1 OR b")
        .where("c")
        .window(kind="tumbling", width_ms=5, aggregations=[COUNT])
    )
    assert isinstance(made.node, Window)
    assert made.node.where == "(a > 1 OR b) AND (c)"


@pytest.mark.parametrize("rows", [stream(CLICKS), stream(CLICKS).where("a")])
def test_only_results_go_to_a_target(rows: Stream) -> None:
    (problem,) = problems_of(lambda: rows.to(ASIDE))
    assert (problem.at, problem.expected) == ("to", "the results of a window or join")


def test_a_condition_in_front_of_a_join_is_refused() -> None:
    rows = stream(CLICKS).where("a")
    (problem,) = problems_of(lambda: rows.join(stream(ORDERS), on="user", time_window_ms=5))
    assert problem.expected == "no where for a join: it has two inputs"


def test_a_stream_that_is_joined_with_itself_again_and_again_is_walked_once() -> None:
    rows = stream(CLICKS)
    for nth in range(40):
        rows = rows.join(rows, id=f"pairs-{nth}", on="user", time_window_ms=5)
    made = pipeline_of("shop", rows, target=ASIDE)
    assert len(made.operators) == 40
