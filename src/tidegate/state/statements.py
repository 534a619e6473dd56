"""SQL in files: statements by name, migrations by number. Each kind of database has a folder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tidegate.errors import StateFormatError

_SQL: Final = Path(__file__).parent / "sql"
_HEADER: Final = re.compile(r"^-- (\w+) --$", re.MULTILINE)


def named_statements(kind: str) -> dict[str, str]:
    """The statements of `queries.sql`, by the name in front of each."""
    _, *pieces = _HEADER.split(script(kind, "queries.sql"))
    return dict(zip(pieces[::2], map(str.strip, pieces[1::2]), strict=True))


def numbered_migrations(kind: str) -> dict[int, str]:
    """All migrations, by number."""
    paths = sorted((_SQL / kind / "migrations").glob("*.sql"))
    return {int(path.name[:4]): path.read_text(encoding="utf-8") for path in paths}


def pending_scripts(
    kind: str, found: int, migrations: Mapping[int, str]
) -> Iterator[tuple[int, str]]:
    """What brings tables of a version (0: there are none) up to date, with the version it makes.

    Migrations go forward only, each once, in the order of their numbers, and are kept for ever;
    `schema.sql` is their sum. One whose name says `pre` may run while older code still does, one
    that says `post` only when that is gone. Raises `StateFormatError` for a later version.
    """
    newest = max(migrations)
    if found > newest:
        raise StateFormatError(
            f"the tables have version {found}, this version of Tidegate knows {newest}: "
            "use the version that wrote them, or a later one"
        )
    for version in range(found + 1, newest + 1):
        if found > 0:
            yield version, migrations[version]
        else:
            yield version, script(kind, "schema.sql") if version == 1 else ""


def script(kind: str, file: str) -> str:
    """The text of a file."""
    return (_SQL / kind / file).read_text(encoding="utf-8")
