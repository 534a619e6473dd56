"""Packages of the examples, visible as if they were installed: by a folder with their metadata."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path

EXAMPLE = Path(__file__).parents[1] / "examples" / "sqlite_tables"


def installed(folder: Path, project: Path = EXAMPLE) -> dict[str, str]:
    """The environment of a process that finds the package and its entry points."""
    about = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    register(folder, about["name"], about["entry-points"])
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(project)])}


def register(folder: Path, name: str, groups: Mapping[str, Mapping[str, str]]) -> None:
    """Write what an installer would, for a package that is importable already."""
    metadata = folder / f"{name.replace('-', '_')}-0.1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n")
    lines = [
        line
        for group, entries in groups.items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in entries.items()), "")
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines))
