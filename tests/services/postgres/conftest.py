"""Every table of a test has an owner, who looks at it without us."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.postgres_server import Place


@pytest.fixture
def owner(postgres: Place) -> Iterator[psycopg.Connection[Any]]:
    """The role of the test, in its schema."""
    path = sql.SQL("SET search_path = {}").format(sql.Identifier(postgres.schema))
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(path)
        yield connection
