"""Poolers, played by what the server says of its processes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.postgres_server import Place
from tests.services.postgres.postgres_tables import SCHEMA, opened
from tidegate.errors import ConfigError
from tidegate.postgres import pooler
from tidegate.postgres.address import Address
from tidegate.state.postgres import postgres_store

Uses = Callable[[Place], None]


def open_store(place: Place) -> None:
    store = postgres_store(Address(place.url, place.schema), "clicks")
    store.open()
    store.close()


def check_table(place: Place) -> None:
    opened(place).check(("user", "window_start"), SCHEMA)


def answers(monkeypatch: pytest.MonkeyPatch, *processes: int) -> None:
    """The server answers with these processes, one after the other."""
    left = [*processes]
    monkeypatch.setattr(pooler, "backend_of", lambda _: left.pop(0))


@pytest.mark.parametrize("use", [open_store, check_table])
@pytest.mark.parametrize("processes", [(7, 7, 8), (7, 8, 9)], ids=["the same", "another"])
def test_a_pooler_that_shares_sessions_is_refused(
    postgres: Place, monkeypatch: pytest.MonkeyPatch, use: Uses, processes: tuple[int, ...]
) -> None:
    answers(monkeypatch, *processes)
    with pytest.raises(ConfigError, match=r"url: found a pooler that shares(.|\n)*pool_mode = se"):
        use(postgres)


@pytest.mark.parametrize("use", [open_store, check_table])
def test_a_pooler_with_a_session_for_each_is_fine(
    postgres: Place, monkeypatch: pytest.MonkeyPatch, use: Uses
) -> None:
    answers(monkeypatch, 7, 8, 7)
    use(postgres)


def test_without_a_pooler_no_second_connection_is_made(
    postgres: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pooler, "connect", None)
    open_store(postgres)
    check_table(postgres)
