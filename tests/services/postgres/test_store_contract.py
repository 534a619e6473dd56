"""The store in PostgreSQL keeps the contract of all stores."""

from __future__ import annotations

import psycopg
import pytest

from tests.postgres_server import Place, Server
from tidegate import StateStore
from tidegate.postgres.address import Address
from tidegate.state import Part, Store, open_store
from tidegate.state.postgres import postgres_catalog
from tidegate.testing.contracts import KeyRow, StateStoreContract


class TestPostgresStore(StateStoreContract):
    @pytest.fixture(autouse=True)
    def _place(self, postgres_server: Server, postgres: Place) -> None:
        self.server, self.place = postgres_server, postgres

    def new_store(self, pipeline: str) -> Store:
        spec = StateStore(kind="postgres", url=self.place.url, schema=self.place.schema)
        return open_store(spec, pipeline)

    def expire_lease(self, pipeline: str) -> None:
        assert self.server.end_leases(self.place.role) == 1

    def change(self, statement: str, pipeline: str, part: Part) -> None:
        with psycopg.connect(self.place.url, autocommit=True) as connection:
            connection.execute(f"SET search_path = {self.place.schema}")
            done = connection.execute(
                f"{statement} WHERE pipeline_name = %s AND part_name = %s", [pipeline, part.name]
            )
            assert done.rowcount == 1

    def damage(self, pipeline: str, part: Part) -> None:
        journal = "tidegate_streaming_journal"
        turned = "set_byte(blob, 0, get_byte(blob, 0) # 1)"
        self.change(f"UPDATE {journal} SET blob = {turned}", pipeline, part)

    def lose(self, pipeline: str, part: Part) -> None:
        self.change("DELETE FROM tidegate_streaming_journal", pipeline, part)

    def readable_state(self, pipeline: str) -> list[KeyRow]:
        catalog = postgres_catalog(Address(self.place.url, self.place.schema))
        return [
            (k.operator, k.group_key, k.key_group, k.state_blob, k.as_of_epoch, k.forget_at)
            for k in catalog.folded(pipeline)
        ]
