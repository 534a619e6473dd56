from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from tidegate.core.hashing import key_group, key_groups_of, place
from tidegate.core.segment_format import to_buffer
from tidegate.core.segments import Segment
from tidegate.core.stacks import Stack
from tidegate.errors import StateLost
from tidegate.state import cache
from tidegate.state.cache import At
from tidegate.state.protocol import Entry, Part


@dataclass(frozen=True)
class CountingDepot:
    """A depot in memory that counts how often it is asked."""

    name: str = "depot"
    far: bool = False
    local_folder: ClassVar[None] = None
    blobs: dict[str, pa.Buffer] = field(default_factory=dict, hash=False, compare=False)
    fetched: list[str] = field(default_factory=list, hash=False, compare=False)

    def stage(
        self, token: int, epoch: int, attempt: str, parts: Mapping[str, tuple[pa.Buffer, int]]
    ) -> dict[str, Part]:
        staged = {}
        for what, (data, rows) in parts.items():
            name = f"{token}-{epoch}-{attempt}-{what}"
            self.blobs[name] = data
            staged[what] = Part(name=name, bytes=data.size, checksum=0, rows=rows)
        return staged

    def fetch(self, part: Part) -> pa.Buffer:
        self.fetched.append(part.name)
        if part.name not in self.blobs:
            raise StateLost(f"part {part.name} is gone")
        return self.blobs[part.name]

    def fetch_all(self, parts: Sequence[Part]) -> list[pa.Buffer]:
        return [self.fetch(part) for part in parts]


@pytest.fixture(autouse=True)
def _empty_cache() -> Iterator[None]:
    cache.forget_all()
    yield
    cache.forget_all()


def segment(count: int = 1000, seed: int = 0) -> Segment:
    hashes = np.random.default_rng(seed).integers(-(2**62), 2**62, count)
    hashes = hashes[np.argsort(place(hashes))]
    rows = pl.DataFrame({"key_hash": hashes, "key.user": hashes, "forget_us": np.full(count, 10)})
    return Segment(rows)


def staged(depot: CountingDepot, attempt: str, seed: int = 0) -> Part:
    rows = segment(seed=seed)
    return depot.stage(1, 1, attempt, {"segment": (to_buffer(rows), len(rows))})["segment"]


def entry(part: Part, owned: range = range(256)) -> Entry:
    return Entry(part=part, first_group=owned.start, end_group=owned.stop)


def held(
    depot: CountingDepot,
    entries: Sequence[Entry],
    *others: Sequence[Entry],
    epoch: int = 1,
    limit_bytes: int = 1 << 30,
) -> Stack[Any]:
    """The stack of the first of several shards."""
    stacks = [entries, *others]
    (stack,) = cache.held_stacks(depot, [stacks], 0, at=At(1, epoch), limit_bytes=limit_bytes)
    return stack


def test_a_segment_is_fetched_once() -> None:
    depot = CountingDepot()
    one = entry(staged(depot, "a"))
    first, again = held(depot, [one]), held(depot, [one], epoch=2)
    assert depot.fetched == [one.part.name]
    assert first.segments[0] is again.segments[0]


def test_what_is_missing_is_fetched_and_what_is_replaced_is_dropped() -> None:
    depot = CountingDepot(far=True)
    old, new = entry(staged(depot, "a")), entry(staged(depot, "b", seed=1))
    held(depot, [old], epoch=1)
    held(depot, [old, new], epoch=2)
    both_bytes = cache.kept_bytes()
    held(depot, [new], epoch=3)
    assert cache.kept_bytes() == both_bytes / 2
    held(depot, [old], epoch=4)
    assert depot.fetched == [old.part.name, new.part.name, old.part.name]


def test_what_other_shards_have_replaced_is_dropped_too() -> None:
    depot = CountingDepot(far=True)
    (mine, theirs), newer = halves(depot, "a"), halves(depot, "b")[1]
    held(depot, [theirs], [mine], epoch=1)
    held(depot, [mine], [theirs], epoch=2)
    assert cache.kept_bytes() == heap_bytes(mine) + heap_bytes(theirs)
    held(depot, [mine], [newer], epoch=3)
    assert cache.kept_bytes() == heap_bytes(mine)


def halves(depot: CountingDepot, attempt: str) -> tuple[Entry, Entry]:
    """Segments of the two halves of all key groups, each a part of its own."""
    first, second = staged(depot, attempt + "0"), staged(depot, attempt + "1")
    return entry(first, range(128)), entry(second, range(128, 256))


