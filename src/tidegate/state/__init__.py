"""State: what a pipeline remembers, committed together with how far its sources were read.

    tasks -> [Depot.stage] -> manifest -> [Store.commit] -> recovery, readable state

`protocol` says what a store must do; `tidegate.testing.contracts` proves it of one.
"""

from __future__ import annotations

from pathlib import Path

from tidegate.pipeline import StateStore
from tidegate.pipeline.store import DEFAULT_FOLDER
from tidegate.postgres import need_psycopg
from tidegate.state.in_memory import InMemoryStore
from tidegate.state.inspection import KeyState, PipelineState, inspect, inspect_keys
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
from tidegate.state.sqlite import SqliteStore

__all__ = [
    "Depot",
    "Entry",
    "Folded",
    "InMemoryStore",
    "KeyState",
    "Manifest",
    "Output",
    "Part",
    "PipelineState",
    "Recovered",
    "SqliteDepot",
    "SqliteStore",
    "Stacks",
    "Store",
    "inspect",
    "inspect_keys",
    "open_store",
]


def open_store(spec: StateStore, pipeline: str) -> Store:
    """The store that a pipeline asks for; whoever runs the pipeline calls its `open`."""
    if spec.kind == "in_memory":
        return InMemoryStore(pipeline)
    if spec.kind == "sqlite":
        return SqliteStore(Path(spec.url or DEFAULT_FOLDER).expanduser(), pipeline)
    need_psycopg("state_store.kind")
    from tidegate.postgres.address import Address  # noqa: PLC0415  # needs psycopg
    from tidegate.state.postgres import PostgresStore  # noqa: PLC0415  # needs psycopg

    return PostgresStore(Address(spec.url or "", spec.schema_name), pipeline)
