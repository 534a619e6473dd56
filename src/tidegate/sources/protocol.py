"""What a source must do: say what there is to read, and read exactly that.

    [poll] -> plan of the epoch -> slices -> [read] in map tasks -> admission

A source is polled on the driver and read in tasks. A slice says exactly which rows it is, so
that whoever reads it, and however often, gets the same rows in the same order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

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


class SourceReader(Protocol):
    """One source of a pipeline, on the driver.

    It is opened with the log that was committed, and asked from an offset that was committed,
    so it need remember nothing itself; what it does remember is of this run only.
    """

    def columns(self) -> Mapping[str, str]:
        """The columns as they are read, with their Spark SQL types; fixed from then on."""
        ...

    def poll(self, since: Offset | None, *, max_rows: int, slices: int, now_us: int) -> Polled:
        """The next rows after `since` (None: from the start): about `max_rows` at most.

        They come in up to `slices` slices of similar size, in the order of their offsets.
        Only if nothing smaller can be taken the rows are more than `max_rows`.
        """
        ...


@runtime_checkable
class Endless(Protocol):
    """A source that always has more: a run over what there is must end all the same."""

    def end_at(self, now_us: int) -> None:
        """From now on give what is there at `now_us`, and nothing that comes later."""
        ...


@runtime_checkable
class OfFiles(Protocol):
    """A source in a file system: the tasks that read it must see the same one as the driver."""

    @property
    def shared_path(self) -> str:
        """A path that must be there for tasks too: a file to read, or what files come into."""
        ...


@runtime_checkable
class Partitioned(Protocol):
    """A source whose partitions are ordered independently: each has a watermark of its own."""

    @property
    def partitioned(self) -> Literal[True]:
        """It is: `Slice.partition` says where rows belong, `Polled.found` what there is."""
        ...

    def partition_name(self, partition: int) -> str:
        """What people call it."""
        ...


@runtime_checkable
class Numbered(Protocol):
    """A source whose rows say themselves where they are, however they are read."""

    @property
    def number_column(self) -> str:
        """The column with their numbers, which begin with the slice's `first_offset`."""
        ...


@runtime_checkable
class Decoding(Protocol):
    """A source in which a single row may turn out to be unreadable."""

    @property
    def undecoded(self) -> str | None:
        """The column that holds such a row as it came, and NULL in all others; None: has none."""
        ...

    @property
    def undecoded_columns(self) -> Mapping[str, str]:
        """That one, and all others that say something of such a row, with their types."""
        ...

    def decide_by(self, columns: Collection[str]) -> None:
        """From now on a row is unreadable by these columns only: others are NULL where they do
        not fit. Until this is said, all columns decide.
        """
        ...


@dataclass(frozen=True, slots=True)
class SampledNames:
    """The names of columns in some rows of a source."""

    rows: int
    """How many rows were sampled."""
    names: frozenset[str]


@runtime_checkable
class Sampled(Protocol):
    """A source whose rows name their columns themselves, so that a misspelt column is no error."""

    def sampled_names(self) -> SampledNames:
        """The names in some of the first and of the last rows; none if rows have no names."""
        ...


@runtime_checkable
class Told(Protocol):
    """A source that wants to know how far it was read."""

    def committed(self, until: Offset) -> None:
        """Everything before `until` is committed. Somebody else may look at it: nothing here
        depends on it, so it does not raise, and does not keep others waiting.
        """
        ...


@runtime_checkable
class ReadTogether(Protocol):
    """A slice that is read faster together with others of its source than one by one."""

    def read_all(
        self, slices: Sequence[Slice], columns: Sequence[str] | None
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The rows of `slices`, of which this is one: batches with the place of their slice.

        Those of a slice come in order, as `read` gives them; slices come as they are read.
        """
        ...
