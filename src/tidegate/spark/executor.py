"""One epoch as one Spark job.

slices, frames -> map tasks -> repartitionById(shards) -> step tasks -> one report a shard
"""

from __future__ import annotations

import hashlib
import pickle
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import reduce

import pyarrow as pa
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

from tidegate.engine.executor import EpochOrders, map_order
from tidegate.engine.inputs import Feed
from tidegate.errors import UnreadableSource
from tidegate.spark.entry import RunTask, Task, post_orders, told_error
from tidegate.spark.frame_tasks import RowsOrder
from tidegate.spark.native_tasks import Elsewhere, Orders
from tidegate.tasks.orders import JobContext, MapOrder, ShardReport, report_of
from tidegate.tasks.wire import SCHEMA

_REPORT = "report binary"
_LARGE_ORDERS = 64 << 10
"""Bytes: each task is sent the settings of its job."""

_OF_A_VALUE = (
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    NumberFormatException,
)
"""What Spark raises of a value that a user's SQL met: the same whenever it is tried again."""


@dataclass(kw_only=True)
class SparkExecutor:
    """Runs epochs as Spark jobs, in a session of the run.

    Orders travel as a setting of that session, so a job over slices alone looks alike in every
    epoch, and its plan is made while the job before it runs.
    """

    spark: SparkSession
    context: JobContext
    _run: str = field(default_factory=lambda: uuid.uuid4().hex, init=False)
    _planner: ThreadPoolExecutor = field(init=False)
    _planned: dict[int, Future[DataFrame]] = field(default_factory=dict, init=False)
    """By the number of map tasks: the plan of an epoch to come."""

    def __post_init__(self) -> None:
        self._planner = ThreadPoolExecutor(1, thread_name_prefix="tidegate-plan")

    def run(self, orders: EpochOrders) -> Sequence[ShardReport]:
        """See `Executor`."""
        parts = _parted(orders)
        step = replace(orders.step, slices=parts.slices)
        packed = self._packed(Orders(map=parts.map, step=step))
        if parts.framed:  # whose session may be the caller's
            mapped = reduce(DataFrame.union, self._mapped(parts, orders, packed))
            frame = self._stepped(mapped, packed)
        else:
            frame = self._plan(parts.tasks)
            post_orders(self.spark, self._run, packed)
        table = _collected(frame)
        return [report_of(data) for data in table.column(0).to_pylist()]

    def close(self) -> None:
        """See `Executor`; the session goes with the engine, and the orders with it."""
        self._planner.shutdown(wait=True, cancel_futures=True)

    def _plan(self, tasks: int) -> DataFrame:
        """The frame of an epoch that reads slices in so many tasks; the next one is begun."""
        made = self._planned.pop(tasks, None)
        self._planned = {tasks: self._planner.submit(self._prepared, tasks)}
        return self._over_slices(tasks) if made is None else made.result()

    def _prepared(self, tasks: int) -> DataFrame:
        frame = self._over_slices(tasks)
        frame._jdf.queryExecution().executedPlan()  # noqa: SLF001 - planned now, not when it runs
        return frame

    def _over_slices(self, tasks: int) -> DataFrame:
        return self._stepped(self._read(numbered(self.spark, tasks)))

    def _read(self, numbers: DataFrame, orders: bytes | None = None) -> DataFrame:
        task = RunTask("native_tasks:map_slices", self._run, self.context.packed, orders)
        return numbers.mapInArrow(task, SCHEMA)

    def _stepped(self, rows: DataFrame, orders: bytes | None = None) -> DataFrame:
        task = RunTask("native_tasks:step_shard", self._run, self.context.packed, orders)
        shuffled = rows.repartitionById(self.context.shards, F.col("shard"))
        return shuffled.mapInArrow(task, _REPORT)

    def _mapped(self, parts: _Parts, orders: EpochOrders, packed: bytes) -> Iterator[DataFrame]:
        """What is sent by slices, and by each frame.

        Frames of one partition each become one in a union, so that their slices could not be told
        apart: one of two, of which one is empty, goes before them.
        """
        partition = 0
        if parts.map is not None:
            partition = parts.tasks + 1
            session = parts.framed[0].frame.sparkSession
            yield self._read(numbered(session, parts.tasks, partition), packed)
        first = 0 if parts.map is None else len(parts.map.slices)
        for feed in parts.framed:
            slices = feed.polled.slices
            order = RowsOrder(
                context=self.context.packed,
                now_us=orders.step.now_us,
                arrival_us=orders.step.arrival_us,
                epoch=orders.step.epoch,
                source=feed.source,
                first_slice=first,
                first_partition=partition,
                slices=slices or None,
            )
            yield feed.frame.mapInArrow(Task("frame_tasks:map_rows", pickle.dumps(order)), SCHEMA)
            first, partition = first + len(slices), partition + len(slices)

    def _packed(self, orders: Orders) -> bytes:
        """The bytes of the setting: the orders, or where in the store they are."""
        packed = pickle.dumps(orders)
        if len(packed) <= _LARGE_ORDERS:
            return packed
        step, attempt = orders.step, uuid.uuid4().hex
        parts = {"orders": (pa.py_buffer(packed), 0)}
        staged = self.context.depot.stage(step.token, step.epoch, attempt, parts)
        return pickle.dumps(Elsewhere(staged["orders"], hashlib.sha256(packed).hexdigest()))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """The feeds of an epoch, by who reads them."""

    map: MapOrder | None
    """For tasks that read slices; None: all rows come in frames."""
    framed: tuple[Feed, ...]
    """Those with a frame, first those whose slices are known."""
    slices: frozenset[int] | None
    """The numbers of all slices; None: only Spark knows them."""

    @property
    def tasks(self) -> int:
        """How many tasks read slices."""
        return 0 if self.map is None else len(self.map.tasks)


def _parted(orders: EpochOrders) -> _Parts:
    """Number the slices of all feeds through; without any, one without rows says so.

    A frame whose partitions only Spark knows may have none: then no task would run at all.
    """
    read = [feed for feed in orders.feeds if feed.frame is None and feed.polled.slices]
    framed = [feed for feed in orders.feeds if feed.frame is not None]
    framed.sort(key=lambda feed: not feed.polled.slices)
    certain = read or (len(framed) == 1 and framed[0].polled.slices)
    map_ = None
    if read or not certain:
        map_ = map_order(read, orders.step.now_us, orders.step.arrival_us)
    count = sum(len(feed.polled.slices) for feed in framed) + (len(map_.slices) if map_ else 0)
    known = all(feed.polled.slices for feed in framed)
    return _Parts(map=map_, framed=tuple(framed), slices=frozenset(range(count)) if known else None)


def numbered(spark: SparkSession, count: int, partitions: int | None = None) -> DataFrame:
    """The numbers from 0 on, each in a partition of its own; of more partitions some are empty."""
    return spark.range(0, count, 1, partitions or count)


def _collected(frame: DataFrame) -> pa.Table:
    """Run the job; an error of ours in a task is raised as it is."""
    try:
        return frame.toArrow()
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
