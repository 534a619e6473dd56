"""Running pipelines from Python: to an end, in the background, over and over, and with mistakes."""

from __future__ import annotations

import itertools
import threading
import time
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from tests.services.home import COUNT, MEMORY, Home, clicks, lasts, sessions, tumbling
from tidegate import (
    Aggregation,
    ConfigError,
    RunSettings,
    Source,
    StateStore,
    Target,
    Watermark,
    memory_table,
    run_streaming_pipeline,
)
from tidegate.engine.loop import Run
from tidegate.errors import (
    AggregateOverflow,
    InMemoryStateWarning,
    PipelineInUse,
    PlanChanged,
    StateLimitReached,
)
from tidegate.spark.backend import SparkBackend

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.engine.loop import RunResult
    from tidegate.engine.status import EpochReport, RunStatus

LONG_S = 120


def when(run: Run, reached: Callable[[RunStatus], bool]) -> RunStatus:
    """The status of a run once it is so; a run that fails, or takes for ever, fails the test."""
    tick, until = threading.Event(), time.monotonic() + LONG_S
    while not reached(status := run.status()):
        assert status.state not in ("failed", "ended"), status.error
        assert time.monotonic() < until, status
        tick.wait(0.01)
    return status


def test_one_call_runs_a_pipeline(home: Home) -> None:
    epochs: list[EpochReport] = []
    result = run_streaming_pipeline(
        sources=home.memory(clicks(("ann", 1), ("ann", None)), home.name),
        window=sessions(),
        target=MEMORY,
        rejected=MEMORY,
        state_store=StateStore(url=str(home.folder / "state")),
        spark=home.spark,
        on_end="flush",
        on_epoch=epochs.append,
    )
    name = f"{home.name}-session"
    assert result.pipeline.name == name
    assert memory_table(f"{name}.main").rows()["count"].to_list() == [1]
    assert memory_table(f"{name}.rejected").rows().height == 1
    assert tuple(epochs) == result.epochs
    assert [epoch.epoch for epoch in epochs] == [1, 2]


def test_windows_that_are_kept_go_on_in_the_next_run_and_flushed_ones_do_not(home: Home) -> None:
    kept = home.pipeline(home.memory(clicks(("ann", 1))), window=sessions(), watermark=lasts(60))
    home.run(kept, on_end="keep")
    assert home.counted() == []
    home.put(clicks(("ann", 5)))
    home.run(kept, on_end="flush")
    assert home.counted() == [("ann", 1, 2)]
    home.put(clicks(("ann", 4), ("ann", 9)))
    result = home.run(kept, on_end="flush")
    assert home.counted() == [("ann", 1, 2), ("ann", 9, 1)]
    assert result.counts["late"] == 1


def test_a_continuous_run_reads_what_comes_and_ends_when_told(home: Home) -> None:
    source = home.memory(columns={"user": "string", "ts": "long"})
    run = home.start(home.pipeline(source))
    assert when(run, lambda status: status.state == "waiting").epoch == 0
    home.put(clicks(("ann", 1), ("ann", 2), ("bob", None)))
    first = when(run, lambda status: status.counts.get("rows") == 2)
    assert (first.epoch, first.watermark_us, first.state_rows) == (1, 2_000_000, 1)
    assert first.state_bytes > 0
    assert first.counts["rejected"] == 1
    home.put(clicks(("ann", 15)))
    second = when(run, lambda status: status.counts.get("rows") == 3)
    assert (second.epoch, second.watermark_us) == (2, 15_000_000)
    assert home.counted() == [("ann", 0, 2)]
    run.stop()
    result = run.await_end(LONG_S)
    assert (run.status().state, run.status().error) == ("ended", None)
    assert [epoch.rows for epoch in result.epochs] == [2, 1]


def test_waiting_for_the_end_of_a_run_that_goes_on_says_so(home: Home) -> None:
    run = home.start(home.pipeline(home.memory(clicks(("ann", 1)))))
    with pytest.raises(TimeoutError, match=f"pipeline '{home.name}' still runs after"):
        run.await_end(0.001)
    run.stop()
    run.await_end(LONG_S)


def test_a_pipeline_that_runs_cannot_be_run_twice(home: Home) -> None:
    pipeline = home.pipeline(home.memory(clicks(("ann", 1))))
    run = home.start(pipeline)
    when(run, lambda status: status.epoch == 1)
    with pytest.raises(PipelineInUse, match=home.name):
        home.run(pipeline)
    run.stop()
    run.await_end(LONG_S)
    assert home.run(pipeline, on_end="flush").epochs


