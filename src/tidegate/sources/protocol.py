"""What a source must do: say what there is to read, and read exactly that.

    [poll] -> plan of the epoch -> slices -> [read] in map tasks -> admission

A source is polled on the driver and read in tasks. A slice says exactly which rows it is, so
that whoever reads it, and however often, gets the same rows in the same order.

`ReaderDefaults` and `SliceDefaults` have the answers of a source that has nothing special to say.
The contract of both protocols can be run: `tidegate.testing.SourceContract`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from tidegate.pipeline import Source
from tidegate.sources.numbering import Numbering, apart

Offset: TypeAlias = Mapping[str, Any]
"""How far a source has been read, as plain JSON; what is committed with the state."""

LogEntry: TypeAlias = Mapping[str, Any]
"""One thing that a source has discovered (a file), as plain JSON; committed, never changed."""


class Slice(Protocol):
    """A part of a source for one task: a value that can be pickled."""

    @property
    def partition(self) -> int:
        """The independently ordered part of the source that the rows are of; 0 if it is one."""
        ...

    @property
    def first_offset(self) -> int:
        """The offset of the first row; the nth row after it has this plus n."""
        ...

    @property
    def span(self) -> int:
        """How many offsets belong to the slice: at least as many as it has rows."""
        ...

    def read(self, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """The rows in order, with `columns` only (None: all), typed as the source says.

        Raises `SourceChanged` or `UnreadableSource`, naming file or offset, where the rows
        are not, or no longer, what the slice says.
        """
        ...

    def read_all(
        self, slices: Sequence[Slice], columns: Sequence[str] | None
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The rows of `slices`, of which this is the first: batches with the place of their slice.

        Those of a slice come in order, as `read` gives them; slices come as they are read.
        """
        ...

    def numbered_apart(self) -> Numbering:
        """Numbers for the rows that a transform makes of the slice: with room between them."""
        ...


class SliceDefaults:
    """A slice that is read alone, and whose offsets can be moved apart."""

    __slots__ = ()

    def read_all(
        self, slices: Sequence[Slice], columns: Sequence[str] | None
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """One slice after the other."""
        for place, each in enumerate(slices):
            for batch in each.read(columns):
                yield place, batch

    def numbered_apart(self: Slice) -> Numbering:
        """Every offset has the same room."""
        return apart(self.partition, self.first_offset, self.first_offset + self.span)


@dataclass(frozen=True, slots=True, kw_only=True)
class Polled:
    """What a poll came to: the rows of the next epoch, and what is known beyond them."""

    slices: tuple[Slice, ...]
    until: Offset
    """The offset behind these slices."""
    unread: bool
    """Whether anything is left behind `until` that a later poll will give."""
    discovered: tuple[LogEntry, ...] = ()
    """New entries of the source's log; committed with the epoch, given back when it is opened."""
    watermark_us: int | None = None
    """Where the source states its watermark itself, that; then its rows do not move it."""
    found: Mapping[int, bool] | None = None
    """By partition: whether anything is unread there, in these slices or behind them.

    Only of a source whose partitions are ordered independently; None: the source is one.
    """
    tasks: tuple[tuple[int, ...], ...] | None = None
    """Which of the slices, by their places, one task reads; None: there is a task for each."""
    lost: int = 0
    """Rows behind `since` that are gone, and that the source was told to do without."""
    worth_an_epoch: bool = False
    """Whether this has to be committed though it may have no row: it would not be said again."""


@dataclass(frozen=True, slots=True)
class SampledNames:
    """The names of columns in some rows of a source."""

    rows: int
    """How many rows were sampled."""
    names: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTraits:
    """What of a source is the same in every epoch."""

    partitioned: bool = False
    """Whether its partitions are ordered independently: each has a watermark of its own.

    `Slice.partition` says where rows belong, `Polled.found` what there is.
    """
    number_column: str | None = None
    """The column in which rows say where they are, however they are read; None: they do not.

    Its numbers begin with the slice's `first_offset`.
    """
    undecoded: str | None = None
    """The column that has a row which cannot be decoded, as it came, and is NULL in all others."""
    undecoded_columns: Mapping[str, str] = field(default_factory=dict)
    """That one, and all others that say something of such a row, with their types."""


class SourceReader(Protocol):
    """One source of a pipeline, on the driver.

    It is opened with the log that was committed, and asked from an offset that was committed,
    so it need remember nothing itself; what it does remember is of this run only.
    """

    @property
    def traits(self) -> SourceTraits:
        """What is the same in every epoch."""
        ...

    def columns(self) -> Mapping[str, str]:
        """The columns as they are read, with their Spark SQL types; fixed from then on."""
        ...

    def poll(self, since: Offset | None, *, max_rows: int, slices: int, now_us: int) -> Polled:
        """The next rows after `since` (None: from the start): about `max_rows` at most.

        They come in up to `slices` slices of similar size, in the order of their offsets.
        Only if nothing smaller can be taken the rows are more than `max_rows`.
        """
        ...

    def end_at(self, now_us: int) -> None:
        """From now on give what is there at `now_us`, and nothing that comes later.

        A run over what there is must end, also where rows come faster than they are read.
        """
        ...

    def committed(self, until: Offset) -> None:
        """Everything before `until` is committed. Somebody else may look at it: nothing here
        depends on it, so it does not raise, and does not keep others waiting.
        """
        ...

    def decide_by(self, columns: Collection[str]) -> None:
        """From now on a row is undecodable by these columns only: others are NULL where they do
        not fit. Until this is said, all columns decide.
        """
        ...

    def partition_name(self, partition: int) -> str:
        """What people call a partition; "" where the source is one."""
        ...

    @property
    def shared_path(self) -> str | None:
        """What of the source tasks must see in a file system as the driver does; None: nothing."""
        ...

    def sampled_names(self) -> SampledNames:
        """The names in some of the first and of the last rows, where rows name their columns.

        There a misspelt column is no error. No rows are sampled where they name none.
        """
        ...


class ReaderDefaults:
    """A source of one partition whose rows all decode: what is there when polled, is given."""

    __slots__ = ()

    @property
    def traits(self) -> SourceTraits:
        """Nothing special."""
        return SourceTraits()

    def end_at(self, now_us: int) -> None:
        """Rows come slower than they are read, or not at all."""

    def committed(self, until: Offset) -> None:
        """Not of interest."""

    def decide_by(self, columns: Collection[str]) -> None:
        """All rows decode."""

    def partition_name(self, partition: int) -> str:
        """There is one."""
        return ""

    @property
    def shared_path(self) -> str | None:
        """Tasks read no files."""
        return None

    def sampled_names(self) -> SampledNames:
        """Rows name no columns."""
        return SampledNames(0, frozenset())


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOpening:
    """What a source is opened with: by the function that its `SourceFormat.opens` names.

    That returns a `SourceReader`, or raises `ConfigError` with all that is wrong with the options.
    """

    source: Source
    log: Sequence[LogEntry] = ()
    """All entries that were committed."""
    pipeline: str = ""
    """Who reads it."""
