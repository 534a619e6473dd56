"""Packages that are installed for a test: a folder on the path with a module and its metadata."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tidegate.pipeline import entry_points

EXAMPLES = Path(__file__).parents[1] / "examples"
GEOMETRIC_MEAN = EXAMPLES / "geometric_mean"
"""The example of a package with an aggregate."""
SQLITE_TABLES = EXAMPLES / "sqlite_tables"
"""The example of a package with formats."""


@dataclass(frozen=True)
class Packages:
    """Installs packages, each in a folder of its own."""

    folder: Path
    patch: pytest.MonkeyPatch

    def install(self, name: str, code: str, **groups: Mapping[str, str]) -> Path:
        """A package of one module; `groups` are its entry points: `aggregates`, `targets`..."""
        points = {f"tidegate.{group}": entries for group, entries in groups.items()}
        return self._install(code, {"name": name, "version": "1.0", "entry-points": points})

    def install_geometric_mean(self) -> Path:
        """The package of the example."""
        code = (GEOMETRIC_MEAN / "tidegate_geometric_mean.py").read_text()
        return self._install(code, _project(GEOMETRIC_MEAN))

    def _install(self, code: str, project: Mapping[str, Any]) -> Path:
        name: str = project["name"]
        home, module = self.folder / name, name.replace("-", "_")
        _write_metadata(home, project)
        (home / f"{module}.py").write_text(code)
        self.patch.syspath_prepend(str(home))
        self.forget(module)
        return home

    def uninstall(self, name: str) -> None:
        """As if it had never been there."""
        home = self.folder / name
        for module in home.glob("*.py"):
            self.forget(module.stem)
        self.patch.setattr(sys, "path", [each for each in sys.path if each != str(home)])
        shutil.rmtree(home)
        importlib.invalidate_caches()

    def forget(self, module: str) -> None:
        """Load it anew."""
        sys.modules.pop(module, None)
        entry_points._find.cache_clear()


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Packages]:
    """Packages that are there for a test only."""
    found = Packages(tmp_path / "packages", monkeypatch)
    yield found
    for module in found.folder.glob("*/*.py"):
        found.forget(module.stem)


def environment_with(example: Path, folder: Path) -> dict[str, str]:
    """The environment of a process that finds the package of an example and its entry points."""
    _write_metadata(folder, _project(example))
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(example)])}


def _project(example: Path) -> dict[str, Any]:
    about: dict[str, Any] = tomllib.loads((example / "pyproject.toml").read_text())["project"]
    return about


def _write_metadata(folder: Path, project: Mapping[str, Any]) -> None:
    """Write what an installer would."""
    name, version = project["name"], project["version"]
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = [
        line
        for group, entries in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{point} = {value}" for point, value in entries.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join([*lines, ""]))
