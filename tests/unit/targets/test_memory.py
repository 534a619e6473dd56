from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tidegate.errors import ConfigError
from tidegate.pipeline import Target
from tidegate.targets import MemoryWriter, memory_table, open_target
from tidegate.testing.target_contract import (
    IDENTITY,
    Outlet,
    OwnershipContract,
    UpsertContract,
    ids,
    key,
    rows,
    stage,
)


class Memory(Outlet):
    format = "memory"

    @property
    def options(self) -> dict[str, Any]:
        return {"name": str(self.folder)}

    def look(self) -> Any:
        return self.table().to_dicts()

    def table(self) -> pl.DataFrame:
        return memory_table(str(self.folder)).rows()


@pytest.fixture
def outlet(tmp_path: Path) -> Memory:
    return Memory(tmp_path)


class TestMemory(UpsertContract, OwnershipContract):
    @pytest.fixture
    def outlet(self, tmp_path: Path) -> Outlet:
        return Memory(tmp_path)


@pytest.mark.parametrize("channel", ["main", "late"])
def test_a_table_is_called_after_pipeline_and_channel(channel: str) -> None:
    writer = open_target(Target(format="memory"), pipeline="orders", channel=channel)
    assert isinstance(writer, MemoryWriter)
    assert writer.name == f"orders.{channel}"


def test_a_table_tells_how_its_rows_came(outlet: Memory) -> None:
    writer, table = outlet.open(), memory_table(str(outlet.folder))
    writer.publish(key(1), [stage(writer, rows(("ann", 0, 1)))])
    gone = stage(writer, ids(("ann", 0)), "retracted")
    writer.publish(key(4), [stage(writer, rows(("ann", 5, 1))), gone])
    writer.publish(key(5), [stage(writer, ids(("ann", 5)), "retracted")])
    expected = [
        (1, rows(("ann", 0, 1)), ids()),
        (4, rows(("ann", 5, 1)), ids(("ann", 0))),
        (5, rows(), ids(("ann", 5))),
    ]
    assert [each.epoch for each in table.epochs()] == [epoch for epoch, _, _ in expected]
    for each, (_, sent, retracted) in zip(table.epochs(), expected, strict=True):
        assert_frame_equal(each.sent, sent)
        assert_frame_equal(each.retracted, retracted)


def test_a_cleared_table_has_forgotten_which_epochs_came(outlet: Memory) -> None:
    writer, table = outlet.open(), memory_table(str(outlet.folder))
    parts = [stage(writer, rows(("ann", 0, 1)))]
    writer.publish(key(1), parts)
    table.clear()
    assert (table.rows().width, table.epochs()) == (0, [])
    writer.publish(key(1), parts)
    assert_frame_equal(table.rows(), rows(("ann", 0, 1)))


def test_rows_of_another_schema_are_refused_before_any_data_is_read(outlet: Memory) -> None:
    writer = outlet.open()
    writer.publish(key(1), [stage(writer, rows(("ann", 0, 1)))])
    writer.check(IDENTITY, rows().select("n", "user", "window_start").schema)
    other = rows().with_columns(pl.col("n").cast(pl.Float64), more=pl.lit("x"))
    with pytest.raises(ConfigError, match=r"'n', 'more'.*\n.*clear"):
        writer.check(IDENTITY, other.schema)


def test_the_order_of_columns_does_not_matter(outlet: Memory) -> None:
    writer = outlet.open()
    writer.publish(key(1), [stage(writer, rows(("ann", 0, 1)))])
    writer.publish(key(2), [stage(writer, rows(("bob", 0, 1)).select("n", "window_start", "user"))])
    assert_frame_equal(outlet.table(), rows(("ann", 0, 1), ("bob", 0, 1)))


def test_a_name_is_a_text() -> None:
    with pytest.raises(ConfigError, match=r"target\.options.name: found 7"):
        open_target(Target(format="memory", options={"name": 7}), pipeline="p", channel="main")
