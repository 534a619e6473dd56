"""Files that are not what they were, or not what the source says, stop the run by name."""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.sources.reading import (
    CLICKS,
    batches,
    clicks,
    everything,
    opened,
    poll,
    put_text,
    settled,
    stamped,
    write,
)
from tidegate.errors import SourceChanged, UnreadableSource
from tidegate.sources.parquet_files import ParquetFiles

FORMATS = ["parquet", "json", "csv"]
every_format = pytest.mark.parametrize("kind", FORMATS)

Change = Callable[[Path], Any]


def vanish(path: Path) -> None:
    path.unlink()


def touch(path: Path) -> None:
    stamped(path, 5_000)


def append(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\n")
    stamped(path, 1_000)


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)
    stamped(path, 1_000)


def replace(path: Path) -> None:
    other = path.with_name("other.tmp")
    other.write_bytes(path.read_bytes())
    os.replace(stamped(other, 1_000), path)


every_change = pytest.mark.parametrize("change", [vanish, touch, append, truncate, replace])


@every_format
@every_change
def test_a_file_that_changes_between_poll_and_read_is_named(
    kind: str, change: Change, tmp_path: Path
) -> None:
    path = write(clicks(0, 20), tmp_path / f"a.{kind}")
    polled = settled(opened(kind, CLICKS, path=str(tmp_path)))
    change(path)
    with pytest.raises(SourceChanged) as caught:
        batches(polled)
    assert str(caught.value).startswith(f"{path}: found ")
    assert "hint: bring the file back as it was" in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@every_format
@every_change
def test_a_file_that_changes_while_it_is_being_read_through_is_named(
    kind: str, change: Change, tmp_path: Path
) -> None:
    path = write(clicks(0, 20), tmp_path / f"a.{kind}")
    reader = opened(kind, CLICKS, path=str(tmp_path))
    first = settled(reader, max_rows=5)
    change(path)
    with pytest.raises(SourceChanged, match=r"expected \d+ bytes, mtime 1000000000000 ns"):
        poll(reader, first.until)
    log = first.discovered
    with pytest.raises(SourceChanged):
        poll(opened(kind, CLICKS, log, path=str(tmp_path)), first.until)


@every_change
def test_a_file_that_changes_during_a_read_is_named(
    change: Change, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(clicks(0, 20), tmp_path / "a.parquet")
    (part,) = settled(opened("parquet", path=str(tmp_path))).slices
    whole = ParquetFiles.read

    def read(*arguments: Any) -> Iterator[Any]:
        found = [*whole(*arguments)]
        change(path)
        yield from found

    monkeypatch.setattr(ParquetFiles, "read", read)
    with pytest.raises(SourceChanged, match=r"a\.parquet: found"):
        next(part.read(None))


def test_lines_cut_short_during_a_read_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.sources.line_files.CHUNK_BYTES", 200)
    path = write(clicks(0, 20), tmp_path / "a.json")
    (part,) = settled(opened("json", CLICKS, path=str(tmp_path))).slices
    reading = part.read(None)
    next(reading)
    truncate(path)
    with pytest.raises(SourceChanged, match=r"a\.json: found"):
        list(reading)


def test_an_offset_behind_the_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceChanged, match="found a log of 0 files, expected file 3 in it"):
        poll(opened("json", CLICKS, path=str(tmp_path)), {"file": 3, "at": 0})


@pytest.mark.parametrize("content", [b"nothing like parquet", b"PAR1 nothing PAR1", b"P"])
def test_a_corrupt_parquet_file_is_named_with_the_cause(content: bytes, tmp_path: Path) -> None:
    path = put_text(tmp_path / "a.parquet", content)
    reader = opened("parquet", CLICKS, path=str(tmp_path))
    with pytest.raises(UnreadableSource) as caught:
        settled(reader)
    assert str(caught.value).startswith(f"{path}: found no readable parquet file: ")
    assert "rename it when it is done" in str(caught.value)


def test_corrupt_pages_are_named(tmp_path: Path) -> None:
    path = write(clicks(0, 5_000), tmp_path / "a.parquet", compression="zstd")
    content = bytearray(path.read_bytes())
    content[4:400] = b"\xff" * 396
    put_text(path, bytes(content))
    polled = settled(opened("parquet", CLICKS, path=str(tmp_path)), max_rows=5_000)
    with pytest.raises(UnreadableSource, match=r"a\.parquet: found no readable parquet file"):
        batches(polled)


