"""Input at the edges: extreme times and gaps, names that collide with ours, misuse."""

from __future__ import annotations

import contextlib
import random
from typing import Any

import numpy as np
import polars as pl
import pytest

from tidegate import Aggregation, ConfigError, Window, windows_of
from tidegate.core.clock import Clock
from tidegate.core.compiling import compile_window
from tidegate.core.hashing import xxhash64
from tidegate.core.rows import Rows
from tidegate.core.segment_format import from_bytes, to_bytes
from tidegate.core.stacks import Stack
from tidegate.core.step import step
from tidegate.errors import StateFormatError
from tidegate.eventtime import FOREVER
from tidegate.testing import LocalRun

COUNT = (Aggregation(kind="count"),)


def session(**changes: Any) -> Window:
    keys: dict[str, Any] = {"gap_ms": 10, "max_session_duration_ms": 10_000_000}
    keys |= {"kind": "session", "group_by": "user", "aggregations": COUNT}
    return Window.from_dict({key: v for key, v in (keys | changes).items() if v is not None})


def users(names: list[str], event_us: list[int], **more: list[Any]) -> pl.DataFrame:
    return pl.DataFrame({"user": names, "event_us": event_us, **more})


def test_hopping_windows_far_before_1970_are_one_row_each() -> None:
    window = Window(kind="hopping", width_ms=4000, hop_ms=1000, group_by="user", aggregations=COUNT)
    times = [-(2**46), *range(-15_000_000, 15_000_000, 1000)]
    sent = windows_of(users(["a"] * len(times), times), window, event_time="event_us")
    assert sent["window_start"].is_unique().all()
    assert sent["count"].sum() == 4 * len(times)


def test_a_key_may_hold_thousands_of_sessions() -> None:
    run = LocalRun(session(allowed_lateness_ms="unbounded"), {"user": "string"})
    run.epoch(users(["a"] * 20_000, [n * 20_000 for n in range(20_000)]), 10**9)
    run.epoch(users(["a"], [7]), 10**9)
    assert run.flush().rows.height == 20_000


@pytest.mark.parametrize("gap_ms", [2**63 - 1, 2**62, 10**16])
def test_a_gap_longer_than_time_does_not_wrap(gap_ms: int) -> None:
    window = session(gap_ms=None, gap_column="gap")
    run = LocalRun(window, {"user": "string", "gap": "long"})
    run.epoch(users(["a", "a"], [0, 5], gap=[gap_ms, 1]))
    sessions = run.flush().rows.with_columns(pl.col("window_end").dt.epoch("us"))
    assert sessions["count"].to_list() == [2]
    assert sessions["window_end"].to_list() == [min(gap_ms, (2**61 - 1) // 1000) * 1000]


def test_a_late_row_goes_unchanged_whatever_its_columns_are_called() -> None:
    run = LocalRun(session(), {"user": "string", "reason": "string"})
    run.epoch(users(["a"], [0], reason=["mine"]), 10**9)
    late = run.epoch(users(["b"], [0], reason=["mine"])).late
    assert late.to_dicts() == [{"user": "b", "reason": "mine", "event_us": 0, "_reason": "late"}]


def test_a_key_may_be_called_event_us() -> None:
    table = users(["a", "b"], [1, 2]).with_columns(at=pl.datetime(2026, 1, 5, time_zone="UTC"))
    sent = windows_of(table, session(group_by="event_us"), event_time="at")
    assert sorted(sent["event_us"].to_list()) == [1, 2]


@pytest.mark.parametrize(
    ("times", "problem"),
    [
        (pl.Series([None], dtype=pl.Int64), "found 1 NULLs in 'event_us', expected none"),
        (pl.Series(["now"]), "found 'event_us' of type String, expected timestamps"),
    ],
)
def test_event_times_must_be_times(times: pl.Series, problem: str) -> None:
    run = LocalRun(session(), {"user": "string"})
    with pytest.raises(ConfigError, match=problem):
        run.epoch(pl.DataFrame({"user": ["a"], "event_us": times}))


def test_the_end_of_time_is_not_a_watermark() -> None:
    run = LocalRun(session(allowed_lateness_ms="unbounded"), {"user": "string"})
    epoch = run.epoch(users(["a"], [0]), FOREVER)
    assert (epoch.rows.height, epoch.watermark_us) == (0, FOREVER - 1)
    assert run.flush().rows.height == 1


def arrived(column: pl.Series) -> Rows:
    zero = np.zeros(1, np.int64)
    key_hash = xxhash64([column])
    columns = pl.DataFrame({"user": column})
    return Rows(event_us=zero, lane=zero, offset=zero, key_hash=key_hash, columns=columns)


def test_a_flush_refuses_rows() -> None:
    clock = Clock(before_us=0, after_us=9, flush=True)
    operator = compile_window(session(), {"user": "string"})
    with pytest.raises(ValueError, match="a flush takes no rows, found 1"):
        step(operator, Stack(), [arrived(pl.Series(["a"]))], clock, owned=range(256))


def test_a_key_of_another_type_is_refused() -> None:
    operator = compile_window(session(), {"user": "long"})
    column = pl.Series([1], dtype=pl.Int32)
    with pytest.raises(TypeError, match="key column 'user': found type Int32, expected Int64"):
        step(operator, Stack(), [arrived(column)], Clock(before_us=0, after_us=0), owned=range(256))


@pytest.mark.parametrize(("before_us", "after_us"), [(10, 5), (0, FOREVER)])
def test_a_clock_moves_on_and_never_to_the_end(before_us: int, after_us: int) -> None:
    with pytest.raises(ValueError, match="a watermark moves on"):
        Clock(before_us=before_us, after_us=after_us)


def test_a_segment_with_flipped_bits_is_refused_or_read_but_never_ends_the_process() -> None:
    run = LocalRun(session(), {"user": "string"})
    run.epoch(users(["a", "", "b" * 40], [0, 1, 2]))
    data = to_bytes(run.stacks[0].segments[0])
    chance = random.Random(7)
    for _ in range(300):
        broken = bytearray(data)
        broken[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        with contextlib.suppress(StateFormatError):
            assert len(from_bytes(bytes(broken))) <= len(data)
