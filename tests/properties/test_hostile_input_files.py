"""Files that nobody can trust: the rows that are in them, or an error that names the file.

A source of files rejects no single row: a file is read whole, or the run stops and says where.
"""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.nights import examples
from tests.unit.sources.reading import everything, opened, put_text
from tidegate.errors import TidegateError

COLUMNS = {
    "user": "string",
    "n": "long",
    "small": "byte",
    "amount": "decimal(5,2)",
    "rate": "double",
    "ts": "timestamp",
    "day": "date",
}
WORDS = st.sampled_from(
    [
        *("", "null", "NaN", "1", "-0", "1e999", "1e-999999999", "9" * 400, "0x1", "٣", "true"),
        *("9223372036854775808", "2026-01-01T00:00:00Z", "2026-02-30", "+262143-12-31T23:59:59Z"),
        *("\x00", "\ufeff", "\u2028", '"', '""', "\\", "\r", "'; DROP TABLE x; --", "{}", "[]"),
        *("__import__('os').abort()", "${HOME}", "%s%n", "{0.__class__}", "../../etc/passwd"),
    ]
)
CELLS = WORDS | st.text(max_size=6) | st.integers().map(str) | st.floats().map(repr)
BLANKS = " \t\r\n"
MARK = b"\xef\xbb\xbf"
RAW = st.binary(max_size=40)

JSON_VALUES = st.recursive(
    CELLS | st.none() | st.booleans() | st.integers() | st.floats(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*COLUMNS, "more"]), inner, max_size=3)
    ),
    max_leaves=5,
)
JSON_OBJECTS = st.dictionaries(st.sampled_from([*COLUMNS, "more", ""]), JSON_VALUES, max_size=4)
ONE_OBJECT = JSON_OBJECTS.map(lambda each: json.dumps(each).encode())
JSON_LINES = (
    ONE_OBJECT | RAW | CELLS.map(str.encode) | st.lists(ONE_OBJECT, max_size=2).map(b" ".join)
)
CSV_LINES = st.lists(CELLS, max_size=8).map(lambda cells: ",".join(cells).encode()) | RAW
ENDS = st.sampled_from([b"\n", b"\r\n", b"\n\n", b"\r"])


def files_of(lines: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    pairs = st.lists(st.tuples(lines, ENDS), max_size=5)
    return st.tuples(pairs, lines).map(
        lambda both: b"".join(line + end for line, end in both[0]) + both[1]
    )


def valid_parquet() -> bytes:
    rows = pl.DataFrame({"user": ["ann", None, "bob"] * 50, "n": range(150)})
    sink = io.BytesIO()
    rows.write_parquet(sink, row_group_size=40)
    return sink.getvalue()


PARQUET = valid_parquet()


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A parquet file in which some bytes are others, are missing or come twice."""
    data = bytearray(PARQUET)
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(data)) | st.integers(max(0, len(data) - 400), len(data)))
        end = at + draw(st.integers(0, 8))
        data[at:end] = draw(st.binary(max_size=8))
    return bytes(data)


def outcome(
    path: Path, format: str, columns: dict[str, str] | None, **options: Any
) -> pl.DataFrame | None:
    """The rows of a file; None where it was refused by name."""
    try:
        return everything(opened(format, columns, path=str(path), **options))
    except TidegateError as error:
        told = str(error)
    assert str(path) in told or "columns" in told, told
    return None


def objects_in(text: str) -> int:
    """How many JSON objects stand one behind the other, whatever blanks are between them."""
    count, text = 0, text.strip(BLANKS)
    while text:
        found, end = json.JSONDecoder().raw_decode(text)
        assert found is None or isinstance(found, dict)
        count, text = count + 1, text[end:].strip(BLANKS)
    return count


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


declared = st.dictionaries(st.sampled_from([*COLUMNS]), st.none(), min_size=1).map(
    lambda names: {name: COLUMNS[name] for name in names}
)


@examples(2 / 3)
@example(data=b"\x0b", columns={"user": "string"})  # no blank of JSON
@given(data=files_of(JSON_LINES), columns=declared | st.none())
def test_every_line_of_json_is_a_row_or_the_file_is_refused(
    folder: Path, data: bytes, columns: dict[str, str] | None
) -> None:
    rows = outcome(put_text(folder / "in.json", data), "json", columns)
    if rows is not None:
        assert rows.height == objects_in(data.removeprefix(MARK).decode())


@examples(2 / 3)
@given(data=files_of(CSV_LINES), columns=declared | st.none(), header=st.booleans())
def test_every_line_of_csv_is_a_row_or_the_file_is_refused(
    folder: Path, data: bytes, columns: dict[str, str] | None, header: bool
) -> None:
    if header and columns:
        data = ",".join(columns).encode() + b"\n" + data
    rows = outcome(put_text(folder / "in.csv", data), "csv", columns, header=header)
    if rows is not None:
        lines = [line for line in re.split(rb"[\r\n]+", data.removeprefix(MARK)) if line]
        expected = max(0, len(lines) - header)
        assert rows.height <= expected if b'"' in data else rows.height == expected


@examples(2 / 3)
@given(data=damaged(), columns=st.sampled_from([None, {"user": "string", "n": "long"}]))
def test_a_damaged_parquet_file_has_its_rows_or_is_refused(
    folder: Path, data: bytes, columns: dict[str, str] | None
) -> None:
    rows = outcome(put_text(folder / "in.parquet", data), "parquet", columns)
    if data == PARQUET:
        assert rows is not None
        assert rows.height == 150
