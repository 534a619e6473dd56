"""The pipelines of one place, to be looked at from outside: what is asked of a store for that.

    folder | database -> [Reader] -> [Catalog] -> list, show, export -> people and tools

Looking takes no token and waits for nobody, so it never disturbs a run. What changes something goes
through `Store`, which a catalog opens for one pipeline.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import msgspec

from tidegate.errors import StateFormatError
from tidegate.eventtime import BEGINNING
from tidegate.state.manifest_format import (
    STATE_VERSION,
    decode,
    decode_manifest,
    refuse_later_state,
)
from tidegate.state.protocol import Depot, Entry, Manifest, Part, Store
from tidegate.state.source_log import SourceLog


class Committed(msgspec.Struct, frozen=True, kw_only=True):
    """Where a pipeline stands: all of it seen at one moment."""

    pipeline: str
    token: int
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
        refuse_later_state(self.pipeline, self.min_reader_version)

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


class Reader(Protocol):
    """A place where pipelines keep their state, read from outside."""

    @property
    def place(self) -> str:
        """Where that is, for people; without secrets."""
        ...

    def rows(self, query: str, **values: Any) -> Iterator[dict[str, Any]]:
        """The rows of a statement, as of one moment; none where nothing was ever kept.

        Raises `StateFormatError` for tables that are of another version.
        """
        ...

    def holder(self, pipeline: str) -> str | None:
        """See `Catalog`."""
        ...

    def depot(self, pipeline: str) -> Depot:
        """See `Catalog`."""
        ...

    def store(self, pipeline: str) -> Store:
        """See `Catalog`."""
        ...


@dataclass(frozen=True)
class Catalog:
    """All pipelines that keep their state in one place.

    Raises `StateFormatError` where the place is not what it should be, or of a later version.
    """

    reader: Reader

    @property
    def place(self) -> str:
        """Where that is, for people; without secrets."""
        return self.reader.place

    def pipelines(self) -> tuple[str, ...]:
        """Their names, sorted; none where nothing was ever kept."""
        return tuple(sorted(row["pipeline"] for row in self.reader.rows("inspect_names")))

    def committed(self, pipeline: str) -> Committed | None:
        """Where a pipeline stands; None if there is none of this name."""
        rows = [*self.reader.rows("inspect_committed", pipeline=pipeline)]
        if not rows:
            return None
        (row,) = rows
        plan, manifest = row.pop("plan"), row.pop("manifest")
        readable = row["min_reader_version"] <= STATE_VERSION
        last = decode_manifest(manifest) if manifest is not None and readable else None
        known = None if plan is None else decode(plan)
        return msgspec.convert({**row, "plan": known, "last": last}, Committed)

    def logs(self, pipeline: str) -> dict[str, SourceLog]:
        """By source: everything it has discovered, as in `Recovered`."""
        return {
            row["source_id"]: SourceLog(
                row["entries"], partial(self._log_entries, pipeline, row["source_id"])
            )
            for row in self.reader.rows("find_logs", pipeline=pipeline)
        }

    def _log_entries(self, pipeline: str, source: str, first: int, end: int) -> list[str]:
        wanted = {"pipeline": pipeline, "source": source, "first": first, "end": end}
        return [row["entry"] for row in self.reader.rows("read_log", **wanted)]

    def holder(self, pipeline: str) -> str | None:
        """Who runs the pipeline now, by their own words; None if nobody does."""
        return self.reader.holder(pipeline)

    def depot(self, pipeline: str) -> Depot:
        """Where the segments of a pipeline are fetched."""
        return self.reader.depot(pipeline)

    def folded(self, pipeline: str) -> Iterator[KeyState]:
        """The readable table, by operator and key."""
        for row in self.reader.rows("inspect_keys", pipeline=pipeline):
            yield msgspec.convert(row, KeyState)

    def store(self, pipeline: str) -> Store:
        """The store of a pipeline, to be opened by whoever changes something."""
        return self.reader.store(pipeline)


def refuse_other_tables(place: str, found: int, known: int) -> None:
    """Raise `StateFormatError` unless tables have the version that this one of Tidegate knows."""
    if found == known:
        return
    hint = (
        "use the version that wrote them, or a later one"
        if found > known
        else "the next run of one of its pipelines brings them up to date"
    )
    raise StateFormatError(
        f"the tables of {place} have version {found}, "
        f"this version of Tidegate knows {known}: {hint}"
    )
