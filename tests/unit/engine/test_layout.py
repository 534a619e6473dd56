"""State laid out over any number of shards: every key group of every segment, once, in order."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.hashing import key_groups_of
from tidegate.engine.layout import bytes_of, laid_out, rows_of, stepped
from tidegate.state.protocol import Entry, Part, Stacks
from tidegate.tasks.orders import OperatorReport

COUNTS = [1, 2, 3, 4, 5, 7, 8, 16, 100, 255, 256]


def part(name: str, size: int = 10) -> Part:
    return Part(name=name, bytes=size, checksum=0, rows=size // 10)


def stacks(shards: int, depth: int) -> Stacks:
    """As many segments in each shard, from the oldest to the newest."""
    return Stacks(
        shards=tuple(
            tuple(
                Entry(part=part(f"{shard}-{nth}"), first_group=owned.start, end_group=owned.stop)
                for nth in range(depth)
            )
            for shard in range(shards)
            for owned in [key_groups_of(shard, shards)]
        )
    )


def order_of_groups(shards: tuple[tuple[Entry, ...], ...]) -> dict[int, list[str]]:
    """For every key group, the segments that have something to say of it, oldest first."""
    found: dict[int, list[str]] = {group: [] for group in range(256)}
    for held in shards:
        for entry in held:
            for group in range(entry.first_group, entry.end_group):
                found[group].append(entry.part.name)
    return found


@pytest.mark.parametrize(("before", "after"), [*itertools.product(COUNTS, COUNTS)])
def test_every_key_group_keeps_its_segments_in_their_order(before: int, after: int) -> None:
    written = stacks(before, depth=3)
    moved = laid_out(written, after)
    assert len(moved) == after
    assert order_of_groups(moved) == order_of_groups(written.shards)
    for shard, held in enumerate(moved):
        owned = key_groups_of(shard, after)
        assert all(owned.start <= e.first_group < e.end_group <= owned.stop for e in held)


@given(st.lists(st.integers(1, 256), min_size=1, max_size=5))
def test_any_number_of_changes_loses_and_doubles_nothing(counts: list[int]) -> None:
    written = stacks(counts[0], depth=2)
    now = written
    for count in counts:
        now = Stacks(shards=laid_out(now, count))
    assert order_of_groups(now.shards) == order_of_groups(written.shards)
    assert bytes_of(now.shards) == bytes_of(written.shards)
    assert rows_of(now.shards) == rows_of(written.shards)


def test_without_state_every_shard_begins_empty() -> None:
    assert laid_out(None, 3) == ((), (), ())


def test_the_same_number_of_shards_changes_nothing() -> None:
    written = stacks(4, depth=2)
    assert laid_out(written, 4) is written.shards


def test_a_step_puts_its_segment_on_top_of_what_it_keeps() -> None:
    before = stacks(2, depth=3).shards
    reports = [
        OperatorReport(segment=part("new"), keeps=(0, 2)),
        OperatorReport(keeps=(0, 1, 2)),
    ]
    after = stepped(before, reports)
    top = Entry(part=part("new"), first_group=0, end_group=128)
    assert after == ((before[0][0], before[0][2], top), before[1])


def test_a_part_that_two_shards_name_is_counted_once() -> None:
    shared = Entry(part=part("shared", 70), first_group=0, end_group=128)
    other = Entry(part=part("shared", 70), first_group=128, end_group=256)
    assert (bytes_of([[shared], [other]]), rows_of([[shared], [other]])) == (70, 7)
