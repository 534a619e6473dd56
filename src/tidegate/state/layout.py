"""Where the embedded store keeps what: one folder, with a place of its own for each pipeline.

<folder>/tidegate.db             all pipelines of the folder; open it with sqlite3
<folder>/parts/<slug>/*.part     what tasks have staged for a pipeline
<folder>/locks/<slug>.lock       held by the driver that runs it

All of it is for its owner alone. A folder that was there before may hold other files too, so its
own rights are left as they are.
"""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tidegate.durability import PRIVATE_FOLDER, make_private, sync_folder

_UNSAFE = re.compile(r"[^A-Za-z0-9_]+")
_LONGEST = 40


def slug_of(name: str) -> str:
    """A file name for the name of a pipeline, and never the same for two.

    Older versions took any text for a name: their folders are found by the digest.

    >>> slug_of("clicks"), slug_of("../clicks")
    ('clicks-72b40fb15edacca3', 'clicks-558d01026d658ab3')
    """
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    readable = _UNSAFE.sub("-", name).strip("-")[:_LONGEST]
    return f"{readable}-{digest}" if readable else digest


@dataclass(frozen=True, slots=True)
class Layout:
    """The places of one pipeline in a folder."""

    folder: Path
    pipeline: str

    @property
    def database(self) -> Path:
        """The catalog of the folder."""
        return database_of(self.folder)

    @property
    def parts(self) -> Path:
        """What is staged and committed for the pipeline."""
        return self.folder / "parts" / slug_of(self.pipeline)

    @property
    def lock(self) -> Path:
        """Locked by the driver that runs the pipeline."""
        return self.folder / "locks" / f"{slug_of(self.pipeline)}.lock"

    @property
    def schema_lock(self) -> Path:
        """Locked by whoever prepares the database. No pipeline has it: slugs end in a digest."""
        return self.folder / "locks" / "schema.lock"

    def make(self) -> None:
        """Make the folders, such that a power cut does not take them back."""
        self.folder.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
        for folder in (self.lock.parent, self.parts.parent, self.parts):
            folder.mkdir(PRIVATE_FOLDER, exist_ok=True)
            make_private(folder)
        for folder in (self.parts.parent, self.folder):
            sync_folder(folder)
        with suppress(PermissionError):  # where the folder lies may be closed to us
            sync_folder(self.folder.parent)


def database_of(folder: Path) -> Path:
    """The catalog of a folder."""
    return folder / "tidegate.db"
