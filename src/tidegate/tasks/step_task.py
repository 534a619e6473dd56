"""The step task: all rows of one shard, its state, one step of each operator; then everything is
staged.

    arrived -> watermark -> state -> core.step -> [stage] -> one report

A task may run twice, or beside its twin: each stages under a uuid of its own, and only what
the driver commits exists.
"""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa

from tidegate import faults
from tidegate.core.clock import Clock
from tidegate.core.compiling import polars_type
from tidegate.core.frames import with_schema
from tidegate.core.hashing import key_groups_of
from tidegate.core.operators.spec import InputSpec, OperatorSpec
from tidegate.core.rows import Rows, TurnedAway, together
from tidegate.core.segment_format import to_buffer
from tidegate.core.stacks import Stack
from tidegate.core.step import StepResult, step
from tidegate.core.watermark import PipelineWatermark
from tidegate.durability import write_durably
from tidegate.errors import InconsistentEpoch
from tidegate.pipeline import MAIN, REJECTED
from tidegate.state.cache import At, held_stacks, kept_bytes, remember
from tidegate.state.protocol import Output, Part, entry_of
from tidegate.targets.protocol import PartKind
from tidegate.targets.staging import StagingFolder
from tidegate.tasks import stopwatch
from tidegate.tasks.orders import (
    JobContext,
    OperatorReport,
    Saw,
    ShardReport,
    StepOrder,
    watermark_after,
)
from tidegate.tasks.wire import Arrived, arrived, digest

_PART_ROWS: Final = 50_000
_PART_BYTES: Final = 16 << 20
"""What a part of output has at most, in memory."""


def step_shard(
    context: JobContext, order: StepOrder, batches: Iterator[pa.RecordBatch]
) -> ShardReport:
    """Run one epoch of the shard whose rows these are, and say what was staged."""
    with stopwatch.part("receive"):
        came = arrived(batches, context.edges, order.slices)
    with stopwatch.part("load"):
        held = _held(order, context, came.shard)
    return (
        _survey(order, context, came, held) if order.survey else _step(order, context, came, held)
    )


def _survey(
    order: StepOrder, context: JobContext, came: Arrived, held: Sequence[Stack[Any]]
) -> ShardReport:
    """What is held, without a step."""
    watermark_us = order.watermark.watermark_us
    reports = {
        spec.id: OperatorReport(
            over_us=spec.operator.state.over_us(stack, watermark_us),
            keys=spec.operator.state.count_keys(stack, watermark_us),
        )
        for spec, stack in zip(context.operators, held, strict=True)
    }
    saw = _saw(came, order.watermark)
    return ShardReport(shard=came.shard, attempt="", saw=saw, operators=reports)


def _step(
    order: StepOrder, context: JobContext, came: Arrived, held: Sequence[Stack[Any]]
) -> ShardReport:
    """Step the operators one after the other, then stage what all of them came to."""
    watermark = watermark_after(order, context, came.seen)
    faults.reached("step")
    owned = key_groups_of(came.shard, context.shards)
    results = []
    with stopwatch.part("kernel"):
        for place, (spec, stack) in enumerate(zip(context.operators, held, strict=True)):
            inputs = [
                _input(context, place, nth, each, came) for nth, each in enumerate(spec.inputs)
            ]
            clock = _clock(order, watermark)
            results.append(step(spec.operator, stack, inputs, clock, owned=owned))
    for result, stack in zip(results, held, strict=True):
        if len(result.changes.keeps) < len(stack.segments) and result.changes.segment is not None:
            faults.reached("compaction")
    staging = _Staging(order=order, context=context, shard=came.shard)
    with stopwatch.part("stage"):
        staging.stage(results, came.rejected)
    faults.reached("staged")
    reports = {
        spec.id: _report(order, spec, staging, result, stack, watermark.watermark_us)
        for spec, result, stack in zip(context.operators, results, held, strict=True)
    }
    return ShardReport(
        shard=came.shard,
        attempt=staging.attempt,
        saw=_saw(came, watermark),
        operators=reports,
        outputs=tuple(staging.outputs),
        worker_cache_bytes=kept_bytes(),
        seconds=stopwatch.taken(),
    )


