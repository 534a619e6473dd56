"""Open windows are counted as often as that is cheap."""

from tidegate.spark.counting import OpenCount
from tidegate.spark.orders import Saw, ShardReport


def report(open_: int | None, seconds: float = 0.0) -> ShardReport:
    saw = Saw(seen_digest="", watermarks_digest="")
    return ShardReport(shard=0, attempt="", saw=saw, open=open_, seconds={"count": seconds})


def test_the_shards_count_together() -> None:
    assert OpenCount().after([report(2), report(3)], 0).open == 5


def test_a_count_is_kept_until_the_next_one() -> None:
    counted = OpenCount().after([report(2)], 0)
    assert counted.after([report(None)], 10) is counted


def test_what_took_long_is_not_done_again_soon() -> None:
    counted = OpenCount().after([report(2, seconds=0.5), report(2, seconds=0.1)], 1_000)
    assert counted.due_us == 1_000 + 50 * 1_000_000
    assert not counted.due(counted.due_us - 1)
    assert counted.due(counted.due_us)


def test_a_clock_that_was_set_back_does_not_stop_the_counting() -> None:
    assert OpenCount().after([report(2, seconds=0.5)], 1_000).due(999)
