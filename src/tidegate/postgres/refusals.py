"""What a database says no with, as errors of Tidegate: what to do, and no secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg
from psycopg import errors

from tidegate.errors import ConfigError, Problem, StateLost, StoreUnavailable, TidegateError
from tidegate.postgres.address import Address

_NEVER_BETTER: Final = re.compile(
    r"password authentication failed|no password supplied|no pg_hba.conf entry|"
    r"(role|database) .* does not exist|is not permitted to log in|authentication failed|"
    r"permission denied for database|server does not support SSL|certificate|root.crt",
    re.IGNORECASE,
)
_FULL: Final = re.compile(r"too many (clients|connections)|connection slots are reserved", re.I)
_LET_IN: Final = (
    "check user, password, database and sslmode of the url; special characters in a password are "
    "written as %XX: @ is %40, / is %2F, : is %3A"
)
_MORE_CONNECTIONS: Final = (
    "raise max_connections: a run needs 5 connections and 1 for each task slot"
)
_AWAY: Final = "check that it runs and can be reached, and host and port of the url"
_SAID: Final = re.compile(r"^(connection failed: )?(connection to server (at|on) .*? failed: )?")


@contextmanager
def told(address: Address) -> Iterator[None]:
    """Errors of psycopg as ours."""
    try:
        yield
    except psycopg.Error as error:
        raise refusal(error, address) from None


def refusal(error: psycopg.Error, address: Address) -> TidegateError:
    """What an error means to people; `StoreUnavailable` where it may be over later."""
    said = _said(error, address)
    if isinstance(error, errors.InsufficientPrivilege):
        hint = "GRANT USAGE, CREATE ON SCHEMA ... TO the role, or let the role own the schema"
        return ConfigError([Problem(f"{address.at}.url", said, "a role that may do so", hint)])
    if isinstance(error, errors.UndefinedTable | errors.UndefinedColumn):
        return StateLost(f"tables of Tidegate are gone or were changed: {said} ({address.place})")
    if not isinstance(error, psycopg.OperationalError) or error.sqlstate is not None:
        return StoreUnavailable(f"{address.place}: {said}{_hint(error)}")
    if _NEVER_BETTER.search(said):
        found = f"{address.place}: {said}"
        expected = "a database that lets us in"
        return ConfigError([Problem(f"{address.at}.url", found, expected, _LET_IN)])
    hint = _MORE_CONNECTIONS if _FULL.search(said) else _AWAY
    return StoreUnavailable(f"{address.place}: {said}\n  hint: {hint}")


def _hint(error: psycopg.Error) -> str:
    if isinstance(error, errors.DiskFull):
        return "\n  hint: make room on the server; what is committed is kept"
    return ""


def _said(error: psycopg.Error, address: Address) -> str:
    """The first line of what the server said, or the last attempt of several."""
    text = address.without_secrets(str(error).strip()) or type(error).__name__
    lines = [line.strip(" -") for line in text.splitlines() if "FATAL" in line] or [
        text.splitlines()[0]
    ]
    return _SAID.sub("", lines[-1]).removeprefix("FATAL:").strip()
