"""Sources end to end: what is read, what only once, what is turned away, and what stops a run."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import polars as pl
import pytest

from tests.services.home import MEMORY, Home, clicks, lasts, second, sessions, tumbling
from tidegate import Aggregation, ConfigError, Source, Watermark, memory_table, windows_of
from tidegate.errors import BatchOutOfOrder, SourceChanged, UnreadableSource
from tidegate.eventtime import now_us
from tidegate.spark.inputs import TableInput
from tidegate.spark.transforms import Transform

KINDS = ["parquet", "json", "csv"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_that_grows_is_read_on_and_open_windows_go_on(home: Home, kind: str) -> None:
    pipeline = home.pipeline(home.files(kind), window=sessions(), watermark=lasts(5))
    home.write(f"a.{kind}", clicks(("ann", 1), ("bob", 2), ("ann", 9)))
    first = home.run(pipeline)
    assert (first.rows, home.counted()) == (3, [])
    home.write(f"b.{kind}", clicks(("ann", 15), ("cid", 40)))
    second_run = home.run(pipeline)
    assert (second_run.rows, home.counted()) == (2, [("ann", 1, 3), ("bob", 2, 1)])
    assert home.run(pipeline).rows == 0
    home.run(pipeline, on_end="flush")
    assert home.counted() == [("ann", 1, 3), ("bob", 2, 1), ("cid", 40, 1)]


def test_files_whose_rows_are_out_of_order_give_the_windows_of_one_table(home: Home) -> None:
    late_first = clicks(*[(f"user {n % 7}", 200 - n) for n in range(200)])
    early_last = clicks(*[(f"user {n % 5}", 50 - n) for n in range(50)])
    home.write("1.parquet", late_first)
    home.write("2.parquet", early_last)
    pipeline = home.pipeline(home.files(), window=sessions(), watermark=lasts(300))
    home.run(pipeline, max_rows_per_epoch=60, on_end="flush")
    table = pl.concat([late_first, early_last]).with_columns(pl.col("ts") * 1_000_000)
    expected = windows_of(table, sessions(), event_time="ts").sort("user", "window_start")
    assert home.table().sort("user", "window_start").equals(expected)


def test_a_folder_that_was_moved_is_not_read_a_second_time(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path is another folder where the process runs elsewhere."""
    home.write("a.parquet", clicks(("ann", 1)))
    pipeline = home.pipeline(home.files(options={"path": "in"}))
    monkeypatch.chdir(home.folder)
    assert home.run(pipeline).rows == 1
    moved = home.folder / "moved"
    moved.mkdir()
    (home.folder / "in").rename(moved / "in")
    monkeypatch.chdir(moved)
    with pytest.raises(ConfigError) as refused:
        home.run(pipeline)
    (problem,) = refused.value.problems
    assert problem.at == "sources.options.path"
    assert problem.found == f"{moved}/in, while files were read from {home.folder}/in"
    (home.folder / "in").symlink_to(moved / "in")
    monkeypatch.chdir(home.folder)
    assert home.run(pipeline).rows == 0


TIMES: dict[str, tuple[list[Any], pl.DataType, str | None, str]] = {
    "timestamp": ([second(12)], pl.Datetime("us", "UTC"), None, "no_event_time"),
    "zoned": ([second(12)], pl.Datetime("ns", "Asia/Tokyo"), None, "no_event_time"),
    "local": ([datetime(1970, 1, 1, 0, 0, 12)], pl.Datetime("ms"), None, "no_event_time"),  # noqa: DTZ001
    "day": ([date(1970, 1, 1)], pl.Date(), None, "no_event_time"),
    "text": (["1970-01-01T01:00:12+01:00", "soon"], pl.String(), None, "unparsable"),
    "seconds": ([12, 2**62], pl.Int64(), "s", "unparsable"),
    "milliseconds": ([12_345, 2**62], pl.Int64(), "ms", "unparsable"),
    "microseconds": ([12_345_678, 2**62], pl.Int64(), "us", "out_of_range"),
    "small": ([12], pl.Int32(), "s", "no_event_time"),
}


