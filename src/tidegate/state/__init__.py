"""State: what a pipeline remembers, committed together with how far its sources were read.

    tasks -> [Depot.stage] -> manifest -> [Store.commit] -> recovery, readable state

`protocol` says what a store must do; `tidegate.testing.contracts` proves it of one.
"""

from __future__ import annotations

from pathlib import Path

from tidegate.errors import ConfigError, Problem
from tidegate.pipeline import StateStore
from tidegate.pipeline.store import DEFAULT_FOLDER
from tidegate.postgres import need_psycopg
from tidegate.state.catalog import Catalog, KeyState
from tidegate.state.database_store import DatabaseStore
from tidegate.state.parts import SqliteDepot
from tidegate.state.protocol import (
    Depot,
    Entry,
    Folded,
    Manifest,
    Output,
    Part,
    Recovered,
    Stacks,
    Store,
)
from tidegate.state.sqlite import folder_catalog, in_memory_store, sqlite_store

__all__ = [
    "Catalog",
    "DatabaseStore",
    "Depot",
    "Entry",
    "Folded",
    "KeyState",
    "Manifest",
    "Output",
    "Part",
    "Recovered",
    "SqliteDepot",
    "Stacks",
    "Store",
    "catalog_of",
    "folder_catalog",
    "in_memory_store",
    "open_store",
    "sqlite_store",
]


def open_store(spec: StateStore, pipeline: str) -> DatabaseStore:
    """The store that a pipeline asks for; whoever runs the pipeline calls its `open`."""
    if spec.kind == "in_memory":
        return in_memory_store(pipeline)
    if spec.kind == "sqlite":
        return sqlite_store(Path(spec.url or DEFAULT_FOLDER).expanduser(), pipeline)
    need_psycopg("state_store.kind")
    from tidegate.postgres.address import Address  # noqa: PLC0415  # needs psycopg
    from tidegate.state.postgres import postgres_store  # noqa: PLC0415  # needs psycopg

    return postgres_store(Address(spec.url or "", spec.schema_name), pipeline)


def catalog_of(spec: StateStore) -> Catalog:
    """Where a pipeline's state can be looked at; `ConfigError` where nobody outside can."""
    if spec.kind == "in_memory":
        hint = (
            "what is held in memory ends with its process; kind='sqlite' keeps it in a folder that "
            "can be looked into"
        )
        expected = "a store that can be looked into: 'sqlite' or 'postgres'"
        raise ConfigError([Problem("state_store.kind", f"{spec.kind!r}", expected, hint)])
    if spec.kind == "sqlite":
        return folder_catalog(Path(spec.url or DEFAULT_FOLDER).expanduser())
    need_psycopg("state_store.kind")
    from tidegate.postgres.address import Address  # noqa: PLC0415  # needs psycopg
    from tidegate.state.postgres import postgres_catalog  # noqa: PLC0415  # needs psycopg

    return postgres_catalog(Address(spec.url or "", spec.schema_name))
