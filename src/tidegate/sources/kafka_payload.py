"""What the values of records hold: which columns, and how they are decoded.

value format, declared columns, a schema, some records -> [Payload] -> decoder and columns
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from tidegate.errors import ConfigError, Problem
from tidegate.kafka.registry import fetch_schema
from tidegate.pipeline import DataType
from tidegate.pipeline.formats import KAFKA_COLUMNS
from tidegate.pipeline.masking import shown
from tidegate.sources.decode_avro import AvroDecoder, RegistryDecoder
from tidegate.sources.decode_avro_schema import avro_columns
from tidegate.sources.decode_inferring import infer_json
from tidegate.sources.decode_json import JsonDecoder
from tidegate.sources.decode_plain import BinaryDecoder, StringDecoder
from tidegate.sources.decoding import VALUE, Decoder
from tidegate.sources.kafka_options import KafkaOptions

Sample = Callable[[], Sequence[bytes | None]]
"""Gives the values of some records of the topics."""

_PLAIN: Final[Mapping[str, Decoder]] = {"string": StringDecoder(), "binary": BinaryDecoder()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """The columns of values, with their Spark types, and who decodes them."""

    decoder: Decoder
    columns: Mapping[str, str]
    schema: str | None = None
    """What the columns are read by, where the registry said so: it may say another tomorrow."""

    def to_log(self) -> dict[str, Any]:
        """What a source that found it goes on with, as `payload_of` takes it."""
        columns = {name: str(DataType.parse(kind)) for name, kind in self.columns.items()}
        return {"columns": columns} | ({} if self.schema is None else {"schema": self.schema})

    def checked(self) -> Payload:
        """The same; raises `ConfigError` for columns that cannot be."""
        problems = [
            Problem(f"columns.{name}", "a column of the payload", _OTHER_NAME, _RENAME)
            for name in self.columns
            if name in KAFKA_COLUMNS
        ]
        problems += self.decoder.refused(self.columns)
        if problems:
            raise ConfigError(problems)
        return self


_OTHER_NAME: Final = "another name: records of Kafka have this column themselves"
_RENAME: Final = "declare the columns that are read, without this one"


def payload_of(
    options: KafkaOptions,
    known: Mapping[str, Any],
    *,
    topic: Callable[[], str],
    sample: Sample,
) -> Payload:
    """The payload of a source; `known` has columns that are declared, or what was found before.

    Where there are none, they are those of the schema, or of a sample of records. The newest
    schema of `topic` counts where none is given, nor was found before.
    """
    columns: Mapping[str, str] = known.get("columns") or {}
    if options.value_format in _PLAIN:
        decoder = _PLAIN[options.value_format]
        payload = Payload(decoder=decoder, columns=columns or {VALUE: options.value_format})
    elif options.value_format == "json":
        payload = Payload(decoder=JsonDecoder(), columns=columns or _seen(options, sample))
    elif options.avro_schema is not None:
        payload = _avro(options, _schema_in_file(options.avro_schema), columns)
    else:
        registry = options.schema_registry or ""
        schema = known.get("schema") or fetch_schema(registry, f"{topic()}-value")
        payload = replace(_avro(options, schema, columns), schema=schema)
    return payload.checked()


def _seen(options: KafkaOptions, sample: Sample) -> dict[str, str]:
    columns = infer_json(sample())
    if not columns:
        where = ", ".join(options.names) or shown(options.topic_pattern)
        hint = "declare the columns of the source, or let somebody write a first record"
        expected = "columns, or records that show them"
        raise ConfigError([Problem("columns", f"no JSON object in {where}", expected, hint)])
    return columns


def _avro(options: KafkaOptions, schema: str, columns: Mapping[str, str]) -> Payload:
    decoder: Decoder = AvroDecoder(schema)
    if options.schema_registry is not None:
        decoder = RegistryDecoder(options.schema_registry, schema)
    return Payload(decoder=decoder, columns=columns or avro_columns(schema))


def _schema_in_file(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        found = f"{shown(path)}: {error.strerror}"
        problem = Problem("options.schema", found, "a file with an Avro schema")
        raise ConfigError([problem]) from None
