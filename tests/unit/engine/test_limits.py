"""When keys are counted, and what a count says."""

from __future__ import annotations

import logging

import pytest

from tidegate.engine.limits import KeyBound, OpenCount, check_limits
from tidegate.errors import StateLimitReached
from tidegate.pipeline import StateStore
from tidegate.tasks.orders import OperatorReport


def bound(at_most: int, allowed: int | None = 10, new_rows: int = 0) -> KeyBound:
    return KeyBound(allowed=allowed, at_most=at_most, new_rows=new_rows)


def test_without_a_limit_nothing_is_near() -> None:
    assert not bound(10**9, allowed=None, new_rows=10**9).near
    assert not bound(10**9, allowed=None, new_rows=10**9).near_after_next


def test_near_is_what_people_are_warned_of() -> None:
    assert [bound(keys).near for keys in (0, 8, 9, 11)] == [False, False, True, True]


def test_an_epoch_is_expected_to_bring_as_much_as_the_last() -> None:
    assert [bound(4, new_rows=rows).near_after_next for rows in (0, 4, 5)] == [False, False, True]


def test_there_are_no_more_keys_than_rows() -> None:
    assert bound(4).after(new_rows=3, held_rows=100) == bound(7, new_rows=3)
    assert bound(4).after(new_rows=3, held_rows=5) == bound(5, new_rows=3)
    assert bound(4).after(new_rows=3, held_rows=0) == bound(0, new_rows=3)


def test_a_count_is_the_bound_from_then_on() -> None:
    counted = bound(100).after(new_rows=5, held_rows=90).counted(6)
    assert counted == bound(6, new_rows=5)
    assert counted.after(new_rows=1, held_rows=91) == bound(7, new_rows=1)


@pytest.mark.parametrize("limit", ["max_keys", "max_state_bytes"])
def test_a_limit_is_warned_of_then_refused(limit: str, caplog: pytest.LogCaptureFixture) -> None:
    store = StateStore.from_dict({limit: 10})

    def check(found: int) -> None:
        check_limits("orders", store, keys=found, bytes_held=found)

    with caplog.at_level(logging.WARNING, "tidegate"):
        check(8)
        assert caplog.messages == []
        check(9)
        check(10)
    near = [f"state is near its limit: {limit} is {found}, allowed are 10" for found in (9, 10)]
    assert caplog.messages == near
    with pytest.raises(
        StateLimitReached, match=f"{limit}: found 11, allowed are 10\n  hint: raise"
    ):
        check(11)


# --- what is open ---


def report(open_: int | None) -> OperatorReport:
    return OperatorReport(open=open_)


def test_the_shards_count_together() -> None:
    assert OpenCount().after([report(2), report(3)], 0.0, 0).open == 5


def test_a_count_is_kept_until_the_next_one() -> None:
    counted = OpenCount().after([report(2)], 0.0, 0)
    assert counted.after([report(None)], 0.0, 10) is counted


def test_what_took_long_is_not_done_again_soon() -> None:
    counted = OpenCount().after([report(2), report(2)], 0.5, 1_000)
    assert counted.due_us == 1_000 + 50 * 1_000_000
    assert not counted.due(counted.due_us - 1)
    assert counted.due(counted.due_us)


def test_a_clock_that_was_set_back_does_not_stop_the_counting() -> None:
    assert OpenCount().after([report(2)], 0.5, 1_000).due(999)
