"""Records of a dead-letter topic, held some at a time."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tidegate.cli.dlq_reading import some_at_a_time
from tidegate.targets.kafka_reading import Record


def record(offset: int, length: int | None) -> Record:
    value = None if length is None else b"x" * length
    return Record(0, offset, 0, None, value, ())


def length_of(records: list[Record]) -> int:
    return sum(len(each.value or b"") for each in records)


def test_records_are_held_up_to_a_number_and_a_length() -> None:
    records = [record(*each) for each in enumerate([1, 1, None, 1, 6, 4, 5, 11, 0])]
    held = [*some_at_a_time(records, 3, 10)]
    assert [[each.offset for each in some] for some in held] == [
        [0, 1, 2],
        [3, 4],
        [5, 6],
        [7],
        [8],
    ]


@given(
    lengths=st.lists(st.none() | st.integers(0, 30)),
    most=st.integers(1, 5),
    most_bytes=st.integers(1, 40),
)
def test_none_is_lost_and_no_more_are_held_than_may_be(
    lengths: list[int | None], most: int, most_bytes: int
) -> None:
    """One that is longer is alone; and none is left for later that there is room for."""
    records = [record(*each) for each in enumerate(lengths)]
    held = [*some_at_a_time(iter(records), most, most_bytes)]
    assert [each for some in held for each in some] == records
    assert all(len(some) == 1 or length_of(some) <= most_bytes for some in held)
    assert all(1 <= len(some) <= most for some in held)
    for some, others in pairwise(held):
        assert len(some) == most or length_of([*some, others[0]]) > most_bytes
