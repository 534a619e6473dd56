"""Migrations of segments: how state that an older version wrote is read by this one.

    version 1 -> version 2 -> ... -> the newest

A migration is a pure function of the table, kept for ever and run in memory on reading; nothing
is ever written in an older form. To change the format, append a migration here, keep data of
the version before in `tests/migration`, and say so in the changelog under "State format".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from tidegate.errors import StateFormatError

Migration = Callable[[pa.Table], pa.Table]

MIGRATIONS: tuple[Migration, ...] = ()
"""The first one leads from version 1 to version 2."""

STATE_VERSION = len(MIGRATIONS) + 1
"""What is written."""


def migrated(
    table: pa.Table, version: str, migrations: Sequence[Migration] = MIGRATIONS
) -> pa.Table:
    """The table as the newest version would have written it."""
    newest = len(migrations) + 1
    if not (version.isascii() and version.isdigit() and 1 <= int(version) <= newest):
        raise StateFormatError(
            f"a segment of state has format version {version}, this library reads 1 to {newest}\n"
            "  hint: use the version of Tidegate that wrote it, or a later one"
        )
    for migrate in migrations[int(version) - 1 :]:
        table = migrate(table)
    return table