def heap_bytes(entry: Entry) -> int:
    """What was fetched, and the places that kernels compute."""
    return entry.part.bytes + 8 * len(segment().within(range(entry.first_group, entry.end_group)))


def test_losing_the_cache_loses_nothing() -> None:
    depot = CountingDepot()
    one = entry(staged(depot, "a"))
    before = held(depot, [one]).segments[0].rows
    cache.forget_all()
    assert held(depot, [one]).segments[0].rows.equals(before)
    assert depot.fetched == [one.part.name] * 2


def test_another_run_of_the_same_shard_is_not_mistaken_for_this_one() -> None:
    depot = CountingDepot()
    ours, theirs = entry(staged(depot, "a")), entry(staged(depot, "b", seed=1))
    held(depot, [theirs])
    assert held(depot, [ours]).segments[0].rows.equals(segment(seed=0).rows)


def test_two_depots_do_not_share_segments() -> None:
    one, other = CountingDepot("one"), CountingDepot("other")
    part = entry(staged(one, "a", seed=0))
    staged(other, "a", seed=1)
    held(one, [part])
    assert held(other, [part], epoch=2).segments[0].rows.equals(segment(seed=1).rows)
    held(one, [part], epoch=3)
    assert one.fetched == [part.part.name]


@pytest.mark.parametrize("shards", [1, 2, 3, 5])
def test_after_a_change_of_layout_each_shard_has_the_rows_of_its_key_groups(shards: int) -> None:
    depot = CountingDepot()
    part = staged(depot, "a")
    found = []
    for shard in range(shards):
        owned = key_groups_of(shard, shards)
        (of_shard,) = held(depot, [entry(part, owned)]).segments
        groups = key_group(of_shard.rows["key_hash"].to_numpy())
        assert set(groups.tolist()) <= set(owned)
        found.append(of_shard.rows)
    assert pl.concat(found).equals(segment().rows)


def test_a_part_that_is_gone_is_said_to_be_lost() -> None:
    missing = entry(Part(name="1-1-x-segment", bytes=1, checksum=0))
    with pytest.raises(StateLost, match="1-1-x-segment"):
        held(CountingDepot(), [missing])


def test_what_was_not_used_for_longest_is_let_go_at_the_limit() -> None:
    depot = CountingDepot(far=True)
    stacks = [[entry(staged(depot, attempt))] for attempt in "abc"]
    limit_bytes = 2 * heap_bytes(stacks[0][0])

    def use(shard: int) -> None:
        cache.held_stacks(depot, [stacks], shard, at=At(1, 1), limit_bytes=limit_bytes)
        assert cache.kept_bytes() <= limit_bytes

    for shard in (0, 1, 0, 2, 0, 1):
        use(shard)
    a, b, c = (stack[0].part.name for stack in stacks)
    assert depot.fetched == [a, b, c, b]


def test_the_segments_of_one_shard_stay_however_small_the_limit_is() -> None:
    depot = CountingDepot(far=True)
    one, other = [[entry(staged(depot, name)) for name in names] for names in ("ab", "cd")]
    for _ in range(2):
        assert len(held(depot, one, other, limit_bytes=1).segments) == 2
    assert depot.fetched == [each.part.name for each in one]
    held(depot, other, one, limit_bytes=1)
    assert cache.kept_bytes() == sum(map(heap_bytes, other))


def test_a_mapped_file_is_no_memory_of_the_worker_but_what_is_computed_of_it_is() -> None:
    depot = CountingDepot(far=False)
    held(depot, [entry(staged(depot, "a"))])
    assert cache.kept_bytes() == 8 * 1000


def test_what_a_worker_staged_is_not_fetched_from_afar() -> None:
    depot, near = CountingDepot("far", far=True), CountingDepot("near")
    for each in (depot, near):
        mine = entry(staged(each, "a"))
        cache.remember(each, mine, each.blobs[mine.part.name], at=At(1, 1))
        (found,) = held(each, [mine], epoch=2).segments
        assert found.rows.equals(segment().rows)
    assert (depot.fetched, near.fetched) == ([], [mine.part.name])


def test_what_was_staged_and_not_committed_is_let_go_in_the_next_epoch() -> None:
    depot = CountingDepot(far=True)
    twin = entry(staged(depot, "a"))
    cache.remember(depot, twin, depot.blobs[twin.part.name], at=At(1, 1))
    held(depot, [], epoch=1)
    assert cache.kept_bytes() == heap_bytes(twin)
    held(depot, [], epoch=2)
    assert cache.kept_bytes() == 0
