"""Packages that are installed for a test: a folder on the path with a module and its metadata."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tidegate.pipeline.aggregate_lookup import GROUP, registered

GEOMETRIC_MEAN = Path(__file__).parents[1] / "examples" / "geometric_mean"
"""The package of the example."""


@dataclass(frozen=True)
class Packages:
    """Installs packages with aggregates, each in a folder of its own."""

    folder: Path
    patch: pytest.MonkeyPatch

    def install(
        self, name: str, code: str, aggregates: Mapping[str, str], *, module: str = ""
    ) -> Path:
        """A package of one module; `aggregates` are entry points: what in the module each is."""
        module = module or name.replace("-", "_")
        home = self.folder / name
        info = home / f"{module}-1.0.dist-info"
        info.mkdir(parents=True, exist_ok=True)
        (home / f"{module}.py").write_text(code)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        points = [f"{kind} = {module}:{what}" for kind, what in aggregates.items()]
        (info / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *points, ""]))
        self.patch.syspath_prepend(str(home))
        self.forget(module)
        return home

    def install_geometric_mean(self) -> Path:
        """The package of the example."""
        code = (GEOMETRIC_MEAN / "tidegate_geometric_mean.py").read_text()
        points = {"geometric_mean": "GEOMETRIC_MEAN"}
        return self.install("tidegate-geometric-mean", code, points)

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
        registered.cache_clear()


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Packages]:
    """Packages that are there for a test only."""
    found = Packages(tmp_path / "packages", monkeypatch)
    yield found
    for module in found.folder.glob("*/*.py"):
        found.forget(module.stem)
