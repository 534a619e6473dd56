"""SQL in files: statements by name, migrations by number. Each kind of database has a folder."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

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


def script(kind: str, file: str) -> str:
    """The text of a file."""
    return (_SQL / kind / file).read_text(encoding="utf-8")
