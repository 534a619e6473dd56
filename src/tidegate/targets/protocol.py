"""What a target must do: take what tasks have staged, once, after the commit.

    step -> [encode] in the task -> staged -> commit -> [publish] on the driver

Nothing is visible before the commit. Publishing is done in the order of epochs and may be
done again for an epoch that is out already: after a crash nobody knows how far it came.

`WriterDefaults` has the answers of the simplest target. The contract can be run:
`tidegate.testing.TargetContract`, and stricter ones beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import polars as pl

from tidegate.errors import TidegateError
from tidegate.pipeline import StateStore, Target
from tidegate.targets.options import target_at
from tidegate.targets.staging import StagingFolder
from tidegate.transaction import Transaction

PartKind: TypeAlias = Literal["sent", "retracted"]
"""Rows to add or replace; or identities to delete."""

Place: TypeAlias = Mapping[str, Any]
"""What tells a target from another one of the same name: plain values, for a manifest."""


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
    """One target of a pipeline. A value that can be pickled: tasks encode, the driver publishes.

    The driver opens it; `check`, `owner` and `last_epoch` look at what is there; `prepare` and
    `claim` make it ready. Nothing else changes a target but `publish` and the commit.
    """

    @property
    def staging(self) -> StagingFolder | None:
        """Where tasks put what they encode; None: the state store keeps it."""
        ...

    @property
    def takes_retractions(self) -> bool:
        """Whether identities that count no more are deleted there."""
        ...

    @property
    def one_schema(self) -> bool:
        """Whether rows must have all columns that `check` was told of, in that order, and no
        others.
        """
        ...

    @property
    def in_commit(self) -> bool:
        """Whether rows go there in the transaction that commits their epoch: see `beside`.

        That is for a target in the database of the state store.
        """
        ...

    @property
    def place(self) -> Place:
        """What it is, once it is prepared; empty: any other would do as well."""
        ...

    def check(self, identity: Sequence[str], schema: pl.Schema) -> None:
        """Before any data is read: raise `ConfigError` if rows of this schema cannot go there.

        `identity` names the columns by which rows are replaced and deleted.
        """
        ...

    def owner(self) -> str | None:
        """The incarnation that has claimed the pipeline's channel here; None: none has."""
        ...

    def is_empty(self) -> bool:
        """Whether there is no row, whoever sent it; False where that cannot be told."""
        ...

    def last_epoch(self, key: EpochKey) -> int | None:
        """The last epoch of the pipeline's channel that is out there; None if none is."""
        ...

    def refuse_other_place(self, was: Place) -> None:
        """Rows of earlier epochs are in `was`: raise `StateLost` or `TargetRefused` if not here."""
        ...

    def prepare(self, schema: pl.Schema) -> None:
        """Behind `check`, before any data is read: make what is missing for such rows."""
        ...

    def claim(self, incarnation: str) -> None:
        """Note whose rows come from now on; `publish` then raises `LostLease` for any other.

        Where there is nothing yet that could hold a note, nothing happens.
        """
        ...

    def encode(self, rows: pl.DataFrame) -> bytes:
        """The rows as `publish` wants them."""
        ...

    def publish(self, key: EpochKey, parts: Sequence[StagedRows]) -> None:
        """Make the rows of an epoch visible; of one that is out already, what is missing."""
        ...

    def beside(self, parts: Sequence[StagedRows]) -> Callable[[Transaction], None]:
        """What writes the rows of an epoch in the transaction that it is given."""
        ...

    def rows(self, schema: pl.Schema | None = None) -> pl.DataFrame:
        """The table as it is now, without columns if there is none; `schema` is for formats that
        carry no types.
        """
        ...

    def close(self) -> None:
        """The run is over: nothing more is published."""
        ...


class WriterDefaults:
    """A target that only takes rows, of any schema, and notes nothing of them but the epoch.

    What it does not say here, every target has to: `check`, `encode` and `publish`.
    """

    __slots__ = ()

    @property
    def staging(self) -> StagingFolder | None:
        """The state store keeps what is staged."""
        return None

    @property
    def takes_retractions(self) -> bool:
        """Rows are only added."""
        return False

    @property
    def one_schema(self) -> bool:
        """Rows may lack columns."""
        return False

    @property
    def in_commit(self) -> bool:
        """Rows come after the commit."""
        return False

    @property
    def place(self) -> Place:
        """It goes by the options alone."""
        return {}

    def owner(self) -> str | None:
        """Nothing is noted: rows of other state are not noticed."""
        return None

    def is_empty(self) -> bool:
        """Not known."""
        return False

    def last_epoch(self, key: EpochKey) -> int | None:
        """Not known: older state is not noticed."""
        return None

    def refuse_other_place(self, was: Place) -> None:
        """It goes by the options alone."""

    def prepare(self, schema: pl.Schema) -> None:
        """Nothing has to be made."""

    def claim(self, incarnation: str) -> None:
        """Nothing is noted."""

    def beside(self, parts: Sequence[StagedRows]) -> Callable[[Transaction], None]:
        """Never asked for: `in_commit` is false."""
        raise TidegateError("this target takes no rows inside a commit")

    def rows(self, schema: pl.Schema | None = None) -> pl.DataFrame:
        """Never asked for: its format says that it is `unreadable`."""
        raise TidegateError("this target cannot be read back")

    def close(self) -> None:
        """Nothing is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetOpening:
    """What a target is opened with: by the function that its `TargetFormat.opens` names.

    That returns a `TargetWriter`, or raises `ConfigError` with all that is wrong with the options;
    whether the place is fit, `check` finds out.
    """

    target: Target
    pipeline: str
    channel: str
    """`main`, or what the pipeline calls rows that were turned away."""
    identity: tuple[str, ...] = ()
    """The columns by which rows are replaced and deleted; none: rows are only added."""
    store: StateStore | None = None
    """That of the pipeline."""
    changes: bool | None = None
    """Whether rows are changes of rows; None: those that have a column `op` are."""

    @property
    def options_at(self) -> str:
        """Where the user wrote its options."""
        return f"{target_at(self.channel)}.options"
