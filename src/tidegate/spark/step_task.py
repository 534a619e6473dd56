"""The step task: one epoch of one shard, from what arrived to what is staged.

    arrived -> watermark -> state -> core.step -> [stage] -> one report

A task may run twice, or beside its twin: each stages under a uuid of its own, and only what
the driver commits exists.
"""

from __future__ import annotations

import pickle
import uuid
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa

from tidegate import faults
from tidegate.core.clock import Clock
from tidegate.core.compiling import polars_type
from tidegate.core.events import Events, together
from tidegate.core.frames import with_schema
from tidegate.core.hashing import key_groups_of
from tidegate.core.segment_format import to_buffer
from tidegate.core.stacks import Stack
from tidegate.core.step import StepResult, step
from tidegate.core.watermark import PipelineWatermark
from tidegate.durability import write_durably
from tidegate.errors import InconsistentEpoch
from tidegate.pipeline import MAIN, REJECTED, DataType, Join
from tidegate.spark import stopwatch
from tidegate.spark.layout import entry_of
from tidegate.spark.orders import (
    OperatorInput,
    Saw,
    ShardReport,
    Standing,
    StepOrder,
    unpacked,
    watermark_after,
)
from tidegate.spark.wire import Arrived, arrived, digest
from tidegate.state.cache import At, held_stack, kept_bytes, remember
from tidegate.state.protocol import Output, Part
from tidegate.targets.protocol import PartKind
from tidegate.targets.staging import StagingFolder

_SEGMENT = "segment"
_PART_ROWS: Final = 50_000
_PART_BYTES: Final = 16 << 20
"""What a part of output has at most, in memory."""


