"""A Delta table: one commit for each epoch that has rows, by delta-rs.

Every commit carries the epoch as a transaction of the application that the pipeline's channel
is to the table. The version of that transaction is read from the very snapshot that is
committed on: a commit of the same epoch by somebody else in between is a conflict.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final
from urllib.parse import quote

import polars as pl

from tidegate.errors import Problem
from tidegate.pipeline import MAIN, Target
from tidegate.pipeline.masking import shown
from tidegate.targets.blobs import rows_of, table_to_bytes
from tidegate.targets.delta_merge import merge
from tidegate.targets.delta_schema import (
    column_problems,
    completed,
    delta_schema,
    deltalake,
    package_problems,
    type_problems,
)
from tidegate.targets.options import (
    are_changes,
    identity_problems,
    is_address,
    path_problems,
    refuse,
    text_of,
    unknown_options,
)
from tidegate.targets.protocol import EpochKey, StagedRows

_STORAGE: Final = "storage"
_ATTEMPTS: Final = 5
"""How often an epoch is tried when others change the same rows of the table meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaWriter:
    """Rows are added, or with `upserts` replaced and deleted by `identity`, NULL equal to NULL."""

    path: str
    channel: str
    identity: tuple[str, ...] = ()
    upserts: bool = False
    changes: bool | None = None
    """Whether rows are changes of rows; None: those that have a column `op` are."""
    storage: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """What the object store wants to know; may hold secrets."""

    staging: ClassVar = None
    """The state store keeps what is staged."""
    one_schema: ClassVar = True
    """The first rows make the table, and others have to fit in."""

    @property
    def takes_retractions(self) -> bool:
        """A merge deletes in the commit in which it adds."""
        return self.upserts

    def check(self, identity: Sequence[str], schema: pl.Schema) -> None:
        """A table that is there has the columns of the rows, with their types."""
        problems = [*identity_problems(identity, schema), *type_problems(schema)]
        if not problems and (table := self._table()):
            problems = [*column_problems(table, schema)]
        refuse(problems, self.channel)

    def encode(self, rows: pl.DataFrame) -> bytes:
        """An Arrow stream."""
        return table_to_bytes(rows)

    def publish(self, key: EpochKey, parts: Sequence[StagedRows]) -> None:
        """Commit the epoch to the table, unless it holds this epoch or a later one."""
        sent = rows_of(parts, "sent")
        retracted = rows_of(parts, "retracted") if self._replaces(sent) else None
        if sent is None and retracted is None:
            return None
        conflict = deltalake().exceptions.CommitFailedError
        for _ in range(_ATTEMPTS - 1):
            with suppress(conflict):
                return self._commit(key, sent, retracted)
        return self._commit(key, sent, retracted)

    def last_epoch(self, key: EpochKey) -> int | None:
        """The last epoch by the transaction of the pipeline's channel."""
        table = self._table()
        version = None if table is None else table.transaction_version(application_of(key))
        return None if version is None else int(version)

    def rows(self) -> pl.DataFrame:
        """The newest snapshot of the table; without columns if there is no table."""
        table = self._table()
        return pl.DataFrame() if table is None else pl.DataFrame(table.to_pyarrow_table())

    def _commit(
        self, key: EpochKey, sent: pl.DataFrame | None, retracted: pl.DataFrame | None
    ) -> None:
        table = self._table() or (None if sent is None else self._new_table(sent))
        if table is None:
            return  # nothing was ever sent: nothing to delete
        application = application_of(key)
        version = table.transaction_version(application)
        if version is not None and version >= key.epoch:
            return
        delta = deltalake()
        done = delta.CommitProperties(
            app_transactions=[delta.Transaction(app_id=application, version=key.epoch)]
        )
        if sent is None or self._replaces(sent):
            merge(table, sent, retracted, self.identity, done)
        else:
            rows = completed(sent, table)
            delta.write_deltalake(table, rows, mode="append", commit_properties=done)

    def _replaces(self, sent: pl.DataFrame | None) -> bool:
        return self.upserts and not are_changes(sent, self.changes)

    def _table(self) -> Any:
        """The newest snapshot of the table; None if there is no table."""
        delta = deltalake()
        try:
            return delta.DeltaTable(self.path, storage_options=dict(self.storage) or None)
        except delta.exceptions.TableNotFoundError:
            return None

    def _new_table(self, rows: pl.DataFrame) -> Any:
        """An empty table, by us or by whoever was faster."""
        schema = delta_schema(rows.schema)
        options = dict(self.storage) or None
        try:
            deltalake().DeltaTable.create(self.path, schema, mode="ignore", storage_options=options)
        except deltalake().exceptions.DeltaError:
            if self._table() is None:
                raise
        return self._table()


def open_delta(
    target: Target, *, channel: str, identity: Sequence[str], changes: bool | None = None
) -> DeltaWriter:
    """The writer of a target; raises `ConfigError` with all that is wrong with its options."""
    storage = _storage_options(target)
    known = ("path", _STORAGE, *(f"{_STORAGE}.{name}" for name in storage))
    refuse(
        [
            *unknown_options(target, known),
            *path_problems(target, "/data/sessions"),
            *_storage_problems(target),
            *package_problems(),
        ],
        channel,
    )
    path = str(target.options["path"])
    return DeltaWriter(
        path=path if is_address(path) else os.path.realpath(path),
        channel=channel,
        identity=tuple(identity),
        upserts=target.mode == "upsert" and channel == MAIN and bool(identity),
        changes=changes,
        storage=tuple(sorted(storage.items())),
    )


def application_of(key: EpochKey) -> str:
    """The id under which a table remembers the epochs of a channel."""
    names = (key.pipeline, key.incarnation, key.operator, key.channel)
    return "/".join(["tidegate", *(quote(name, safe="", errors="surrogatepass") for name in names)])


def _storage_options(target: Target) -> dict[str, str]:
    """`storage.region`, or a mapping `storage` with `region` in it."""
    inner = target.options.get(_STORAGE)
    pairs = dict(inner) if isinstance(inner, Mapping) else {}
    prefix = f"{_STORAGE}."
    flat = {k.removeprefix(prefix): v for k, v in target.options.items() if k.startswith(prefix)}
    return {name: text_of(value) for name, value in {**pairs, **flat}.items()}


def _storage_problems(target: Target) -> Iterator[Problem]:
    inner = target.options.get(_STORAGE, {})
    if not isinstance(inner, Mapping):
        hint = "options={'path': ..., 'storage.aws_region': ...}"
        yield Problem(f"options.{_STORAGE}", shown(inner, _STORAGE), "a mapping", hint)
