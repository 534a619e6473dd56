"""One MERGE for an epoch: identities that count no more are deleted, rows replaced or added.

It is one commit: no reader sees a session that has been merged away beside the merged one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import polars as pl

_TABLE: Final = "t"
_SOURCE: Final = "s"


def merge(
    table: Any,
    sent: pl.DataFrame | None,
    retracted: pl.DataFrame | None,
    identity: Sequence[str],
    commit_properties: Any,
) -> None:
    """Commit an epoch to a table; an identity that is both retracted and sent stays, as sent."""
    gone = _free_name("gone", sent, retracted)
    rows = changes(sent, retracted, identity, gone)
    values = {
        _quoted(name): f"{_SOURCE}.{_quoted(name)}"
        for name in (identity if sent is None else sent.columns)
    }
    merging = table.merge(
        rows,
        _same_identity(identity),
        source_alias=_SOURCE,
        target_alias=_TABLE,
        commit_properties=commit_properties,
    ).when_matched_delete(f"{_SOURCE}.{_quoted(gone)}")
    if sent is not None:
        merging = merging.when_matched_update(values).when_not_matched_insert(
            values, f"NOT {_SOURCE}.{_quoted(gone)}"
        )
    merging.execute()


def changes(
    sent: pl.DataFrame | None, retracted: pl.DataFrame | None, identity: Sequence[str], gone: str
) -> pl.DataFrame:
    """One row for each identity of the epoch; `gone` says that it is only to be deleted.

    Of rows with the same identity the last one counts.
    """
    news = [] if sent is None else [sent.with_columns(pl.lit(False).alias(gone))]
    olds = []
    if retracted is not None:
        olds = [retracted.select(identity).with_columns(pl.lit(True).alias(gone))]
    rows = pl.concat([*olds, *news], how="diagonal")
    return rows.unique(identity, keep="last", maintain_order=True)


def _same_identity(identity: Sequence[str]) -> str:
    """NULL equals NULL. The parentheses count: without them AND binds before IS."""
    return " AND ".join(
        f"({_TABLE}.{_quoted(name)} IS NOT DISTINCT FROM {_SOURCE}.{_quoted(name)})"
        for name in identity
    )


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _free_name(name: str, *tables: pl.DataFrame | None) -> str:
    """`name`, or longer where a column is called so."""
    taken = {column for table in tables if table is not None for column in table.columns}
    while name in taken:
        name += "_"
    return name
