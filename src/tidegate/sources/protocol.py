"""What a source must do: say what there is to read, and read exactly that.

    [poll] -> plan of the epoch -> slices -> [read] in map tasks -> admission

A source is polled on the driver and read in tasks. A slice says exactly which rows it is, so
that whoever reads it, and however often, gets the same rows in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

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