def test_idle_sources_let_the_watermark_go_on_and_windows_close(home: Home) -> None:
    """The slow source says nothing any more: the fast one need not wait for it."""
    idle = Watermark(source_idleness_ms=100)
    slow = home.memory(clicks(("bob", 3)), "slow")
    fast = home.memory(clicks(("ann", 1), ("ann", 25)), "fast")
    run = home.start(home.pipeline([slow, fast], watermark=idle))
    when(run, lambda status: (status.watermark_us or 0) == 25_000_000)
    run.stop()
    result = run.await_end(LONG_S)
    assert home.counted() == [("ann", 0, 1), ("bob", 0, 1)]
    assert result.rows == 3
    assert result.epochs[-1].rows == 0


def test_with_advance_when_idle_the_clock_closes_windows(home: Home) -> None:
    idle = Watermark(source_idleness_ms=50, advance_when_idle=True)
    window = tumbling(width_ms=200)
    run = home.start(home.pipeline(home.memory(clicks(("ann", 1))), window=window, watermark=idle))
    when(run, lambda status: (status.watermark_us or 0) >= 1_200_000)
    run.stop()
    run.await_end(LONG_S)
    assert home.counted() == [("ann", 1, 1)]


def test_a_mistake_fails_a_background_run_with_the_error_itself(home: Home) -> None:
    run = home.start(home.pipeline(home.memory(clicks(("ann", 1)), event_time="when")))
    with pytest.raises(ConfigError, match=r"sources\.event_time: found 'when'"):
        run.await_end(LONG_S)
    status = run.status()
    assert status.state == "failed"
    assert isinstance(status.error, ConfigError)


class Followed:
    """A listener that keeps what it is called with, and fails behind each epoch."""

    def __init__(self) -> None:
        self.called: list[tuple[str, str, int]] = []

    def started(self, status: RunStatus) -> None:
        self.called.append(("started", status.state, status.epoch))

    def epoch(self, report: EpochReport, status: RunStatus) -> None:
        assert status.last == report
        self.called.append(("epoch", status.state, status.epoch))
        raise LookupError(f"after epoch {report.epoch}")

    def ended(self, status: RunStatus, result: RunResult | None) -> None:
        self.called.append(("ended", status.state, len(result.epochs) if result else 0))


