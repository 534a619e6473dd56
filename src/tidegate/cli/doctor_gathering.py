"""Gathering the facts: the only part of the doctor that looks around.

    [gathering] -> facts -> checks -> findings

Nothing is changed, no JVM is started, and what is not there is a fact like any other.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from tidegate.cli.doctor_checks import OPTIONAL, REQUIRED
from tidegate.cli.doctor_facts import Facts, Interpreter, Java, Place, Server, Spark
from tidegate.cli.doctor_machine import machine_facts
from tidegate.cli.doctor_places import ENOUGH_SCRATCH, seen

_JAVA_OF_SPARK: Final = 17
"""Where no pyspark says which Java it is built for."""
_CLASS_FILES_BEFORE_JAVA: Final = 44
"""Class files of Java n have version 44 + n."""
_ASK_PYTHON: Final = """
import importlib.util, sys
print(*sys.version_info[:3], importlib.util.find_spec("tidegate") is not None)
"""
_PATIENCE_S: Final = 20


def gathered(
    environment: Mapping[str, str],
    *,
    places: Iterable[Place] = (),
    servers: Iterable[Server] = (),
    used_packages: Mapping[str, str] | None = None,
) -> Facts:
    """The facts about this machine and process, with those that a pipeline adds."""
    offset_s = time.time() - time.monotonic()
    python = Interpreter(path=sys.executable, version=tuple(sys.version_info[:3]))
    facts = Facts(
        python=python,
        packages={name: _version(name) for name in (*REQUIRED, *OPTIONAL)},
        java=java_facts(environment, _java_needed(_package_folder())),
        spark=spark_facts(environment, _package_folder()),
        machine=machine_facts(environment),
        places=(*_temporary_places(environment), *places),
        servers=tuple(servers),
        used_packages=used_packages or {},
    )
    jumped_s = time.time() - time.monotonic() - offset_s
    return replace(facts, machine=replace(facts.machine, jumped_s=jumped_s))


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _package_folder() -> Path | None:
    """Where pyspark is; it is not imported."""
    found = importlib.util.find_spec("pyspark")
    return Path(found.origin).parent if found is not None and found.origin else None


def java_facts(environment: Mapping[str, str], needed: int = _JAVA_OF_SPARK) -> Java:
    """The Java that Spark's scripts would start: JAVA_HOME's if it is set, else that on PATH."""
    home = environment.get("JAVA_HOME") or None
    path = f"{home}/bin/java" if home else "java"
    binary = shutil.which(path, path=environment.get("PATH", ""))
    told = _java_version(Path(binary).resolve()) if binary else None
    return Java(home=home, binary=binary, version=told, needed=needed)


def _java_version(binary: Path) -> str | None:
    """What the file `release` of a Java says; an old one has its programs a folder deeper."""
    for folder in binary.parents[1:3]:
        told = _settings(folder / "release", "=").get("JAVA_VERSION")
        if told is not None:
            return told.strip('"')
    return None


def _java_needed(package: Path | None) -> int:
    """The Java that the classes of Spark are compiled for."""
    jars = sorted((package / "jars").glob("spark-launcher_*.jar")) if package else []
    try:
        with zipfile.ZipFile(jars[0]) as jar:
            head = jar.read("org/apache/spark/launcher/SparkLauncher.class")[:8]
    except (IndexError, KeyError, OSError, zipfile.BadZipFile):
        return _JAVA_OF_SPARK
    return int.from_bytes(head[6:8], "big") - _CLASS_FILES_BEFORE_JAVA


def spark_facts(environment: Mapping[str, str], package: Path | None) -> Spark:
    """What the environment says to Spark, and what is there of it."""
    home, conf_dir = environment.get("SPARK_HOME"), environment.get("SPARK_CONF_DIR")
    python = environment.get("PYSPARK_PYTHON")
    return Spark(
        package_folder=str(package) if package else None,
        home=os.path.normpath(home) if home else None,
        home_version=_spark_version(Path(home)) if home else None,
        conf_dir=conf_dir,
        conf_dir_there=conf_dir is None or Path(conf_dir).is_dir(),
        driver_memory=environment.get("SPARK_DRIVER_MEMORY")
        or _defaults(environment).get("spark.driver.memory", "1g"),
        workers=_asked(python) if python else None,
    )


def _spark_version(home: Path) -> str | None:
    """The version of the Spark in a folder, by the name of a jar that each one has."""
    jars = sorted((home / "jars").glob("spark-launcher_*.jar"))
    return jars[0].stem.partition("-")[2].partition("-")[2] if jars else None


def _defaults(environment: Mapping[str, str]) -> dict[str, str]:
    """The settings of `spark-defaults.conf`, where Spark looks for it."""
    home, package = environment.get("SPARK_HOME"), _package_folder()
    folder = Path(home) if home else package or Path()
    conf_dir = Path(environment.get("SPARK_CONF_DIR") or folder / "conf")
    return _settings(conf_dir / "spark-defaults.conf", None)


def _settings(file: Path, separator: str | None) -> dict[str, str]:
    """Names and values, one pair a line; none where there is no such file."""
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    pairs = (line.strip().split(separator, 1) for line in lines if not line.startswith("#"))
    return {pair[0].strip(): pair[1].strip() for pair in pairs if len(pair) == 2}


def _asked(python: str) -> Interpreter:
    """Another Python, as it says itself; one of this environment is not asked."""
    path = shutil.which(os.path.expanduser(python)) or python
    if _same_environment(Path(path), Path(sys.executable)):
        return Interpreter(path=path, version=tuple(sys.version_info[:3]))
    try:
        done = subprocess.run(
            [path, "-c", _ASK_PYTHON],
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=True,
            cwd="/",
        )
        *numbers, has_tidegate = done.stdout.split()
        told = tuple(map(int, numbers))
    except (OSError, subprocess.SubprocessError, ValueError):
        return Interpreter(path=path, version=None, same_environment=False, has_tidegate=False)
    return Interpreter(
        path=path, version=told, same_environment=False, has_tidegate=has_tidegate == "True"
    )


def _same_environment(one: Path, other: Path) -> bool:
    """Programs of one folder that are the same file: `bin/python` and `bin/python3`.

    The file alone says nothing: all environments of a machine link to the same Python.
    """
    return one.parent.resolve() == other.parent.resolve() and one.resolve() == other.resolve()


def _temporary_places(environment: Mapping[str, str]) -> tuple[Place, ...]:
    """Where Python, and where Spark puts what it needs for a while."""
    try:
        ours = Path(tempfile.gettempdir())
    except FileNotFoundError:  # none can be written to
        ours = Path(environment.get("TMPDIR", "/tmp"))
    of_java = ours if platform.system() == "Darwin" else Path("/tmp")
    told = environment.get("SPARK_LOCAL_DIRS") or _defaults(environment).get("spark.local.dir")
    scratch = [Path(each.strip()) for each in told.split(",")] if told else [of_java]
    others = [] if ours in scratch else [seen("temporary files", ours)]
    return (*(seen("Spark's scratch", each, enough=ENOUGH_SCRATCH) for each in scratch), *others)
