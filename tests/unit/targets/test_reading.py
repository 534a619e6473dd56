"""Reading targets back: what people find there, and nothing that is staged."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tidegate.errors import ConfigError, UnreadableSource
from tidegate.pipeline import Target
from tidegate.targets import NATIVE_FORMATS, TargetWriter, memory_table, open_target
from tidegate.targets.reading import read_target
from tidegate.targets.rowreading import from_csv, from_json_lines
from tidegate.targets.rowtext import to_csv, to_json_lines
from tidegate.testing.target_contract import IDENTITY, ids, key, rows, stage

ANN, BOB = ("ann", 0, 1), ("bob", 10, 2)
SCHEMA = rows().schema
HERE = [kind for kind in NATIVE_FORMATS if kind not in ("postgres", "kafka", "console")]
"""Formats that need no server."""


def target_in(folder: Path, kind: str, **parts: Any) -> Target:
    if kind == "memory":
        return Target(format=kind, options={"name": str(folder)}, **parts)
    return Target(format=kind, options={"path": str(folder / "out")}, **parts)


def opened(target: Target, pipeline: str = "orders") -> TargetWriter:
    writer = open_target(target, pipeline=pipeline, channel="main", identity=IDENTITY)
    assert writer is not None
    return writer


def read(target: Target, schema: pl.Schema | None = SCHEMA) -> pl.DataFrame:
    found = read_target(target, pipeline="orders", schema=schema)
    return found.sort("user") if found.width else found


@pytest.mark.parametrize("kind", HERE)
def test_all_that_was_published_comes_back_with_its_types(kind: str, tmp_path: Path) -> None:
    target = target_in(tmp_path, kind)
    writer = opened(target)
    for epoch, row in enumerate((ANN, BOB), start=1):
        writer.publish(key(epoch), [stage(writer, rows(row))])
    assert_frame_equal(read(target), rows(ANN, BOB))


@pytest.mark.parametrize("kind", HERE)
def test_a_target_without_rows_has_the_columns_that_are_known(kind: str, tmp_path: Path) -> None:
    target = target_in(tmp_path, kind)
    assert_frame_equal(read(target), rows())
    assert_frame_equal(read(target, None), pl.DataFrame())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", ["delta", "memory"])
def test_of_a_target_that_replaces_rows_the_table_comes_back(kind: str, tmp_path: Path) -> None:
    target = target_in(tmp_path, kind, mode="upsert")
    writer = opened(target)
    writer.publish(key(1), [stage(writer, rows(ANN, BOB))])
    changes = [stage(writer, rows(("ann", 0, 7))), stage(writer, ids(("bob", 10)), "retracted")]
    writer.publish(key(2), changes)
    assert_frame_equal(read(target), rows(("ann", 0, 7)))


@pytest.mark.parametrize("kind", ["parquet", "json", "csv"])
def test_what_is_staged_or_hidden_is_not_read(kind: str, tmp_path: Path) -> None:
    target = target_in(tmp_path, kind)
    writer = opened(target)
    writer.publish(key(1), [stage(writer, rows(ANN))])
    stage(writer, rows(BOB))
    encoded = writer.encode(rows(BOB))
    for name in (f".half.{kind}", f"_temporary.{kind}", f"x.{kind}.tmp", "notes.txt"):
        (tmp_path / "out" / name).write_bytes(encoded)
    assert_frame_equal(read(target), rows(ANN))


def test_rows_that_others_put_there_come_too(tmp_path: Path) -> None:
    target = target_in(tmp_path, "parquet")
    for name, row in (("orders", ANN), ("others", BOB)):
        writer = opened(target, name)
        writer.publish(key(1, pipeline=name), [stage(writer, rows(row))])
    assert_frame_equal(read(target), rows(ANN, BOB))


def test_a_column_that_a_file_does_not_have_is_null_there(tmp_path: Path) -> None:
    target = target_in(tmp_path, "parquet")
    (tmp_path / "out").mkdir()
    rows(ANN).write_parquet(tmp_path / "out" / "a.parquet")
    rows(BOB).with_columns(more=pl.lit("x")).write_parquet(tmp_path / "out" / "b.parquet")
    assert read(target)["more"].to_list() == [None, "x"]


def test_a_broken_file_is_told_with_its_folder(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    rows(ANN).write_parquet(tmp_path / "out" / "a.parquet")
    (tmp_path / "out" / "b.parquet").write_bytes(b"nonsense")
    with pytest.raises(UnreadableSource, match=f"{tmp_path}/out: files that are not rows"):
        read(target_in(tmp_path, "parquet"))


def test_a_number_never_becomes_a_text_because_another_file_has_one_there(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    rows(ANN).write_parquet(tmp_path / "out" / "a.parquet")
    rows(BOB).cast({"n": pl.String}).write_parquet(tmp_path / "out" / "b.parquet")
    with pytest.raises(UnreadableSource, match="need a folder each"):
        read(target_in(tmp_path, "parquet"))


@pytest.mark.parametrize("name", ["with space", "[x]", "50%", "*"])
def test_folders_of_any_name_are_read(name: str, tmp_path: Path) -> None:
    target = target_in(tmp_path / name, "parquet")
    writer = opened(target)
    writer.publish(key(1), [stage(writer, rows(ANN))])
    assert_frame_equal(read(target), rows(ANN))


@pytest.mark.parametrize(
    ("target", "way"),
    [
        (Target(format="console"), "use format='memory'"),
        (Target(format="orc", options={"path": "x"}), "spark.read.format('orc')"),
        (Target(format="table", options={"table": "a.b"}), "spark.table('a.b')"),
    ],
)
def test_a_target_that_cannot_be_read_back_names_the_way(target: Target, way: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_target(target, pipeline="orders")
    (problem,) = caught.value.problems
    assert (problem.at, problem.found) == ("target.format", repr(target.format))
    assert way in problem.hint


def test_a_table_in_memory_is_found_by_the_name_of_its_pipeline() -> None:
    writer = open_target(Target(format="memory"), pipeline="reading.orders", channel="main")
    assert writer is not None
    writer.publish(key(1), [stage(writer, rows(ANN))])
    found = read_target(Target(format="memory"), pipeline="reading.orders")
    assert_frame_equal(found, memory_table("reading.orders.main").rows())
    assert found.height == 1


# --- rows from text ---------------------------------------------------------------------------

ODD = pl.DataFrame(
    {
        "text": ["a", "", None, 'x"y,\nz'],
        "long": [1, None, -3, 2**62],
        "byte": pl.Series([1, None, -3, 4], dtype=pl.Int8),
        "double": [1.5, float("nan"), float("-inf"), None],
        "float": pl.Series([0.5, None, 2.0, 3.0], dtype=pl.Float32),
        "truth": [True, False, None, True],
        "money": pl.Series([Decimal("1.20"), None, Decimal(3), -(Decimal(10) ** 20)]).cast(
            pl.Decimal(38, 2)
        ),
        "at": pl.Series([0, 1, None, -(10**15)]).cast(pl.Datetime("us", "UTC")),
        "local": pl.Series([0, 1, None, 10**15]).cast(pl.Datetime("us")),
        "day": [date(2026, 1, 1), None, date(1900, 1, 1), date(2100, 1, 1)],
        "bytes": [b"\x00a", b"", None, b"z"],
        "pages": [["a", ""], [], None, [None]],
        "times": pl.Series(
            [[datetime(2026, 1, 1, tzinfo=UTC)], [], None, [None]],
            dtype=pl.List(pl.Datetime("us", "UTC")),
        ),
        "prices": pl.Series([[Decimal("1.20")], [], None, [None]]).cast(pl.List(pl.Decimal(38, 2))),
    }
)


def test_csv_comes_back_as_it_was() -> None:
    assert_frame_equal(from_csv(to_csv(ODD), ODD.schema), ODD)


def test_json_comes_back_as_it_was_but_for_numbers_that_json_has_not() -> None:
    finite = pl.when(pl.col("double").is_finite()).then("double").alias("double")
    assert_frame_equal(from_json_lines(to_json_lines(ODD), ODD.schema), ODD.with_columns(finite))


def test_without_types_text_is_read_as_polars_takes_it() -> None:
    assert from_json_lines(to_json_lines(rows(ANN))).schema == {
        "user": pl.String,
        "window_start": pl.String,
        "n": pl.Int64,
    }
    assert from_csv(to_csv(rows(ANN))).schema == SCHEMA