@pytest.mark.parametrize("how", TIMES)
def test_event_times_of_every_type_are_read_and_what_is_no_time_is_rejected(
    home: Home, how: str
) -> None:
    values, dtype, unit, reason = TIMES[how]
    times = pl.Series("time", [*values, None][:2], dtype=dtype, strict=False)
    home.write("a.parquet", clicks(("ann", 0), ("bob", 0)).with_columns(times))
    source = home.files(event_time="time", event_time_unit=unit)
    result = home.run(home.pipeline(source, rejected=MEMORY), on_end="flush")
    assert home.counted() == [("ann", 0 if how == "day" else 10, 1)]
    assert home.table("rejected").rows() == [("bob", 0, times[1], reason)]
    assert (result.counts["rejected"], result.counts[f"rejected.{reason}"]) == (1, 1)


def test_rejected_rows_are_counted_where_nobody_wants_them(home: Home) -> None:
    result = home.run(home.pipeline(home.memory(clicks(("ann", None), ("bob", 2)))))
    assert (result.rows, result.counts["rejected.no_event_time"]) == (1, 1)


def test_a_time_too_far_ahead_of_the_clock_moves_no_watermark(home: Home) -> None:
    now_s = now_us() // 1_000_000
    rows = clicks(("ann", now_s - 60), ("bob", now_s + 3600), ("ann", now_s - 59))
    guard = Watermark(max_future_skew_ms=600_000)
    pipeline = home.pipeline(home.memory(rows), watermark=guard, rejected=MEMORY)
    result = home.run(pipeline)
    assert result.watermark_us == (now_s - 59) * 1_000_000
    assert home.table("rejected").rows() == [("bob", now_s + 3600, "future")]


def test_a_generator_gives_the_same_rows_whatever_the_epochs_are(home: Home) -> None:
    options = {"rows": 2000, "keys": 50, "events_per_second": 20, "null_share": 0.1, "seed": 7}
    source = Source(name="made", format="generator", event_time="event_time", options=options)
    window = tumbling(
        group_by="user_id",
        aggregations=[
            Aggregation(kind="count"),
            Aggregation(kind="last", input_column="page"),
            Aggregation(kind="max", input_column="amount"),
        ],
    )
    tables = []
    for nth, (rows, shards) in enumerate([(2000, 1), (700, 3)]):
        name = f"{home.name}-{nth}"
        pipeline = home.pipeline(source, name=name, window=window, watermark=lasts(20))
        result = home.run(pipeline, max_rows_per_epoch=rows, shards=shards, on_end="flush")
        assert (result.rows + result.counts["rejected"], result.counts["late"]) == (2000, 0)
        tables.append(memory_table(f"{name}.main").rows().sort("user_id", "window_start"))
    assert tables[0].height > 20
    assert tables[0].equals(tables[1])


def test_a_format_of_spark_is_read_once(home: Home) -> None:
    path = str(home.folder / "orc")
    frame = home.spark.createDataFrame([("ann", 1), ("bob", 2)], "user string, ts long")
    frame.write.orc(path)
    source = home.files("orc", options={"path": path})
    pipeline = home.pipeline(source)
    assert home.run(pipeline, on_end="flush").rows == 2
    assert home.counted() == [("ann", 0, 1), ("bob", 0, 1)]
    frame.write.mode("append").orc(path)
    assert home.run(pipeline).rows == 0
    with pytest.raises(SourceChanged, match=r"'above': '3'.*\n  hint: start over"):
        TableInput(spark=home.spark, source=source, place=0, transform=Transform()).poll(
            {"above": "3"}, max_rows=9, slices=1, now_us=0
        )
    with pytest.raises(BatchOutOfOrder, match=r"'read': True.*\n  hint: start over"):
        pipeline.batch_function()(frame, 0)


