"""An epoch of many rows: staged by one process as tasks do it, published by another as a driver.

python -m benchmarks.publishing.epoch SETTINGS
"""

from __future__ import annotations

import json
import re
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
import polars as pl
import pyarrow as pa

from tidegate import StateStore, Target
from tidegate.engine.publish import Publisher
from tidegate.state import open_store
from tidegate.state.protocol import Manifest, Output, Stacks
from tidegate.targets import TargetWriter, open_target
from tidegate.tasks.step_task import in_parts

NAME = "large-epoch"
_SHARD_ROWS = 250_000


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a process is told."""

    act: Literal["stage", "publish"]
    rows: int
    folder: str
    target: dict[str, Any]
    store: dict[str, Any]

    @property
    def manifest(self) -> Path:
        return Path(self.folder) / "manifest.json"

    def writer(self) -> TargetWriter:
        target, store = Target.from_dict(self.target), StateStore.from_dict(self.store)
        writer = open_target(
            target,
            pipeline=NAME,
            channel="main",
            identity=("user_id", "window_start"),
            store=store,
            changes=False,
        )
        assert writer is not None
        return writer


def shards(rows: int) -> Iterator[pl.DataFrame]:
    """Windows of as many users: 5M of them are about 250 MB in memory."""
    for begin in range(0, rows, _SHARD_ROWS):
        number = pl.int_range(begin, min(rows, begin + _SHARD_ROWS), eager=True)
        yield pl.DataFrame(
            {
                "user_id": pl.Series("u-" + number.cast(pl.String).str.zfill(12)),
                "window_start": (number % 3600 * 1_000_000).cast(pl.Datetime("us", "UTC")),
                "events": number % 17,
                "amount": number.cast(pl.Float64) / 8,
                "revision": number * 0,
            }
        )


def stage(told: Settings) -> dict[str, Any]:
    """Leave the parts in the store, and what a commit would say of them in a file."""
    store, writer = open_store(StateStore.from_dict(told.store), NAME), told.writer()
    outputs = []
    try:
        token = store.open().token
        for shard in shards(told.rows):
            for rows in in_parts(shard):
                data = pa.py_buffer(writer.encode(rows))
                attempt = uuid.uuid4().hex
                staged = store.depot.stage(token, 1, attempt, {"output0": (data, rows.height)})
                outputs.append(
                    Output(
                        operator="window",
                        channel="main",
                        kind="sent",
                        part=staged["output0"],
                        in_target=False,
                        in_commit=writer.in_commit,
                    )
                )
    finally:
        store.close()
    manifest = Manifest(
        epoch=1,
        offsets={},
        watermarks={"watermark_us": 0},
        state={"window": Stacks(shards=())},
        outputs=tuple(outputs),
    )
    told.manifest.write_bytes(msgspec.json.encode(manifest))
    return {"parts": len(outputs)}


def publish(told: Settings) -> dict[str, Any]:
    """Commit the epoch and bring it out; the peak is that of this process."""
    store, writer = open_store(StateStore.from_dict(told.store), NAME), told.writer()
    recovered = store.open()
    publisher = Publisher(
        pipeline=NAME,
        incarnation=recovered.incarnation,
        depot=store.depot,
        writers={"main": writer},
    )
    manifest = msgspec.json.decode(told.manifest.read_bytes(), type=Manifest)
    writer.prepare(next(shards(1)).schema)
    began = time.perf_counter()
    store.commit(recovered.token, manifest, publisher.beside(manifest))
    publisher.publish(manifest)
    seconds = time.perf_counter() - began
    writer.close()
    store.close()
    return {"seconds": seconds, "driver_bytes": peak_bytes()}


def peak_bytes() -> int:
    """The most that this program had resident; `ru_maxrss` would begin with its parent's."""
    found = re.search(r"^VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


def main(told: Settings) -> None:
    print(json.dumps({"stage": stage, "publish": publish}[told.act](told)))


def settings_of(told: Settings, act: Literal["stage", "publish"]) -> dict[str, Any]:
    return {**asdict(told), "act": act}


if __name__ == "__main__":
    main(Settings(**json.loads(sys.argv[1])))
