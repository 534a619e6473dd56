from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from tidegate.core.hashing import key_group, key_groups_of, place
from tidegate.core.segment_format import to_buffer
from tidegate.core.segments import Segment
from tidegate.errors import StateLost
from tidegate.state import cache
from tidegate.state.protocol import Entry, Part


@dataclass(frozen=True)
class CountingDepot:
    """A depot in memory that counts how often it is asked."""

    name: str = "depot"
    far: bool = False
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


def test_a_segment_is_fetched_once() -> None:
    depot = CountingDepot()
    one = entry(staged(depot, "a"))
    first = cache.held_stack(depot, [one], range(256))
    again = cache.held_stack(depot, [one], range(256))
    assert depot.fetched == [one.part.name]
    assert first.segments[0] is again.segments[0]


def test_what_is_missing_is_fetched_and_what_is_replaced_is_dropped() -> None:
    depot = CountingDepot()
    old, new = entry(staged(depot, "a")), entry(staged(depot, "b", seed=1))
    cache.held_stack(depot, [old], range(256))
    cache.held_stack(depot, [old, new], range(256))
    cache.held_stack(depot, [new], range(256))
    cache.held_stack(depot, [old], range(256))
    assert depot.fetched == [old.part.name, new.part.name, old.part.name]


def test_losing_the_cache_loses_nothing() -> None:
    depot = CountingDepot()
    one = entry(staged(depot, "a"))
    before = cache.held_stack(depot, [one], range(256)).segments[0].rows
    cache.forget_all()
    assert cache.held_stack(depot, [one], range(256)).segments[0].rows.equals(before)
    assert depot.fetched == [one.part.name] * 2


def test_another_run_of_the_same_shard_is_not_mistaken_for_this_one() -> None:
    depot = CountingDepot()
    ours, theirs = entry(staged(depot, "a")), entry(staged(depot, "b", seed=1))
    cache.held_stack(depot, [theirs], range(256))
    held = cache.held_stack(depot, [ours], range(256))
    assert held.segments[0].rows.equals(segment(seed=0).rows)


def test_two_depots_do_not_share_segments() -> None:
    one, other = CountingDepot("one"), CountingDepot("other")
    part = entry(staged(one, "a", seed=0))
    staged(other, "a", seed=1)
    cache.held_stack(one, [part], range(256))
    held = cache.held_stack(other, [part], range(256))
    assert held.segments[0].rows.equals(segment(seed=1).rows)


@pytest.mark.parametrize("shards", [1, 2, 3, 5])
def test_after_a_change_of_layout_each_shard_has_the_rows_of_its_key_groups(shards: int) -> None:
    depot = CountingDepot()
    part = staged(depot, "a")
    found = []
    for shard in range(shards):
        owned = key_groups_of(shard, shards)
        (held,) = cache.held_stack(depot, [entry(part, owned)], owned).segments
        groups = key_group(held.rows["key_hash"].to_numpy())
        assert set(groups.tolist()) <= set(owned)
        found.append(held.rows)
    assert pl.concat(found).equals(segment().rows)


def test_a_part_that_is_gone_is_said_to_be_lost() -> None:
    missing = entry(Part(name="1-1-x-segment", bytes=1, checksum=0))
    with pytest.raises(StateLost, match="1-1-x-segment"):
        cache.held_stack(CountingDepot(), [missing], range(256))


def test_only_so_many_shards_are_kept() -> None:
    depot = CountingDepot()
    part = staged(depot, "a")
    for shard in range(100):
        cache.held_stack(depot, [entry(part)], range(shard, shard + 1))
    assert len(cache._HELD) == cache._SHARDS


def test_what_a_worker_staged_is_not_fetched_from_afar() -> None:
    depot, near = CountingDepot("far", far=True), CountingDepot("near")
    for each in (depot, near):
        part = staged(each, "a")
        cache.remember(each, part, each.blobs[part.name])
        entry = Entry(part=part, first_group=0, end_group=256)
        (found,) = cache.held_stack(each, [entry], range(256)).segments
        assert found.rows.equals(segment().rows)
    assert (depot.fetched, near.fetched) == ([], [part.name])


def test_a_worker_does_not_keep_more_of_its_own_than_it_should(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    depot = CountingDepot(far=True)
    parts = [staged(depot, attempt) for attempt in "abc"]
    monkeypatch.setattr(cache, "_FRESH_BYTES", 2 * parts[0].bytes)
    for part in parts:
        cache.remember(depot, part, depot.blobs[part.name])
    entries = [Entry(part=part, first_group=0, end_group=256) for part in parts]
    cache.held_stack(depot, entries, range(256))
    assert depot.fetched == [parts[0].name]
