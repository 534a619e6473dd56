"""However files are cut, every row comes once, in order, as what it was written."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from tests.unit.sources.reading import (
    CLICKS,
    clicks,
    drained,
    everything,
    fewer_examples,
    frame_of,
    log_of,
    opened,
    poll,
    put_text,
    settled,
    slices_of,
    write,
)
from tidegate.sources import Offset, Polled

FORMATS = ["parquet", "json", "csv"]
every_format = pytest.mark.parametrize("kind", FORMATS)


def folder_of(folder: Path, kind: str, sizes: list[int]) -> pl.DataFrame:
    """Files of these sizes in the order of their times; returns all rows."""
    begin = 0
    for place, size in enumerate(sizes):
        options = {"row_group_size": 7} if kind == "parquet" else {}
        rows = clicks(begin, begin + size)
        write(rows, folder / f"{len(sizes) - place}.{kind}", 1_000 + place, **options)
        begin += size
    return clicks(0, begin)


@every_format
@fewer_examples
@given(
    sizes=st.lists(st.integers(1, 30), min_size=1, max_size=5),
    max_rows=st.integers(1, 60),
    slices=st.integers(1, 5),
)
def test_any_cut_gives_every_row_once_and_in_order(
    kind: str, sizes: list[int], max_rows: int, slices: int
) -> None:
    with tempfile.TemporaryDirectory() as name:
        rows = folder_of(Path(name), kind, sizes)
        polls = drained(opened(kind, CLICKS, path=name), max_rows=max_rows, slices=slices)
        assert_frame_equal(frame_of(slices_of(polls)), rows)
        assert all(len(each.slices) <= slices for each in polls)
        assert len(log_of(polls)) == len(sizes)


@every_format
@fewer_examples
@given(
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=4),
    limits=st.lists(st.integers(1, 20), min_size=1, max_size=4),
)
def test_a_reader_opened_with_what_was_committed_goes_on_behind_it(
    kind: str, sizes: list[int], limits: list[int]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        rows = folder_of(Path(name), kind, sizes)
        polls: list[Polled] = []
        since: Offset | None = None
        for max_rows in limits:
            reader = opened(kind, CLICKS, log_of(polls), path=name)
            polls.append(settled(reader, since, max_rows=max_rows, slices=2))
            since = polls[-1].until
        rest = drained(opened(kind, CLICKS, log_of(polls), path=name), since)
        assert_frame_equal(frame_of(slices_of([*polls, *rest])), rows)


words = st.text(
    st.characters(exclude_characters="\r\n", exclude_categories=["Cs", "Cc"]), max_size=40
)


@fewer_examples
@given(
    pages=st.lists(words, min_size=1, max_size=30),
    line_end=st.sampled_from(["\n", "\r\n", "\n\n"]),
    ended=st.booleans(),
    max_rows=st.integers(1, 10),
    slices=st.integers(1, 3),
)
def test_lines_may_end_as_they_like(
    pages: list[str], line_end: str, ended: bool, max_rows: int, slices: int
) -> None:
    quoted = [page.replace('"', '""') for page in pages]
    lines = {
        "json": [json.dumps({"page": page}, ensure_ascii=False) for page in pages],
        "csv": ["user,page", *(f'{user},"{page}"' for user, page in enumerate(quoted))],
    }
    for kind, each in lines.items():
        with tempfile.TemporaryDirectory() as name:
            text = line_end.join(each) + (line_end if ended else "")
            put_text(Path(name) / f"a.{kind}", text)
            reader = opened(kind, {"page": "string"}, path=name)
            found = everything(reader, max_rows=max_rows, slices=slices)
            assert found["page"].to_list() == pages


@every_format
def test_a_poll_that_was_not_committed_is_simply_made_again(kind: str, tmp_path: Path) -> None:
    rows = folder_of(tmp_path, kind, [5, 5, 5])
    reader = opened(kind, CLICKS, path=str(tmp_path))
    first = settled(reader, max_rows=100, slices=3)
    assert poll(reader, max_rows=100, slices=3) == first
    smaller = poll(reader, max_rows=3)
    assert smaller.until["file"] == 0
    assert smaller.discovered == first.discovered[:1]
    assert_frame_equal(frame_of(first.slices), rows)


@fewer_examples
@given(rows=st.integers(1, 300), max_rows=st.integers(1, 100), slices=st.integers(1, 6))
def test_parquet_is_cut_exactly(rows: int, max_rows: int, slices: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder_of(Path(name), "parquet", [rows])
        polled = settled(opened("parquet", path=name), max_rows=max_rows, slices=slices)
        heights = [frame_of([part]).height for part in polled.slices]
        assert sum(heights) == min(rows, max_rows)
        assert len(heights) == min(slices, rows, max_rows)
        assert max(heights) - min(heights) <= 1


@pytest.mark.parametrize("kind", ["json", "csv"])
@pytest.mark.parametrize("max_rows", [100, 1_000])
def test_lines_are_cut_near_the_rows_wanted(kind: str, max_rows: int, tmp_path: Path) -> None:
    folder_of(tmp_path, kind, [5_000])
    polled = settled(opened(kind, CLICKS, path=str(tmp_path)), max_rows=max_rows, slices=4)
    heights = [frame_of([part]).height for part in polled.slices]
    assert len(heights) == 4
    assert 0.7 * max_rows < sum(heights) < 1.4 * max_rows
    assert max(heights) < 0.4 * max_rows


@every_format
def test_many_small_files_are_bundled(kind: str, tmp_path: Path) -> None:
    rows = folder_of(tmp_path, kind, [2] * 40)
    polled = settled(opened(kind, CLICKS, path=str(tmp_path)), slices=3)
    assert len(polled.slices) == 3
    assert len(polled.discovered) == 40
    assert_frame_equal(frame_of(polled.slices), rows)


@every_format
def test_only_the_columns_asked_for_come_in_the_order_asked_for(kind: str, tmp_path: Path) -> None:
    rows = folder_of(tmp_path, kind, [9])
    polled = settled(opened(kind, CLICKS, path=str(tmp_path)), slices=2)
    asked = ["amount", "user"]
    assert_frame_equal(frame_of(polled.slices, asked), rows.select(asked))


@every_format
def test_rows_can_be_counted_without_any_column(kind: str, tmp_path: Path) -> None:
    folder_of(tmp_path, kind, [9])
    (part,) = settled(opened(kind, CLICKS, path=str(tmp_path))).slices
    counted = [*part.read([])]
    assert sum(batch.num_rows for batch in counted) == 9
    assert {batch.num_columns for batch in counted} == {0}


def test_a_row_is_numbered_by_its_file_and_its_place_in_it(tmp_path: Path) -> None:
    folder_of(tmp_path, "parquet", [4, 6])
    polls = drained(opened("parquet", path=str(tmp_path)), max_rows=3)
    found = [(part.first_offset, part.span, part.partition) for part in slices_of(polls)]
    second = 1 << 36
    assert found == [(0, 3, 0), (3, second - 1, 0), (second + 2, 3, 0), (second + 5, 1, 0)]


def test_long_lines_are_read_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = folder_of(tmp_path, "json", [50])
    monkeypatch.setattr("tidegate.sources.line_files.CHUNK_BYTES", 100)
    assert_frame_equal(everything(opened("json", CLICKS, path=str(tmp_path))), rows)
    monkeypatch.setattr("tidegate.sources.line_files.CHUNK_BYTES", 3)
    assert_frame_equal(everything(opened("json", CLICKS, path=str(tmp_path))), rows)


@every_format
def test_a_file_without_rows_is_passed_over(kind: str, tmp_path: Path) -> None:
    write(clicks(0, 0), tmp_path / f"a.{kind}", 1)
    if kind == "json":
        (tmp_path / "a.json").write_text("\n\n")
    rows = clicks(0, 3)
    write(rows, tmp_path / f"b.{kind}", 2)
    polled = settled(opened(kind, CLICKS, path=str(tmp_path)))
    assert (dict(polled.until), polled.unread) == ({"file": 2, "at": 0}, False)
    assert_frame_equal(frame_of(polled.slices), rows)
