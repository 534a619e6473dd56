"""What `tidegate doctor` looks at: each probe looks at one thing and returns findings.

Nothing is changed, and what is missing is a finding like any other. Spark is started by
`spark_works` alone.
"""

from __future__ import annotations

import glob
import importlib
import math
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple
from urllib.parse import urlsplit

from tidegate.errors import TidegateError, telling_line
from tidegate.pipeline import Pipeline
from tidegate.pipeline.formats import PSYCOPG, TARGETS, Format
from tidegate.pipeline.masking import masked_text
from tidegate.pipeline.plugins import source_format, target_format
from tidegate.text import bytes_text, elapsed_text

if TYPE_CHECKING:
    import pyarrow as pa

Level = Literal["ok", "note", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: what it is, what was found, and what to do about it."""

    level: Level
    what: str
    found: str
    hint: str = ""


def findings(pipeline: Pipeline | None) -> list[Finding]:
    """All findings about this machine, and about what a pipeline uses."""
    parts = [] if pipeline is None else parts_of(pipeline)
    needed_for = {
        package.distribution: each.what
        for each in parts
        if (format := _format_of(each)) is not None and (package := format.package) is not None
    }
    return [
        *packages(needed_for),
        *java(),
        *spark_home(),
        *worker_python(),
        *memory(),
        *open_files(),
        *host_name(),
        *scratch(),
        *(finding for part in parts for finding in used_by(part)),
    ]


# --- Python and packages ----------------------------------------------------------------------

Version = tuple[int, ...]


class Package(NamedTuple):
    """The versions that do, from `lowest` on and before `below`, and what to install."""

    lowest: Version
    below: Version | None
    install: str
    only_for: str = ""
    """Empty: every run needs it."""


PACKAGES: Final[Mapping[str, Package]] = {
    "polars": Package((2, 0), (3,), "tidegate"),
    "pyarrow": Package((20,), None, "tidegate"),
    "numpy": Package((2, 1), (3,), "tidegate"),
    "pandas": Package((2, 2), (3,), "tidegate[spark]"),
    "pyspark": Package((4, 1), (4, 4), "tidegate[spark]"),
    "deltalake": Package((1, 0), (2,), "tidegate[delta]", "Delta tables as targets"),
    "psycopg": Package((3, 2), (4,), "tidegate[postgres]", "state or results in PostgreSQL"),
    "confluent-kafka": Package((2, 8), (3,), "tidegate[kafka]", "Kafka topics"),
}


def packages(needed_for: Mapping[str, str]) -> Iterator[Finding]:
    """Python, and the packages; those that only some pipelines need may be missing."""
    yield Finding("ok", "Python", f"{sys.version.split()[0]}, {sys.executable}")
    for name, package in PACKAGES.items():
        yield _package(name, package, needed_for.get(name))


def _package(name: str, package: Package, needed_for: str | None) -> Finding:
    until = f" and below {_dotted(package.below)}" if package.below else ""
    install = f"pip install --upgrade '{package.install}'"
    hint = f"{name} {_dotted(package.lowest)} or later{until} is needed: {install}"
    found = installed(name)
    if found is not None:
        numbers = _numbers(found)
        fits = numbers >= package.lowest and (package.below is None or numbers < package.below)
        return Finding("ok", name, found) if fits else Finding("problem", name, found, hint)
    if not package.only_for:
        return Finding("problem", name, "not installed", hint)
    if needed_for:
        return Finding("problem", name, f"not installed, but needed for {needed_for}", install)
    return Finding("note", name, "not installed", f"only needed for {package.only_for}: {install}")


def installed(package: str) -> str | None:
    """The version of a package."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _dotted(version: Version) -> str:
    return ".".join(map(str, version))


def _numbers(version: str) -> Version:
    """The numbers a version begins with.

    >>> _numbers("4.2.0rc1")
    (4, 2, 0)
    """
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found else ()


# --- Java and Spark ---------------------------------------------------------------------------

_JAVA: Final = 17
"""The oldest that Spark 4 runs on."""
_INSTALL_JAVA: Final = (
    f"install Java {_JAVA} (Debian: apt-get install openjdk-{_JAVA}-jre-headless; "
    f"macOS: brew install openjdk@{_JAVA})"
)
_PATIENCE_S: Final = 20


def java() -> Iterator[Finding]:
    """The Java that Spark would start is recent enough: JAVA_HOME's if it is set, else PATH's."""
    home = os.environ.get("JAVA_HOME")
    binary = shutil.which(f"{home}/bin/java" if home else "java")
    if binary is None and home:
        hint = f"unset JAVA_HOME, or set it to the folder of a Java; else {_INSTALL_JAVA}"
        yield Finding("problem", "Java", f"JAVA_HOME is {home}, which has no bin/java", hint)
        return
    if binary is None:
        yield Finding(
            "problem", "Java", "not found, neither on PATH nor by JAVA_HOME", _INSTALL_JAVA
        )
        return
    told = re.search(r'version "([^"]+)"', _said_by(binary, "-version") or "")
    hint = _INSTALL_JAVA + (", and set JAVA_HOME to its folder" if home else "")
    if told is None:
        yield Finding("problem", "Java", f"{binary}, which cannot be started", hint)
    elif java_release(told[1]) < _JAVA:
        yield Finding("problem", "Java", f"{told[1]}, {binary}", hint)
    else:
        yield Finding("ok", "Java", f"{told[1]}, {binary}")


def java_release(version: str) -> int:
    """Which Java this is.

    >>> java_release("17.0.15"), java_release("1.8.0_392"), java_release("21")
    (17, 8, 21)
    """
    first, second, *_ = (*_numbers(version), 0, 0)
    return second if first == 1 else first


def _said_by(*command: str) -> str | None:
    """What a program prints; None if it cannot be started, or fails."""
    try:
        return subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            timeout=_PATIENCE_S,
            check=True,
            cwd="/",  # `python -c` would import from the current folder
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None


def spark_home() -> Iterator[Finding]:
    """SPARK_HOME, where it is set, is the Spark that pyspark talks to."""
    home, pyspark = os.environ.get("SPARK_HOME"), installed("pyspark")
    package = find_spec("pyspark") if pyspark else None
    if not home or (package and package.origin and Path(package.origin).parent == Path(home)):
        return
    jars = sorted(Path(home, "jars").glob("spark-core_*.jar"))
    found = jars[0].stem.partition("-")[2].partition("-")[2] if jars else None
    unset = "unset SPARK_HOME: pyspark brings its own Spark"
    if found is None:
        yield Finding("problem", "SPARK_HOME", f"{home}, which has no Spark in it", unset)
    elif pyspark is not None and found != pyspark:
        hint = f"{unset}; or pip install pyspark=={found}, if Tidegate can use it"
        told = f"{home} with Spark {found}, but pyspark is {pyspark}"
        yield Finding("problem", "SPARK_HOME", told, hint)
    else:
        told = f"{home}: Spark {found} is started from there"
        yield Finding("note", "SPARK_HOME", told, f"if you did not mean to, {unset}")


_ASK_PYTHON: Final = """
import importlib.util, sys
print(sys.version.split()[0], importlib.util.find_spec("tidegate") is not None)
"""


def worker_python() -> Iterator[Finding]:
    """PYSPARK_PYTHON, where it is set, is the same Python and has tidegate."""
    python = os.environ.get("PYSPARK_PYTHON")
    if not python:
        return
    what, unset = "PYSPARK_PYTHON", f"unset PYSPARK_PYTHON, or set it to {sys.executable}"
    driver = sys.version.split()[0]
    program = os.path.abspath(shutil.which(python) or python)
    found, has_tidegate, *_ = (*(_said_by(program, "-c", _ASK_PYTHON) or "").split(), "", "")
    if not _numbers(found):
        yield Finding("problem", what, f"{python}, which cannot be started", unset)
    elif _numbers(found)[:2] != _numbers(driver)[:2]:
        told = f"{python} is Python {found}, the driver's is {driver}"
        yield Finding("problem", what, told, f"{unset}: Spark needs the same Python in both")
    elif has_tidegate != "True":
        hint = f"{unset}, or install the same packages there"
        yield Finding("problem", what, f"{python}, which has no tidegate", hint)
    else:
        yield Finding("ok", what, f"{python}, Python {found}")


def spark_works() -> Finding:
    """Start Spark as a run does, and let a worker do a task, which loads tidegate there."""
    hint = "see what Spark says above; a Java or a Python that does not fit is the usual reason"
    try:
        from tidegate.spark.session import spark_session  # noqa: PLC0415 - may not be installed

        began = time.monotonic()
        spark = spark_session()
        started = time.monotonic()
        rows = spark.range(1, numPartitions=1).mapInArrow(_task(), "id long").collect()
        done = time.monotonic()
    except (Exception, SystemExit) as error:  # whatever it is, it is the finding
        return Finding("problem", "Spark", telling_line(error), hint)
    start, task = elapsed_text(1e6 * (started - began)), elapsed_text(1e6 * (done - started))
    took = f"{spark.version} started in {start}, first task {task}"
    if len(rows) != 1:
        return Finding("problem", "Spark", f"{took}, which gave {len(rows)} rows, not 1", hint)
    return Finding("ok", "Spark", took)


def _task() -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A task that loads what steps are made of; it is sent whole, so nothing else is loaded."""

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        importlib.import_module("tidegate.core.step")
        yield from batches

    return pass_on


# --- the machine ------------------------------------------------------------------------------

_JVM_BYTES: Final = 1_600_000_000
"""About what Spark's JVM takes with the heap of 1 GB that it has unless told otherwise."""
_WORKER_BYTES: Final = 250_000_000
"""About what a Python worker takes; Spark runs one on each core."""
_CGROUP: Final = Path("/sys/fs/cgroup")


def memory() -> Iterator[Finding]:
    """Spark's JVM and a Python worker on each core fit into the memory."""
    cores, there = cores_and_memory()
    wanted = _JVM_BYTES + cores * _WORKER_BYTES
    found = f"{bytes_text(there)}, {cores} core{'s' if cores > 1 else ''}"
    if there >= wanted:
        yield Finding("ok", "memory", found)
        return
    hint = f"Spark's JVM and a Python worker on each core take about {bytes_text(wanted)}"
    level: Level = "problem" if there < _JVM_BYTES else "note"
    yield Finding(level, "memory", found, f"{hint}: use fewer cores (MASTER='local[2]')")


def cores_and_memory(cgroup: Path = _CGROUP) -> tuple[int, int]:
    """What this process has of the machine: a container may have been given less."""
    cores = os.cpu_count() or 1
    quota, _, period = _line(cgroup / "cpu.max").partition(" ")
    if quota.isdigit() and period.isdigit():
        cores = max(1, min(cores, math.ceil(int(quota) / int(period))))
    limits = [_line(cgroup / "memory.max"), _line(cgroup / "memory/memory.limit_in_bytes")]
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return cores, min([total, *(int(limit) for limit in limits if limit.isdigit())])


def _line(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def open_files() -> Iterator[Finding]:
    """Segments, shuffles and sockets are files."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY or limit >= 1024:
        return
    level: Level = "problem" if limit < 256 else "note"
    yield Finding(level, "open files", f"up to {limit}", "raise it: ulimit -n 4096")


def host_name() -> Iterator[Finding]:
    """Spark asks for the address of its own machine, and does not start without."""
    if os.environ.get("SPARK_LOCAL_IP") or os.environ.get("SPARK_LOCAL_HOSTNAME"):
        return
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
    except OSError as error:
        hint = "export SPARK_LOCAL_IP=127.0.0.1, or name the machine in /etc/hosts"
        found = f"{name} has no address: {error.strerror or error}"
        yield Finding("problem", "host name", found, hint)


# --- files and folders ------------------------------------------------------------------------

_GB: Final = 10**9
_FULL_BYTES: Final = 10**8
"""With less than this free, a disk is as good as full."""


def scratch() -> Iterator[Finding]:
    """Where Spark puts what it shuffles."""
    default = tempfile.gettempdir() if sys.platform == "darwin" else "/tmp"
    for path in (os.environ.get("SPARK_LOCAL_DIRS") or default).split(","):
        yield written("Spark's scratch", path.strip(), enough=2 * _GB)


def written(what: str, path: str | Path, *, enough: int = _GB) -> Finding:
    """A folder that can be written to, or made; with less than `enough` free it soon runs full."""
    path = Path(path).absolute()
    nearest = next(each for each in (path, *path.parents) if os.path.lexists(each))
    found = str(path) if nearest == path else f"{path}, to be made"
    if not nearest.is_dir():
        hint = "choose another path, or move the file away"
        return Finding("problem", what, f"{nearest} is a file, not a folder", hint)
    if not os.access(nearest, os.W_OK | os.X_OK):
        hint = "allow it, or choose another path"
        return Finding("problem", what, f"{nearest} cannot be written to by this user", hint)
    free = shutil.disk_usage(nearest).free
    found += f", {bytes_text(free)} free"
    if free >= enough:
        return Finding("ok", what, found)
    level: Level = "problem" if free < _FULL_BYTES else "note"
    return Finding(level, what, found, "make room, or choose a place on a larger disk")


def read(what: str, path: str) -> Finding:
    """A path that can be read; of a glob the folder that is named in front of it."""
    while not os.path.lexists(path) and glob.has_magic(path):
        path = os.path.dirname(path) or "."
    path = os.path.abspath(path)
    if not os.path.exists(path):
        hint = "see that the path is right, and mounted if it is a mount"
        return Finding("problem", what, f"{path} is not there", hint)
    if not os.access(path, os.R_OK | (os.X_OK if os.path.isdir(path) else 0)):
        hint = "allow it to read files and list folders"
        return Finding("problem", what, f"{path} cannot be read by this user", hint)
    return Finding("ok", what, path)


# --- what a pipeline uses ---------------------------------------------------------------------

_CONNECT_S: Final = 3


class Part(NamedTuple):
    """A source, target or state store of a pipeline, with its options."""

    what: str
    use: Literal["source", "target", "store"]
    format: str
    options: Mapping[str, Any]


def parts_of(pipeline: Pipeline) -> list[Part]:
    """Everything of a pipeline that is outside of the process."""
    store, target = pipeline.state_store, pipeline.target
    channels = pipeline.channels.items()
    return [
        Part("state store", "store", store.kind, {"url": store.url}),
        *(Part(f"source {e.name}", "source", e.format, e.options) for e in pipeline.sources),
        Part("target", "target", target.format, target.options),
        *(Part(f"target of {name} rows", "target", e.format, e.options) for name, e in channels),
    ]


def _format_of(part: Part) -> Format | None:
    """What is known of a part by its format; of a store in PostgreSQL that of a target there."""
    if part.use == "store":
        return TARGETS.get(part.format)
    return (source_format if part.use == "source" else target_format)(part.format)


def used_by(part: Part) -> Iterator[Finding]:
    """The folder or the server of a part; formats of Spark keep to themselves what they use."""
    path, format = part.options.get("path"), _format_of(part)
    reaches = None if format is None else format.reaches
    if part.use == "store" and part.format == "sqlite":
        yield written("state folder", str(part.options["url"]))
    elif reaches == "brokers":
        servers = str(part.options.get("bootstrap_servers", "")).split(",")
        yield from (broker(part.what, each.strip()) for each in servers if each.strip())
    elif reaches == "database" and installed(PSYCOPG.distribution):
        yield database(part.what, str(part.options.get("url") or ""))
    elif reaches == "folder" and isinstance(path, str | os.PathLike):
        local = str(path).removeprefix("file://")
        if "://" not in local:
            yield from _files(part, local)


def _files(part: Part, path: str) -> Iterator[Finding]:
    if part.use == "source":
        yield read(part.what, path)
        return
    yield written(part.what, path)
    if os.path.isdir(path):  # tasks stage beside it, which may be closed to us
        yield written(f"{part.what}: staging", Path(path).absolute().parent, enough=0)


def broker(what: str, server: str) -> Finding:
    """A broker takes connections."""
    address = urlsplit(server if "://" in server else f"//{server}")
    try:
        host, port = address.hostname or "", address.port or 9092
        with socket.create_connection((host, port), timeout=_CONNECT_S):
            return Finding("ok", what, f"{host}:{port} takes connections")
    except TimeoutError:
        why = f"no answer in {_CONNECT_S} s"
    except (OSError, ValueError) as error:
        why = (getattr(error, "strerror", None) or str(error)).lower()
    hint = "see that it runs, that host and port are right, and that no firewall is between"
    return Finding("problem", what, f"{masked_text(server)} cannot be reached: {why}", hint)


def database(what: str, url: str) -> Finding:
    """A database lets us in; nothing of the url is shown but where that is."""
    import psycopg  # noqa: PLC0415 - for who has such a database

    from tidegate.postgres.address import Address  # noqa: PLC0415
    from tidegate.postgres.refusals import told  # noqa: PLC0415

    try:
        address = Address(url, at=what)
        with told(address):
            psycopg.connect(url, connect_timeout=_CONNECT_S).close()
    except TidegateError as error:
        found, _, hint = str(error).partition("\n  hint: ")
        return Finding("problem", what, found, hint)
    return Finding("ok", what, f"{address.place} takes connections")
