"""What is missing or odd, judged by facts alone.

gathering -> facts -> [checks] -> findings
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from tidegate.cli.doctor_facts import Facts, Java, Place, Version
from tidegate.eventtime import text_of
from tidegate.pipeline.explain import bytes_text

Level = Literal["ok", "note", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: what it is, what was found, and what to do about it."""

    level: Level
    what: str
    found: str
    hint: str = ""


OLDEST_PYTHON: Final = (3, 11)

REQUIRED: Final[dict[str, tuple[Version, Version | None]]] = {
    "polars": ((2, 0), (3,)),
    "pyarrow": ((20,), None),
    "numpy": ((2, 1), (3,)),
    "pandas": ((2, 2), (3,)),
    "pyspark": ((4, 1), (4, 4)),
}
"""What a run needs: from this version on, to below that one."""

_SPARK_ONLY: Final = ("pyspark", "pandas")

OPTIONAL: Final[dict[str, tuple[str, str]]] = {
    "deltalake": ("Delta tables as targets", "tidegate[delta]"),
    "psycopg": ("state or results in Postgres", "psycopg[binary]"),
    "confluent-kafka": ("Kafka topics as sources or targets", "confluent-kafka"),
}
"""What each is only needed for, and what to install for it."""

_INSTALL_JAVA: Final = (
    "install Java {needed} (Debian: apt-get install openjdk-{needed}-jre-headless; "
    "macOS: brew install openjdk@{needed})"
)
_WORKER_BYTES: Final = 250 * 10**6
"""About what a Python worker takes; Spark runs one on each core."""
_FEW_FILES: Final = 256
_ENOUGH_FILES: Final = 1024
_FULL_BYTES: Final = 100 * 10**6
"""With less than this free, a disk is as good as full."""
_YEARS_S: Final = (1_735_689_600, 4_102_444_800)
"""From 2025 to 2099."""
_JUMP_S: Final = 0.5
_AHEAD_S: Final = 60


def examined(facts: Facts) -> list[Finding]:
    """All findings, in the order of reading: first what everything else stands on."""
    return [finding for check in CHECKS for finding in check(facts)]


def python(facts: Facts) -> Iterator[Finding]:
    """The interpreter is recent enough."""
    found = f"{_dotted(facts.python.version or ())}, {facts.python.path}"
    if (facts.python.version or ()) >= OLDEST_PYTHON:
        yield Finding("ok", "Python", found)
    else:
        hint = f"make an environment with Python {_dotted(OLDEST_PYTHON)} or later"
        yield Finding("problem", "Python", found, hint)


def packages(facts: Facts) -> Iterator[Finding]:
    """What a run needs is installed, in versions that were tried."""
    for name, (lowest, below) in REQUIRED.items():
        version = facts.packages.get(name)
        until = f" and below {_dotted(below)}" if below else ""
        wanted = f"{_dotted(lowest)} or later{until}"
        install = "tidegate[spark]" if name in _SPARK_ONLY else "tidegate"
        hint = f"{name} {wanted} is needed: pip install --upgrade '{install}'"
        if version is None:
            yield Finding("problem", name, "not installed", hint)
        elif _numbers(version) < lowest or (below and _numbers(version) >= below):
            yield Finding("problem", name, version, hint)
        else:
            yield Finding("ok", name, version)


def java(facts: Facts) -> Iterator[Finding]:
    """Spark finds a Java that it is built for."""
    java, needed = facts.java, facts.java.needed
    if java.binary is None:
        yield _no_java(java)
    elif java.version is None:
        hint = f"Java {needed} or later is needed; --spark starts it and shows whether it will do"
        yield Finding("note", "Java", f"{java.binary}, of a version that it does not say", hint)
    elif _java_major(java.version) < needed:
        hint = _INSTALL_JAVA.format(needed=needed)
        hint += ", and set JAVA_HOME to its folder" if java.home else ""
        yield Finding("problem", "Java", f"{java.version}, {java.binary}", hint)
    else:
        yield Finding("ok", "Java", f"{java.version}, {java.binary}")


def _no_java(java: Java) -> Finding:
    install = _INSTALL_JAVA.format(needed=java.needed)
    if java.home is None:
        return Finding("problem", "Java", "not found, neither on PATH nor by JAVA_HOME", install)
    found = f"JAVA_HOME is {java.home}, which has no bin/java"
    hint = f"unset JAVA_HOME, or set it to the folder of a Java; else {install}"
    return Finding("problem", "Java", found, hint)


