"""What a target must do: take what tasks have staged, once, after the commit.

    step -> [encode] in the task -> staged -> commit -> [publish] on the driver

Nothing is visible before the commit. Publishing is done in the order of epochs and may be
done again for an epoch that is out already: after a crash nobody knows how far it came.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeAlias, TypeGuard

import polars as pl

from tidegate.targets.staging import StagingFolder
from tidegate.transaction import Transaction

PartKind: TypeAlias = Literal["sent", "retracted"]
"""Rows to add or replace; or identities to delete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochKey:
    """What makes publishing idempotent: an epoch of a channel, never used for other rows."""

    pipeline: str
    incarnation: str
    operator: str
    channel: str
    """`main`, `rejected`, `late`, or as the operator names it."""
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedRows:
    """Rows of one shard, as a task has staged them."""

    kind: PartKind
    name: str
    """Drawn by the task: no two parts ever have the same."""
    rows: int
    read: Callable[[], bytes]
    """What `encode` gave."""
    path: Path | None = None
    """The file in the staging folder of the target, where it has one."""


class TargetWriter(Protocol):
    """One target of a pipeline. A value that can be pickled: tasks encode, the driver publishes."""

    @property
    def staging(self) -> StagingFolder | None:
        """Where tasks put what they encode; None: the state store keeps it."""
        ...

    @property
    def takes_retractions(self) -> bool:
        """Whether identities that count no more are deleted there."""
        ...

    def check(self, identity: Sequence[str], schema: pl.Schema) -> None:
        """Before any data is read: raise `ConfigError` if rows of this schema cannot go there.

        `identity` names the columns by which rows are replaced and deleted.
        """
        ...

    def encode(self, rows: pl.DataFrame) -> bytes:
        """The rows as `publish` wants them."""
        ...

    def publish(self, key: EpochKey, parts: Sequence[StagedRows]) -> None:
        """Make the rows of an epoch visible; of one that is out already, what is missing."""
        ...


class CommittedWriter(TargetWriter, Protocol):
    """A target that may be in the database of the state store: then the commit brings rows out."""

    in_commit: bool

    def beside(self, parts: Sequence[StagedRows]) -> Callable[[Transaction], None]:
        """What writes the rows of an epoch in the transaction that it is given."""
        ...


def in_commit(writer: TargetWriter) -> TypeGuard[CommittedWriter]:
    """Whether rows go there in the transaction in which the epoch is committed."""
    return getattr(writer, "in_commit", False)


class OneSchemaWriter(TargetWriter, Protocol):
    """A target that takes rows of one schema: all have the columns that `check` was told of."""

    one_schema: bool


def has_one_schema(writer: TargetWriter) -> TypeGuard[OneSchemaWriter]:
    """Whether rows must have all columns that `check` was told of, in that order, and no others."""
    return getattr(writer, "one_schema", False)


class PreparedWriter(TargetWriter, Protocol):
    """A target that must be made before the first rows come."""

    def prepare(self, schema: pl.Schema) -> None:
        """Behind `check`, before any data is read: make what is missing for such rows."""
        ...


class ClosedWriter(TargetWriter, Protocol):
    """A target that keeps something open as long as a run lasts."""

    def close(self) -> None:
        """The run is over: nothing more is published."""
        ...


def needs_closing(writer: TargetWriter) -> TypeGuard[ClosedWriter]:
    """Whether anything is open."""
    return hasattr(writer, "close")


def needs_preparing(writer: TargetWriter) -> TypeGuard[PreparedWriter]:
    """Whether there is anything to make."""
    return hasattr(writer, "prepare")