def test_an_error_of_a_listener_is_logged_and_the_run_goes_on(
    home: Home, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(epoch: EpochReport) -> None:
        raise OSError("no board")

    listener = Followed()
    pipeline = home.pipeline(home.memory(clicks(("ann", 1), ("ann", 50))))
    result = home.run(pipeline, on_epoch=fails, listeners=[listener], on_end="flush")
    assert [each.epoch for each in result.epochs] == [1, 2]
    assert home.counted() == [("ann", 0, 1), ("ann", 50, 1)]
    assert listener.called == [
        ("started", "starting", 0),
        ("epoch", "running", 1),
        ("epoch", "running", 2),
        ("ended", "ended", 2),
    ]
    said = [each for each in caplog.messages if each.startswith("listener ")]
    name = fails.__qualname__
    assert said == [
        "listener Followed failed, the run goes on: after epoch 1",
        f"listener on_epoch={name} failed, the run goes on: no board",
    ]


def test_a_listener_hears_of_a_run_that_fails(home: Home) -> None:
    listener = Followed()
    pipeline = home.pipeline(home.memory(clicks(("ann", 1)), event_time="when"))
    run = home.start(pipeline, mode="available_now", listeners=[listener])
    with pytest.raises(ConfigError):
        run.await_end(LONG_S)
    assert listener.called == [("started", "starting", 0), ("ended", "failed", 0)]


def test_the_settings_of_a_session_stay_as_they_are(home: Home) -> None:
    conf = home.spark.conf
    before = dict(home.spark.sparkContext.getConf().getAll()), conf.getAll
    views = home.spark.catalog.listTables()
    home.run(home.pipeline(home.memory(clicks(("ann", 1)), transform="SELECT * FROM source")))
    assert (dict(home.spark.sparkContext.getConf().getAll()), conf.getAll) == before
    assert home.spark.catalog.listTables() == views
    assert home.spark.sql("SELECT 1").collect()[0][0] == 1


def test_settings_that_do_not_exist_are_told_all_at_once(home: Home) -> None:
    pipeline = home.pipeline(home.memory(clicks(("ann", 1))))
    with pytest.raises(ConfigError) as refused:
        home.run(pipeline, mod="continuous", shards=0, on_end="drop")
    assert sorted(problem.at for problem in refused.value.problems) == ["mod", "on_end", "shards"]


def test_a_changed_window_is_refused_and_named(home: Home) -> None:
    source = home.memory(clicks(("ann", 1)))
    home.run(home.pipeline(source))
    changed = tumbling(
        width_ms=20_000, aggregations=[COUNT, Aggregation(kind="max", input_column="ts")]
    )
    with pytest.raises(PlanChanged) as refused:
        home.run(home.pipeline(source, window=changed))
    told = str(refused.value)
    assert "width_ms" in told
    assert "10000" in told
    assert "20000" in told
    assert "aggregations" in told
    assert refused.value.hint
    home.run(home.pipeline(source), on_end="flush")
    assert home.counted() == [("ann", 0, 1)]


def test_a_retyped_key_is_a_changed_plan(home: Home) -> None:
    home.write("a.parquet", clicks(("1", 1)))
    home.run(home.pipeline(home.files()))
    other = home.files(columns={"user": "long", "ts": "long"})
    with pytest.raises(PlanChanged, match=r"string(.|\n)*long"):
        home.run(home.pipeline(other))


def test_the_number_of_shards_may_change_at_every_run(home: Home) -> None:
    users = [f"user {n}" for n in range(40)]
    pipeline = home.pipeline(home.memory(), window=sessions(), watermark=lasts(600))
    for nth, shards in enumerate([1, 5, 2, 7]):
        home.put(clicks(*[(user, 1 + 4 * nth) for user in users]))
        home.run(pipeline, shards=shards)
    home.run(pipeline, shards=3, on_end="flush")
    assert home.counted() == sorted((user, 1, 4) for user in users)


def test_pipelines_of_different_names_share_a_folder(home: Home) -> None:
    source = home.memory(clicks(("ann", 1), ("ann", 50)))
    for name in (home.name, f"{home.name}-b"):
        home.run(home.pipeline(source, name=name, window=tumbling()))
    assert home.counted() == [("ann", 0, 1)]
    assert memory_table(f"{home.name}-b.main").rows().height == 1


def test_state_in_memory_warns_and_works(home: Home) -> None:
    with pytest.warns(InMemoryStateWarning, match="a crash or restart loses every open window"):
        pipeline = home.pipeline(
            home.memory(clicks(("ann", 1))), state_store=StateStore(kind="in_memory")
        )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        home.run(pipeline, on_end="flush")
    assert home.counted() == [("ann", 0, 1)]


@pytest.mark.parametrize(("limit", "allowed"), [("max_keys", 3), ("max_state_bytes", 100)])
def test_a_limit_of_state_stops_the_run_before_anything_is_committed(
    home: Home, limit: str, allowed: int
) -> None:
    url = str(home.folder / "state")
    rows = clicks(*[(f"user {n}", n) for n in range(50)])
    limited = StateStore.from_dict({"url": url, limit: allowed})
    pipeline = home.pipeline(home.memory(rows), state_store=limited, target=MEMORY)
    with pytest.raises(StateLimitReached, match=f"{limit}: found .* allowed are {allowed}\n  hint"):
        home.run(pipeline)
    assert home.table().width == 0
    unlimited = home.pipeline(home.memory(), state_store=StateStore(url=url))
    assert home.run(unlimited, on_end="flush").rows == 50
    assert len(home.counted()) == 50


def test_a_sum_that_overflows_stops_the_run_and_names_key_and_column(home: Home) -> None:
    window = tumbling(aggregations=[Aggregation(kind="sum", input_column="n")])
    rows = clicks(("ann", 1), ("bob", 1), ("bob", 2), n=[1, 2**62, 2**62])
    with pytest.raises(AggregateOverflow, match=r"'n' for key \{'user': 'bob'\}"):
        home.run(home.pipeline(home.memory(rows), window=window))
    assert home.table().width == 0


def test_all_kinds_of_keys_and_columns_make_the_way_through_state_and_target(home: Home) -> None:
    kinds = {
        "day": pl.Series([1, 1, 2]).cast(pl.Date),
        "cost": pl.Series(["1.50", "2.25", None]).cast(pl.Decimal(9, 2)),
        "raw": pl.Series([b"\x00", b"\x00", None]),
        "good": pl.Series([True, True, None]),
        "at": pl.Series([7, 7, None]).cast(pl.Datetime("us", "UTC")),
    }
    rows = clicks(("ann", 1), ("ann", 2), (None, 3)).with_columns(
        value.alias(name) for name, value in kinds.items()
    )
    window = tumbling(
        group_by=["user", "day", "raw", "good", "at"],
        aggregations=[
            Aggregation(kind="sum", input_column="cost"),
            Aggregation(kind="avg", input_column="cost"),
            Aggregation(kind="first", input_column="raw", output_name="first_raw"),
            Aggregation(kind="max", input_column="at", output_name="max_at"),
        ],
    )
    out = Target(format="parquet", options={"path": str(home.folder / "out")})
    pipeline = home.pipeline(home.memory(rows), window=window, target=out)
    home.run(pipeline, shards=2)
    home.run(pipeline, shards=3, on_end="flush")
    found = (
        home.read("out").orderBy("day").selectExpr("sum_cost", "avg_cost", "first_raw", "max_at")
    )
    rows_found = [
        (str(r.sum_cost), str(r.avg_cost), r.first_raw, r.max_at) for r in found.collect()
    ]
    assert [row[:3] for row in rows_found] == [
        ("3.75", "1.875000", b"\x00"),
        ("None", "None", None),
    ]


def test_micro_batches_of_a_users_own_query_are_epochs(home: Home) -> None:
    source = home.memory()
    pipeline = home.pipeline(source, window=sessions(), watermark=lasts(60))
    take = pipeline.batch_function()

    def batch(*rows: tuple[str, int]) -> DataFrame:
        return home.spark.createDataFrame(list(rows), "user string, ts long")

    take(batch(("ann", 1), ("bob", 2)), 0)
    take(batch(("ann", 1), ("bob", 2)), 0)
    take(batch(), 1)
    take(batch(("ann", 9), ("cid", 100)), 2)
    assert home.counted() == [("ann", 1, 2), ("bob", 2, 1)]


def test_a_run_over_what_there_is_ends_though_rows_keep_coming(home: Home) -> None:
    options = {"rate": 50_000, "keys": 10}
    endless = Source(name="clicks", format="generator", event_time="event_time", options=options)
    pipeline = home.pipeline(endless, window=tumbling(group_by=["user_id"]))
    first = home.run(pipeline, max_rows_per_epoch=10_000)
    assert first.rows == 50_000  # what a first run finds: those of a second
    assert home.run(pipeline).rows > 0


def test_rows_arrive_no_earlier_than_those_before_them_though_the_clock_goes_back(
    home: Home, caplog: pytest.LogCaptureFixture
) -> None:
    """A minute at every look, beside the job of an epoch and between two runs."""
    arriving = home.memory(event_time="arrival", event_time_unit=None)
    pipeline = home.pipeline([arriving, home.memory(clicks(("bob", 36_000)), "timed")])

    def executed(begins_s: int, **settings: Any) -> RunResult:
        home.put(clicks(*[("ann", None)] * 10))
        clock = itertools.count(begins_s * 1_000_000, -60_000_000)
        return Run(
            pipeline=pipeline,
            settings=RunSettings(max_rows_per_epoch=10, shards=2, **settings),
            backend=lambda: SparkBackend(home.spark),
            clock=lambda: next(clock),
        ).execute()

    for begins_s, on_end, epochs in ((36_000, "keep", 2), (18_000, "flush", 3)):
        result = executed(begins_s, on_end=on_end)
        assert (len(result.epochs), result.counts["late"]) == (epochs, 0)
    assert "1970-01-01T05:00:00.000Z, and rows have arrived at 1970-01-01T10" in caplog.text
    assert home.counted() == [("ann", 36_000, 20), ("bob", 36_000, 1)]


def test_a_clock_that_is_set_makes_no_source_idle(
    home: Home, caplog: pytest.LogCaptureFixture
) -> None:
    """An hour passes on the wall, and none in the room: the slow source is still waited for."""
    slow = home.memory(clicks(("bob", 3)), "slow")
    fast = home.memory(clicks(("ann", 1), ("ann", 25)), "fast")
    clock = itertools.chain(range(0, 20_000, 1_000), itertools.count(3_600_000_000, 1_000))
    room = itertools.count(0, 1_000)
    run = Run(
        pipeline=home.pipeline([slow, fast]),
        settings=RunSettings(mode="continuous", poll_interval_ms=1),
        backend=lambda: SparkBackend(home.spark),
        clock=lambda: next(clock),
        steady=lambda: next(room),
    ).start()
    when(run, lambda _: "was set forwards by 59 min 59 s" in caplog.text)
    polled = next(clock)
    when(run, lambda _: next(clock) > polled + 50_000)
    run.stop()
    assert run.await_end(LONG_S).watermark_us == 3_000_000
    assert home.counted() == []


def test_orders_that_are_too_large_for_a_setting_go_by_the_store(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.spark.executor._LARGE_ORDERS", 1)
    rows = home.memory(clicks(("ann", 1), ("ann", 2), ("bob", 3)))
    home.run(home.pipeline(rows, window=sessions(), watermark=lasts(60)), on_end="flush")
    assert home.counted() == [("ann", 1, 2), ("bob", 3, 1)]