def test_a_parquet_file_without_a_column_is_named(tmp_path: Path) -> None:
    path = write(clicks(0, 5).drop("page"), tmp_path / "a.parquet")
    with pytest.raises(UnreadableSource) as caught:
        everything(opened("parquet", CLICKS, path=str(tmp_path)))
    expected = "found no column 'page' but 'user', 'ts', 'amount', expected 'page' of type string"
    assert str(caught.value).startswith(f"{path}: {expected}")


@pytest.mark.parametrize(
    ("column", "dtype", "found"),
    [
        ("user", pl.String(), "string"),
        ("user", pl.Float64(), "double"),
        ("user", pl.UInt64(), "UInt64"),
        ("ts", pl.Datetime("us"), "timestamp_ntz"),
        ("ts", pl.Int64(), "long"),
        ("amount", pl.Int64(), "long"),
    ],
)
def test_a_retyped_parquet_column_is_named(
    column: str, dtype: pl.DataType, found: str, tmp_path: Path
) -> None:
    write(clicks(0, 5), tmp_path / "a.parquet", 1)
    path = write(clicks(0, 5).with_columns(pl.col(column).cast(dtype)), tmp_path / "b.parquet", 2)
    with pytest.raises(UnreadableSource) as caught:
        everything(opened("parquet", path=str(tmp_path)))
    why = f"{path}: found column '{column}' of type {found}, expected {CLICKS[column]}"
    assert str(caught.value).startswith(why)


def test_a_retyped_column_that_nobody_asks_for_does_no_harm(tmp_path: Path) -> None:
    write(clicks(0, 5).with_columns(pl.col("page").is_null()), tmp_path / "a.parquet")
    polled = settled(opened("parquet", CLICKS, path=str(tmp_path)))
    assert [batch.num_rows for batch in batches(polled, ["user"])] == [5]


