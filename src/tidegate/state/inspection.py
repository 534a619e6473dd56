"""A look into a store for people and tools: read only, without lock and token."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from tidegate.errors import ConfigError, Problem, StateFormatError, StateLost
from tidegate.pipeline import StateStore
from tidegate.pipeline.store import DEFAULT_FOLDER
from tidegate.postgres import need_psycopg
from tidegate.state.catalog import Catalog, Committed, KeyState
from tidegate.state.layout import Layout, database_of
from tidegate.state.lock_watch import held_by
from tidegate.state.manifest_format import STATE_VERSION, decode, decode_manifest
from tidegate.state.parts import SqliteDepot
from tidegate.state.source_log import SourceLog
from tidegate.state.sqlite import SqliteStore
from tidegate.state.sqlite_schema import migrations, queries, version_of

__all__ = ["FolderCatalog", "KeyState", "PipelineState", "catalog_of", "inspect", "inspect_keys"]


class PipelineState(msgspec.Struct, frozen=True, kw_only=True):
    """What is committed of a pipeline, and how much it is."""

    pipeline: str
    epoch: int
    published_epoch: int
    folded_epoch: int
    """As of which epoch the keys are."""
    token: int
    incarnation: str
    state_version: int
    library_version: str
    created_at: str
    updated_at: str
    age_us: int
    """Since the last change of any kind, by the clock of this machine."""
    parts: int
    state_bytes: int
    keys: int
    offsets: Mapping[str, Mapping[str, Any]]
    """By source."""


def inspect(folder: Path, pipeline: str | None = None) -> tuple[PipelineState, ...]:
    """The pipelines of a folder, or the one of this name if it is there, in order of names."""
    return tuple(
        msgspec.convert({**row, "offsets": _offsets(folder, row["pipeline"])}, PipelineState)
        for row in _rows(folder, "inspect_pipelines", pipeline=pipeline)
    )


def inspect_keys(folder: Path, pipeline: str, *, at_most: int = 100) -> tuple[KeyState, ...]:
    """The first keys of a pipeline, by operator and key."""
    rows = _rows(folder, "inspect_keys", pipeline=pipeline, at_most=at_most)
    return tuple(msgspec.convert(row, KeyState) for row in rows)


def _offsets(folder: Path, pipeline: str) -> dict[str, Any]:
    rows = _rows(folder, "inspect_offsets", pipeline=pipeline)
    return {row["source_id"]: decode(row["offset_bytes"]) for row in rows}


def _rows(folder: Path, query: str, **values: Any) -> Iterator[dict[str, Any]]:
    """The rows of a query, none where there is no database; it is never made or changed.

    Raises `StateFormatError` for what is no database of Tidegate, or of another version, and
    `StateLost` for one that is broken.
    """
    database = database_of(folder.absolute())
    if not database.exists():
        return
    try:
        with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
            _check_version(database, version_of(connection))
            cursor = connection.execute(queries()[query], values)
            names = [column[0] for column in cursor.description]
            rows = cursor.fetchall()
    except sqlite3.DatabaseError as error:
        raise _unreadable(database, error) from error
    yield from (dict(zip(names, row, strict=True)) for row in rows)


def _unreadable(database: Path, error: sqlite3.Error) -> StateFormatError | StateLost:
    """The error of a database that is broken, or only out of reach."""
    name = getattr(error, "sqlite_errorname", "")
    hint = next((hint for code, hint in _OUT_OF_REACH.items() if name.startswith(code)), _BROKEN)
    kind = StateFormatError if name == "SQLITE_NOTADB" else StateLost
    return kind(f"{database} cannot be read: {error}\n  {hint}")


_NEEDS_RIGHTS = (
    "hint: while nobody runs a pipeline of the folder, SQLite makes a file beside the database: "
    "use a user that may write to the folder"
)
_OUT_OF_REACH = {
    "SQLITE_BUSY": "hint: another process keeps it locked; try again",
    "SQLITE_CANTOPEN": _NEEDS_RIGHTS,
    "SQLITE_READONLY": _NEEDS_RIGHTS,
}
_BROKEN = (
    "hint: bring the folder back from a copy; without one, move it away and run the pipelines anew"
)


def _check_version(database: Path, found: int) -> None:
    known = max(migrations())
    if found == known:
        return
    if found == 0:
        raise StateFormatError(f"{database} has none of Tidegate's tables\n  {_BROKEN}")
    hint = (
        "use the version that wrote them, or a later one"
        if found > known
        else "the next run of one of its pipelines brings them up to date"
    )
    raise StateFormatError(
        f"the tables of {database} have version {found}, "
        f"this version of Tidegate knows {known}: {hint}"
    )


@dataclass(frozen=True, slots=True)
class FolderCatalog:
    """The pipelines of a folder that an embedded store keeps. A `Catalog`."""

    folder: Path

    @property
    def place(self) -> str:
        """The folder, as it was given."""
        return str(self.folder)

    def pipelines(self) -> tuple[str, ...]:
        """Their names, sorted."""
        return tuple(row["pipeline"] for row in _rows(self.folder, "inspect_names"))

    def committed(self, pipeline: str) -> Committed | None:
        """Where a pipeline stands, by one query: a snapshot."""
        for row in _rows(self.folder, "inspect_committed", pipeline=pipeline):
            plan, manifest = row.pop("plan"), row.pop("manifest")
            readable = row["min_reader_version"] <= STATE_VERSION
            last = decode_manifest(manifest) if manifest is not None and readable else None
            known = None if plan is None else decode(plan)
            return msgspec.convert({**row, "plan": known, "last": last}, Committed)
        return None

    def logs(self, pipeline: str) -> dict[str, SourceLog]:
        """What its sources have discovered."""
        return {
            row["source_id"]: SourceLog(
                row["entries"], partial(self._log_entries, pipeline, row["source_id"])
            )
            for row in _rows(self.folder, "find_logs", pipeline=pipeline)
        }

    def _log_entries(self, pipeline: str, source: str, first: int, end: int) -> list[str]:
        wanted = {"pipeline": pipeline, "source": source, "first": first, "end": end}
        return [row["entry"] for row in _rows(self.folder, "read_log", **wanted)]

    def holder(self, pipeline: str) -> str | None:
        """Who has the lock of the pipeline, if it is held by a process of this machine."""
        return held_by(self._layout(pipeline).lock)

    def depot(self, pipeline: str) -> SqliteDepot:
        """The folder of its parts."""
        return SqliteDepot(self._layout(pipeline).parts)

    def folded(self, pipeline: str) -> Iterator[KeyState]:
        """The readable table."""
        for row in _rows(self.folder, "inspect_keys", pipeline=pipeline, at_most=-1):
            yield msgspec.convert(row, KeyState)

    def store(self, pipeline: str) -> SqliteStore:
        """The store of a pipeline."""
        return SqliteStore(self.folder, pipeline)

    def _layout(self, pipeline: str) -> Layout:
        return Layout(self.folder.absolute(), pipeline)


def catalog_of(spec: StateStore) -> Catalog:
    """Where a pipeline's state can be looked at; `ConfigError` where nobody outside can."""
    if spec.kind == "sqlite":
        return FolderCatalog(Path(spec.url or DEFAULT_FOLDER).expanduser())
    if spec.kind == "postgres":
        return _postgres_catalog(spec)
    hint = (
        "what is held in memory ends with its process; kind='sqlite' keeps it in a folder that "
        "can be looked into"
    )
    expected = "a store that can be looked into: 'sqlite' or 'postgres'"
    raise ConfigError([Problem("state_store.kind", f"{spec.kind!r}", expected, hint)])


def _postgres_catalog(spec: StateStore) -> Catalog:
    need_psycopg("state_store.kind")
    from tidegate.postgres.address import Address  # noqa: PLC0415  # needs psycopg
    from tidegate.state.postgres_catalog import PostgresCatalog  # noqa: PLC0415  # needs psycopg

    return PostgresCatalog(Address(spec.url or "", spec.schema_name))
