"""What is remembered of an epoch."""

from __future__ import annotations

import pickle

from tidegate.core.watermark import PipelineWatermark
from tidegate.spark.engine import _result
from tidegate.spark.epochs import Planned, Stepped
from tidegate.spark.folding import Snapshot
from tidegate.spark.orders import Saw, ShardReport
from tidegate.state.protocol import Entry, Manifest, Part, Stacks

PART = Part(name="1-1-a-segment", bytes=70, checksum=0, rows=7)
STACKS = ((Entry(part=PART, first_group=0, end_group=256),),)


def test_the_result_of_an_epoch_has_numbers_and_no_segments() -> None:
    saw = Saw(seen_digest="", watermarks_digest="")
    reports = [
        ShardReport(shard=0, attempt="a", saw=saw, worker_cache_bytes=size) for size in (5, 9)
    ]
    state = {"window": Stacks(shards=STACKS)}
    stepped = Stepped(
        planned=Planned(number=1, now_us=0),
        reports=tuple(reports),
        open=None,
        manifest=Manifest(epoch=1, offsets={}, watermarks={}, state=state, counts={"rows": 3}),
        watermark=PipelineWatermark(),
        seconds={"plan": 0.25},
    )
    result = _result(stepped, Snapshot(epoch=1, watermark_us=0, stacks=STACKS), {"plan": 0.25})
    assert (result.rows, result.state_rows, result.state_bytes) == (3, 7, 70)
    assert result.worker_cache_bytes == 9
    assert b"segment" not in pickle.dumps(result)
