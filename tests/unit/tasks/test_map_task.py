"""Which slices a task reads, and how: together, alone, or for a transform."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from tidegate.core.event_times import EventTimes
from tidegate.core.watermark import PipelineWatermark, SourceWatermark
from tidegate.engine.executor import map_order
from tidegate.engine.inputs import Feed
from tidegate.errors import ConfigError, InconsistentEpoch
from tidegate.pipeline import Aggregation, Join, Window
from tidegate.sources.memory import MemorySlice
from tidegate.sources.protocol import Polled, Slice, SliceDefaults
from tidegate.spark import frame_tasks, handover
from tidegate.spark.frame_tasks import ReadOrder, RowsOrder
from tidegate.state.library import library_version
from tidegate.tasks.map_task import map_slices
from tidegate.tasks.orders import (
    Edge,
    JobContext,
    MapOrder,
    PlannedSlice,
    Seen,
    SourceOrder,
    StepOrder,
    watermark_after,
)
from tidegate.tasks.wire import Arrived, arrived

READ: list[str] = []
_EMPTY = pa.RecordBatch.from_pydict(
    {
        "letter": pa.array([], pa.string()),
        "at": pa.array([], pa.int64()),
        "raw": pa.array([], pa.binary()),
    }
)


@dataclass(frozen=True)
class Letters(SliceDefaults):
    """Rows (letter, time), of which some could not be decoded."""

    partition: int
    rows: tuple[tuple[str | None, int | None, bytes | None], ...]

    @property
    def first_offset(self) -> int:
        return 100

    @property
    def span(self) -> int:
        return len(self.rows)

    def read(self, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        READ.append(f"read {self.partition}")
        yield self._batch(columns)

    def _batch(self, columns: Sequence[str] | None) -> pa.RecordBatch:
        names = ("letter", "at", "raw")
        frame = pl.DataFrame(
            self.rows, schema={"letter": pl.String, "at": pl.Int64, "raw": pl.Binary}, orient="row"
        )
        table = frame.select(columns or names).to_arrow()
        return table.combine_chunks().to_batches()[0] if frame.height else _EMPTY


@dataclass(frozen=True)
class Together(Letters):
    """Letters that are read with others."""

    def read_all(
        self, slices: Sequence[Slice], columns: Sequence[str] | None
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        READ.append(f"read_all {[each.partition for each in slices]}")
        for place, each in reversed([*enumerate(slices)]):
            assert isinstance(each, Together)
            yield place, each._batch(columns)


WINDOW = Window(
    kind="tumbling",
    width_ms=1,
    group_by="letter",
    aggregations=[Aggregation(kind="last", input_column="letter")],
)
JOIN = Join(left="letters", right="others", on="letter", time_window_ms=1)


def edge(config: Window | Join = WINDOW) -> Edge:
    return Edge(
        number=0,
        source=0,
        operator=0,
        input=0,
        keys=("letter",),
        casts={"letter": pl.String()},
        keeps_columns=False,
        keeps_positions=True,
        numbers_rows=isinstance(config, Join),
    )


def context(
    *,
    transformed: bool = False,
    undecodable: bool = True,
    keeps_rejected: bool = True,
    config: Window | Join = WINDOW,
    event_time: str | None = "at",
) -> JobContext:
    source = SourceOrder(
        name="letters",
        place=0,
        event_time=event_time,
        event_time_unit="us",
        max_future_skew_us=None,
        columns=None,
        read=frozenset(["letter", "at"]),
        partitioned=True,
        undecoded=None if transformed else "raw",
        handed_over="raw" if transformed and undecodable else None,
    )
    return JobContext(
        pipeline="p",
        library_version=library_version(),
        sources=(source,),
        edges=(edge(config),),
        operators=(),
        keeps_rejected=keeps_rejected,
        shards=1,
        depot=None,  # type: ignore[arg-type]  # nothing is stored
        worker_cache_bytes=0,
        writers={},
        channel_schemas={"rejected": pl.Schema({"reason": pl.String()})},
    )


def came(order: MapOrder, expecting: int, job: JobContext | None = None) -> Arrived:
    batches = map_slices(job or context(), order, range(len(order.tasks)))
    return arrived(batches, [edge()], frozenset(range(expecting)))


def feed(
    *slices: Letters, source: int = 0, tasks: tuple[tuple[int, ...], ...] | None = None
) -> Feed:
    return Feed(source=source, polled=Polled(slices=slices, until={}, unread=False, tasks=tasks))


A = (("a", 1, None), ("b", 5, None))
BAD = (("c", 7, None), (None, None, b"{"), ("d", 9, b"seen, but broken"))


@pytest.fixture(autouse=True)
def nothing_read() -> None:
    READ.clear()


def test_slices_of_one_task_are_read_together_and_kept_apart() -> None:
    slices = Together(0, A), Together(3, BAD), Together(1, ())
    order = map_order([feed(*slices, tasks=((0, 1), (2,)))], 0)
    arrived_ = came(order, 3)
    assert READ == ["read_all [0, 3]", "read_all [1]"]
    assert [(seen.partition, seen.rows, seen.highest_us) for seen in arrived_.seen] == [
        (0, 2, 5),
        (3, 1, 7),
        (1, 0, None),
    ]
    assert arrived_.events[0].columns["letter"].to_list() == ["a", "b", "c"]
    assert arrived_.events[0].lane.tolist() == [0, 0, 3]


def test_slices_that_know_nothing_of_each_other_are_read_one_by_one() -> None:
    order = map_order([feed(Letters(0, A), Letters(1, A), tasks=((0, 1),))], 0)
    assert [seen.rows for seen in came(order, 2).seen] == [2, 2]
    assert READ == ["read 0", "read 1"]


def test_slices_are_numbered_through_all_feeds() -> None:
    one = Letters(0, A), Letters(1, A), Letters(2, A)
    order = map_order([feed(*one, tasks=((0, 2), (1,))), feed(Letters(0, A), source=1)], 0)
    assert order.slices == (
        *(PlannedSlice(source=0, slice=each) for each in one),
        PlannedSlice(source=1, slice=Letters(0, A)),
    )
    assert order.tasks == ((0, 2), (1,), (3,))


def test_rows_that_could_not_be_decoded_are_rejected_with_all_that_is_known_of_them() -> None:
    order = map_order([feed(Letters(0, BAD))], 0)
    arrived_ = came(order, 1)
    assert arrived_.seen[0].rejected == {"unparsable": 2}
    assert arrived_.seen[0].examples == {"unparsable": ("raw", "b'{'")}
    (rejected,) = arrived_.rejected
    assert rejected.rows() == [
        (None, None, b"{", "unparsable"),
        ("d", 9, b"seen, but broken", "unparsable"),
    ]


def test_rows_that_arrive_have_the_time_of_arrival_whatever_the_clock_says() -> None:
    order = map_order([feed(Letters(0, A), Letters(1, BAD))], 5, 7)
    arrived_ = came(order, 2, context(event_time=None))
    assert [seen.highest_us for seen in arrived_.seen] == [7, 7]


def test_each_partition_moves_its_own_watermark() -> None:
    watermark = PipelineWatermark(sources={"letters": SourceWatermark()}).parted("letters", [0, 1])
    order = StepOrder(
        epoch=1,
        token=1,
        now_us=0,
        watermark=watermark,
        stated_us={},
        slices=None,
        stacks={},
    )
    seen = [
        Seen(slice=nth, source=0, partition=partition, rows=1, highest_us=us)
        for nth, (partition, us) in enumerate([(0, 50), (1, 20), (0, 70)])
    ]
    after = watermark_after(order, context(), seen)
    assert after.watermark_us == 20
    assert {key: each.watermark_us for key, each in after.sources.items()} == {
        "letters/0": 70,
        "letters/1": 20,
    }


def test_a_row_that_could_not_be_read_has_no_time() -> None:
    times = EventTimes(pl.Series("event_us", [1, 2, None]), None)
    without = times.without(pl.Series([False, True, False]))
    assert without.event_us.to_list() == [1, None, None]
    assert without.unparsable is not None
    assert without.unparsable.tolist() == [False, True, False]


# --- past a transform ----------------------------------------------------------------------------


@dataclass
class Attempt:
    """The attempt of the task that runs now."""

    number: int = 1

    def get(self) -> Attempt:
        return self

    def taskAttemptId(self) -> int:  # noqa: N802 - as Spark calls it
        return self.number


@pytest.fixture
def attempt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Attempt:
    attempt = Attempt()
    monkeypatch.setattr(handover, "TaskContext", attempt)
    monkeypatch.setattr(frame_tasks, "_partition", lambda: 0)
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},{tmp_path / 'another'}")
    return attempt


def read_for_spark(*slices: Letters) -> Iterator[pa.RecordBatch]:
    """What a transform gets of slices."""
    schema = pa.schema([("letter", pa.string()), ("at", pa.int64()), ("raw", pa.binary())])
    order = ReadOrder(slices=slices, schema=schema, undecoded="raw", undecoded_columns=("raw",))
    numbers = pa.RecordBatch.from_pydict({"id": [*range(len(slices))]})
    return frame_tasks.read_slices(pickle.dumps(order), iter([numbers]))


def mapped_rows(slice_: Letters, *rows: pa.RecordBatch, keeps_rejected: bool = True) -> Arrived:
    """What comes of rows that a transform made of a slice."""
    order = RowsOrder(
        context=context(transformed=True, keeps_rejected=keeps_rejected).packed,
        now_us=0,
        epoch=7,
        source=0,
        first_slice=0,
        first_partition=0,
        slices=(slice_,),
    )
    batches = frame_tasks.map_rows(pickle.dumps(order), iter(rows))
    return arrived(batches, [edge()], frozenset([0]))


@pytest.mark.usefixtures("attempt")
def test_a_record_is_read_once_and_goes_through_its_transform_or_past_it() -> None:
    made = [batch.drop_columns("raw") for batch in read_for_spark(Letters(2, BAD))]
    assert [batch.to_pylist() for batch in made] == [[{"letter": "c", "at": 7}]]
    came_ = mapped_rows(Letters(2, BAD), *made)
    assert came_.events[0].columns["letter"].to_list() == ["c"]
    assert [(each.rows, each.rejected) for each in came_.seen] == [(1, {"unparsable": 2})]
    assert came_.seen[0].examples == {"unparsable": ("raw", "b'{'")}
    (rejected,) = came_.rejected
    assert rejected.columns == ["raw", "reason"]
    assert rejected.rows() == [(b"{", "unparsable"), (b"seen, but broken", "unparsable")]
    assert READ == ["read 2"]


@pytest.mark.usefixtures("attempt")
def test_rows_of_a_transform_are_rejected_beside_those_that_passed_it_by() -> None:
    [*_] = read_for_spark(Letters(0, BAD))
    untimely = pa.RecordBatch.from_pydict({"letter": ["c"], "at": pa.array([None], pa.int64())})
    came_ = mapped_rows(Letters(0, BAD), untimely)
    assert came_.seen[0].rejected == {"no_event_time": 1, "unparsable": 2}
    assert [each.columns for each in came_.rejected] == [
        ["letter", "at", "reason"],
        ["raw", "reason"],
    ]


@pytest.mark.usefixtures("attempt")
def test_where_nobody_wants_undecoded_rows_they_are_counted() -> None:
    made = [batch.drop_columns("raw") for batch in read_for_spark(Letters(0, BAD))]
    came_ = mapped_rows(Letters(0, BAD), *made, keeps_rejected=False)
    assert (came_.rejected, came_.seen[0].rejected) == ((), {"unparsable": 2})


@pytest.mark.usefixtures("attempt")
def test_slices_are_handed_over_one_by_one_and_nothing_stays_behind(tmp_path: Path) -> None:
    assert len([*read_for_spark(Letters(0, BAD), Letters(1, A))]) == 2
    raw = [handover.taken_over(number) for number in (1, 0)]
    assert [None if each is None else each["raw"].to_list() for each in raw] == [
        None,
        [b"{", b"seen, but broken"],
    ]
    assert [*tmp_path.iterdir()] == []


def test_what_another_attempt_has_read_is_not_taken(attempt: Attempt) -> None:
    made = [*read_for_spark(Letters(0, BAD))]
    attempt.number = 2
    with pytest.raises(InconsistentEpoch, match="slice 0 was not read to its end in the task"):
        mapped_rows(Letters(0, BAD), *made)


@pytest.mark.usefixtures("attempt")
def test_a_transform_that_leaves_rows_unread_fails_the_epoch(tmp_path: Path) -> None:
    reading = read_for_spark(Letters(0, BAD))
    some = next(reading)
    with pytest.raises(InconsistentEpoch, match="slice 0 was not read to its end in the task"):
        mapped_rows(Letters(0, BAD), some)
    reading.close()  # type: ignore[attr-defined]  # it is a generator
    assert [*tmp_path.iterdir()] == []


# --- what slices say of their rows ---------------------------------------------------------------


def seen_of(at: pl.Series, *, now_us: int = 0, **source: Any) -> Seen:
    """What a slice says of rows with these event times, and users of whom none is known."""
    job = context(keeps_rejected=False)
    (usual,) = job.sources
    job = replace(job, sources=(replace(usual, undecoded=None, **source),))
    rows = pl.DataFrame([at.alias("at"), pl.Series("letter", [None] * len(at), pl.String)])
    (batch,) = rows.rechunk().to_arrow().to_batches()
    plan = MapOrder(
        now_us=now_us,
        slices=(PlannedSlice(source=0, slice=Given(batch)),),
        tasks=((0,),),
    )
    return came(plan, 1, job).seen[0]


@dataclass(frozen=True)
class Given(SliceDefaults):
    """Rows as they are."""

    rows: pa.RecordBatch
    partition: int = 0
    first_offset: int = 0
    span: int = 100

    def read(self, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        yield self.rows


def test_a_slice_has_an_example_of_each_reason_by_its_first_row() -> None:
    at = pl.Series([None, 5, 2**62, 90, 80])
    said = seen_of(at, now_us=10, max_future_skew_us=60)
    assert said.rejected == {"no_event_time": 1, "out_of_range": 1, "future": 2}
    assert said.examples == {"out_of_range": ("at", str(2**62)), "future": ("at", "90")}
    assert (said.rows, said.lowest_us, said.highest_us, said.null_keys) == (1, 5, 5, ("letter",))


@pytest.mark.parametrize(
    ("at", "example"),
    [
        (pl.Series(["2026-01-05", "05.01.2026", "soon"]), "'05.01.2026'"),
        (pl.Series(["\x1b[2J\n\u202e{0} %s"]), "'\\x1b[2J\\n\\u202e{0} %s'"),
        (pl.Series(["x" * 1_000_000]), f"'{'x' * 80}'"),
        (pl.Series(["https://ann:pw@host/"]), "'https://***@host/'"),
        (pl.Series([2**62]).cast(pl.Datetime("ms")), str(2**62)),
    ],
    ids=["first", "control-characters", "long", "secret", "far-off"],
)
def test_an_example_is_short_and_printable(at: pl.Series, example: str) -> None:
    said = seen_of(at, event_time_unit=None)
    assert said.examples == {"unparsable": ("at", example)}


def test_an_example_of_a_timestamp_is_a_time() -> None:
    at = pl.Series([4_923_288_000_000_000, 2**61 + 1]).cast(pl.Datetime("us", "UTC"))
    said = seen_of(at, event_time_unit=None, max_future_skew_us=0)
    assert said.examples == {
        "future": ("at", "2126-01-05T12:00:00.000Z"),
        "out_of_range": ("at", f"{2**61 + 1} us"),
    }


# --- positions behind a transform ----------------------------------------------------------------


def positions(
    monkeypatch: pytest.MonkeyPatch, config: Window | Join, *made: int, first_offset: int = 100
) -> list[list[int]]:
    """Those of the rows that a transform makes of slices of two rows, one behind the other."""
    slices = [
        MemorySlice(first_offset=first_offset + 2 * nth, span=2, packed=b"")
        for nth in range(len(made))
    ]
    order = RowsOrder(
        context=context(transformed=True, undecodable=False, config=config).packed,
        now_us=0,
        epoch=7,
        source=0,
        first_slice=0,
        first_partition=1,
        slices=tuple(slices),
    )
    batches: list[pa.RecordBatch] = []
    for nth, count in enumerate(made):
        monkeypatch.setattr(frame_tasks, "_partition", lambda nth=nth: 1 + nth)
        rows = pa.RecordBatch.from_pydict({"letter": ["a"] * count, "at": [1] * count})
        batches += frame_tasks.map_rows(pickle.dumps(order), iter([rows]))
    (events,) = arrived(iter(batches), [edge()], frozenset(range(len(made)))).events.values()
    assert set(events.lane.tolist()) <= {0}
    return [each.tolist() for each in np.split(events.offset, np.cumsum(made)[:-1])]


@pytest.mark.parametrize("config", [WINDOW, JOIN], ids=["window", "join"])
def test_many_rows_made_of_one_have_a_position_each(
    config: Window | Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = positions(monkeypatch, config, 500, 1, 3)
    assert [*first, *second, *third] == sorted({*first, *second, *third})
    assert len({*first, *second, *third}) == 504


def test_more_rows_than_positions_stop_a_join_and_are_a_tie_in_a_window(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert positions(monkeypatch, WINDOW, 3, first_offset=1 << 50) == [[(1 << 63) - 1] * 3]
    with pytest.raises(ConfigError) as stopped:
        positions(monkeypatch, JOIN, 3, first_offset=1 << 50)
    assert str(stopped.value).splitlines() == [
        "sources[0].transform: found 3 rows made of one part of source 'letters', "
        "expected at most 0 before a join",
        "  hint: make fewer rows of one, or make them before the source is written",
    ]
