"""Rows in memory: what a test puts, a pipeline of the same process reads.

memory_stream(name).put(rows) -> [poll] -> slices that carry their rows
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Final

import polars as pl
import pyarrow as pa

from tidegate.errors import ConfigError, Problem, SourceChanged, UnreadableSource
from tidegate.eventtime import BEGINNING
from tidegate.pipeline import DataType, Source
from tidegate.pipeline.fieldtypes import Name
from tidegate.pipeline.validation import Value
from tidegate.sources.columns import (
    batches_of,
    conformed,
    fits,
    known_types,
    wanted_types,
)
from tidegate.sources.protocol import (
    LogEntry,
    Offset,
    Polled,
    ReaderDefaults,
    SliceDefaults,
    SourceOpening,
)
from tidegate.sources.row_ranges import shared_out


@dataclass(slots=True)
class MemoryStream:
    """Rows in the order in which they were put; rows once put are never changed."""

    name: str
    _puts: list[pl.DataFrame] = field(default_factory=list)
    watermark_us: int = BEGINNING
    """What the stream states of itself, to those who ask for it."""

    def advance(self, watermark_us: int) -> None:
        """State that no earlier event will come."""
        self.watermark_us = max(self.watermark_us, watermark_us)

    def put(self, rows: pl.DataFrame | Sequence[Mapping[str, Any]]) -> None:
        """Append rows."""
        if isinstance(rows, pl.DataFrame):
            self._puts.append(rows)
        else:
            self._puts.append(pl.DataFrame([*rows], infer_schema_length=None))

    def clear(self) -> None:
        """Forget all rows: pipelines that have read some cannot go on with this stream."""
        self._puts.clear()
        self.watermark_us = BEGINNING

    @property
    def puts(self) -> tuple[pl.DataFrame, ...]:
        """The rows, put by put."""
        return tuple(self._puts)


_STREAMS: Final[dict[str, MemoryStream]] = {}


def memory_stream(name: str) -> MemoryStream:
    """The stream of this name, which lives as long as the process."""
    return _STREAMS.setdefault(name, MemoryStream(name))


class MemoryOptions(Value):
    """Which stream is read, and in what portions."""

    name: Name
    """The name that `memory_stream` was called with."""
    by_put: bool = False
    """Whether every epoch gets exactly the rows of one put, whatever its limits are."""
    states_watermark: bool = False
    """Whether the watermark is what `MemoryStream.advance` says, and not what the rows say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySlice(SliceDefaults):
    """Some rows, packed: they travel with the slice."""

    first_offset: int
    span: int
    packed: bytes
    """The rows as an Arrow stream."""
    partition: int = 0

    def read(self, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """The rows as they were put."""
        with pa.ipc.open_stream(self.packed) as rows:
            for batch in rows:
                yield batch if columns is None else batch.select([*columns])


class MemoryReader(ReaderDefaults):
    """Reads a stream of this process; a row is numbered by how many were put before it."""

    def __init__(self, spec: Source, log: Sequence[LogEntry]) -> None:
        self._options = MemoryOptions.from_dict(spec.options, at="options")
        self._stream = memory_stream(self._options.name)
        self._columns = None if spec.columns is None else dict(spec.columns)

    def columns(self) -> Mapping[str, str]:
        """The declared columns, else those of the first put."""
        if self._columns is None:
            if not self._stream.puts:
                raise ConfigError([_no_columns(self._stream.name)])
            self._columns = known_types(dict(self._stream.puts[0].schema))
        return self._columns

    def poll(self, since: Offset | None, *, max_rows: int, slices: int, now_us: int) -> Polled:
        """The next rows, or the rows of the next put."""
        puts = self._stream.puts
        ends = [*accumulate(put.height for put in puts)]
        begin, total = 0 if since is None else int(since["row"]), ends[-1] if ends else 0
        if begin > total:
            raise SourceChanged(
                f"memory stream {self._stream.name!r}: found {total} rows, expected at least "
                f"{begin}, which have been read\n  hint: put the same rows again before the run"
            )
        next_put = next((end for end in ends if end > begin), begin)
        until = next_put if self._options.by_put else min(total, begin + max_rows)
        rows = self._rows(puts) if until > begin else pl.DataFrame()
        return Polled(
            slices=tuple(_slice(rows, *part) for part in shared_out(begin, until, slices)),
            until={"row": until},
            unread=until < total,
            watermark_us=self._stream.watermark_us if self._options.states_watermark else None,
        )

    def _rows(self, puts: Sequence[pl.DataFrame]) -> pl.DataFrame:
        wanted = wanted_types(self.columns(), None)
        return pl.concat(self._typed(number, put, wanted) for number, put in enumerate(puts))

    def _typed(
        self, number: int, put: pl.DataFrame, wanted: Mapping[str, DataType]
    ) -> pl.DataFrame:
        for name, expected in wanted.items():
            found = put.schema.get(name)
            if found is None or not fits(found, expected):
                raise UnreadableSource(
                    f"memory stream {self._stream.name!r}, put {number}: found "
                    f"{'no column' if found is None else found} {name!r}, expected type {expected}"
                )
        return put.select(conformed(name, put.schema[name], wanted[name]) for name in wanted)


def open_memory(opening: SourceOpening) -> MemoryReader:
    """The reader of a source; raises `ConfigError` with all that is wrong with its options."""
    return MemoryReader(opening.source, opening.log)


def _slice(rows: pl.DataFrame, begin: int, end: int) -> MemorySlice:
    packed = _packed(rows.slice(begin, end - begin))
    return MemorySlice(first_offset=begin, span=end - begin, packed=packed)


def _packed(rows: pl.DataFrame) -> bytes:
    sink = pa.BufferOutputStream()
    batches = [*batches_of(rows)]
    with pa.ipc.new_stream(sink, batches[0].schema) as stream:
        for batch in batches:
            stream.write_batch(batch)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def _no_columns(name: str) -> Problem:
    hint = "declare the columns of the source, or put rows before the run"
    return Problem("columns", f"nothing in memory stream {name!r}", "columns, or rows", hint)