@pytest.mark.parametrize(
    ("kind", "text", "why"),
    [
        ("json", '{"user":"x"}', "column 'user' of type long: "),
        ("json", '{"user":1.5}', "column 'user' of type long: "),
        ("json", '{"user":9223372036854775808}', "column 'user' of type long: "),
        ("json", '{"user":{"a":1}}', "column 'user' of type long: "),
        ("json", '{"ts":"soon"}', "column 'ts' of type timestamp: found 'soon' in column 'ts'"),
        ("json", '{"ts":5}', "column 'ts' of type timestamp: "),
        ("json", '{"page":5}', "column 'page' of type string: "),
        ("json", '{"user":1', "JSON parse error"),
        ("json", "[1]", "found a first line that is no JSON object"),
        ("json", "null", "found a first line that is no JSON object"),
        ("json", " null null", "found a first line that is no JSON object"),
        ("json", b'{"page":"\xff"}', "column 'page' of type string: "),
        ("csv", "x,,,", "column 'user' of type long: "),
        ("csv", "3000000000000000000000,,,", "column 'user' of type long: "),
        ("csv", ",soon,,", "column 'ts' of type timestamp: found 'soon' in column 'ts'"),
        ("csv", ",,,1.2.3", "column 'amount' of type double: "),
        ("csv", "1,,", "CSV parse error: Row #1: Expected 4 columns, got 3: 1,,"),
        ("csv", "1,,,2,", "CSV parse error: Row #1: Expected 4 columns, got 5: 1,,,2,"),
        ("csv", b",,\xff,", "column 'page' of type string: "),
    ],
)
def test_a_value_that_is_not_of_its_type_is_named(
    kind: str, text: str | bytes, why: str, tmp_path: Path
) -> None:
    line = text if isinstance(text, bytes) else text.encode()
    header = b"user,ts,page,amount\n" if kind == "csv" else b""
    path = put_text(tmp_path / f"a.{kind}", header + line + b"\n")
    with pytest.raises(UnreadableSource) as caught:
        everything(opened(kind, CLICKS, path=str(tmp_path)))
    where = f"{path}, bytes {len(header)} to {len(header) + len(line) + 1}"
    assert str(caught.value).startswith(where)
    assert why in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize(
    ("kind", "text", "why"),
    [
        ("json", "null", "found a first line that is no JSON object"),
        ("json", '{"a":' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deep"),
        ("json", '{"a":\n' * 1_000 + "1" + "}" * 1_000, "nested too deep"),
        ("json", "{}", "found rows without columns"),
        ("csv", "a\rb,c\n1,2\n", "found a first line that is no CSV"),
    ],
)
def test_a_file_that_shows_no_columns_is_named(
    kind: str, text: str, why: str, tmp_path: Path
) -> None:
    path = put_text(tmp_path / f"a.{kind}", text)
    with pytest.raises(UnreadableSource, match=why) as caught:
        everything(opened(kind, path=str(tmp_path)))
    assert str(caught.value).startswith(str(path))


def test_a_file_whose_name_is_no_text_is_refused_before_it_is_in_a_log(tmp_path: Path) -> None:
    odd = os.fsencode(tmp_path) + b"/a\xff.json"
    Path(os.fsdecode(odd)).write_text('{"user":1}\n')
    with pytest.raises(UnreadableSource) as caught:
        everything(opened("json", {"user": "long"}, path=str(tmp_path)))
    assert str(caught.value) == (
        f"{tmp_path}/a?.json: found a name that is not UTF-8\n  hint: give the file another name"
    )


def test_a_blank_line_in_front_of_csv_is_no_row_and_no_header(tmp_path: Path) -> None:
    put_text(tmp_path / "a.csv", "\r\n\n1,x\n2,y\n")
    rows = everything(opened("csv", path=str(tmp_path), header=False))
    assert rows.columns == ["_c0", "_c1"]
    assert rows.rows() == [(1, "x"), (2, "y")]


@pytest.mark.parametrize(("delimiter", "row"), [("\t", (None, None)), (";", None)])
def test_a_line_of_nothing_but_blanks_is_a_row_of_csv(
    delimiter: str, row: tuple[None, None] | None, tmp_path: Path
) -> None:
    columns = {"user": "string", "page": "string"} if row else {"user": "string"}
    put_text(tmp_path / "a.csv", "\t\n\t\n")
    reader = opened("csv", columns, path=str(tmp_path), header=False, delimiter=delimiter)
    assert everything(reader).rows() == [row or ("\t",)] * 2


@given(max_rows=st.integers(1, 8))
def test_a_value_with_a_line_end_is_never_cut_in_silence(max_rows: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        lines = [f'{n},"x{n}\ny,{n}"' if n % 2 else f"{n},z" for n in range(8)]
        put_text(Path(name) / "a.csv", "\n".join(["user,page", *lines, ""]))
        reader = opened("csv", {"user": "long", "page": "string"}, path=name)
        try:
            rows = everything(reader, max_rows=max_rows).rows()
        except UnreadableSource as error:
            assert "found a quote that is not closed" in str(error)  # noqa: PT017 - either may be
        else:
            assert rows == [(n, f"x{n}\ny,{n}" if n % 2 else "z") for n in range(8)]


def test_a_csv_file_without_a_column_is_named(tmp_path: Path) -> None:
    path = put_text(tmp_path / "a.csv", "user,page\n1,x\n")
    with pytest.raises(UnreadableSource) as caught:
        everything(opened("csv", {"user": "long", "amount": "double"}, path=str(tmp_path)))
    assert f"{path}, bytes 10 to 14, column 'amount' of type double: found 0 columns" in str(
        caught.value
    )


@pytest.mark.parametrize("content", [b"\x1f\x8b\x08rest", b"\x28\xb5\x2f\xfdrest"])
@pytest.mark.parametrize("kind", ["json", "csv"])
def test_a_compressed_text_file_is_refused(kind: str, content: bytes, tmp_path: Path) -> None:
    put_text(tmp_path / f"a.{kind}", content)
    with pytest.raises(UnreadableSource, match="found a compressed file, expected lines of text"):
        everything(opened(kind, CLICKS, path=str(tmp_path)))


def test_a_text_file_beyond_the_offsets_is_refused(tmp_path: Path) -> None:
    path = put_text(tmp_path / "a.json", "{}\n")
    os.truncate(path, 1 << 36)
    with pytest.raises(UnreadableSource, match="split it into several files"):
        settled(opened("json", CLICKS, path=str(tmp_path)))