def spark_home(facts: Facts) -> Iterator[Finding]:
    """SPARK_HOME, where it is set, is the Spark that pyspark talks to."""
    spark, version = facts.spark, facts.packages.get("pyspark")
    if spark.home is None or spark.home == spark.package_folder:
        return
    unset = "unset SPARK_HOME: pyspark brings its own Spark"
    if spark.home_version is None:
        yield Finding("problem", "SPARK_HOME", f"{spark.home}, which has no Spark in it", unset)
    elif version is not None and spark.home_version != version:
        found = f"{spark.home} with Spark {spark.home_version}, but pyspark is {version}"
        hint = f"{unset}; or pip install pyspark=={spark.home_version}, if Tidegate can use it"
        yield Finding("problem", "SPARK_HOME", found, hint)
    else:
        found = f"{spark.home}: Spark {spark.home_version} is started from there"
        yield Finding("note", "SPARK_HOME", found, f"if you did not mean to, {unset}")


def spark_settings(facts: Facts) -> Iterator[Finding]:
    """SPARK_CONF_DIR, where it is set, is there, and one knows that it counts."""
    spark = facts.spark
    if spark.conf_dir is None:
        return
    if spark.conf_dir_there:
        hint = "its spark-defaults.conf and log settings count instead of Tidegate's own"
        yield Finding("note", "SPARK_CONF_DIR", spark.conf_dir, hint)
    else:
        hint = "unset SPARK_CONF_DIR, or set it to a folder with settings of Spark"
        yield Finding("problem", "SPARK_CONF_DIR", f"{spark.conf_dir}, which is not there", hint)


def worker_python(facts: Facts) -> Iterator[Finding]:
    """Workers run the Python of the driver, or one that has the same things."""
    workers = facts.spark.workers
    if workers is None or workers.same_environment:
        return
    what, unset = "PYSPARK_PYTHON", f"unset PYSPARK_PYTHON, or set it to {facts.python.path}"
    if workers.version is None:
        yield Finding("problem", what, f"{workers.path}, which cannot be started", unset)
    elif workers.version[:2] != (facts.python.version or ())[:2]:
        found = f"{workers.path} is Python {_dotted(workers.version)}"
        found += f", the driver's is {_dotted(facts.python.version or ())}"
        yield Finding("problem", what, found, f"{unset}: Spark needs the same Python in both")
    elif not workers.has_tidegate:
        found = f"{workers.path}, which has no tidegate"
        yield Finding("problem", what, found, f"{unset}, or install the same packages there")
    else:
        found = f"{workers.path}, another environment than the driver's"
        hint = "see that it has the same versions of everything; a run stops where tidegate differs"
        yield Finding("note", what, found, hint)


def optional_packages(facts: Facts) -> Iterator[Finding]:
    """What only some pipelines need; a problem where this one does."""
    for name, (purpose, install) in OPTIONAL.items():
        version, used = facts.packages.get(name), facts.used_packages.get(name)
        if version is not None:
            yield Finding("ok", name, version)
        elif used is not None:
            found = f"not installed, but needed for {used}"
            yield Finding("problem", name, found, f"pip install '{install}'")
        else:
            hint = f"only needed for {purpose}: pip install '{install}'"
            yield Finding("note", name, "not installed", hint)


def cores_and_memory(facts: Facts) -> Iterator[Finding]:
    """Spark's JVM and a Python worker on each core fit into the memory."""
    machine, driver = facts.machine, _bytes(facts.spark.driver_memory)
    yield Finding("ok", "cores", f"{machine.cores}: a run has as many shards unless told otherwise")
    if machine.memory_bytes is None:
        return
    wanted = driver + driver // 2 + machine.cores * _WORKER_BYTES
    found = (
        f"{bytes_text(machine.memory_bytes)}, with spark.driver.memory {facts.spark.driver_memory}"
    )
    fewer = "use fewer cores (MASTER='local[2]') or a smaller spark.driver.memory"
    if machine.memory_bytes < driver:
        hint = f"the JVM alone wants more than there is: {fewer}"
        yield Finding("problem", "memory", found, hint)
    elif machine.memory_bytes < wanted:
        hint = f"the JVM and {machine.cores} workers take about {bytes_text(wanted)}: {fewer}"
        yield Finding("note", "memory", found, hint)
    else:
        yield Finding("ok", "memory", found)


def open_files(facts: Facts) -> Iterator[Finding]:
    """Segments, shuffles and sockets are files."""
    limit = facts.machine.open_files
    if limit is None or limit >= _ENOUGH_FILES:
        yield Finding("ok", "open files", "without limit" if limit is None else f"up to {limit}")
        return
    level: Level = "problem" if limit < _FEW_FILES else "note"
    hint = f"raise it: ulimit -n {4 * _ENOUGH_FILES}"
    yield Finding(level, "open files", f"up to {limit}", hint)


def encodings(facts: Facts) -> Iterator[Finding]:
    """Names of files and text are UTF-8."""
    machine = facts.machine
    names, text = machine.filesystem_encoding, machine.text_encoding
    plain = {"utf-8", "utf8"}
    if {names.lower(), text.lower()} <= plain:
        yield Finding("ok", "encoding", "UTF-8")
        return
    level: Level = "note" if names.lower() in plain else "problem"
    hint = "export LANG=C.UTF-8, or PYTHONUTF8=1"
    yield Finding(level, "encoding", f"names of files in {names}, text in {text}", hint)


