"""Sources as the engine sees them: polled for the rows of an epoch.

SourceReader.poll -> Polled -> [Feed] -> executor
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tidegate.pipeline import Source
from tidegate.sources.protocol import LogEntry, Offset, Polled, SourceReader


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Properties of a source that are the same in every epoch."""

    partitioned: bool = False
    """Whether its partitions have watermarks of their own."""
    number_column: str | None = None
    """The column that says which row of its partition a row is, where operators see it."""
    undecoded: str | None = None
    """The column that is not NULL in rows which could not be decoded, where operators see it."""
    handed_over: str | None = None
    """The same column, where a transform does not see such rows."""
    undecoded_columns: Mapping[str, str] = field(default_factory=dict)
    """What is known of such rows, with types."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """What one source brings into an epoch.

    Slices alone are read and mapped in one task. With a `frame`, the executor makes the rows: of
    slices where there are some, else in partitions that only it knows.
    """

    source: int
    polled: Polled
    frame: Any = None
    """A frame of the executor; None: slices alone."""

    @property
    def brings_rows(self) -> bool:
        """Whether there is anything to read in this epoch."""
        return bool(self.polled.slices) or self.frame is not None


class Input(Protocol):
    """One source of a running pipeline."""

    @property
    def traits(self) -> Traits:
        """Properties that are the same in every epoch."""
        ...

    def columns(self) -> Mapping[str, str]:
        """The columns that operators see, with their Spark SQL types."""
        ...

    def poll(self, since: Offset | None, *, max_rows: int, slices: int, now_us: int) -> Feed:
        """The next rows after `since`; through a transform a slice is a partition of Spark's."""
        ...

    def end_at(self, now_us: int) -> None:
        """Give what is there at `now_us` from now on, where rows come without an end."""
        ...

    def committed(self, until: Offset) -> None:
        """An epoch that ends at this offset is committed."""
        ...

    def decide_by(self, columns: Collection[str]) -> None:
        """These columns alone are read by the operator, and for the time of events."""
        ...

    def partition_name(self, partition: int) -> str:
        """What people call a partition; "" where the source is one."""
        ...

    def shared_path(self) -> str | None:
        """The path that tasks must see in a file system; None: Tidegate reads no files."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """A source of a pipeline, and what is known of it."""

    pipeline: str
    source: Source
    place: int
    log: Sequence[LogEntry] = ()


@dataclass(kw_only=True)
class NativeInput:
    """A source that Tidegate reads itself, without a transform."""

    place: int
    reader: SourceReader

    @property
    def traits(self) -> Traits:
        """See `Input`."""
        read = self.reader.traits
        return Traits(
            partitioned=read.partitioned,
            number_column=read.number_column,
            undecoded=read.undecoded,
            undecoded_columns=read.undecoded_columns,
        )

    def columns(self) -> Mapping[str, str]:
        """See `Input`."""
        return self.reader.columns()

    def poll(self, since: Offset | None, *, max_rows: int, slices: int, now_us: int) -> Feed:
        """See `Input`."""
        polled = self.reader.poll(since, max_rows=max_rows, slices=slices, now_us=now_us)
        return Feed(source=self.place, polled=polled)

    def end_at(self, now_us: int) -> None:
        """See `Input`."""
        self.reader.end_at(now_us)

    def committed(self, until: Offset) -> None:
        """See `Input`."""
        self.reader.committed(until)

    def decide_by(self, columns: Collection[str]) -> None:
        """See `Input`."""
        self.reader.decide_by(columns)

    def partition_name(self, partition: int) -> str:
        """See `Input`."""
        return self.reader.partition_name(partition)

    def shared_path(self) -> str | None:
        """See `Input`."""
        return self.reader.shared_path
