"""The server that tests use is what they take it for."""

from __future__ import annotations

import signal

import psycopg
import pytest
from psycopg import errors

from tests.postgres_server import Place, Server


def test_a_role_can_use_its_schema_and_nothing_else(postgres: Place) -> None:
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {postgres.schema}.mine (n int)")
        for refused in (
            "CREATE TABLE public.theirs (n int)",
            "CREATE SCHEMA another",
            "CREATE TEMPORARY TABLE passing (n int)",
        ):
            with pytest.raises(errors.InsufficientPrivilege):
                connection.execute(refused)


def test_a_server_comes_back_with_what_was_committed(
    postgres: Place, postgres_server: Server
) -> None:
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {postgres.schema}.kept AS SELECT 7 AS n")
        for how in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
            postgres_server.restart(how)
            with psycopg.connect(postgres.url) as again:
                kept = again.execute(f"SELECT n FROM {postgres.schema}.kept").fetchall()
            assert kept == [(7,)]
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")


def test_connections_of_one_role_can_be_cut(postgres: Place, postgres_server: Server) -> None:
    with (
        psycopg.connect(postgres.url) as cut,
        psycopg.connect(postgres_server.url) as left,
    ):
        assert postgres_server.terminate_backends(postgres.role) == 1
        with pytest.raises(psycopg.OperationalError):
            cut.execute("SELECT 1")
        assert left.execute("SELECT 1").fetchall() == [(1,)]
