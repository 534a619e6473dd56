"""What the doctor looks at: facts about a machine and about what a pipeline uses, as values.

gathering -> [facts] -> checks -> findings
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Version = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """A Python."""

    path: str
    version: Version | None
    """None: it did not answer."""
    same_environment: bool = True
    """Whether it is this process's own, with the same packages."""
    has_tidegate: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """The Java that Spark would start."""

    home: str | None
    """What JAVA_HOME says."""
    binary: str | None
    """None: there is none."""
    version: str | None
    """None: its folder does not say, and starting it is not for the doctor."""
    needed: int
    """The oldest that this Spark is built for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spark:
    """What the environment says to Spark."""

    package_folder: str | None
    """Where pyspark is installed."""
    home: str | None = None
    """What SPARK_HOME says."""
    home_version: str | None = None
    """Of the Spark in it; None: none is there."""
    conf_dir: str | None = None
    """What SPARK_CONF_DIR says."""
    conf_dir_there: bool = True
    driver_memory: str = "1g"
    workers: Interpreter | None = None
    """What PYSPARK_PYTHON says; None: nothing, so workers run the Python of the driver."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What there is of everything."""

    cores: int
    memory_bytes: int | None
    open_files: int | None
    """How many this process may have open; None: without limit."""
    filesystem_encoding: str
    text_encoding: str
    host_name: str
    host_error: str | None = None
    """Why the machine does not find itself by its name."""
    now_s: float
    jumped_s: float = 0.0
    """By how much the wall clock left the steady one while the doctor looked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A file or folder that is read or written."""

    what: str
    path: str
    use: Literal["read", "write"]
    nearest: str
    """The path, or the nearest folder above it that is there."""
    folder: bool = True
    """Whether that is a folder."""
    permitted: bool = True
    free_bytes: int | None = None
    enough_bytes: int = 0
    """With less than this free, it soon runs full."""
    newest: tuple[str, float] | None = None
    """The file in it that was changed last, and when, in seconds since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server that a pipeline talks to."""

    what: str
    address: str
    """Host and port, nothing else of its URL."""
    error: str | None = None
    """Why it cannot be reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything the checks look at."""

    python: Interpreter
    packages: Mapping[str, str | None]
    """Versions of what is installed; None: it is not."""
    java: Java
    spark: Spark
    machine: Machine
    places: tuple[Place, ...] = ()
    servers: tuple[Server, ...] = ()
    used_packages: Mapping[str, str] = field(default_factory=dict)
    """Optional packages that the pipeline needs, and what for."""
