"""PostgreSQL, for whatever keeps something there: addresses, connections, and what goes wrong.

    Address -> [connect | pooled] -> connection -> a refusal in words, without secrets

Its modules import psycopg, which comes with `tidegate[postgres]`; `need_psycopg` says so where it
is missing, and must be called before they are imported.
"""

from __future__ import annotations

from tidegate.pipeline.formats import PSYCOPG


def need_psycopg(at: str) -> None:
    """Raise `ConfigError` unless psycopg can be imported; `at` is what asks for it."""
    try:
        import psycopg  # noqa: F401, PLC0415  # only where it is used
    except ImportError as error:
        raise PSYCOPG.missing(at, "postgres", error) from None
