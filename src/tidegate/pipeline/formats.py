"""The formats of sources and targets: what is known of each by its name, and who opens it.

    name -> [source_format | target_format] -> validation, fingerprint, doctor
                                            -> [opener] when a run needs a reader or a writer

Built-in formats are rows of the two tables below. Other packages register theirs by entry points,
see `plugins.py`. What depends on the options of a source or target is no row here: its reader or
writer says that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, Literal, TypeAlias

from tidegate.errors import ConfigError, Problem

Mode: TypeAlias = Literal["append", "upsert"]

Place: TypeAlias = Literal["folder", "brokers", "database"]
"""The folder of `path`, the brokers of `bootstrap_servers`, the PostgreSQL database of `url`."""

PLACES: Final = frozenset(
    (
        *("path", "paths", "table", "dbtable", "database", "schema", "catalog", "url"),
        *("topic", "topics", "topic_pattern", "pattern", "subscribe", "subscribepattern", "assign"),
        "key",
    )
)
"""Options that say which folder, topic or table is meant, in lower case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """What a format needs beside Tidegate."""

    distribution: str
    """As pip knows it."""
    module: str
    """As Python imports it."""
    expected: str
    install: str
    """What to install for it."""

    def missing(self, at: str, format: str, error: ImportError) -> ConfigError:
        """What is said where it cannot be imported; `at` is what asks for it."""
        found = f"{format!r}, but {self.module} cannot be imported: {error}"
        hint = f"pip install '{self.install}', on the driver and wherever tasks run"
        return ConfigError([Problem(at, found, self.expected, hint)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """What sources and targets of a format have in common."""

    name: str
    """What pipelines call it."""
    opens: str
    """`module:function`, imported when a source or target is opened, not before."""
    options: str | None = None
    """`module:Class` of the model that checks its options; None: `opens` checks them itself."""
    identity_options: frozenset[str] = PLACES
    """In lower case, the options that say which rows are meant: part of the fingerprint."""
    package: Package | None = None
    """What `opens` cannot be imported, or cannot work, without."""
    reaches: Place | None = None
    """Where its options lead, for `tidegate doctor`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFormat(Format):
    """A format of sources. `opens` takes a `SourceOpening` and returns a `SourceReader`."""

    row_columns: Callable[[Mapping[str, Any]], Mapping[str, str]] | None = None
    """From options: the columns of every row besides those that are declared, with types."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetFormat(Format):
    """A format of targets. `opens` takes a `TargetOpening` and returns a `TargetWriter`."""

    modes: tuple[Mode, ...]
    """What it can do; the first is the default."""
    upsert_option: str | None = None
    """The option without which rows are only added; with it, they are replaced by default."""
    unreadable: str | None = None
    """What to do instead of reading the target back; None: its writer has `rows`."""


def opener(format: Format, at: str) -> Callable[[Any], Any]:
    """Import what opens a source or target; raises `ConfigError`, at `at`, where that fails."""
    try:
        opens: Callable[[Any], Any] = referred(format.opens)
    except ImportError as error:
        if format.package is not None:
            raise format.package.missing(at, format.name, error) from error
        found = f"{format.name!r}, which {format.opens} opens: {error}"
        hint = "upgrade the package that has the format, on the driver and wherever tasks run"
        raise ConfigError([Problem(at, found, "a function that can be imported", hint)]) from error
    return opens


def referred(place: str) -> Any:
    """What `module:name` refers to; raises `ImportError` where there is none."""
    module, _, name = place.partition(":")
    try:
        return getattr(import_module(module), name)
    except AttributeError:
        raise ImportError(f"{module} has no {name!r}") from None


# --- what comes with Tidegate -----------------------------------------------------------------

CONFLUENT_KAFKA: Final = Package(
    distribution="confluent-kafka",
    module="confluent_kafka",
    expected="confluent-kafka 2.8 or later",
    install="tidegate[kafka]",
)
PSYCOPG: Final = Package(
    distribution="psycopg", module="psycopg", expected="psycopg 3", install="tidegate[postgres]"
)
DELTALAKE: Final = Package(
    distribution="deltalake",
    module="deltalake",
    expected="deltalake beside tidegate",
    install="tidegate[delta]",
)

KAFKA_OFFSET: Final = "kafka_offset"
"""Where in its partition a record is."""
KAFKA_VALUE: Final = "kafka_value"
"""The bytes of a record whose value could not be decoded; NULL in all others."""

KAFKA_COLUMNS: Final[Mapping[str, str]] = {
    "kafka_key": "binary",
    "kafka_topic": "string",
    "kafka_partition": "int",
    KAFKA_OFFSET: "long",
    "kafka_timestamp": "timestamp",
    "kafka_headers": "string",
    KAFKA_VALUE: "binary",
}
"""What every record of Kafka has, besides the columns of its value."""


def _columns_of_records(options: Mapping[str, Any]) -> Mapping[str, str]:
    """Bytes that are the payload need no second column."""
    if options.get("value_format") == "binary":
        return {name: kind for name, kind in KAFKA_COLUMNS.items() if name != KAFKA_VALUE}
    return KAFKA_COLUMNS


def _source_of_files(name: str) -> SourceFormat:
    return SourceFormat(
        name=name,
        opens="tidegate.sources.files:open_files",
        options="tidegate.sources.file_options:FileOptions",
        reaches="folder",
    )


def _target_of_files(name: str) -> TargetFormat:
    opens = "tidegate.targets.files:open_files"
    return TargetFormat(name=name, opens=opens, modes=("append",), reaches="folder")


SOURCES: Final[dict[str, SourceFormat]] = {
    each.name: each
    for each in (
        *map(_source_of_files, ("files", "parquet", "json", "csv")),
        SourceFormat(
            name="kafka",
            opens="tidegate.sources.kafka:open_kafka",
            options="tidegate.sources.kafka_options:KafkaOptions",
            identity_options=PLACES - {"schema"},  # of Avro, in a file: how it is read, not what
            package=CONFLUENT_KAFKA,
            reaches="brokers",
            row_columns=_columns_of_records,
        ),
        SourceFormat(
            name="generator",
            opens="tidegate.sources.generator:open_generator",
            options="tidegate.sources.generator:GeneratorOptions",
        ),
        SourceFormat(
            name="memory",
            opens="tidegate.sources.memory:open_memory",
            options="tidegate.sources.memory:MemoryOptions",
        ),
    )
}
"""The sources that Tidegate has itself, by their names."""

TARGETS: Final[dict[str, TargetFormat]] = {
    each.name: each
    for each in (
        *map(_target_of_files, ("parquet", "json", "csv")),
        TargetFormat(
            name="delta",
            opens="tidegate.targets.delta:open_delta",
            modes=("append", "upsert"),
            package=DELTALAKE,
            reaches="folder",
        ),
        TargetFormat(
            name="kafka",
            opens="tidegate.targets.kafka:open_kafka",
            options="tidegate.targets.kafka_options:KafkaTargetOptions",
            modes=("append", "upsert"),
            upsert_option="key",
            package=CONFLUENT_KAFKA,
            reaches="brokers",
        ),
        TargetFormat(
            name="postgres",
            opens="tidegate.targets.postgres:open_postgres",
            modes=("upsert", "append"),
            package=PSYCOPG,
            reaches="database",
        ),
        TargetFormat(name="memory", opens="tidegate.targets.memory:open_memory", modes=("upsert",)),
        TargetFormat(
            name="console",
            opens="tidegate.targets.console:open_console",
            modes=("upsert",),
            unreadable="it prints rows and keeps none: use format='memory', or files",
        ),
    )
}
"""The targets that Tidegate has itself, by their names."""
