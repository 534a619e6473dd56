"""The tasks of an epoch in a Spark worker: they find their order and run `tidegate.tasks`.

settings of the job -> [Orders] -> map_slices | step_shard
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import msgspec
import pyarrow as pa

from tidegate.errors import InconsistentEpoch
from tidegate.state.protocol import Depot, Part
from tidegate.tasks import map_task, step_task
from tidegate.tasks.orders import MapOrder, StepOrder, unpacked


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What the tasks of one epoch do, stage by stage."""

    map: MapOrder | None
    """None: all rows come in frames."""
    step: StepOrder


class Elsewhere(msgspec.Struct, frozen=True):
    """Orders that are too large for a setting: they are in the store, under this name."""

    part: Part
    sha256: str
    """Of the bytes: a store may be written by others, and a CRC-32 can be forged."""


def map_slices(
    context: bytes, orders: bytes, numbers: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Read slices: a Spark partition has the numbers of the tasks that it runs."""
    job = unpacked(context)
    order = read_orders(orders, job.depot).map
    if order is None:
        raise InconsistentEpoch("this epoch has no slices to read")
    tasks = (number for batch in numbers for number in batch.column(0).to_pylist())
    yield from map_task.map_slices(job, order, tasks)


def step_shard(
    context: bytes, orders: bytes, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Step a shard: a Spark partition has all that was sent to it. One row comes back."""
    job = unpacked(context)
    report = step_task.step_shard(job, read_orders(orders, job.depot).step, batches)
    data = pa.array([msgspec.json.encode(report)], pa.binary())
    yield pa.RecordBatch.from_arrays([data], names=["report"])


def read_orders(orders: bytes, depot: Depot) -> Orders:
    """Unpack orders, once for all tasks that a worker runs of an epoch."""
    found = _unpacked(orders)
    if isinstance(found, Elsewhere):
        data = depot.fetch(found.part).to_pybytes()
        if hashlib.sha256(data).hexdigest() != found.sha256:
            raise InconsistentEpoch("the orders in the store are not those of the driver")
        found = _unpacked(data)
    if not isinstance(found, Orders):
        raise InconsistentEpoch("the store has something else than orders under their name")
    return found


@lru_cache(maxsize=4)
def _unpacked(data: bytes) -> Orders | Elsewhere:
    found: Orders | Elsewhere = pickle.loads(
        data
    )  # signed by our own driver, or of the digest that it signed
    return found
