from __future__ import annotations

import os

import pytest

from tests.postgres_server import Place, Server
from tidegate.errors import StoreUnavailable
from tidegate.postgres.address import Address
from tidegate.postgres.pool import close_idle, pooled


@pytest.fixture
def address(postgres: Place) -> Address:
    return Address(postgres.url, postgres.schema)


def backend(address: Address) -> int:
    with pooled(address, "test") as connection:
        return connection.info.backend_pid


def test_a_connection_is_kept(address: Address) -> None:
    assert backend(address) == backend(address)


def test_two_at_a_time_have_two(address: Address) -> None:
    with pooled(address, "test") as one, pooled(address, "test") as other:
        kept = {one.info.backend_pid, other.info.backend_pid}
    assert len(kept) == 2
    assert backend(address) in kept


def test_one_that_saw_an_exception_is_closed(address: Address) -> None:
    with pytest.raises(ZeroDivisionError), pooled(address, "test") as seen:
        _ = 1 / 0
    assert seen.closed


def test_a_fork_does_not_use_those_of_its_parent(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = backend(address)
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: -1)
        assert backend(address) != before
        close_idle()
    assert backend(address) == before


def test_those_that_died_together_are_given_up_together(
    address: Address, postgres: Place, postgres_server: Server
) -> None:
    with pooled(address, "test"), pooled(address, "test"):
        pass
    assert postgres_server.terminate_backends(postgres.role) == 2
    with pytest.raises(StoreUnavailable), pooled(address, "test") as connection:
        connection.execute("SELECT 1")
    with pooled(address, "test") as connection:
        assert connection.execute("SELECT 1").fetchall() == [(1,)]
