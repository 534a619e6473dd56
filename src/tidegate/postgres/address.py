"""Where a database is. Only libpq gets to see the url."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import psycopg
from psycopg.conninfo import conninfo_to_dict

from tidegate.errors import ConfigError, Problem
from tidegate.pipeline.masking import MASK, masked_text, secret_name

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
        try:
            conninfo_to_dict(self.url)
        except psycopg.ProgrammingError:  # its message quotes the url
            hint = "write special characters in a password as %XX: @ is %40, / is %2F, : is %3A"
            expected = "an address such as postgresql://user@host:5432/database"
            yield Problem(f"{self.at}.url", MASK, expected, hint)
        if self.schema is None:
            return
        if "\0" in self.schema or not 0 < len(self.schema.encode()) <= LONGEST_NAME:
            expected = f"1 to {LONGEST_NAME} bytes without a zero byte"
            yield Problem(f"{self.at}.schema", repr(self.schema)[:120], expected)

    @property
    def place(self) -> str:
        """Where that is, for people."""
        known = conninfo_to_dict(self.url)
        host, port = known.get("host") or "localhost", known.get("port")
        where = f"{host}:{port}" if port else host
        schema = f", schema {self.schema!r}" if self.schema else ""
        return f"postgres {where}/{known.get('dbname') or ''}{schema}"

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
