"""What every implementation of a protocol must do, as tests that others can run on their own.

    class TestMyStore(StateStoreContract):
        def new_store(self, pipeline): ...

Import it where pytest is installed; nothing else of `tidegate.testing` needs that.
"""
# ruff: noqa: D102  # the name of a test is the sentence that it proves

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tidegate.errors import EpochTaken, LostLease, PipelineInUse, StateLost
from tidegate.state.protocol import Entry, Manifest, Part, Stacks, Store
from tidegate.testing.depot_contract import DepotContract, KeyRow
from tidegate.testing.epochs import (
    NAMES,
    bytes_of,
    changed,
    folded,
    is_there,
    manifest,
    output,
    stage,
)
from tidegate.testing.reset_contract import ResetContract

__all__ = ["KeyRow", "StateStoreContract"]


class StateStoreContract(ResetContract, DepotContract):
    """What every store must do. Subclass it and provide what `StoreUnderTest` asks for."""

    # --- opening ---

    def test_a_new_pipeline_has_nothing_committed(self, store: Store) -> None:
        found = store.open()
        assert (found.epoch, found.plan, found.last) == (0, None, None)
        assert (found.to_publish, dict(found.logs)) == ((), {})
        assert found.incarnation

    def test_opening_raises_the_token_and_changes_nothing_else(self, store: Store) -> None:
        first = store.open()
        second = self.reopened(store)
        assert second.token > first.token
        assert second == msgspec.structs.replace(first, token=second.token)

    def test_a_second_driver_is_refused_while_the_first_one_runs(self, store: Store) -> None:
        token = store.open().token
        with pytest.raises(PipelineInUse, match="clicks"):
            self.new_store("clicks").open()
        store.commit(token, manifest(1))

    def test_a_driver_that_closes_lets_another_one_in(self, store: Store) -> None:
        store.open()
        store.close()
        second = self.new_store("clicks")
        assert second.open().epoch == 0
        second.close()

    def test_a_driver_resumes_a_pipeline_that_it_let_go(self, store: Store) -> None:
        token = store.open().token
        store.commit(token, manifest(1))
        store.close()
        store.resume(token)
        with pytest.raises(PipelineInUse, match="clicks"):
            self.new_store("clicks").open()
        store.commit(token, manifest(2))
        assert self.reopened(store).last == manifest(2)

    def test_a_driver_resumes_no_pipeline_that_another_one_has_or_had(self, store: Store) -> None:
        token = store.open().token
        store.close()
        second = self.new_store("clicks")
        second.open()
        with pytest.raises(PipelineInUse, match="clicks"):
            store.resume(token)
        second.close()
        with pytest.raises(LostLease):
            store.resume(token)
        assert second.open().epoch == 0  # who could not resume it has let it go
        second.close()

    def test_a_pipeline_that_is_gone_is_not_resumed(self, store: Store) -> None:
        with pytest.raises(LostLease):
            store.resume(1)

    def test_the_same_driver_may_open_again(self, store: Store) -> None:
        before = store.open().token
        after = store.open().token
        with pytest.raises(LostLease):
            store.commit(before, manifest(1))
        store.commit(after, manifest(1))

    def test_pipelines_do_not_see_each_other(self, store: Store) -> None:
        other = self.new_store("Clicks")
        token, other_token = store.open().token, other.open().token
        part = stage(store.depot, token, 1, b"mine")
        store.commit(token, manifest(1, [part]))
        other.reset(other_token)
        other.collect_garbage(other_token)
        other.close()
        assert other.open().epoch == 0
        assert bytes_of(store.depot, part) == b"mine"
        assert self.reopened(store).last == manifest(1, [part])
        other.close()

    @pytest.mark.parametrize("name", NAMES)
    def test_any_name_will_do(self, name: str) -> None:
        store = self.new_store(name)
        token = store.open().token
        part = stage(store.depot, token, 1, b"state", what=name)
        store.commit(token, manifest(1, [part]))
        found = self.reopened(store)
        assert (found.last, bytes_of(store.depot, part)) == (manifest(1, [part]), b"state")
        assert store.collect_garbage(found.token) == 0
        store.close()

    # --- committing ---

    def test_a_commit_is_found_by_whoever_comes_next(self, store: Store) -> None:
        first = store.open()
        part = stage(store.depot, first.token, 1, b"state")
        sent = output(stage(store.depot, first.token, 1, b"rows", what="main"))
        committed = manifest(1, [part], [sent])
        store.adopt(first.token, {"gap_ms": 5})
        store.commit(first.token, committed)
        found = self.reopened(store)
        assert (found.epoch, found.last, found.plan) == (1, committed, {"gap_ms": 5})
        assert found.incarnation == first.incarnation
        assert bytes_of(store.depot, part) == b"state"

    def test_stacks_grow_on_parts_that_are_committed(self, store: Store) -> None:
        token = store.open().token
        old = stage(store.depot, token, 1, b"old")
        store.commit(token, manifest(1, [old]))
        token = self.reopened(store).token
        new = stage(store.depot, token, 2, b"new")
        store.commit(token, manifest(2, [old, new]))
        assert self.reopened(store).last == manifest(2, [old, new])

    def test_a_part_may_be_in_two_stacks(self, store: Store) -> None:
        token = store.open().token
        part = stage(store.depot, token, 1, b"state of both")
        halves = Stacks(
            shards=(
                (Entry(part=part, first_group=0, end_group=128),),
                (Entry(part=part, first_group=128, end_group=256),),
            )
        )
        split = Manifest(epoch=1, offsets={}, watermarks={}, state={"window": halves})
        store.commit(token, split)
        assert self.reopened(store).last == split

    @pytest.mark.parametrize("epoch", [0, 1, 3])
    def test_an_epoch_must_follow_the_last_one(self, store: Store, epoch: int) -> None:
        token = store.open().token
        store.commit(token, manifest(1))
        with pytest.raises(EpochTaken):
            store.commit(token, manifest(epoch))
        assert self.reopened(store).last == manifest(1)

    @pytest.mark.parametrize(
        "change", [{"name": "1-2-nobody-state"}, {"checksum": 1}, {"bytes": 3}, {"name": ""}]
    )
    @pytest.mark.parametrize("as_output", [False, True])
    def test_a_part_that_was_not_staged_cannot_be_committed(
        self, store: Store, change: dict[str, Any], as_output: bool
    ) -> None:
        token = store.open().token
        store.commit(token, manifest(1))
        good = stage(store.depot, token, 2, b"good")
        bad = changed(stage(store.depot, token, 2, b"state"), change)
        parts, outputs = ([good], [output(bad)]) if as_output else ([good, bad], [])
        found = {"clicks": ({"path": "a.json"},)}
        store.adopt(token, {"gap_ms": 5})
        with pytest.raises(StateLost):
            store.commit(token, manifest(2, parts, outputs, found))
        recovered = self.reopened(store)
        assert (recovered.epoch, recovered.last) == (1, manifest(1))
        assert (recovered.plan, dict(recovered.logs)) == (None, {})

    def test_output_in_the_targets_own_folder_is_not_looked_for(self, store: Store) -> None:
        token = store.open().token
        elsewhere = output(Part(name="in-the-target", bytes=1, checksum=2), in_target=True)
        store.commit(token, manifest(1, outputs=[elsewhere]))
        assert self.reopened(store).last == manifest(1, outputs=[elsewhere])

    def test_an_epoch_that_failed_may_be_committed_otherwise(self, store: Store) -> None:
        token = store.open().token
        with pytest.raises(StateLost):
            store.commit(token, manifest(1, [Part(name="1-1-x-y", bytes=1, checksum=2)]))
        store.commit(token, manifest(1))
        assert self.reopened(store).epoch == 1

    def test_a_source_that_is_read_no_more_has_no_offset(self, store: Store) -> None:
        token = store.open().token
        store.commit(token, manifest(1))
        without = Manifest(epoch=2, offsets={}, watermarks={}, state={})
        store.commit(token, without)
        assert self.reopened(store).last == without

    def test_logs_are_appended(self, store: Store) -> None:
        token = store.open().token
        files = [{"path": f"{n}.json", "size": n} for n in range(12)]
        store.commit(token, manifest(1, discovered={"clicks": tuple(files[:11])}))
        store.commit(token, manifest(2, discovered={"orders": ({"path": "o"},), "clicks": ()}))
        token = self.reopened(store).token
        store.commit(token, manifest(3, discovered={"clicks": (files[11],)}))
        logs = self.reopened(store).logs
        assert logs == {"clicks": tuple(files), "orders": ({"path": "o"},)}
        clicks = logs["clicks"]
        assert (clicks[0], clicks[-1], clicks[9:11]) == (files[0], files[11], tuple(files[9:11]))

    def test_a_log_that_was_reset_meanwhile_is_not_taken_for_a_shorter_one(
        self, store: Store
    ) -> None:
        token = store.open().token
        store.commit(token, manifest(1, discovered={"clicks": ({"path": "a"}, {"path": "b"})}))
        opened = self.reopened(store)
        store.reset(opened.token)
        with pytest.raises(LostLease, match=r"found 0 entries .* expected 2"):
            tuple(opened.logs["clicks"])

    def test_the_plan_counts_from_the_next_commit_on(self, store: Store) -> None:
        token = store.open().token
        store.adopt(token, {"gap_ms": 5})
        store.commit(token, manifest(1))
        store.adopt(token, {"gap_ms": 6})
        found = self.reopened(store)
        assert found.plan == {"gap_ms": 5}
        store.commit(found.token, manifest(2))
        assert self.reopened(store).plan == {"gap_ms": 5}

    # --- publishing ---

    def test_what_is_not_published_is_found_in_order(self, store: Store) -> None:
        token = store.open().token
        for epoch in (1, 2, 3, 4):
            store.commit(token, manifest(epoch))
        store.published(token, 2)
        found = self.reopened(store)
        assert (found.to_publish, found.last) == ((manifest(3), manifest(4)), manifest(4))

    def test_the_last_epoch_is_found_when_all_is_published(self, store: Store) -> None:
        token = store.open().token
        store.commit(token, manifest(1))
        store.published(token, 1)
        found = self.reopened(store)
        assert (found.to_publish, found.last, found.epoch) == ((), manifest(1), 1)

    def test_publishing_never_goes_back_nor_ahead_of_commits(self, store: Store) -> None:
        token = store.open().token
        store.commit(token, manifest(1))
        store.commit(token, manifest(2))
        store.published(token, 2)
        store.published(token, 1)
        store.published(token, 9)
        store.commit(token, manifest(3))
        assert self.reopened(store).to_publish == (manifest(3),)

    # --- an older token ---

    @pytest.mark.parametrize(
        "act",
        [
            pytest.param(lambda store, token: store.commit(token, manifest(2)), id="commit"),
            pytest.param(lambda store, token: store.adopt(token, {"gap_ms": 6}), id="adopt"),
            pytest.param(lambda store, token: store.check_token(token), id="check_token"),
            pytest.param(lambda store, token: store.published(token, 1), id="published"),
            pytest.param(
                lambda store, token: store.fold(token, [folded(1, [("k", b"{}", 1)])]), id="fold"
            ),
            pytest.param(lambda store, token: store.fold(token, []), id="fold nothing"),
            pytest.param(lambda store, token: store.collect_garbage(token), id="collect_garbage"),
            pytest.param(lambda store, token: store.reset(token), id="reset"),
            pytest.param(
                lambda store, token: store.reset(token, then=manifest(2)), id="reset and go on"
            ),
        ],
    )
    def test_a_driver_that_wakes_after_a_takeover_changes_nothing(
        self, store: Store, act: Callable[[Store, int], object]
    ) -> None:
        paused = store.open()
        part = stage(store.depot, paused.token, 1, b"state")
        store.commit(paused.token, manifest(1, [part]))
        unnamed = stage(store.depot, paused.token, 1, b"garbage")
        second, token = self.taken_over(store)
        with pytest.raises(LostLease):
            act(store, paused.token)
        store.close()
        assert bytes_of(second.depot, unnamed) == b"garbage"
        assert self.readable_state("clicks") == []
        second.commit(token, manifest(2, [part]))
        found = self.reopened(second)
        assert (found.last, found.plan) == (manifest(2, [part]), None)
        assert found.to_publish == (manifest(1, [part]), manifest(2, [part]))
        assert found.incarnation == paused.incarnation
        second.close()

    def test_a_closed_store_commits_nothing(self, store: Store) -> None:
        token = store.open().token
        store.close()
        with pytest.raises(LostLease):
            store.commit(token, manifest(1))
        assert store.open().epoch == 0

    # --- readable state ---

    def test_a_fold_adds_replaces_and_deletes_keys(self, store: Store) -> None:
        token = store.open().token
        store.fold(token, [folded(1, [("ann", b"1", 50), ("bob", b"2", 50), ("eve", b"3", 50)])])
        store.fold(token, [folded(2, [("bob", b"22", 60), ("eve", b"", 0), ("new", b"4", 50)])])
        assert self.readable_state("clicks") == [
            ("window", "ann", 7, b"1", 1, 50),
            ("window", "bob", 7, b"22", 2, 60),
            ("window", "new", 7, b"4", 2, 50),
        ]

    def test_a_fold_deletes_what_is_forgotten(self, store: Store) -> None:
        token = store.open().token
        store.fold(token, [folded(1, [("ann", b"1", 50), ("bob", b"2", 51)])])
        store.fold(token, [folded(2, [("late", b"3", 49)], watermark_us=50)])
        assert self.readable_state("clicks") == [("window", "bob", 7, b"2", 1, 51)]

    def test_a_fold_may_have_many_keys(self, store: Store) -> None:
        token = store.open().token
        keys = [(f"{n:05}", b"{}", n) for n in range(1, 5_003)]
        store.fold(token, [folded(1, keys)])
        assert [row[1] for row in self.readable_state("clicks")] == [key for key, _, _ in keys]
        store.fold(token, [folded(2, [], watermark_us=5_001)])
        assert [row[1] for row in self.readable_state("clicks")] == ["05002"]

    # --- garbage ---

    def test_garbage_is_what_no_manifest_needs(self, store: Store) -> None:
        """Of an older token; of a committed epoch and not named; replaced; published."""
        older = store.open().token
        of_older_token = stage(store.depot, older, 4, b"older token")
        replaced = stage(store.depot, older, 1, b"replaced")
        sent = stage(store.depot, older, 1, b"sent", what="main")
        token = self.reopened(store).token
        store.commit(token, manifest(1, [replaced], [output(sent)]))
        twin = stage(store.depot, token, 2, b"twin")
        merged = stage(store.depot, token, 2, b"merged")
        store.commit(token, manifest(2, [merged]))
        store.commit(token, manifest(3, [merged]))
        store.published(token, 3)
        garbage = (of_older_token, replaced, sent, twin)
        assert store.collect_garbage(token) == len(garbage)
        assert [is_there(store.depot, part) for part in garbage] == [False] * 4
        assert bytes_of(store.depot, merged) == b"merged"
        assert store.collect_garbage(token) == 0
        assert self.reopened(store).last == manifest(3, [merged])

    def test_what_is_needed_is_no_garbage(self, store: Store) -> None:
        """Named by the last commit; still to publish; replaced by the last commit; being staged."""
        older = store.open().token
        named = stage(store.depot, older, 1, b"named")
        to_publish = stage(store.depot, older, 1, b"to publish", what="main")
        replaced_now = stage(store.depot, older, 1, b"replaced now")
        store.commit(older, manifest(1, [named, replaced_now], [output(to_publish)]))
        token = self.reopened(store).token
        store.commit(token, manifest(2, [named]))
        being_staged = stage(store.depot, token, 3, b"next epoch")
        needed = (named, to_publish, replaced_now, being_staged)
        assert store.collect_garbage(token) == 0
        assert [is_there(store.depot, part) for part in needed] == [True] * 4
        store.commit(token, manifest(3, [named, being_staged]))
        assert self.reopened(store).last == manifest(3, [named, being_staged])
