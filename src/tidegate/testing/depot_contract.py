"""What the side of a store that tasks use must do, and how a store is brought under test."""
# ruff: noqa: D102  # the name of a test is the sentence that it proves

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa
import pytest

from tidegate.errors import StateLost
from tidegate.state.protocol import Depot, Part, Recovered, Store
from tidegate.testing.epochs import bytes_of, changed, manifest, stage

KeyRow: TypeAlias = tuple[str, str, int, bytes, int, int]
"""Operator, group key, key group, blob, epoch and forgetting time of a row of readable state."""


class StoreUnderTest:
    """How to make, break and read a store: what a subclass of the contract has to say.

    All that one test makes must lie in the same place, and apart from that of other tests.
    """

    def new_store(self, pipeline: str) -> Store:
        """Another store over the same place: what a second driver would make."""
        raise NotImplementedError

    def expire_lease(self, pipeline: str) -> None:
        """Let another driver take over although the first one has not closed its store."""
        raise NotImplementedError

    def damage(self, pipeline: str, part: Part) -> None:
        """Change a byte of a part, but not its size."""
        raise NotImplementedError

    def lose(self, pipeline: str, part: Part) -> None:
        """Delete the bytes of a part behind the store's back."""
        raise NotImplementedError

    def readable_state(self, pipeline: str) -> list[KeyRow]:
        """The readable table of a pipeline, by operator and group key."""
        raise NotImplementedError

    @pytest.fixture
    def store(self) -> Iterator[Store]:
        """A store of the pipeline `clicks`, closed in the end."""
        store = self.new_store("clicks")
        yield store
        store.close()

    def reopened(self, store: Store) -> Recovered:
        """What a driver finds that comes after this one."""
        store.close()
        return store.open()

    def taken_over(self, store: Store) -> tuple[Store, int]:
        """A second driver in the place of the first one, and its token."""
        del store
        self.expire_lease("clicks")
        second = self.new_store("clicks")
        return second, second.open().token


class DepotContract(StoreUnderTest):
    """What is staged stays as it is, and nobody sees it."""

    def test_what_is_staged_can_be_fetched_and_is_not_committed(self, store: Store) -> None:
        found = store.open()
        blobs = {"a": (pa.py_buffer(b"first"), 1), "b": (pa.py_buffer(b""), 0)}
        staged = store.depot.stage(found.token, 1, "attempt", blobs)
        assert {what: bytes_of(store.depot, part) for what, part in staged.items()} == {
            "a": b"first",
            "b": b"",
        }
        assert {what: (part.bytes, part.rows) for what, part in staged.items()} == {
            "a": (5, 1),
            "b": (0, 0),
        }
        assert self.reopened(store) == msgspec.structs.replace(found, token=found.token + 1)

    def test_a_task_gets_the_depot_pickled(self, store: Store) -> None:
        token = store.open().token
        depot: Depot = pickle.loads(pickle.dumps(store.depot))
        part = stage(depot, token, 1, b"from a task")
        store.commit(token, manifest(1, [part]))
        assert bytes_of(pickle.loads(pickle.dumps(store.depot)), part) == b"from a task"

    def test_twins_stage_beside_each_other(self, store: Store) -> None:
        token = store.open().token
        twins = [stage(store.depot, token, 1, data) for data in (b"one", b"two")]
        assert [bytes_of(store.depot, part) for part in twins] == [b"one", b"two"]

    @pytest.mark.parametrize("again", [b"first", b"other"])
    def test_what_is_staged_is_never_changed(self, store: Store, again: bytes) -> None:
        token = store.open().token
        first = store.depot.stage(token, 1, "same", {"state": (pa.py_buffer(b"first"), 1)})
        with suppress(Exception):  # it may refuse, or keep both
            store.depot.stage(token, 1, "same", {"state": (pa.py_buffer(again), 1)})
        assert bytes_of(store.depot, first["state"]) == b"first"

    def test_a_damaged_part_is_not_handed_out(self, store: Store) -> None:
        token = store.open().token
        part = stage(store.depot, token, 1, b"some state")
        self.damage("clicks", part)
        with pytest.raises(StateLost):
            store.depot.fetch(part)

    def test_a_part_that_is_not_there_is_not_handed_out(self, store: Store) -> None:
        token = store.open().token
        part = stage(store.depot, token, 1, b"some state")
        assert bytes_of(store.depot, part) == b"some state"
        self.lose("clicks", part)
        with pytest.raises(StateLost):
            store.depot.fetch(part)

    @pytest.mark.parametrize("change", [{"bytes": 3}, {"checksum": 1}, {"name": "1-1-x/../y"}])
    def test_only_what_was_staged_is_handed_out(self, store: Store, change: dict[str, Any]) -> None:
        part = stage(store.depot, store.open().token, 1, b"some state")
        with pytest.raises(StateLost):
            store.depot.fetch(changed(part, change))
