"""A table in the memory of the driver: for tests, notebooks and first steps.

MemoryWriter.publish -> memory_table("orders.main").rows()
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import polars as pl

from tidegate.errors import Problem
from tidegate.pipeline import MAIN
from tidegate.pipeline.masking import shown
from tidegate.targets.blobs import rows_of, table_to_bytes
from tidegate.targets.options import are_changes, identity_problems, refuse, unknown_options
from tidegate.targets.ownership import refuse_unless_owner
from tidegate.targets.protocol import EpochKey, StagedRows, TargetOpening, WriterDefaults


class MemoryEpoch(NamedTuple):
    """What an epoch brought."""

    epoch: int
    sent: pl.DataFrame
    retracted: pl.DataFrame


class MemoryTable:
    """The rows of a target, and how they came. It may be read while a pipeline writes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows = pl.DataFrame()
        self._taken: dict[EpochKey, MemoryEpoch] = {}
        self._owners: dict[tuple[str, str], str] = {}
        """By pipeline and channel, whose rows are here."""

    def rows(self) -> pl.DataFrame:
        """The table now; without columns until the first row has come."""
        return self._rows

    def epochs(self) -> list[MemoryEpoch]:
        """What has come, epoch by epoch; epochs without rows are left out."""
        with self._lock:
            return [*self._taken.values()]

    def clear(self) -> None:
        """Forget everything, also which epochs have come, and whose they were."""
        with self._lock:
            self._rows, self._taken, self._owners = pl.DataFrame(), {}, {}

    def owner(self, pipeline: str, channel: str) -> str | None:
        """The incarnation of the pipeline that sends the rows of a channel."""
        return self._owners.get((pipeline, channel))

    def claim(self, pipeline: str, channel: str, incarnation: str) -> None:
        """From now on only this incarnation does."""
        with self._lock:
            self._owners[pipeline, channel] = incarnation

    def take(
        self,
        key: EpochKey,
        sent: pl.DataFrame | None,
        retracted: pl.DataFrame | None,
        identity: Sequence[str],
        changes: bool | None = None,
    ) -> None:
        """Apply an epoch once: delete what is retracted, then replace or add what is sent.

        Without an identity, or with changes of rows, what is sent is added and nothing deleted.
        Whether rows are changes, their columns say where nobody does.
        """
        with self._lock:
            refuse_unless_owner(self.owner(key.pipeline, key.channel), key, "the table in memory")
            if key in self._taken:
                return
            replaced_by = () if are_changes(sent, changes) else identity
            self._rows = applied(self._rows, sent, retracted, replaced_by)
            self._taken[key] = MemoryEpoch(
                key.epoch,
                self._rows.clear() if sent is None else sent,
                self._rows.select(identity).clear() if retracted is None else retracted,
            )


def applied(
    table: pl.DataFrame,
    sent: pl.DataFrame | None,
    retracted: pl.DataFrame | None,
    identity: Sequence[str],
) -> pl.DataFrame:
    """The table after an epoch, NULL equal to NULL in identities.

    Of rows sent with the same identity the last one counts; without one rows are only added.
    """
    if not identity:
        return _with_rows(table, sent)
    for gone in (retracted, sent):
        if gone is not None and table.width:
            table = table.join(gone, on=identity, how="anti", nulls_equal=True)
    if sent is not None:
        sent = sent.unique(identity, keep="last", maintain_order=True)
    return _with_rows(table, sent)


def _with_rows(table: pl.DataFrame, rows: pl.DataFrame | None) -> pl.DataFrame:
    if rows is None:
        return table
    return pl.concat([table, rows], how="diagonal") if table.width else rows


_TABLES: Final[dict[str, MemoryTable]] = {}


def memory_table(name: str) -> MemoryTable:
    """The table of this name in this process, empty if nothing was written to it."""
    return _TABLES.setdefault(name, MemoryTable())


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryWriter(WriterDefaults):
    """Writes to `memory_table(name)` of the process that publishes."""

    name: str
    pipeline: str
    channel: str
    identity: tuple[str, ...] = ()
    changes: bool | None = None
    """Whether rows are changes of rows; None: those that have a column `op` are."""

    @property
    def takes_retractions(self) -> bool:
        """Rows that have an identity can be deleted."""
        return bool(self.identity)

    def check(self, identity: Sequence[str], schema: pl.Schema) -> None:
        """A table that has rows already has the same columns."""
        problems = [*identity_problems(identity, schema)]
        there = memory_table(self.name).rows().schema
        if there:
            problems += _other_columns(self.name, there, schema)
        refuse(problems, self.channel)

    def rows(self, schema: pl.Schema | None = None) -> pl.DataFrame:
        """The table of this process."""
        return memory_table(self.name).rows()

    def encode(self, rows: pl.DataFrame) -> bytes:
        """An Arrow stream."""
        return table_to_bytes(rows)

    def publish(self, key: EpochKey, parts: Sequence[StagedRows]) -> None:
        """Apply the epoch, unless it is in."""
        sent, retracted = rows_of(parts, "sent"), rows_of(parts, "retracted")
        if sent is not None or retracted is not None:
            memory_table(self.name).take(key, sent, retracted, self.identity, self.changes)

    def owner(self) -> str | None:
        """As long as the process lives."""
        return memory_table(self.name).owner(self.pipeline, self.channel)

    def is_empty(self) -> bool:
        """Whether the table has no row."""
        return memory_table(self.name).rows().is_empty()

    def claim(self, incarnation: str) -> None:
        """Noted in the table; `clear` forgets it."""
        memory_table(self.name).claim(self.pipeline, self.channel, incarnation)


def open_memory(opening: TargetOpening) -> MemoryWriter:
    """The writer of a target; raises `ConfigError` with all that is wrong with its options."""
    target = opening.target
    name = target.options.get("name", f"{opening.pipeline}.{opening.channel}")
    problems = [*unknown_options(target, ("name",))]
    if not isinstance(name, str) or not name:
        problems.append(Problem("options.name", shown(name), "the name of a table", "a text"))
    refuse(problems, opening.channel)
    return MemoryWriter(
        name=name,
        pipeline=opening.pipeline,
        channel=opening.channel,
        identity=opening.identity if opening.channel == MAIN else (),
        changes=opening.changes,
    )


def _other_columns(name: str, there: pl.Schema, schema: pl.Schema) -> Iterator[Problem]:
    names = [column for column in {**there, **schema} if there.get(column) != schema.get(column)]
    if names:
        found = f"rows in the table {name!r} with other columns: {', '.join(map(repr, names))}"
        hint = f"memory_table({name!r}).clear(), or options={{'name': ...}}"
        yield Problem("options.name", found, "rows of one schema", hint)