def host(facts: Facts) -> Iterator[Finding]:
    """Spark asks for the address of its own machine, and does not start without."""
    if facts.machine.host_error is not None:
        found = f"{facts.machine.host_name} has no address: {facts.machine.host_error}"
        hint = "export SPARK_LOCAL_IP=127.0.0.1, or name the machine in /etc/hosts"
        yield Finding("problem", "host name", found, hint)


def clock(facts: Facts) -> Iterator[Finding]:
    """The clock says a year that can be, and goes steadily."""
    machine = facts.machine
    now = _instant(machine.now_s)
    hint = "set the clock, and keep it by NTP: idleness and arrival times are measured by it"
    if not _YEARS_S[0] <= machine.now_s < _YEARS_S[1]:
        yield Finding("problem", "clock", now, hint)
    elif abs(machine.jumped_s) > _JUMP_S:
        found = f"{now}, moved by {machine.jumped_s:+.1f} s while the doctor looked at it"
        yield Finding("problem", "clock", found, hint)
    else:
        yield Finding("ok", "clock", now)


def places(facts: Facts) -> Iterator[Finding]:
    """What is to be read is there, what is to be written can be, and there is room."""
    for place in facts.places:
        yield _place(place)
        if place.newest is not None and place.newest[1] > facts.machine.now_s + _AHEAD_S:
            path, changed_s = place.newest
            found = f"{path} was changed at {_instant(changed_s)}, which is still to come"
            hint = "the clock was set back, or that of another machine is ahead: set it right"
            yield Finding("problem", f"{place.what}: times", found, hint)


def _place(place: Place) -> Finding:
    there = place.nearest == place.path
    if place.use == "read":
        return _to_read(place, there)
    if not place.folder:
        hint = "choose another path, or move the file away"
        return Finding("problem", place.what, f"{place.nearest} is a file, not a folder", hint)
    if not place.permitted:
        found = f"{place.nearest} cannot be written to by this user"
        hint = "allow it, or choose another path"
        return Finding("problem", place.what, found, hint)
    return _room(place, place.path if there else f"{place.path}, to be made")


def _to_read(place: Place, there: bool) -> Finding:
    if not there:
        hint = "see that the path is right, and mounted if it is a mount"
        return Finding("problem", place.what, f"{place.path} is not there", hint)
    if not place.permitted:
        found = f"{place.path} cannot be read by this user"
        return Finding("problem", place.what, found, "allow it to read files and list folders")
    return Finding("ok", place.what, place.path)


def _room(place: Place, found: str) -> Finding:
    if place.free_bytes is None:
        return Finding("ok", place.what, found)
    found = f"{found}, {bytes_text(place.free_bytes)} free"
    if place.free_bytes >= place.enough_bytes:
        return Finding("ok", place.what, found)
    level: Level = "problem" if place.free_bytes < _FULL_BYTES else "note"
    return Finding(level, place.what, found, "make room, or choose a place on a larger disk")


def servers(facts: Facts) -> Iterator[Finding]:
    """Servers take a connection."""
    for server in facts.servers:
        if server.error is None:
            yield Finding("ok", server.what, f"{server.address} takes connections")
        else:
            found = f"{server.address} cannot be reached: {server.error}"
            hint = "see that it runs, that host and port are right, and that no firewall is between"
            yield Finding("problem", server.what, found, hint)


CHECKS: Final[tuple[Callable[[Facts], Iterator[Finding]], ...]] = (
    python,
    packages,
    java,
    spark_home,
    spark_settings,
    worker_python,
    optional_packages,
    cores_and_memory,
    open_files,
    encodings,
    host,
    clock,
    places,
    servers,
)


def _dotted(version: Version) -> str:
    return ".".join(map(str, version))


def _numbers(version: str) -> Version:
    """The numbers a version begins with.

    >>> _numbers("4.2.0rc1")
    (4, 2, 0)
    """
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found else ()


def _java_major(version: str) -> int:
    """Which Java this is.

    >>> _java_major("17.0.15"), _java_major("1.8.0_392")
    (17, 8)
    """
    first, second = (*_numbers(version), 0, 0)[:2]
    return second if first == 1 else first


def _bytes(text: str) -> int:
    """An amount of memory as Spark's settings write it.

    >>> _bytes("512m"), _bytes("1g"), _bytes("2048")
    (536870912, 1073741824, 2147483648)
    """
    found = re.fullmatch(r"\s*(\d+)\s*([kmgt]?)b?\s*", text, re.IGNORECASE)
    if found is None:
        return 0
    shift = {"k": 10, "m": 20, "g": 30, "t": 40}[found[2].lower() or "m"]
    return int(found[1]) << shift


def _instant(seconds: float) -> str:
    return text_of(int(seconds * 1_000_000))
