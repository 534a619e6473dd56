"""Where a database is. Only libpq gets to see the url."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import psycopg
from psycopg.conninfo import conninfo_to_dict

from tidegate.errors import ConfigError, Problem
from tidegate.pipeline.masking import MASK, masked_text, secret_name
from tidegate.pipeline.validation import is_text

LONGEST_NAME: Final = 63
"""Bytes of an identifier; PostgreSQL cuts what is longer."""


@dataclass(frozen=True, slots=True)
class Address:
    """A schema of a database. It can be pickled, and shows nothing of the url."""

    url: str = field(repr=False)
    schema: str | None = None
    """None: the one that the connection comes to by itself."""
    at: str = "state_store"
    """Who says so in the configuration."""

    def __post_init__(self) -> None:
        problems = [*self._problems()]
        if problems:
            raise ConfigError(problems)

    def _problems(self) -> Iterator[Problem]:
        if not _can_be_read(self.url):
            hint = "write special characters in a password as %XX: @ is %40, / is %2F, : is %3A"
            expected = "an address such as postgresql://user@host:5432/database"
            yield Problem(f"{self.at}.url", MASK, expected, hint)
        if self.schema is None:
            return
        at, found = f"{self.at}.schema", repr(self.schema)[:120]
        size = len(self.schema.encode(errors="surrogatepass"))
        if "\0" in self.schema or not is_text(self.schema) or not 0 < size <= LONGEST_NAME:
            yield Problem(at, found, f"1 to {LONGEST_NAME} bytes without a zero byte")
        if self.schema.startswith("pg_") or self.schema == "$user":
            yield Problem(at, found, "a name that does not mean something else to PostgreSQL")

    @property
    def place(self) -> str:
        """Where that is, for people."""
        known = conninfo_to_dict(self.url)
        hosts = str(known.get("host") or "localhost").split(",")
        ports = str(known.get("port") or "").split(",")
        ports = ports * len(hosts) if len(ports) == 1 else ports
        where = ",".join(
            f"{host}:{port}" if port else host for host, port in zip(hosts, ports, strict=False)
        )
        schema = f", schema {self.schema!r}" if self.schema else ""
        return masked_text(f"postgres {where}/{known.get('dbname') or ''}{schema}")

    def without_secrets(self, text: str) -> str:
        """`text` without anything of the url that is nobody's business."""
        secrets = [
            str(value)
            for name, value in conninfo_to_dict(self.url).items()
            if value and secret_name(name)
        ]
        for secret in [self.url, *secrets]:
            text = text.replace(secret, MASK)
        return masked_text(text)


def _can_be_read(url: str) -> bool:
    """Whether its parts are what they seem: an @ or a / in a password would spill over to others.

    What is wrong with it is not told by whom we ask: that would quote it.
    """
    try:
        known = conninfo_to_dict(url)
    except (psycopg.ProgrammingError, UnicodeEncodeError):
        return False
    spilt = any("@" in str(known.get(name) or "") for name in ("host", "port", "dbname"))
    return not spilt and str(known.get("port") or "0").replace(",", "").isdigit()
