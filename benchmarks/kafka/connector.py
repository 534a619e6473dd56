"""Spark with its own Kafka connector: fetched once, in an environment of its own.

A connector fits one version of Spark only, and there is none for the one that Tidegate is tested
with; so an older Spark is installed beside it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from benchmarks.engine.files import work_folder

VERSION: Final = "4.0.0"
_POM: Final = Path(__file__).with_name("pom.xml")
_PATIENCE_S: Final = 900


class NotToBeHad(Exception):
    """Spark's connector cannot be fetched here; says why."""


@dataclass(frozen=True)
class Connector:
    """A Python that has Spark, and the jars of the connector."""

    python: Path
    jars: tuple[Path, ...]


def connector() -> Connector:
    """What is there, or else fetched now; raises `NotToBeHad`."""
    folder = work_folder() / f"spark-{sha256(_POM.read_bytes()).hexdigest()[:16]}"
    if not (folder / "whole").exists():
        _fetch(folder)
        (folder / "whole").touch()
    jars = sorted((folder / "jars").glob("*.jar"))
    return Connector(folder / "venv" / "bin" / "python", tuple(jars))


def _fetch(folder: Path) -> None:
    """An environment knows its own place: so it is made where it stays."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    if shutil.which("mvn") is None:
        raise NotToBeHad("Maven is missing (Debian: apt-get install maven)")
    jars, venv = folder / "jars", folder / "venv"
    copy = ["mvn", "dependency:copy-dependencies", "-q", "-B", "-f", str(_POM)]
    _run([*copy, "-Dstyle.color=never", "-DincludeScope=runtime", f"-DoutputDirectory={jars}"])
    _run([sys.executable, "-m", "venv", str(venv)])
    _run([str(venv / "bin" / "python"), "-m", "pip", "install", "-q", f"pyspark=={VERSION}"])


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_PATIENCE_S
        )
    except subprocess.TimeoutExpired:
        raise NotToBeHad(f"{command[0]} did not end within {_PATIENCE_S} s") from None
    if done.returncode:
        said = f"{done.stdout}{done.stderr}".strip()[:500]
        raise NotToBeHad(f"{' '.join(command[:2])} failed:\n{said}")