def _report(
    order: StepOrder,
    spec: OperatorSpec,
    staging: _Staging,
    result: StepResult,
    held: Stack[Any],
    after_us: int,
) -> OperatorReport:
    after, state = result.changes.apply(held), spec.operator.state
    open_ = None
    if order.count_open:
        with stopwatch.part("count"):
            open_ = state.count_open(after, after_us)
    return OperatorReport(
        segment=staging.segments.get(spec.id),
        keeps=result.changes.keeps,
        counts=dict(result.counts),
        keys=state.count_keys(after, after_us) if order.count_keys else None,
        open=open_,
    )


def _saw(came: Arrived, watermark: PipelineWatermark) -> Saw:
    watermarks = watermark.to_dict()
    digests = Saw(
        seen_digest=came.digest, watermarks_digest=digest(msgspec.json.encode(watermarks))
    )
    if came.shard > 0:
        return digests
    return msgspec.structs.replace(digests, seen=came.seen, watermarks=watermarks)


def _clock(order: StepOrder, watermark: PipelineWatermark) -> Clock:
    return Clock(
        before_us=order.watermark.watermark_us,
        after_us=watermark.watermark_us,
        flush=order.flush_us is not None,
        flushed_us=order.watermark.flushed_us,
    )


def _input(context: JobContext, operator: int, nth: int, wanted: InputSpec, came: Arrived) -> Rows:
    """The rows that came for one input of an operator, from all its sources."""
    numbers = [
        edge.number for edge in context.edges if (edge.operator, edge.input) == (operator, nth)
    ]
    events = [came.events[number] for number in numbers if number in came.events]
    return together(events) if events else _no_events(wanted)


def _no_events(wanted: InputSpec) -> Rows:
    """An edge without rows sends not even its columns."""
    nothing = np.empty(0, np.int64)
    schema = {name: polars_type(kind) for name, kind in wanted.columns.items()}
    return Rows(
        event_us=nothing,
        lane=nothing,
        offset=nothing,
        key_hash=nothing,
        columns=pl.DataFrame(schema=schema),
    )


def _held(order: StepOrder, context: JobContext, shard: int) -> list[Stack[Any]]:
    """The state of each operator in a shard, from what this worker has mapped or the store."""
    owned = key_groups_of(shard, context.shards)
    stacks = [order.stacks[spec.id] for spec in context.operators]
    for entry in (entry for of_shards in stacks for entry in of_shards[shard]):
        if entry.first_group < owned.start or entry.end_group > owned.stop:
            raise InconsistentEpoch(
                f"shard {shard} owns key groups {owned.start}..{owned.stop - 1}, its state "
                f"has {entry.first_group}..{entry.end_group - 1}"
            )
    return held_stacks(
        context.depot,
        stacks,
        shard,
        at=At(order.token, order.epoch),
        limit_bytes=context.worker_cache_bytes,
    )


