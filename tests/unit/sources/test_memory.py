from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.sources.reading import (
    batches,
    drained,
    everything,
    frame_of,
    opened,
    poll,
    slices_of,
)
from tidegate.errors import ConfigError, SourceChanged, UnreadableSource
from tidegate.sources import MemoryStream, memory_stream


@pytest.fixture(name="stream")
def _stream() -> Iterator[MemoryStream]:
    stream = memory_stream("clicks")
    stream.clear()
    yield stream
    stream.clear()


def users(*values: int | None) -> pl.DataFrame:
    return pl.DataFrame({"user": pl.Series(values, dtype=pl.Int64)})


@given(
    puts=st.lists(st.integers(0, 6), max_size=6),
    max_rows=st.integers(1, 10),
    slices=st.integers(1, 4),
    by_put=st.booleans(),
)
def test_every_row_comes_once_and_in_order(
    puts: list[int], max_rows: int, slices: int, by_put: bool
) -> None:
    stream = memory_stream("property")
    stream.clear()
    total = 0
    for size in puts:
        stream.put(users(*range(total, total + size)))
        total += size
    reader = opened("memory", {"user": "long"}, name="property", by_put=by_put)
    polls = drained(reader, max_rows=max_rows, slices=slices)
    found = frame_of(slices_of(polls))
    assert (found["user"].to_list() if found.width else []) == [*range(total)]
    if by_put:
        heights = [frame_of(each.slices).height for each in polls if each.slices]
        assert heights == [size for size in puts if size]


def test_rows_may_be_put_as_a_list(stream: MemoryStream) -> None:
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    stream.put([{"user": 1, "ts": noon}, {"user": None, "ts": noon, "page": "x"}])
    reader = opened("memory", name="clicks")
    assert reader.columns() == {"user": "long", "ts": "timestamp", "page": "string"}
    assert everything(reader).rows() == [(1, noon, None), (None, noon, "x")]


def test_rows_come_as_they_are_put(stream: MemoryStream) -> None:
    reader = opened("memory", {"user": "long"}, name="clicks")
    first = poll(reader)
    assert (first.slices, first.until, first.unread) == ((), {"row": 0}, False)
    stream.put(users(1, 2, 3))
    second = poll(reader, first.until, max_rows=2)
    assert (second.until, second.unread) == ({"row": 2}, True)
    third = poll(reader, second.until)
    assert [(part.first_offset, part.span, part.partition) for part in third.slices] == [(2, 1, 0)]
    assert frame_of([*second.slices, *third.slices])["user"].to_list() == [1, 2, 3]


def test_a_slice_keeps_its_rows_when_the_stream_is_cleared(stream: MemoryStream) -> None:
    stream.put(users(1, 2))
    polled = poll(opened("memory", name="clicks"))
    stream.clear()
    assert frame_of(polled.slices)["user"].to_list() == [1, 2]


def test_only_the_columns_asked_for_come(stream: MemoryStream) -> None:
    stream.put(pl.DataFrame({"a": [1], "b": [2], "c": [3]}))
    polled = poll(opened("memory", name="clicks"))
    assert [batch.to_pydict() for batch in batches(polled, ["c", "a"])] == [{"c": [3], "a": [1]}]
    assert [batch.num_rows for batch in batches(polled, [])] == [1]


def test_declared_columns_are_widened_to(stream: MemoryStream) -> None:
    stream.put(pl.DataFrame({"user": pl.Series([1], dtype=pl.Int32), "other": ["x"]}))
    assert everything(opened("memory", {"user": "long"}, name="clicks")).schema == {
        "user": pl.Int64()
    }


@pytest.mark.parametrize(
    ("rows", "found"), [({"user": ["x"]}, "String 'user'"), ({"other": [1]}, "no column 'user'")]
)
def test_rows_of_other_columns_are_refused(
    stream: MemoryStream, rows: dict[str, Any], found: str
) -> None:
    stream.put(users(1))
    stream.put(pl.DataFrame(rows))
    with pytest.raises(UnreadableSource) as caught:
        poll(opened("memory", name="clicks"))
    expected = f"memory stream 'clicks', put 1: found {found}, expected type long"
    assert str(caught.value) == expected


def test_an_offset_behind_the_rows_is_refused(stream: MemoryStream) -> None:
    stream.put(users(1))
    with pytest.raises(SourceChanged, match="found 1 rows, expected at least 2"):
        poll(opened("memory", name="clicks"), {"row": 2})


def test_without_rows_columns_have_to_be_declared(stream: MemoryStream) -> None:
    with pytest.raises(ConfigError) as caught:
        opened("memory", name=stream.name).columns()
    assert [problem.at for problem in caught.value.problems] == ["columns"]


def test_all_wrong_options_are_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        opened("memory", nam="x", by_put=1)
    assert [problem.at for problem in caught.value.problems] == [
        "options.nam",
        "options.name",
        "options.by_put",
    ]


def test_a_stream_may_state_its_watermark(stream: MemoryStream) -> None:
    silent = opened("memory", {"user": "long"}, name="clicks")
    stating = opened("memory", {"user": "long"}, name="clicks", states_watermark=True)
    stream.advance(50)
    stream.advance(20)
    assert (poll(silent).watermark_us, poll(stating).watermark_us) == (None, 50)
