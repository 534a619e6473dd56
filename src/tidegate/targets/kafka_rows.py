"""Rows as records of a topic: made in tasks, sent by the driver as they are.

    rows -> [records_of] -> staged -> key, value, and what stands in headers

The key is the identity as a JSON object; librdkafka finds its partition, as Kafka's own clients do.
The value is the whole row, as a JSON object or as an Avro datum; a row that has nothing but an
identity is to be deleted, and has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal, TypeAlias

import polars as pl

from tidegate.pipeline import MAIN
from tidegate.targets.kafka_avro import datums_of, schema_text
from tidegate.targets.kafka_transactions import Headers
from tidegate.targets.options import CHANGE
from tidegate.targets.rowtext import to_json

ValueFormat: TypeAlias = Literal["json", "avro"]

REVISION: Final = "revision"

EPOCH_HEADER: Final = "tidegate.epoch"
REVISION_HEADER: Final = "tidegate.revision"
CHANGE_HEADER: Final = "tidegate.op"
SCHEMA_HEADER: Final = "tidegate.schema"
PIPELINE_HEADER: Final = "tidegate.pipeline"
CHANNEL_HEADER: Final = "tidegate.channel"

_KEY, _HASH, _VALUE, _SCHEMA = "key", "hash", "value", "schema"
_BY_KEY: Final = -1


def told_columns(columns: Sequence[str], *, channel: str, changes: bool) -> list[str]:
    """The columns that headers tell: of results their revision, and of changes which they are.

    Whatever else is called like that is the user's.
    """
    ours = (REVISION, CHANGE) if changes else (REVISION,)
    return [name for name in ours if channel == MAIN and name in columns]


def records_of(
    rows: pl.DataFrame,
    *,
    told: Sequence[str],
    identity: Sequence[str],
    value_format: ValueFormat,
    name: str,
) -> pl.DataFrame:
    """A record for each row. `name` is that of the topic, for the schema of Avro.

    Without an identity they have no key. The columns in `told` are what headers tell.
    """
    records = rows.select(told)
    key = to_json(rows.select(identity)) if identity else None
    records = _with(records, _KEY, key, rows.height)
    if identity and {*rows.columns} <= {*identity}:
        return _with(records, _VALUE, None, rows.height)
    if value_format == "json":
        return _with(records, _VALUE, to_json(rows), rows.height)
    schema = schema_text(name, rows.schema)
    records = _with(records, _VALUE, datums_of(rows, schema), rows.height)
    return records.with_columns(pl.lit(schema).alias(_SCHEMA))


def _with(records: pl.DataFrame, name: str, values: pl.Series | None, height: int) -> pl.DataFrame:
    column = pl.repeat(None, height, dtype=pl.Binary, eager=True) if values is None else values
    return (
        records.with_columns(column.alias(name)) if records.width else column.alias(name).to_frame()
    )


def keys_of(records: pl.DataFrame) -> list[bytes | None]:
    """The keys in order."""
    return records[_KEY].to_list()


def places_of(records: pl.DataFrame, partitions: int) -> list[int]:
    """The partition of each record; -1: that of its key, or any.

    Earlier versions staged changes without a key, and with its hash.
    """
    if _HASH not in records.columns:
        return [_BY_KEY] * records.height
    return (records[_HASH] % partitions).to_list()


def values_of(records: pl.DataFrame) -> list[bytes | None]:
    """The values in order."""
    return records[_VALUE].to_list()


def avro_schema_of(records: pl.DataFrame) -> str | None:
    """The schema of the values, where they are Avro."""
    return records[_SCHEMA][0] if _SCHEMA in records.columns and records.height else None


def headers_of(records: pl.DataFrame, always: Headers) -> Iterator[Headers]:
    """The headers of each record: rows that say the same share theirs."""
    told = [name for name in (REVISION, CHANGE) if name in records.columns]
    said = [*zip(*(records[name].to_list() for name in told), strict=True)] or [()] * records.height
    made = {each: [*always, *_told(told, each)] for each in set(said)}
    return (made[each] for each in said)


_HEADERS: Final = {REVISION: REVISION_HEADER, CHANGE: CHANGE_HEADER}


def _told(names: Sequence[str], values: Sequence[object]) -> Iterator[tuple[str, bytes]]:
    for name, value in zip(names, values, strict=True):
        if value is not None:
            yield _HEADERS[name], str(value).encode()