def test_a_table_without_any_partition_is_an_epoch_without_rows(home: Home) -> None:
    table = home.name.replace("-", "_")
    home.spark.sql(
        f"CREATE TABLE {table} (user string, ts long, d int) USING orc PARTITIONED BY (d)"
    )
    pipeline = home.pipeline(home.files("table", options={"table": table}))
    assert [epoch.rows for epoch in home.run(pipeline).epochs] == [0]
    home.spark.sql(f"DROP TABLE {table}")


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ({"format": "table"}, "sources.options.table: found nothing"),
        ({"format": "table", "options": {"table": "nobody"}}, "`nobody` cannot be found"),
        ({"format": "orcc", "options": {"path": "/tmp"}}, "orcc"),
        ({"format": "orc", "options": {"path": "/no/such"}}, "/no/such"),
        ({"format": "parquet"}, "sources.options.path: found nothing"),
        ({"format": "memory"}, "sources.options.name: found nothing"),
        ({"format": "generator", "options": {"row": 5}}, "sources.options.row: "),
    ],
)
def test_a_source_that_cannot_be_opened_is_told_by_its_place(
    home: Home, source: dict[str, Any], told: str
) -> None:
    spec = Source.from_dict(
        {"name": "x", "event_time": "ts", "event_time_unit": "s", "options": {}, **source}
    )
    with pytest.raises(ConfigError) as refused:
        home.run(home.pipeline(spec))
    assert "sources." in str(refused.value)
    assert told in str(refused.value)


def test_everything_wrong_with_all_sources_is_told_at_once(home: Home) -> None:
    sources = [
        home.files(options={"path": str(home.folder / "nowhere")}),
        home.memory(clicks(("ann", 1)), "fine"),
        home.memory(clicks(("ann", 1)), "odd", transform="SELECT usr FROM source"),
    ]
    with pytest.raises(ConfigError) as refused:
        home.run(home.pipeline(sources))
    assert [p.at for p in refused.value.problems] == ["sources[0].options.path"]
    with pytest.raises(ConfigError) as refused:
        home.run(home.pipeline([sources[2], home.memory(name="empty")]))
    places = [problem.at for problem in refused.value.problems]
    assert places == ["sources[0].transform", "sources[1].columns"]


def test_the_watermark_is_that_of_the_slower_source(home: Home) -> None:
    fast = home.memory(clicks(("ann", 1), ("ann", 100)), "fast")
    slow = home.memory(clicks(("bob", 2), ("bob", 15)), "slow")
    pipeline = home.pipeline([fast, slow])
    result = home.run(pipeline)
    assert result.watermark_us == 15_000_000
    assert home.counted() == [("ann", 0, 1), ("bob", 0, 1)]
    home.put(clicks(("bob", 40)), "slow")
    assert home.run(pipeline).watermark_us == 40_000_000
    assert home.counted() == [("ann", 0, 1), ("bob", 0, 1), ("bob", 10, 1)]


def test_a_source_without_rows_holds_the_watermark(home: Home) -> None:
    silent = home.memory(name="silent", columns={"user": "string", "ts": "long"})
    result = home.run(home.pipeline([home.memory(clicks(("ann", 1), ("ann", 100))), silent]))
    assert (result.rows, result.watermark_us, home.counted()) == (2, None, [])


def test_rows_with_equal_times_come_in_the_order_of_their_sources(home: Home) -> None:
    window = sessions(aggregations=[Aggregation(kind="collect", input_column="n")])
    one = home.memory(clicks(*[("ann", 5)] * 3, n=[1, 2, 3]), "one")
    two = home.memory(clicks(*[("ann", 5)] * 3, n=[4, 5, 6]), "two")
    home.run(home.pipeline([two, one], window=window), on_end="flush")
    assert home.table()["collect_n"].to_list() == [[4, 5, 6, 1, 2, 3]]


def test_arrival_is_the_clock_of_the_epoch(home: Home) -> None:
    source = home.memory(clicks(("ann", 1)), event_time="arrival", event_time_unit=None)
    before_us = now_us()
    result = home.run(home.pipeline(source, window=sessions()))
    assert result.watermark_us is not None
    assert before_us <= result.watermark_us <= now_us()


