"""Files that tasks stage beside the target that they are for."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidegate.targets.names import safe_name

_LONGEST_PART: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class StagingFolder:
    """Where tasks put what they encode for one channel, so that publishing is a rename.

    It is on the file system of the target and outside of the folder that people read.
    """

    folder: Path
    suffix: str
    """How names of files end, as in `.parquet`."""

    def file(self, part_name: str) -> Path:
        """Where a task puts the part of this name; the folder may not be there yet."""
        return self.folder / f"{safe_name(part_name, _LONGEST_PART)}{self.suffix}"

    def discard_unnamed(
        self, named: Collection[str], among: Callable[[str], bool] = lambda _: True
    ) -> None:
        """Delete what is staged here, but the parts of these names.

        `among` says by the name of a file whether it may be deleted: what a task is staging
        now is not named yet.
        """
        if not self.folder.is_dir():
            return
        keep = {self.file(name).name for name in named}
        for path in self.folder.iterdir():
            if path.name not in keep and among(path.name) and not path.is_dir():
                path.unlink(missing_ok=True)
