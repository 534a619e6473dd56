"""Where state is kept, and how much of it there may be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field

from tidegate.errors import Problem
from tidegate.pipeline.fieldtypes import Name, PositiveMs
from tidegate.pipeline.masking import MASK, shown
from tidegate.pipeline.validation import Rule, Value

DEFAULT_FOLDER: Final = "./.tidegate"


def postgres_has_an_address(store: StateStore) -> Iterator[Problem]:
    """Ask for what nobody can guess."""
    if store.kind == "postgres" and store.url is None:
        hint = "url='postgresql://user@host/database'; keep the password in the environment"
        yield Problem("url", "nothing", "the address of the database for kind='postgres'", hint)


def url_fits_kind(store: StateStore) -> Iterator[Problem]:
    """Tell folders from addresses; memory has neither."""
    if store.url is None:
        return
    if store.kind == "in_memory":
        hint = "remove it, or use kind='sqlite' for a folder"
        yield Problem("url", MASK, "no url for kind='in_memory'", hint)
    if store.kind == "sqlite" and "://" in store.url:
        hint = "write a plain path; for the address of a server use kind='postgres'"
        yield Problem("url", MASK, "a folder on this machine for kind='sqlite'", hint)


def schema_needs_postgres(store: StateStore) -> Iterator[Problem]:
    """Only a database has schemas."""
    if store.schema_name is not None and store.kind != "postgres":
        hint = "remove it, or use kind='postgres'"
        yield Problem("schema", shown(store.schema_name), f"no schema for {store.kind}", hint)


def shedding_needs_a_limit(store: StateStore) -> Iterator[Problem]:
    """Without a limit nothing would ever be shed."""
    if store.on_state_cap == "shed" and store.max_keys is None and store.max_state_bytes is None:
        hint = "set the number of keys or bytes from which on new keys are shed"
        expected = "max_keys or max_state_bytes with on_state_cap='shed'"
        yield Problem("on_state_cap", "'shed' without a limit", expected, hint)


class StateStore(Value):
    """Keeps the state and the offsets of a pipeline, committed together."""

    kind: Literal["sqlite", "postgres", "in_memory"] = "sqlite"
    """`sqlite`: one machine, durable; `postgres`: production; `in_memory`: a crash loses all."""
    url: Name | None = None
    """The database of `postgres`, or the folder of `sqlite` (`./.tidegate`); never printed."""
    schema_name: Name | None = Field(default=None, alias="schema")
    """The database schema that holds Tidegate's tables in `postgres`."""
    checkpoint_interval_ms: PositiveMs = 60_000
    """How often the readable table with one row per key is brought up to date."""
    max_keys: Annotated[int, Field(gt=0)] | None = None
    """The most keys that may have state."""
    max_state_bytes: Annotated[int, Field(gt=0)] | None = None
    """The most bytes that state may take."""
    worker_cache_bytes: Annotated[int, Field(gt=0)] = 256 << 20
    """About how much memory each Python worker uses to keep state between epochs."""
    on_state_cap: Literal["stop", "shed"] = "stop"
    """At a limit: `stop` the pipeline. `shed`, which turns away new keys, is not built yet."""

    rules: ClassVar[tuple[Rule, ...]] = (
        postgres_has_an_address,
        url_fits_kind,
        schema_needs_postgres,
        shedding_needs_a_limit,
    )
    secrets: ClassVar[frozenset[str]] = frozenset({"url"})

    @classmethod
    def completed(cls, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Fill in the folder of an embedded store."""
        if fields.get("kind") == "sqlite" and fields.get("url", "") is None:
            return {**fields, "url": DEFAULT_FOLDER}
        return fields