def in_parts(rows: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Rows cut into parts, of which a driver that publishes them has a few in memory at once."""
    bytes_of_row = max(1, int(rows.estimated_size()) // max(1, rows.height))
    return rows.iter_slices(max(1, min(_PART_ROWS, _PART_BYTES // bytes_of_row)))


@dataclass(slots=True, kw_only=True)
class _Staging:
    """What one attempt stages: segments in the store, output there or beside its target."""

    order: StepOrder
    context: JobContext
    shard: int
    attempt: str = field(default_factory=lambda: uuid.uuid4().hex)
    segments: dict[str, Part] = field(default_factory=dict)
    """By operator."""
    outputs: list[Output] = field(default_factory=list)

    def stage(self, results: Sequence[StepResult], rejected: Sequence[pl.DataFrame]) -> None:
        """Write everything durably; what has no rows is not written."""
        parts: dict[str, tuple[pa.Buffer, int]] = {}
        segments: dict[str, str] = {}
        for nth, (spec, result) in enumerate(zip(self.context.operators, results, strict=True)):
            if (segment := result.changes.segment) is not None:
                segments[spec.id] = what = _segment_name(nth)
                parts[what] = (to_buffer(segment), len(segment))
        waiting: dict[str, tuple[_Channel, PartKind]] = {}
        for nth, (channel, kind, rows) in enumerate(self._outputs(results, rejected)):
            writer, what = self.context.writers[channel.name], f"output{nth}"
            encoded = pa.py_buffer(writer.encode(self._with_schema_of(channel.name, rows)))
            if writer.staging is None:
                parts[what], waiting[what] = (encoded, rows.height), (channel, kind)
            else:
                part = self._staged_at_target(writer.staging, what, encoded, rows.height)
                self._add_output(channel, kind, part, in_target=True)
        if not parts:
            return
        depot, at = self.context.depot, At(self.order.token, self.order.epoch)
        staged = depot.stage(at.token, at.epoch, self.attempt, parts)
        owned = key_groups_of(self.shard, self.context.shards)
        for operator, what in segments.items():
            self.segments[operator] = staged[what]
            remember(depot, entry_of(staged[what], owned), parts[what][0], at=at)
        for what, (channel, kind) in waiting.items():
            self._add_output(channel, kind, staged[what], in_target=False)

    def _outputs(
        self, results: Sequence[StepResult], rejected: Sequence[pl.DataFrame]
    ) -> Iterator[tuple[_Channel, PartKind, pl.DataFrame]]:
        """All output, part by part; what lies beside its target is a file, however large."""
        for channel, kind, rows in self._channels(results, rejected):
            of_file = self.context.writers[channel.name].staging is not None
            for part in [rows] if of_file else in_parts(rows):
                yield channel, kind, part

    def _channels(
        self, results: Sequence[StepResult], rejected: Sequence[pl.DataFrame]
    ) -> Iterator[tuple[_Channel, PartKind, pl.DataFrame]]:
        """All output that has rows and a place to go."""
        for spec, result in zip(self.context.operators, results, strict=True):
            main = _Channel(spec.id, MAIN)
            if result.sent.height:
                yield main, "sent", result.sent
            if result.retracted.height and self.context.writers[MAIN].takes_retractions:
                yield main, "retracted", result.retracted
            late = [*self._late(spec, result.late)]
            if late:
                channel = _Channel(spec.id, spec.late_channel)
                yield channel, "sent", pl.concat(late, how="diagonal")
        if rejected:
            channel = _Channel(self.context.operators[0].id, REJECTED)
            yield channel, "sent", pl.concat(rejected, how="diagonal")

    def _late(self, spec: OperatorSpec, late: Sequence[TurnedAway]) -> Iterator[pl.DataFrame]:
        """Late rows of the inputs that keep them, as their channel takes them."""
        for wanted, turned_away in zip(spec.inputs, late, strict=True):
            if wanted.keeps_late and len(turned_away):
                names = self.context.channel_schemas[spec.late_channel].names()
                yield turned_away.for_channel(names)

    def _with_schema_of(self, channel: str, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows with all columns of their channel, where its target takes no others.

        Of a shard and an epoch only those sources come that had such rows.
        """
        if channel == MAIN or not self.context.writers[channel].one_schema:
            return rows
        return with_schema(rows, self.context.channel_schemas[channel])

    def _staged_at_target(
        self, staging: StagingFolder, what: str, data: pa.Buffer, rows: int
    ) -> Part:
        name = f"{self.order.token}-{self.order.epoch}-{self.attempt}-{what}"
        write_durably(staging.file(name), data)
        return Part(name=name, bytes=data.size, checksum=zlib.crc32(data), rows=rows)

    def _add_output(
        self, channel: _Channel, kind: PartKind, part: Part, *, in_target: bool
    ) -> None:
        self.outputs.append(
            Output(
                operator=channel.operator,
                channel=channel.name,
                kind=kind,
                part=part,
                in_target=in_target,
                in_commit=self.context.writers[channel.name].in_commit,
            )
        )


@dataclass(frozen=True, slots=True)
class _Channel:
    operator: str
    name: str


def _segment_name(operator: int) -> str:
    """What the segment of an operator is called in its attempt."""
    return "segment" if operator == 0 else f"segment{operator}"
