"""The pipelines of one place, to be looked at from outside: what is asked of a store for that.

    folder | database -> [Catalog] -> list, show, export -> people and tools

Looking takes no lock and no token, so it never disturbs a run. What changes something goes
through `Store`, which a catalog opens for one pipeline.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from tidegate.core.segment_migrations import STATE_VERSION
from tidegate.errors import StateFormatError
from tidegate.eventtime import BEGINNING
from tidegate.state.protocol import Depot, Entry, Manifest, Part, Store


class Committed(msgspec.Struct, frozen=True, kw_only=True):
    """Where a pipeline stands: all of it seen at one moment."""

    pipeline: str
    epoch: int
    published_epoch: int
    folded_epoch: int
    """As of which epoch the readable table is."""
    incarnation: str
    min_reader_version: int
    library_version: str
    plan: Mapping[str, Any] | None
    """As in `Recovered`."""
    last: Manifest | None
    """None: nothing is committed since the beginning, or since a reset; or it is `too_new`."""
    age_us: int | None
    """Since the last commit, by the clock of this machine."""
    folded_keys: int
    """The keys of the readable table."""

    @property
    def too_new(self) -> bool:
        """Whether only a later version can read the state."""
        return self.min_reader_version > STATE_VERSION

    @property
    def holds_nothing(self) -> bool:
        """Whether nothing is committed since the beginning, or since a reset."""
        return self.last is None and not self.too_new

    def check_readable(self) -> None:
        """Raise `StateFormatError` for state that only a later version can read."""
        if self.too_new:
            raise StateFormatError(
                f"the state of pipeline {self.pipeline!r} needs a Tidegate that reads state "
                f"version {self.min_reader_version}, this one reads {STATE_VERSION}: "
                "use the version that wrote it, or a later one"
            )

    @property
    def watermark_us(self) -> int:
        """How far event time is; `BEGINNING` before the first row."""
        return int(self.last.watermarks["watermark_us"]) if self.last else BEGINNING

    @property
    def offsets(self) -> Mapping[str, Mapping[str, Any]]:
        """How far each source was read."""
        return self.last.offsets if self.last else {}

    @property
    def parts(self) -> tuple[Part, ...]:
        """The segments of state, each once, however many shards name it."""
        return tuple({entry.part.name: entry.part for entry in self._entries()}.values())

    @property
    def state_bytes(self) -> int:
        """How much state there is."""
        return sum(part.bytes for part in self.parts)

    def _entries(self) -> Iterator[Entry]:
        for stacks in self.last.state.values() if self.last else ():
            for stack in stacks.shards:
                yield from stack


class KeyState(msgspec.Struct, frozen=True, kw_only=True):
    """A key with its state, as of some epoch: a row of the readable table."""

    operator: str
    group_key: str
    key_group: int
    state_blob: bytes
    as_of_epoch: int
    forget_at: int
    """Microseconds of event time."""


class Catalog(Protocol):
    """All pipelines that keep their state in one place.

    Raises `StateFormatError` where the place is not what it should be, or of a later version.
    """

    @property
    def place(self) -> str:
        """Where that is, for people; without secrets."""
        ...

    def pipelines(self) -> tuple[str, ...]:
        """Their names, sorted; none where nothing was ever kept."""
        ...

    def committed(self, pipeline: str) -> Committed | None:
        """Where a pipeline stands; None if there is none of this name."""
        ...

    def logs(self, pipeline: str) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """By source: everything it has discovered, as in `Recovered`."""
        ...

    def holder(self, pipeline: str) -> str | None:
        """Who runs the pipeline now, by their own words; None if nobody does."""
        ...

    def depot(self, pipeline: str) -> Depot:
        """Where the segments of a pipeline are fetched."""
        ...

    def folded(self, pipeline: str) -> Iterable[KeyState]:
        """The readable table, by operator and key."""
        ...

    def store(self, pipeline: str) -> Store:
        """The store of a pipeline, to be opened by whoever changes something."""
        ...
