"""Positions of rows ascend over the slices of a source, however many rows a transform makes."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tidegate.sources.file_format import FileRange
from tidegate.sources.file_identity import FileIdentity
from tidegate.sources.file_slice import FileSlice
from tidegate.sources.line_files import OFFSET_BITS
from tidegate.sources.memory import MemorySlice
from tidegate.sources.numbering import Numbering, numbering
from tidegate.sources.parquet_files import ParquetFiles
from tidegate.sources.protocol import Slice

LAST_ROW = 1 << 44
FILE = FileIdentity(path="/a.parquet", size=1, mtime_ns=1, inode=1)


@st.composite
def slices_of_a_partition(draw: st.DrawFn) -> list[Slice]:
    """Offsets with holes, small or as large as they get."""
    at = draw(st.sampled_from([0, 1, 100, 1 << 26, LAST_ROW - 1_000]))
    slices: list[Slice] = []
    for hole, span in draw(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 40)), max_size=9)):
        at += hole
        slices.append(MemorySlice(first_offset=at, span=span, packed=b"", partition=3))
        at += span
    return slices


@st.composite
def slices_of_files(draw: st.DrawFn) -> list[Slice]:
    """Ranges of files, large or small, some of which go together over several files."""
    slices: list[Slice] = []
    place = draw(st.sampled_from([0, 1, 1 << 20]))
    ranges: list[FileRange] = []
    for _ in range(draw(st.integers(0, 4))):
        end = draw(st.sampled_from([9, 1 << 26, 1 << 35, (1 << OFFSET_BITS) - 1]))
        cuts = {0, end, *draw(st.lists(st.integers(1, end), max_size=3))}
        for begin, behind in pairwise(sorted(cuts)):
            ranges.append(FileRange(file=FILE, place=place, begin=begin, end=behind))
            if draw(st.booleans()):
                slices.append(_of(ranges))
                ranges = []
        place += draw(st.integers(1, 2))
    return [*slices, _of(ranges)] if ranges else slices


def _of(ranges: list[FileRange]) -> Slice:
    return FileSlice(ranges=tuple(ranges), format=ParquetFiles(), columns={})


Places = list[tuple[int, int]]


def places(numbers: Numbering, rows: int) -> Places:
    """Where so many rows are, and the last one for which there would be room."""
    given_out = numbers.numbers(rows).tolist()
    last = numbers.first + numbers.room - 1
    return [(numbers.partition, number) for number in [*given_out, *{last} - {*given_out}]]


@given(
    slices=st.one_of(slices_of_a_partition(), slices_of_files()),
    factors=st.lists(st.integers(0, 300), min_size=30, max_size=30),
    transformed_from=st.integers(0, 12),
)
def test_positions_ascend_from_slice_to_slice_also_where_a_transform_came_later(
    slices: list[Slice], factors: list[int], transformed_from: int
) -> None:
    found: Places = []
    for nth, (part, factor) in enumerate(zip(slices, factors, strict=False)):
        transformed = nth >= transformed_from
        rows = min(part.span, 20) * (factor if transformed else 1)
        found += places(numbering(part, transformed=transformed), rows)
    assert all(one < other for one, other in pairwise(found))
    assert all(offset < 1 << 63 for _, offset in found)


@given(slices_of_files(), st.integers(0, 12))
def test_a_transform_that_is_taken_away_leaves_no_position_to_be_given_again(
    slices: list[Slice], transformed_until: int
) -> None:
    found: Places = []
    for nth, part in enumerate(slices):
        found += places(numbering(part, transformed=nth < transformed_until), min(part.span, 20))
    assert len({*found}) == len(found)


def test_where_offsets_end_there_is_no_room_and_the_last_position_is_shared() -> None:
    part = MemorySlice(first_offset=LAST_ROW - 1, span=2, packed=b"")
    far = numbering(part, transformed=True)
    assert (far.room, far.numbers(3).tolist()) == (0, [(1 << 63) - 1] * 3)
