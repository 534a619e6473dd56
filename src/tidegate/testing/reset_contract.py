"""What a store must do that starts over: all is forgotten, and what is to be there is there."""
# ruff: noqa: D102  # the name of a test is the sentence that it proves

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tidegate.errors import EpochTaken, StateLost
from tidegate.incarnation import continues
from tidegate.state.protocol import Manifest, Part, Recovered, Store
from tidegate.testing.depot_contract import StoreUnderTest
from tidegate.testing.epochs import bytes_of, folded, manifest, output, stage


class ResetContract(StoreUnderTest):
    """A reset is one transaction, with the epoch that begins anew."""

    def one_epoch(self, store: Store) -> tuple[Recovered, Part]:
        """All that a reset can forget, and a segment that it may go on with."""
        before = store.open()
        part = stage(store.depot, before.token, 1, b"state")
        found = {"clicks": ({"path": "a.json"},)}
        store.adopt(before.token, {"gap_ms": 5})
        store.commit(before.token, manifest(1, [part], discovered=found))
        store.fold(before.token, [folded(1, [("ann", b"1", 50)])])
        return before, part

    def test_a_reset_forgets_everything_but_the_count_of_epochs(self, store: Store) -> None:
        before, _ = self.one_epoch(store)
        store.reset(before.token)
        after = self.reopened(store)
        assert after.incarnation != before.incarnation
        expected: dict[str, Any] = {
            "epoch": 1,
            "plan": None,
            "last": None,
            "to_publish": (),
            "logs": {},
        }
        assert {name: getattr(after, name) for name in expected} == expected
        assert self.readable_state("clicks") == []
        assert store.collect_garbage(after.token) == 1
        store.commit(after.token, manifest(2))
        assert self.reopened(store).last == manifest(2)

    def test_a_reset_goes_on_with_the_same_state_as_no_other_one_does(self, store: Store) -> None:
        """So a target knows that its rows are those of this state, and not of one made anew."""
        before, _ = self.one_epoch(store)
        store.reset(before.token)
        after = self.reopened(store)
        assert continues(after.incarnation, before.incarnation)
        assert not continues(before.incarnation, after.incarnation)
        other = self.new_store("other")
        assert not continues(other.open().incarnation, before.incarnation)
        other.close()

    def test_a_reset_may_begin_with_an_epoch(self, store: Store) -> None:
        before, _ = self.one_epoch(store)
        token = before.token
        part = stage(store.depot, token, 2, b"new")
        begun = manifest(2, [part], discovered={"orders": ({"path": "b.json"},)})
        store.adopt(token, {"gap_ms": 6})
        store.reset(token, then=begun)
        after = self.reopened(store)
        assert after == Recovered(
            token=after.token,
            incarnation=after.incarnation,
            epoch=2,
            plan={"gap_ms": 6},
            last=begun,
            to_publish=(begun,),
            logs=dict(begun.discovered),
        )
        assert after.incarnation != before.incarnation
        assert self.readable_state("clicks") == []
        assert store.collect_garbage(after.token) == 1
        assert bytes_of(store.depot, part) == b"new"

    @pytest.mark.parametrize(
        ("then", "error"),
        [
            pytest.param(manifest(1), EpochTaken, id="an epoch that is taken"),
            pytest.param(manifest(3), EpochTaken, id="an epoch too far"),
            pytest.param(
                manifest(2, [Part(name="1-2-nobody-state", bytes=1, checksum=2)]),
                StateLost,
                id="a segment that was not staged",
            ),
            pytest.param(
                manifest(2, outputs=[output(Part(name="1-2-nobody-main", bytes=1, checksum=2))]),
                StateLost,
                id="output that was not staged",
            ),
        ],
    )
    def test_a_reset_that_cannot_begin_has_forgotten_nothing(
        self, store: Store, then: Manifest, error: type[Exception]
    ) -> None:
        _, part = self.one_epoch(store)
        before = self.reopened(store)
        keys = self.readable_state("clicks")
        store.adopt(before.token, {"gap_ms": 6})
        with pytest.raises(error):
            store.reset(before.token, then=then)
        after = self.reopened(store)
        assert after == msgspec.structs.replace(before, token=after.token)
        assert (bytes_of(store.depot, part), self.readable_state("clicks")) == (b"state", keys)
        store.commit(after.token, manifest(2, [part]))
