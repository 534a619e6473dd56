"""Which slices a task reads, and how: together, alone, or only what could not be decoded."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow as pa
import pytest

from tidegate.core.event_times import EventTimes
from tidegate.core.watermark import PipelineWatermark, SourceWatermark
from tidegate.errors import ConfigError
from tidegate.pipeline import Aggregation, Join, Window
from tidegate.sources.memory import MemorySlice
from tidegate.sources.protocol import ReadTogether, Slice
from tidegate.spark import map_task
from tidegate.spark.job import Feed, _map_order
from tidegate.spark.orders import (
    MapOrder,
    PlannedSlice,
    RowsOrder,
    Seen,
    SourceOrder,
    Standing,
    StepOrder,
)
from tidegate.spark.watermarks import watermark_after
from tidegate.spark.wire import Arrived, arrived
from tidegate.state.library import library_version

READ: list[str] = []
_EMPTY = pa.RecordBatch.from_pydict(
    {
        "letter": pa.array([], pa.string()),
        "at": pa.array([], pa.int64()),
        "raw": pa.array([], pa.binary()),
    }
)


@dataclass(frozen=True)
class Letters:
    """Rows (letter, time), of which some could not be decoded."""

    partition: int
    rows: tuple[tuple[str | None, int | None, bytes | None], ...]
    only_undecoded: bool = False

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
        rows = [row for row in self.rows if not self.only_undecoded or row[2] is not None]
        names = ("letter", "at", "raw")
        frame = pl.DataFrame(
            rows, schema={"letter": pl.String, "at": pl.Int64, "raw": pl.Binary}, orient="row"
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


def standing(
    *, transformed: bool = False, keeps_rejected: bool = True, config: Window | Join = WINDOW
) -> Standing:
    source = SourceOrder(
        name="letters",
        place=0,
        event_time="at",
        event_time_unit="us",
        max_future_skew_us=None,
        columns=None,
        needed=None,
        casts={"letter": pl.String()},
        partitioned=True,
        undecoded=None if transformed else "raw",
        undecoded_columns=("raw",),
    )
    return Standing(
        pipeline="p",
        library_version=library_version(),
        sources=(source,),
        operator_id="w",
        config=config,
        inputs=(),
        late_channel=None,
        keeps_rejected=keeps_rejected,
        shards=1,
        depot=None,  # type: ignore[arg-type]  # nothing is stored
        writers={},
        channel_schemas={},
    )


def came(order: MapOrder, expecting: int) -> Arrived:
    numbers = pa.RecordBatch.from_pydict({"id": list(range(len(order.tasks)))})
    batches = map_task.map_slices(pickle.dumps(order), iter([numbers]))
    return arrived(batches, ["letter"], frozenset(range(expecting)))


def planned(*slices: Letters, undecoded: bool = False) -> tuple[PlannedSlice, ...]:
    return tuple(PlannedSlice(source=0, slice=each, undecoded=undecoded) for each in slices)


A = (("a", 1, None), ("b", 5, None))
BAD = (("c", 7, None), (None, None, b"{"), ("d", 9, b"seen, but broken"))


@pytest.fixture(autouse=True)
def nothing_read() -> None:
    READ.clear()


def test_slices_of_one_task_are_read_together_and_kept_apart() -> None:
    slices = planned(Together(0, A), Together(3, BAD), Together(1, ()))
    order = _map_order(standing().packed, 0, [Feed(source=0, slices=slices, tasks=((0, 1), (2,)))])
    arrived_ = came(order, 3)
    assert READ == ["read_all [0, 3]", "read 1"]
    assert [(seen.partition, seen.rows, seen.highest_us) for seen in arrived_.seen] == [
        (0, 2, 5),
        (3, 1, 7),
        (1, 0, None),
    ]
    assert [each.columns["letter"].to_list() for each in arrived_.events] == [["a", "b"], ["c"], []]


def test_slices_that_know_nothing_of_each_other_are_read_one_by_one() -> None:
    assert not isinstance(Letters(0, A), ReadTogether)
    slices = planned(Letters(0, A), Letters(1, A))
    order = _map_order(standing().packed, 0, [Feed(source=0, slices=slices, tasks=((0, 1),))])
    assert [seen.rows for seen in came(order, 2).seen] == [2, 2]
    assert READ == ["read 0", "read 1"]


def test_slices_are_numbered_through_all_feeds() -> None:
    one, other = planned(Letters(0, A), Letters(1, A), Letters(2, A)), planned(Letters(0, A))
    feeds = [Feed(source=0, slices=one, tasks=((0, 2), (1,))), Feed(source=1, slices=other)]
    order = _map_order(b"", 0, feeds)
    assert order.slices == (*one, *other)
    assert order.tasks == ((0, 2), (1,), (3,))


def test_rows_that_could_not_be_decoded_are_rejected_with_all_that_is_known_of_them() -> None:
    order = _map_order(standing().packed, 0, [Feed(source=0, slices=planned(Letters(0, BAD)))])
    arrived_ = came(order, 1)
    assert arrived_.seen[0].rejected == {"unparsable": 2}
    (rejected,) = arrived_.rejected
    assert rejected.rows() == [
        (None, None, b"{", "unparsable"),
        ("d", 9, b"seen, but broken", "unparsable"),
    ]


def test_beside_a_transform_such_rows_come_alone() -> None:
    slices = planned(Letters(2, BAD, only_undecoded=True), undecoded=True)
    order = _map_order(standing(transformed=True).packed, 0, [Feed(source=0, slices=slices)])
    arrived_ = came(order, 1)
    assert arrived_.seen[0].rejected == {"unparsable": 2}
    assert (arrived_.seen[0].rows, arrived_.seen[0].highest_us) == (0, None)
    assert arrived_.rejected[0].columns == ["raw", "reason"]
    assert [each.columns["letter"].to_list() for each in arrived_.events] == [[]]


def test_where_nobody_wants_them_they_are_counted() -> None:
    order = standing(transformed=True, keeps_rejected=False).packed
    slices = planned(Letters(2, BAD, only_undecoded=True), undecoded=True)
    arrived_ = came(_map_order(order, 0, [Feed(source=0, slices=slices)]), 1)
    assert (arrived_.rejected, arrived_.seen[0].rejected) == ((), {"unparsable": 2})


def test_each_partition_moves_its_own_watermark() -> None:
    watermark = PipelineWatermark(sources={"letters": SourceWatermark()}).parted("letters", [0, 1])
    order = StepOrder(
        standing=b"",
        epoch=1,
        token=1,
        now_us=0,
        watermark=watermark,
        stated_us={},
        slices=None,
        stacks=(),
    )
    seen = [
        Seen(slice=nth, source=0, partition=partition, rows=1, highest_us=us, checksum=0)
        for nth, (partition, us) in enumerate([(0, 50), (1, 20), (0, 70)])
    ]
    after = watermark_after(order, standing(), seen)
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


def test_a_transform_sees_only_what_was_decoded() -> None:
    schema = pa.schema([("letter", pa.string()), ("at", pa.int64()), ("raw", pa.binary())])
    order = MapOrder(
        standing=b"",
        now_us=0,
        slices=planned(Letters(0, BAD), Letters(1, A)),
        tasks=((0,), (1,)),
        schema=schema,
        undecoded="raw",
    )
    numbers = pa.RecordBatch.from_pydict({"id": [0, 1]})
    batches = map_task.read_slices(pickle.dumps(order), iter([numbers]))
    assert [row["letter"] for batch in batches for row in batch.to_pylist()] == ["c", "a", "b"]


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
        standing=standing(transformed=True, config=config).packed,
        now_us=0,
        epoch=7,
        source=0,
        first_slice=0,
        first_partition=1,
        slices=tuple(PlannedSlice(source=0, slice=each) for each in slices),
    )
    batches: list[pa.RecordBatch] = []
    for nth, count in enumerate(made):
        monkeypatch.setattr(map_task, "_partition", lambda nth=nth: 1 + nth)
        rows = pa.RecordBatch.from_pydict({"letter": ["a"] * count, "at": [1] * count})
        batches += map_task.map_rows(pickle.dumps(order), iter([rows]))
    came_ = arrived(iter(batches), ["letter"], frozenset(range(len(made))))
    assert {int(lane) for each in came_.events for lane in each.lane} <= {0}
    return [each.offset.tolist() for each in came_.events]


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
