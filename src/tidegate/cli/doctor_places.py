"""A look at files and folders: is it there, may it be used, is there room."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final, Literal

from tidegate.cli.doctor_facts import Place

ENOUGH_STATE: Final = 10**9
ENOUGH_SCRATCH: Final = 2 * 10**9
ENOUGH_OUTPUT: Final = 10**9

_MOST_FILES: Final = 20_000
"""So many files of a folder are looked at."""


def seen(
    what: str,
    path: str | Path,
    *,
    use: Literal["read", "write"] = "write",
    enough: int = 0,
    times: bool = False,
) -> Place:
    """A place as it is now; with `times`, also when something in it was changed last."""
    path = Path(path).expanduser().absolute()
    nearest = next(each for each in (path, *path.parents) if os.path.lexists(each))
    folder = nearest.is_dir()
    rights = os.R_OK if use == "read" else os.W_OK
    return Place(
        what=what,
        path=str(path),
        use=use,
        nearest=str(nearest),
        folder=folder,
        permitted=os.access(nearest, rights | os.X_OK if folder else rights),
        free_bytes=_free(nearest) if use == "write" else None,
        enough_bytes=enough,
        newest=max(_changes(path), key=lambda each: each[1], default=None) if times else None,
    )


def _free(path: Path) -> int | None:
    try:
        return shutil.disk_usage(path).free
    except OSError:
        return None


def _changes(folder: Path) -> Iterator[tuple[str, float]]:
    """Files below a folder and when they were changed."""
    files = (Path(at, name) for at, _, names in os.walk(folder) for name in names)
    for file in islice(files, _MOST_FILES):
        try:
            yield str(file), file.stat().st_mtime
        except OSError:
            continue
