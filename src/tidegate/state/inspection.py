"""A look into a store for people and tools: read only, without lock and token."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from tidegate.state.layout import database_of
from tidegate.state.manifest_format import decode
from tidegate.state.sqlite_schema import queries


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


class KeyState(msgspec.Struct, frozen=True, kw_only=True):
    """A key with its state, as of some epoch."""

    operator: str
    group_key: str
    key_group: int
    state_blob: bytes
    as_of_epoch: int
    forget_at: int
    """Microseconds of event time."""


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
    """The rows of a query, none where there is no database; it is never made or changed."""
    database = database_of(folder.absolute())
    if not database.exists():
        return
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
        cursor = connection.execute(queries()[query], values)
        names = [column[0] for column in cursor.description]
        rows = cursor.fetchall()
    yield from (dict(zip(names, row, strict=True)) for row in rows)