def step_shard(order: bytes, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run one epoch of the shard whose rows these are, and say what was staged."""
    plan: StepOrder = pickle.loads(order)  # from our own driver
    standing = unpacked(plan.standing)
    with stopwatch.part("receive"):
        came = arrived(batches, standing.keys, plan.slices)
    report = _survey(plan, standing, came) if plan.survey else _step(plan, standing, came)
    data = [msgspec.json.encode(report)]
    yield pa.RecordBatch.from_arrays([pa.array(data, pa.binary())], names=["report"])


def _survey(plan: StepOrder, standing: Standing, came: Arrived) -> ShardReport:
    """What is held, without a step."""
    held = _held(plan, standing, came.shard)
    watermark_us = plan.watermark.watermark_us
    return ShardReport(
        shard=came.shard,
        attempt="",
        saw=_saw(came, plan.watermark),
        over_us=standing.operator.state.over_us(held, watermark_us),
        keys=standing.operator.state.count_keys(held, watermark_us),
    )


def _step(plan: StepOrder, standing: Standing, came: Arrived) -> ShardReport:
    watermark = watermark_after(plan, standing, came.seen)
    with stopwatch.part("load"):
        held = _held(plan, standing, came.shard)
    faults.reached("step")
    with stopwatch.part("kernel"):
        result = step(
            standing.operator,
            held,
            [_input(each, came) for each in standing.inputs],
            _clock(plan, watermark),
            owned=key_groups_of(came.shard, standing.shards),
        )
    if len(result.changes.keeps) < len(held.segments) and result.changes.segment is not None:
        faults.reached("compaction")
    staging = _Staging(plan=plan, standing=standing, shard=came.shard)
    with stopwatch.part("stage"):
        staging.stage(result, came.rejected)
    faults.reached("staged")
    after, after_us = result.changes.apply(held), watermark.watermark_us
    state = standing.operator.state
    keys = state.count_keys(after, after_us) if plan.count_keys else None
    open_ = None
    if plan.count_open:
        with stopwatch.part("count"):
            open_ = state.count_open(after, after_us)
    return ShardReport(
        shard=came.shard,
        attempt=staging.attempt,
        saw=_saw(came, watermark),
        segment=staging.staged.get(_SEGMENT),
        keeps=result.changes.keeps,
        outputs=tuple(staging.outputs),
        counts=dict(result.counts),
        keys=keys,
        open=open_,
        worker_cache_bytes=kept_bytes(),
        seconds=stopwatch.taken(),
    )


def _saw(came: Arrived, watermark: PipelineWatermark) -> Saw:
    watermarks = watermark.to_dict()
    digests = Saw(
        seen_digest=came.digest, watermarks_digest=digest(msgspec.json.encode(watermarks))
    )
    if came.shard > 0:
        return digests
    return msgspec.structs.replace(digests, seen=came.seen, watermarks=watermarks)


def _clock(plan: StepOrder, watermark: PipelineWatermark) -> Clock:
    return Clock(
        before_us=plan.watermark.watermark_us,
        after_us=watermark.watermark_us,
        flush=plan.flush_us is not None,
        flushed_us=plan.watermark.flushed_us,
    )


def _input(wanted: OperatorInput, came: Arrived) -> Events:
    """The rows that came for one input of the operator."""
    events = [events for source, events in came.events.items() if source in wanted.sources]
    return together(events) if events else _no_events(wanted)


def _no_events(wanted: OperatorInput) -> Events:
    """A source that nothing was planned of sends not even its columns."""
    types = {name: DataType.parse(kind) for name, kind in wanted.columns.items()}
    nothing = np.empty(0, np.int64)
    return Events(
        event_us=nothing,
        lane=nothing,
        offset=nothing,
        key_hash=nothing,
        columns=pl.DataFrame(schema={name: polars_type(kind) for name, kind in types.items()}),
    )


def _held(plan: StepOrder, standing: Standing, shard: int) -> Stack[Any]:
    """The state of the shard, from what this worker has mapped or the store."""
    owned = key_groups_of(shard, standing.shards)
    for entry in plan.stacks[shard]:
        if entry.first_group < owned.start or entry.end_group > owned.stop:
            raise InconsistentEpoch(
                f"shard {shard} owns key groups {owned.start}..{owned.stop - 1}, its state "
                f"has {entry.first_group}..{entry.end_group - 1}"
            )
    return held_stack(
        standing.depot,
        plan.stacks,
        shard,
        at=At(plan.token, plan.epoch),
        limit_bytes=standing.worker_cache_bytes,
    )


def _kept_late(late: pl.DataFrame, inputs: Sequence[OperatorInput]) -> pl.DataFrame:
    """Late rows of the inputs that keep them; those of a join say their side."""
    if all(each.keeps_late for each in inputs):
        return late
    side = late[late.columns[-3]]
    return late.filter(side.is_in([each.side for each in inputs if each.keeps_late]))


def in_parts(rows: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Rows cut into parts, of which a driver that publishes them has a few in memory at once."""
    bytes_of_row = max(1, int(rows.estimated_size()) // max(1, rows.height))
    return rows.iter_slices(max(1, min(_PART_ROWS, _PART_BYTES // bytes_of_row)))


@dataclass(slots=True, kw_only=True)
class _Staging:
    """What one attempt stages: a segment in the store, output there or beside its target."""

    plan: StepOrder
    standing: Standing
    shard: int
    attempt: str = field(default_factory=lambda: uuid.uuid4().hex)
    staged: Mapping[str, Part] = field(default_factory=dict)
    outputs: list[Output] = field(default_factory=list)

    def stage(self, result: StepResult, rejected: Sequence[pl.DataFrame]) -> None:
        """Write everything durably; what has no rows is not written."""
        parts: dict[str, tuple[pa.Buffer, int]] = {}
        if result.changes.segment is not None:
            segment = result.changes.segment
            parts[_SEGMENT] = (to_buffer(segment), len(segment))
        waiting: dict[str, tuple[str, PartKind]] = {}
        for nth, (channel, kind, rows) in enumerate(self._outputs(result, rejected)):
            writer, what = self.standing.writers[channel], f"output{nth}"
            encoded = pa.py_buffer(writer.encode(self._as_told(rows, channel)))
            if writer.staging is None:
                parts[what], waiting[what] = (encoded, rows.height), (channel, kind)
            else:
                part = self._staged_at_target(writer.staging, what, encoded, rows.height)
                self._named(channel, kind, part, in_target=True)
        if parts:
            depot, plan = self.standing.depot, self.plan
            self.staged = depot.stage(plan.token, plan.epoch, self.attempt, parts)
            if _SEGMENT in parts:
                owned = key_groups_of(self.shard, self.standing.shards)
                entry = entry_of(self.staged[_SEGMENT], owned)
                remember(depot, entry, parts[_SEGMENT][0], at=At(plan.token, plan.epoch))
        for what, (channel, kind) in waiting.items():
            self._named(channel, kind, self.staged[what], in_target=False)

    def _outputs(
        self, result: StepResult, rejected: Sequence[pl.DataFrame]
    ) -> Iterator[tuple[str, PartKind, pl.DataFrame]]:
        """All output, part by part; what lies beside its target is a file, however large."""
        for channel, kind, rows in self._channels(result, rejected):
            of_file = self.standing.writers[channel].staging is not None
            for part in [rows] if of_file else in_parts(rows):
                yield channel, kind, part

    def _channels(
        self, result: StepResult, rejected: Sequence[pl.DataFrame]
    ) -> Iterator[tuple[str, PartKind, pl.DataFrame]]:
        """All output that has rows and a place to go."""
        standing = self.standing
        if result.sent.height:
            yield MAIN, "sent", result.sent
        if result.retracted.height and standing.writers[MAIN].takes_retractions:
            yield MAIN, "retracted", result.retracted
        if standing.late_channel is not None:
            late = _kept_late(result.late, standing.inputs)
            if late.height:
                said = 2 if isinstance(standing.config, Join) else 1  # its side, and why
                late = late.drop(late.columns[-2])
                yield (
                    standing.late_channel,
                    "sent",
                    self._named_for(late, standing.late_channel, said),
                )
        if rejected:
            named = [self._named_for(each, REJECTED, said=1) for each in rejected]
            yield REJECTED, "sent", pl.concat(named, how="diagonal")

    def _named_for(self, rows: pl.DataFrame, channel: str, said: int) -> pl.DataFrame:
        """Rows whose last columns, what is `said` of them, are named as everywhere in the channel.

        They were given names that are free in their own source, and may be taken in another.
        """
        names = self.standing.channel_schemas[channel].names()[-said:]
        return rows.rename(dict(zip(rows.columns[-said:], names, strict=True)))

    def _as_told(self, rows: pl.DataFrame, channel: str) -> pl.DataFrame:
        """Rows as their target was told that they are, where it takes no others.

        Of a shard and an epoch only those sources come that had such rows.
        """
        if channel == MAIN or not self.standing.writers[channel].one_schema:
            return rows
        return with_schema(rows, self.standing.channel_schemas[channel])

    def _staged_at_target(
        self, staging: StagingFolder, what: str, data: pa.Buffer, rows: int
    ) -> Part:
        name = f"{self.plan.token}-{self.plan.epoch}-{self.attempt}-{what}"
        write_durably(staging.file(name), data)
        return Part(name=name, bytes=data.size, checksum=zlib.crc32(data), rows=rows)

    def _named(self, channel: str, kind: PartKind, part: Part, *, in_target: bool) -> None:
        self.outputs.append(
            Output(
                operator=self.standing.operator_id,
                channel=channel,
                kind=kind,
                part=part,
                in_target=in_target,
                in_commit=self.standing.writers[channel].in_commit,
            )
        )
