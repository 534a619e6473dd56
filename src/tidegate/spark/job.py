"""One epoch as one Spark job.

slices, frames -> map tasks -> repartitionById(shards) -> step tasks -> one report a shard
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # it has no types
from pyspark.errors import (
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    NumberFormatException,
    PySparkException,
)
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from tidegate.errors import InconsistentEpoch, UnreadableSource
from tidegate.sources.protocol import Polled
from tidegate.spark.entry import Task, told_error
from tidegate.spark.orders import (
    MapOrder,
    PlannedSlice,
    RowsOrder,
    ShardReport,
    StepOrder,
    ordered,
    report_of,
)
from tidegate.spark.wire import SCHEMA

_REPORT = "report binary"

_OF_A_VALUE = (
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    NumberFormatException,
)
"""What Spark raises of a value that a user's SQL met: the same whenever it is tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """What one source brings into an epoch.

    Slices alone are read and mapped in one task. With a `frame`, Spark makes the rows: out of
    slices where there are some, else in partitions that only it knows.
    """

    source: int
    polled: Polled
    frame: DataFrame | None = None

    @property
    def brings_rows(self) -> bool:
        """Whether there is anything to read in this epoch."""
        return bool(self.polled.slices) or self.frame is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class MapSide:
    """The part of the job in front of the shuffle, and the numbers of its slices if known."""

    rows: DataFrame
    slices: frozenset[int] | None


def map_side(
    spark: SparkSession,
    standing: bytes,
    epoch: int,
    now_us: int,
    feeds: Sequence[Feed],
    arrival_us: int | None = None,
) -> MapSide:
    """Map all feeds; if there is nothing to read for sure, one slice without rows says so.

    A frame whose partitions only Spark knows may have none: then no task would run at all. Frames
    of one partition each become one in a union, so that nobody could tell their slices apart: one
    of two, of which one is empty, goes before them.
    """
    read = [feed for feed in feeds if feed.frame is None and feed.polled.slices]
    framed = [(feed, feed.frame) for feed in feeds if feed.frame is not None]
    empty_slice = not read and (len(framed) > 1 or not any(f.polled.slices for f, _ in framed))
    sides, first, partition, known = [], 0, 0, True
    if read or empty_slice:
        order = _map_order(standing, now_us, read, arrival_us)
        session = framed[0][1].sparkSession if framed else spark
        partition = len(order.tasks) + bool(framed)
        numbers = numbered(session, len(order.tasks), partition)
        sides.append(numbers.mapInArrow(Task("map_task:map_slices", ordered(order)), SCHEMA))
        first = len(order.slices)
    for feed, frame in sorted(framed, key=lambda each: not each[0].polled.slices):
        slices = feed.polled.slices
        rows = RowsOrder(
            standing=standing,
            now_us=now_us,
            arrival_us=arrival_us,
            epoch=epoch,
            source=feed.source,
            first_slice=first,
            first_partition=partition,
            slices=slices or None,
        )
        task = Task("map_task:map_rows", ordered(rows))
        sides.append(frame.mapInArrow(task, SCHEMA))
        first, known = first + len(slices), known and bool(slices)
        partition += len(slices)
    together = reduce(DataFrame.union, sides)
    return MapSide(rows=together, slices=frozenset(range(first)) if known else None)


def _map_order(
    standing: bytes, now_us: int, feeds: Sequence[Feed], arrival_us: int | None = None
) -> MapOrder:
    """The slices of all feeds, numbered through, and the tasks that read them.

    Without any there is one without rows.
    """
    slices: list[PlannedSlice] = []
    tasks: list[tuple[int, ...]] = []
    for feed in feeds:
        polled = feed.polled
        of_feed = polled.tasks or tuple((place,) for place, _ in enumerate(polled.slices))
        tasks += [tuple(len(slices) + place for place in places) for places in of_feed]
        slices += [PlannedSlice(source=feed.source, slice=each) for each in polled.slices]
    if not slices:
        slices, tasks = [PlannedSlice(source=0, slice=None)], [(0,)]
    return MapOrder(
        standing=standing,
        now_us=now_us,
        arrival_us=arrival_us,
        slices=tuple(slices),
        tasks=tuple(tasks),
    )


def numbered(spark: SparkSession, count: int, partitions: int | None = None) -> DataFrame:
    """The numbers from 0 on, each in a partition of its own; of more partitions some are empty."""
    return spark.range(0, count, 1, partitions or count)


def run(side: MapSide, order: StepOrder, shards: int) -> list[ShardReport]:
    """Run the job; an error of ours in a task is raised as it is."""
    stepped = side.rows.repartitionById(shards, F.col("shard")).mapInArrow(
        Task("step_task:step_shard", ordered(order)), _REPORT
    )
    try:
        table = stepped.toArrow()
    except (PySparkException, Py4JJavaError) as error:  # as the latter comes a job that is aborted
        told = told_error(str(error))
        if told is not None:
            raise told from None
        if isinstance(error, _OF_A_VALUE):
            raise UnreadableSource(
                f"a row that a transform cannot compute with: {str(error).strip()}\n"
                "  hint: correct it in the source, or let the transform give NULL: try_cast, "
                "try_divide, ..."
            ) from None
        raise
    return [report_of(data) for data in table.column(0).to_pylist()]


def checked(reports: Sequence[ShardReport], shards: int) -> list[ShardReport]:
    """The reports by shard: one of each, all of which saw the same, as the first one says."""
    by_shard = sorted(reports, key=lambda report: report.shard)
    if [report.shard for report in by_shard] != list(range(shards)):
        found = [report.shard for report in by_shard]
        raise InconsistentEpoch(f"reports came of shards {found}, expected one of each of {shards}")
    first = by_shard[0]
    for report in by_shard[1:]:
        if report.saw.seen_digest != first.saw.seen_digest:
            raise InconsistentEpoch(
                f"shards 0 and {report.shard} were not sent the same slices: a map task that "
                "ran again gave other rows\n  hint: is a source or a transform not deterministic?"
            )
        if report.saw.watermarks_digest != first.saw.watermarks_digest:
            raise InconsistentEpoch(f"shards 0 and {report.shard} came to different watermarks")
    return by_shard
