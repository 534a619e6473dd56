"""What a run gives back of its target: as a Polars frame, and as a Spark frame."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tests.services.home import Home, clicks, counted, lasts, sessions
from tidegate import Aggregation, ConfigError, Target

FORMATS = ("parquet", "json", "csv", "delta", "memory")
ROWS = clicks(("ann", 1), ("ann", 12), ("bob", 13), (None, 40), amount=[1.5, 2.5, None, 4.0])


def target_of(home: Home, kind: str) -> Target:
    path = {} if kind == "memory" else {"path": str(home.folder / "out put")}
    return Target(format=kind, options=path)


def with_amounts() -> Any:
    amounts = [
        Aggregation(kind="sum", input_column="amount"),
        Aggregation(kind="collect", input_column="amount"),
    ]
    return sessions(aggregations=[Aggregation(kind="count"), *amounts])


@pytest.mark.parametrize("kind", FORMATS)
def test_a_result_gives_what_the_target_holds_with_its_types(home: Home, kind: str) -> None:
    pipeline = home.pipeline(home.memory(ROWS), window=with_amounts(), target=target_of(home, kind))
    result = home.run(pipeline, on_end="flush")
    found = result.to_polars()
    assert counted(found, "count", "sum_amount", "collect_amount") == [
        (None, 40, 1, 4.0, [4.0]),
        ("ann", 1, 1, 1.5, [1.5]),
        ("ann", 12, 1, 2.5, [2.5]),
        ("bob", 13, 1, None, []),
    ]
    assert found.schema["window_start"] == pl.Datetime("us", "UTC")
    by_spark = pl.DataFrame(result.to_spark(home.spark).toArrow())
    order = ["user", "window_start"]
    assert_frame_equal(by_spark.sort(order), found.sort(order), check_column_order=False)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_run_that_sent_nothing_yet_gives_no_rows_and_all_columns(home: Home, kind: str) -> None:
    pipeline = home.pipeline(home.memory(ROWS), target=target_of(home, kind), watermark=lasts(60))
    result = home.run(pipeline)
    found = result.to_polars()
    assert found.columns == ["user", "window_start", "window_end", "count", "revision"]
    assert found.height == 0
    by_spark = result.to_spark(home.spark)
    assert (by_spark.columns, by_spark.count()) == (found.columns, 0)


def test_a_result_gives_also_what_earlier_runs_wrote(home: Home) -> None:
    pipeline = home.pipeline(home.memory(ROWS), target=target_of(home, "parquet"))
    first = home.run(pipeline).to_polars()
    home.put(clicks(("ann", 90), amount=[1.0]))
    second = home.run(pipeline, on_end="flush")
    assert counted(second.to_polars())[0] == (None, 40, 1)
    assert 0 < first.height < second.to_polars().height


def test_a_result_of_a_target_that_keeps_nothing_names_another(home: Home) -> None:
    result = home.run(home.pipeline(home.memory(ROWS), target=Target(format="console")))
    with pytest.raises(ConfigError, match="use format='memory'"):
        result.to_spark(home.spark)
