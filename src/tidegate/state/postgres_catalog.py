"""A look into a schema for people and tools: read only, without lease and token."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgspec
from psycopg.rows import dict_row

from tidegate.errors import StateFormatError
from tidegate.postgres.address import Address
from tidegate.postgres.connecting import Connection, transaction
from tidegate.postgres.pool import pooled
from tidegate.state.catalog import Committed, KeyState
from tidegate.state.manifest_format import STATE_VERSION, decode, decode_manifest
from tidegate.state.postgres import PostgresStore
from tidegate.state.postgres_database import SNAPSHOT
from tidegate.state.postgres_depot import PostgresDepot
from tidegate.state.postgres_lease import find_holder, holder_words
from tidegate.state.postgres_schema import (
    lock_number,
    migrations,
    queries,
    refuse_hidden_schema,
    version_of,
)
from tidegate.state.postgres_text import restored, storable
from tidegate.state.source_log import SourceLog

_SESSION: Final = "tidegate reader"
_AT_ONCE: Final = 5_000


@dataclass(frozen=True, slots=True)
class PostgresCatalog:
    """The pipelines of a schema. A `Catalog`."""

    address: Address

    @property
    def place(self) -> str:
        """Server, database and schema."""
        return self.address.place

    def pipelines(self) -> tuple[str, ...]:
        """Their names, sorted; none where there are no tables."""
        with self._looking() as connection:
            rows = [] if connection is None else _rows(connection, "inspect_names")
        return tuple(sorted(restored(row["pipeline"]) for row in rows))

    def committed(self, pipeline: str) -> Committed | None:
        """Where a pipeline stands, by one query: a snapshot."""
        with self._looking() as connection:
            values = {"pipeline": storable(pipeline)}
            rows = [] if connection is None else _rows(connection, "inspect_committed", **values)
        for row in rows:
            plan, manifest = row.pop("plan"), row.pop("manifest")
            readable = row["min_reader_version"] <= STATE_VERSION
            last = decode_manifest(manifest) if manifest is not None and readable else None
            known = None if plan is None else decode(plan)
            told = {**row, "pipeline": pipeline, "plan": known, "last": last}
            return msgspec.convert(told, Committed)
        return None

    def logs(self, pipeline: str) -> dict[str, SourceLog]:
        """What its sources have discovered."""
        name = storable(pipeline)
        with self._looking() as connection:
            rows = [] if connection is None else _rows(connection, "find_logs", pipeline=name)
        return {
            row["source_id"]: SourceLog(
                row["entries"], partial(self._log_entries, name, row["source_id"])
            )
            for row in rows
        }

    def _log_entries(self, pipeline: str, source: str, first: int, end: int) -> list[str]:
        wanted = {"pipeline": pipeline, "source": source, "first": first, "end": end}
        with self._looking() as connection:
            rows = [] if connection is None else _rows(connection, "read_log", **wanted)
        return [row["entry"] for row in rows]

    def holder(self, pipeline: str) -> str | None:
        """Whose connection has the lease of the pipeline."""
        with self._looking() as connection:
            if connection is None:
                return None
            (schema,) = connection.execute("SELECT current_schema()").fetchone() or ("",)
            found = find_holder(connection, lock_number(schema, pipeline))
            return None if found is None else holder_words(connection, pipeline, found)

    def depot(self, pipeline: str) -> PostgresDepot:
        """Its journal."""
        return PostgresDepot(self.address, pipeline)

    def folded(self, pipeline: str) -> Iterator[KeyState]:
        """The readable table, as of one moment, some keys at a time."""
        with self._looking() as connection:
            if connection is None:
                return
            values = {"pipeline": storable(pipeline)}
            with (
                transaction(connection, SNAPSHOT),
                connection.cursor("tidegate_keys", row_factory=dict_row) as cursor,
            ):
                cursor.itersize = _AT_ONCE
                for row in cursor.execute(queries()["inspect_keys"], values):
                    yield msgspec.convert(row, KeyState)

    def store(self, pipeline: str) -> PostgresStore:
        """The store of a pipeline."""
        return PostgresStore(self.address, pipeline)

    @contextmanager
    def _looking(self) -> Iterator[Connection | None]:
        """A connection to tables that this version knows; None where there are none."""
        with pooled(self.address, _SESSION) as connection:
            found = version_of(connection)
            if not found:
                refuse_hidden_schema(connection, self.address)
            self._check_version(found)
            yield connection if found else None

    def _check_version(self, found: int) -> None:
        known = max(migrations())
        if found in (0, known):
            return
        hint = (
            "use the version that wrote them, or a later one"
            if found > known
            else "the next run of one of its pipelines brings them up to date"
        )
        raise StateFormatError(
            f"the tables of {self.place} have version {found}, "
            f"this version of Tidegate knows {known}: {hint}"
        )


def _rows(connection: Connection, query: str, **values: Any) -> list[dict[str, Any]]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(queries()[query], values).fetchall()
