from __future__ import annotations

import socket

import psycopg
import pytest
from psycopg import errors

from tests.postgres_server import Place, Server
from tidegate.cli.probes import database
from tidegate.errors import ConfigError, StateLost, StoreUnavailable, TidegateError
from tidegate.postgres import connecting
from tidegate.postgres.address import Address
from tidegate.postgres.connecting import connect
from tidegate.postgres.refusals import refusal

ADDRESS = Address("postgresql://ann:hunter2@db/x")


def refused(url: str, schema: str | None = None) -> TidegateError:
    with pytest.raises(TidegateError) as told:
        connect(Address(url, schema), "test").close()
    assert "pw-" not in repr(told.value)
    assert told.value.__cause__ is None
    return told.value


def test_a_wrong_password_is_not_tried_again(
    postgres: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connecting, "_PAUSES_S", (3600,))
    told = refused(postgres.url.replace("pw-", "pw-not-"))
    assert isinstance(told, ConfigError)
    assert f'password authentication failed for user "{postgres.role}"' in str(told)
    assert "hint: check user, password, database and sslmode of the url" in str(told)


def test_the_doctor_says_whether_a_database_lets_us_in(postgres: Place) -> None:
    found = database("state store", postgres.url)
    assert (found.level, found.hint) == ("ok", "")
    assert found.found.startswith("postgres 127.0.0.1:")
    refused = database("state store", postgres.url.replace("pw-", "pw-not-"))
    assert refused.level == "problem"
    assert f'password authentication failed for user "{postgres.role}"' in refused.found
    assert refused.hint.startswith("check user, password, database and sslmode of the url")
    assert "pw-" not in str(found) + str(refused)


def test_a_database_that_is_not_there_is_not_tried_again(
    postgres: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connecting, "_PAUSES_S", (3600,))
    told = refused(postgres.url.replace("/tidegate", "/nothing"))
    assert isinstance(told, ConfigError)
    assert 'database "nothing" does not exist' in str(told)


def test_a_server_that_is_not_there_is_tried_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("time.sleep", pauses.append)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        told = refused(f"postgresql://ann:pw-1@127.0.0.1:{port}/x")
    assert isinstance(told, StoreUnavailable)
    assert str(told) == (
        f"postgres 127.0.0.1:{port}/x: Connection refused\n"
        "  hint: check that it runs and can be reached, and host and port of the url"
    )
    assert pauses == [0.25, 1.0]


@pytest.mark.parametrize("said", ["Temporary failure in name resolution", "Name not known"])
def test_a_name_that_is_not_known_now_may_be_known_later(said: str) -> None:
    """As that of a server that is moved."""
    found = f'could not translate host name "db" to address: {said}'
    assert type(refusal(psycopg.OperationalError(found), ADDRESS)) is StoreUnavailable


def test_too_many_connections_are_told_with_what_a_run_needs(
    postgres: Place, postgres_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    postgres_server.run(f"ALTER ROLE {postgres.role} CONNECTION LIMIT 1")
    with psycopg.connect(postgres.url):
        told = refused(postgres.url)
    assert isinstance(told, StoreUnavailable)
    assert "too many connections for role" in str(told)
    assert "raise max_connections" in str(told)


def test_tls_is_asked_for_by_the_url(postgres: Place) -> None:
    told = refused(f"{postgres.url}?sslmode=require")
    assert isinstance(told, ConfigError)
    assert "server does not support SSL" in str(told)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (errors.DiskFull("could not extend file: No space left on device"), StoreUnavailable),
        (errors.AdminShutdown("terminating connection"), StoreUnavailable),
        (errors.OutOfMemory("out of memory"), StoreUnavailable),
        (errors.UndefinedTable('relation "x" does not exist'), StateLost),
        (errors.InsufficientPrivilege("permission denied for schema s"), ConfigError),
        (psycopg.OperationalError("the connection is lost"), StoreUnavailable),
        (
            psycopg.OperationalError(
                "",
            ),
            StoreUnavailable,
        ),
    ],
)
def test_what_a_server_refuses_is_told_as_what_to_do(
    error: psycopg.Error, kind: type[TidegateError]
) -> None:
    told = refusal(error, ADDRESS)
    assert type(told) is kind
    assert (str(error) or "OperationalError") in str(told)


def test_a_connection_sees_only_its_schema(postgres: Place) -> None:
    connection = connect(Address(postgres.url, postgres.schema), "a name")
    with connection:
        asked = "SELECT current_schemas(false), current_setting('application_name')"
        assert connection.execute(asked).fetchall() == [([postgres.schema], "a name")]
        assert connection.execute("SHOW lock_timeout").fetchall() == [("30s",)]