@pytest.mark.parametrize(
    ("kind", "trouble"),
    [
        *((kind, "retyped") for kind in KINDS),
        ("parquet", "corrupt"),
        ("json", "corrupt"),
        ("parquet", "missing"),
        ("csv", "missing"),
    ],
)
def test_a_file_that_is_not_like_the_others_stops_the_run_by_name(
    home: Home, kind: str, trouble: str
) -> None:
    home.write(f"a.{kind}", clicks(("ann", 1)))
    pipeline = home.pipeline(home.files(kind))
    assert home.run(pipeline).rows == 1
    if trouble == "corrupt":
        (home.folder / "in" / f"b.{kind}").write_bytes(b'PAR1\x00 {"user": \n')
    else:
        rows = clicks(("bob", 50))
        odd = rows.with_columns(ts=pl.lit("soon")) if trouble == "retyped" else rows.drop("user")
        home.write(f"b.{kind}", odd)
    for _ in range(2):  # it is not committed, and not forgotten
        with pytest.raises(UnreadableSource, match=rf"b\.{kind}(.|\n)*hint: "):
            home.run(pipeline, on_end="flush")
    assert home.counted() == []


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_folder_needs_columns_and_then_waits_for_files(home: Home, kind: str) -> None:
    (home.folder / "in").mkdir()
    with pytest.raises(ConfigError, match=r"sources\.columns: found no file in .*"):
        home.run(home.pipeline(home.files(kind)))
    pipeline = home.pipeline(home.files(kind, columns={"user": "string", "ts": "long"}))
    assert home.run(pipeline).epochs == ()
    home.write(f"a.{kind}", clicks(("ann", 1)))
    assert home.run(pipeline).rows == 1


def test_sources_whose_columns_differ_share_a_channel(home: Home) -> None:
    left = home.memory(clicks(("ann", 1), ("bob", None), a=[1, 2]), "left")
    right = home.memory(clicks(("cid", 1), ("dan", None), b=["x", "y"]), "right")
    home.run(home.pipeline([left, right], rejected=MEMORY), on_end="flush")
    assert home.counted() == [("ann", 0, 1), ("cid", 0, 1)]
    rejected = home.table("rejected").select("user", "a", "b", "reason").sort("user").rows()
    assert rejected == [("bob", 2, None, "no_event_time"), ("dan", None, "y", "no_event_time")]


@pytest.mark.parametrize("order", [("left", "right"), ("right", "left")])
def test_why_rows_are_turned_away_is_said_in_one_column(home: Home, order: tuple[str, str]) -> None:
    """In whichever shard they are, and whatever columns of its own a source has."""
    rows = {
        "left": clicks(("ann", 90), ("bob", None), reason=[7, 8]),
        "right": clicks(("cid", 90), ("dan", None), b=["x", "y"]),
    }
    sources = [home.memory(rows[name], name) for name in order]
    pipeline = home.pipeline(
        sources,
        window=tumbling(late_data="side_output"),
        watermark=lasts(0),
        rejected=MEMORY,
        late=MEMORY,
    )
    home.run(pipeline, shards=2)
    home.put(clicks(*[(f"left {n}", 1) for n in range(9)], reason=[*range(9)]), "left")
    home.put(clicks(*[(f"right {n}", 1) for n in range(9)], b=["z"] * 9), "right")
    home.run(pipeline, shards=2)
    rejected = home.table("rejected").select("user", "reason", "b", "_reason").sort("user").rows()
    assert rejected == [("bob", 8, None, "no_event_time"), ("dan", None, "y", "no_event_time")]
    late = home.table("late").select("user", "reason", "b", "_reason").sort("user").rows()
    assert late == [
        *((f"left {n}", n, None, "late") for n in range(9)),
        *((f"right {n}", None, "z", "late") for n in range(9)),
    ]


def test_sources_whose_columns_clash_cannot_share_a_channel(home: Home) -> None:
    left = home.memory(clicks(("ann", 1), n=[1]), "left")
    right = home.memory(clicks(("ann", 1), n=["x"]), "right")
    with pytest.raises(ConfigError, match=r"'n': long in 'left' and string in 'right'"):
        home.run(home.pipeline([left, right], rejected=MEMORY))
    home.run(home.pipeline([left, right]), on_end="flush")
    assert home.counted() == [("ann", 0, 2)]
