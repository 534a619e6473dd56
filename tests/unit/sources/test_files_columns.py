"""The columns of files: declared or found, and in exactly these types."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.sources.reading import (
    CLICKS,
    batches,
    clicks,
    everything,
    log_of,
    opened,
    poll,
    put_text,
    settled,
    write,
)
from tests.unit.sources.reading import drained as all_polls
from tidegate.errors import ConfigError, Problem, UnreadableSource

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
WALL_NOON = NOON.replace(tzinfo=None)
TEXT_TYPES = {"string": {pa.string(), pa.large_string(), pa.string_view()}}


def problems_of(*arguments: Any, **options: Any) -> list[Problem]:
    with pytest.raises(ConfigError) as caught:
        opened(*arguments, **options).columns()
    return list(caught.value.problems)


# --- found ------------------------------------------------------------------------------------


def test_declared_columns_are_the_columns(tmp_path: Path) -> None:
    assert opened("json", CLICKS, path=str(tmp_path)).columns() == CLICKS


def test_parquet_says_what_its_columns_are(tmp_path: Path) -> None:
    write(clicks(0, 3), tmp_path / "a.parquet")
    assert opened("parquet", path=str(tmp_path)).columns() == CLICKS


def test_types_that_tidegate_does_not_know_are_left_out(tmp_path: Path) -> None:
    table = pa.table(
        {
            "small": pa.array([1], pa.uint16()),
            "long": pa.array([1], pa.uint32()),
            "big": pa.array([1], pa.uint64()),
            "nested": pa.array([{"a": 1}]),
            "map": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
            "time": pa.array([1], pa.time64("us")),
            "list": pa.array([[1]], pa.list_(pa.int32())),
            "word": pa.array(["a"]).dictionary_encode(),
            "money": pa.array([Decimal("1.50")], pa.decimal128(9, 2)),
            "day": pa.array([date(2026, 1, 1)]),
            "wall": pa.array([WALL_NOON], pa.timestamp("ms")),
            "instant": pa.array([NOON], pa.timestamp("ns", "Europe/Berlin")),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    reader = opened("parquet", path=str(tmp_path))
    assert reader.columns() == {
        "small": "int",
        "long": "long",
        "list": "array<int>",
        "word": "string",
        "money": "decimal(9,2)",
        "day": "date",
        "wall": "timestamp_ntz",
        "instant": "timestamp",
    }
    (row,) = everything(reader).rows(named=True)
    assert (row["instant"], row["small"], row["money"]) == (NOON, 1, Decimal("1.50"))
    assert (row["list"], row["word"]) == ([1], "a")


def test_old_timestamps_of_spark_are_instants(tmp_path: Path) -> None:
    table = pa.table({"ts": pa.array([WALL_NOON], pa.timestamp("us"))})
    pq.write_table(table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    reader = opened("parquet", path=str(tmp_path))
    assert reader.columns() == {"ts": "timestamp"}
    assert everything(reader).rows() == [(NOON,)]


def test_json_columns_are_found_in_the_first_lines(tmp_path: Path) -> None:
    lines = (
        '{"i":1,"f":1.5,"b":true,"s":"x","t":"2026-01-01T00:00:00Z","n":null,"o":{"a":1},"l":[1]}\n'
        '{"i":2,"f":2,"late":7}\n'
        '{"i":3,"cut'
    )
    put_text(tmp_path / "a.json", lines)
    assert opened("json", path=str(tmp_path)).columns() == {
        "i": "long",
        "f": "double",
        "b": "boolean",
        "s": "string",
        "t": "string",
        "n": "string",
        "l": "array<long>",
        "late": "long",
    }


def test_csv_columns_are_found_in_the_first_lines(tmp_path: Path) -> None:
    put_text(tmp_path / "a.csv", '\ufeffi;f;"b;b";t;n\r\n1;1.5;true;2026-01-01 00:00:00;\r\n')
    reader = opened("csv", path=str(tmp_path), delimiter=";")
    kinds = {"i": "long", "f": "double", "b;b": "boolean", "t": "string", "n": "string"}
    assert reader.columns() == kinds
    assert everything(reader).rows() == [(1, 1.5, True, "2026-01-01 00:00:00", None)]


def test_csv_without_a_header_has_columns_by_their_order(tmp_path: Path) -> None:
    put_text(tmp_path / "a.csv", "1,x\n2,y\n")
    found = opened("csv", path=str(tmp_path), header=False)
    assert found.columns() == {"_c0": "long", "_c1": "string"}
    polls = all_polls(found)
    again = opened("csv", None, log_of(polls), path=str(tmp_path), header=False)
    put_text(tmp_path / "b.csv", "3,z\n")
    polled = settled(again, polls[-1].until)
    assert [batch.to_pylist() for batch in batches(polled)] == [[{"_c0": 3, "_c1": "z"}]]
    declared = opened("csv", {"n": "int", "s": "string"}, path=str(tmp_path), header=False)
    assert everything(declared).rows() == [(1, "x"), (2, "y"), (3, "z")]


def test_columns_that_were_found_stay_when_the_file_is_gone(tmp_path: Path) -> None:
    path = put_text(tmp_path / "a.json", '{"user":1}\n')
    polls = all_polls(opened("json", path=str(tmp_path)))
    path.unlink()
    put_text(tmp_path / "b.json", '{"user":1.5,"other":2}\n')
    again = opened("json", None, log_of(polls), path=str(tmp_path))
    assert again.columns() == {"user": "long"}


def test_a_half_written_first_file_is_passed_over_when_columns_are_found(tmp_path: Path) -> None:
    put_text(tmp_path / "a.parquet", "PAR1 half", 1)
    write(clicks(0, 3), tmp_path / "b.parquet", 2)
    assert opened("parquet", path=str(tmp_path)).columns() == CLICKS


def test_columns_cannot_be_found_in_broken_files_only(tmp_path: Path) -> None:
    put_text(tmp_path / "a.parquet", "PAR1 half", 1)
    with pytest.raises(UnreadableSource, match=r"a\.parquet: found no readable parquet file"):
        opened("parquet", path=str(tmp_path)).columns()


def test_without_a_file_columns_have_to_be_declared(tmp_path: Path) -> None:
    put_text(tmp_path / "empty.json", "")
    reader = opened("json", path=str(tmp_path))
    assert not poll(reader).unread
    (problem,) = problems_of("json", path=str(tmp_path))
    assert problem.at == "columns"
    assert problem.hint == "declare the columns of the source, or put a first file there"


# --- read -------------------------------------------------------------------------------------

EVERY_TYPE: dict[str, tuple[str, Any]] = {
    "boolean": ("true", True),
    "byte": ("-5", -5),
    "short": ("300", 300),
    "int": ("70000", 70000),
    "long": ("9223372036854775807", 2**63 - 1),
    "float": ("1.5", 1.5),
    "double": ("0.1", 0.1),
    "string": ('"x"', "x"),
    "date": ('"2026-01-01"', date(2026, 1, 1)),
    "timestamp": ('"2026-01-01T13:00:00+01:00"', NOON),
    "timestamp_ntz": ('"2026-01-01T12:00:00"', WALL_NOON),
    "decimal(20,2)": ("12345678901234567.89", Decimal("12345678901234567.89")),
}
ARROW: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "decimal(20,2)": pa.decimal128(20, 2),
}


@pytest.mark.parametrize("kind", ["json", "csv", "parquet"])
@pytest.mark.parametrize("name", EVERY_TYPE)
def test_every_type_is_read_as_its_arrow_equivalent(kind: str, name: str, tmp_path: Path) -> None:
    written, value = EVERY_TYPE[name]
    if kind == "json":
        put_text(tmp_path / "a.json", f'{{"v":{written},"k":1}}\n{{"k":2}}\n')
    if kind == "csv":
        put_text(tmp_path / "a.csv", f"k,v\n1,{written}\n2,\n")
    if kind == "parquet":
        column = pa.array([value, None], ARROW.get(name, pa.string()))
        pq.write_table(pa.table({"v": column}), tmp_path / "a.parquet")
    (batch,) = batches(settled(opened(kind, {"v": name}, path=str(tmp_path))))
    assert batch.column("v").to_pylist() == [value, None]
    assert batch.schema.field("v").type in TEXT_TYPES.get(name, {ARROW.get(name)})


@pytest.mark.parametrize("kind", ["json", "csv"])
@pytest.mark.parametrize(
    "text",
    [
        "2026-01-01T12:00:00",
        "2026-01-01 12:00:00Z",
        "2026-01-01T12:00:00.000000789Z",
        "2026-01-01T12:00",
    ],
)
def test_times_are_read_like_event_times(kind: str, text: str, tmp_path: Path) -> None:
    """Without a zone they are UTC, whatever else is in the file."""
    for place, first in enumerate(("2026-01-01T13:00:00+01:00", text)):
        lines = {"json": f'{{"t":"{first}"}}\n{{"t":"{text}"}}\n', "csv": f"t\n{first}\n{text}\n"}
        put_text(tmp_path / f"{place}.{kind}", lines[kind])
    reader = opened(kind, {"t": "timestamp"}, path=str(tmp_path))
    assert everything(reader)["t"].to_list() == [NOON] * 4


@pytest.mark.parametrize("dtype", [pl.Int8(), pl.UInt16(), pl.Int32(), pl.Null()])
def test_narrower_numbers_are_widened(dtype: pl.DataType, tmp_path: Path) -> None:
    rows = pl.DataFrame(
        {"v": pl.Series([None], dtype=dtype), "f": pl.Series([0.5], dtype=pl.Float32)}
    )
    write(rows, tmp_path / "a.parquet")
    kinds = {"v": "long", "f": "double"}
    assert everything(opened("parquet", kinds, path=str(tmp_path))).rows() == [(None, 0.5)]


@pytest.mark.parametrize(
    ("precision", "scale", "fine"), [(9, 2, True), (20, 4, True), (9, 1, False), (7, 2, False)]
)
def test_decimals_fit_where_no_digit_is_lost(
    precision: int, scale: int, fine: bool, tmp_path: Path
) -> None:
    rows = pl.DataFrame({"v": pl.Series([Decimal("1.25")], dtype=pl.Decimal(9, 2))})
    write(rows, tmp_path / "a.parquet")
    reader = opened("parquet", {"v": f"decimal({precision},{scale})"}, path=str(tmp_path))
    if fine:
        assert everything(reader).rows() == [(Decimal("1.25"),)]
    else:
        with pytest.raises(UnreadableSource, match="found column 'v' of type decimal"):
            everything(reader)


def test_csv_columns_are_found_by_name_in_every_file(tmp_path: Path) -> None:
    put_text(tmp_path / "a.csv", "user,page\n1,x\n", 1)
    put_text(tmp_path / "b.csv", "extra,page,user\n9,y,2", 2)
    reader = opened("csv", {"user": "long", "page": "string"}, path=str(tmp_path))
    assert everything(reader).rows() == [(1, "x"), (2, "y")]


def test_an_empty_text_in_quotes_is_not_null(tmp_path: Path) -> None:
    put_text(tmp_path / "a.csv", 'a,b\n"",\n,"NULL"\n')
    reader = opened("csv", {"a": "string", "b": "string"}, path=str(tmp_path))
    assert everything(reader).rows() == [("", None), (None, "NULL")]


def test_a_byte_order_mark_is_no_row(tmp_path: Path) -> None:
    put_text(tmp_path / "a.json", '\ufeff{"user":1}\n')
    assert everything(opened("json", {"user": "long"}, path=str(tmp_path))).rows() == [(1,)]


# --- options ----------------------------------------------------------------------------------


def test_files_are_told_their_format(tmp_path: Path) -> None:
    write(clicks(0, 3), tmp_path / "a.parquet")
    reader = opened("files", path=str(tmp_path), format="parquet")
    assert everything(reader)["user"].to_list() == [0, 1, 2]


def test_all_wrong_options_are_named_at_once(tmp_path: Path) -> None:
    problems = problems_of(
        "files", pth=str(tmp_path), format="xml", recursive=1, settle_ms=-1, delimiter="ab"
    )
    assert {problem.at: problem.hint for problem in problems} == {
        "options.pth": "did you mean 'path'?",
        "options.path": "a folder, a single file, or a glob such as `/data/clicks-*.json`",
        "options.format": "how the files are written: JSON is one object per line",
        "options.recursive": "whether files in the folders below are read too",
        "options.settle_ms": "how long a file has to stay the same before it is read; "
        "two polls at least",
        "options.delimiter": "delimiter='\\t' for tabs",
    }


@pytest.mark.parametrize(
    ("kind", "options", "at"),
    [
        ("parquet", {"header": True}, "options.header"),
        ("json", {"delimiter": ";"}, "options.delimiter"),
        ("json", {"format": "csv"}, "options.format"),
        ("files", {}, "options.format"),
        ("csv", {"path": "s3://bucket/x"}, "options.path"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    kind: str, options: dict[str, Any], at: str, tmp_path: Path
) -> None:
    (problem,) = problems_of(kind, **{"path": str(tmp_path), **options})
    assert problem.at == at


@pytest.mark.parametrize(("kind", "declared"), [("json", "binary"), ("csv", "array<long>")])
def test_types_that_a_format_does_not_have_are_refused(
    kind: str, declared: str, tmp_path: Path
) -> None:
    (problem,) = problems_of(kind, {"v": declared}, path=str(tmp_path))
    assert (problem.at, problem.found) == ("columns.v", declared)
