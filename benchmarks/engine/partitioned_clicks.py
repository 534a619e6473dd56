"""The generator's clicks as if they came of a topic: many partitions, shared out like Kafka's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tidegate.pipeline import Source
from tidegate.pipeline.formats import SourceFormat
from tidegate.sources.click_stream import GENERATED, ClickStream
from tidegate.sources.generator import GeneratorSlice
from tidegate.sources.kafka_planning import Range, grouped
from tidegate.sources.protocol import (
    LogEntry,
    Offset,
    Polled,
    ReaderDefaults,
    SliceDefaults,
    SourceOpening,
    SourceTraits,
)
from tidegate.sources.row_ranges import shared_out

FORMAT = SourceFormat(
    name="partitioned-clicks", opens="benchmarks.engine.partitioned_clicks:open_partitioned"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSlice(SliceDefaults):
    """Some rows of a partition."""

    partition: int
    rows: GeneratorSlice

    @property
    def first_offset(self) -> int:
        return self.rows.first_offset

    @property
    def span(self) -> int:
        return self.rows.span

    def read(self, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        return self.rows.read(columns)


class PartitionedReader(ReaderDefaults):
    """In every epoch each partition has as many rows as the others."""

    def __init__(self, spec: Source, log: Sequence[LogEntry]) -> None:
        del log
        self._rows, self._partitions = spec.options["rows"], spec.options["partitions"]
        self._clicks = ClickStream(keys=100_000, start_us=0, events_per_second=20_000)

    @property
    def traits(self) -> SourceTraits:
        return SourceTraits(partitioned=True)

    def partition_name(self, partition: int) -> str:
        return f"clicks-{partition}"

    def columns(self) -> Mapping[str, str]:
        return GENERATED

    def poll(self, since: Offset | None, *, max_rows: int, slices: int, now_us: int) -> Polled:
        """The next rows: a run of them for each partition, cut where tasks come out even."""
        del now_us
        begin = 0 if since is None else int(since["row"])
        until = min(self._rows, begin + max_rows)
        ranges = [
            Range(place=place, begin=first, end=end)
            for place, (first, end) in enumerate(shared_out(begin, until, self._partitions))
        ]
        shared = grouped(ranges, slices)
        return Polled(
            slices=tuple(self._slice(each) for each in shared.ranges if until > begin),
            until={"row": until},
            unread=until < self._rows,
            found=dict.fromkeys(range(self._partitions), until > begin),
            tasks=shared.tasks or None,
        )

    def _slice(self, part: Range) -> PartitionSlice:
        rows = GeneratorSlice(
            begin=part.begin, end=part.end, clicks=self._clicks, columns=GENERATED
        )
        return PartitionSlice(partition=part.place, rows=rows)


def open_partitioned(opening: SourceOpening) -> PartitionedReader:
    return PartitionedReader(opening.source, opening.log)
