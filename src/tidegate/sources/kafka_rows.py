"""Records as rows: what their values hold, and what Kafka itself knows of them.

    messages -> decoder -> [columns of the payload, columns of Kafka] -> record batches

Only columns that are asked for are made, each by one call for all records.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from json.encoder import encode_basestring_ascii as quoted
from typing import Final

import numpy as np
import pyarrow as pa
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

from tidegate.core.arrays import Bools
from tidegate.kafka.headers import Headers, headers_of
from tidegate.pipeline import DataType
from tidegate.pipeline.formats import KAFKA_COLUMNS, KAFKA_VALUE
from tidegate.sources.decoding import Decoder, decoded_by

_HIGHEST_MS: Final = (2**63 - 1) // 1000

_MakeColumn = Callable[[Sequence[Message]], pa.Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """How records become rows."""

    decoder: Decoder
    payload: Mapping[str, DataType]
    """The columns of their values."""
    deciding: frozenset[str] | None = None
    """The columns by which a value decodes or not; None: all of them."""

    def of(
        self, messages: Sequence[Message], wanted: Mapping[str, DataType]
    ) -> Iterator[pa.RecordBatch]:
        """One row a record, with the columns wanted."""
        if not wanted:
            for batch in pa.table({"": _partitions(messages)}).to_batches():
                yield batch.select([])
            return
        decoded = self._decoded(messages, wanted)
        made = [decoded[name] if name in decoded else _MADE[name](messages) for name in wanted]
        yield from pa.table(made, names=[*wanted]).to_batches()

    def _decoded(
        self, messages: Sequence[Message], wanted: Mapping[str, DataType]
    ) -> dict[str, pa.Array | pa.ChunkedArray]:
        """Those of the columns wanted that come of values."""
        payload = {name: kind for name, kind in wanted.items() if name in self.payload}
        if not payload and KAFKA_VALUE not in wanted:
            return {}
        values = [*map(Message.value, messages)]
        deciding = payload if self.deciding is None else self.deciding
        decoded = decoded_by(self.decoder, values, payload, deciding)
        columns = dict(zip(payload, decoded.rows.columns, strict=True))
        return {**columns, KAFKA_VALUE: _undecoded(values, decoded.undecodable)}


def _undecoded(values: Sequence[bytes | None], undecodable: Bools | None) -> pa.Array:
    """The bytes of values that did not decode, and NULL in place of the others."""
    if undecodable is None:
        return pa.nulls(len(values), pa.binary())
    kept = [value if wrong else None for value, wrong in zip(values, undecodable, strict=True)]
    return pa.array(kept, pa.binary())


def _keys(messages: Sequence[Message]) -> pa.Array:
    return pa.array(list(map(Message.key, messages)), pa.binary())


def _topics(messages: Sequence[Message]) -> pa.Array:
    return pa.repeat(messages[0].topic(), len(messages))


def _partitions(messages: Sequence[Message]) -> pa.Array:
    return pa.repeat(pa.scalar(messages[0].partition(), pa.int32()), len(messages))


def _offsets(messages: Sequence[Message]) -> pa.Array:
    return pa.array(np.fromiter(map(Message.offset, messages), np.int64, len(messages)))


def _timestamps(messages: Sequence[Message]) -> pa.Array:
    """Of the producer or of the broker, as the topic is set up.

    NULL in very old records, and where microseconds cannot tell the time.
    """
    pairs = chain.from_iterable(map(Message.timestamp, messages))
    kinds, times_ms = np.fromiter(pairs, np.int64, 2 * len(messages)).reshape(-1, 2).T
    missing = (
        (kinds == TIMESTAMP_NOT_AVAILABLE) | (times_ms > _HIGHEST_MS) | (times_ms < -_HIGHEST_MS)
    )
    return pa.array(times_ms * 1000, pa.int64(), mask=missing).cast(pa.timestamp("us", "UTC"))


def _headers(messages: Sequence[Message]) -> pa.Array:
    return pa.array(map(headers_text, map(headers_of, messages)), pa.string())


def headers_text(headers: Headers | None) -> str | None:
    """Headers as a JSON object: of those with one name the last; bytes that are no text in base64.

    It is what `json.dumps` makes of them, which takes longer: it has an encoder for each object.

    >>> headers_text([("trace", b"a1"), ("raw", bytes([255])), ("none", None)])
    '{"trace": "a1", "raw": "/w==", "none": null}'
    """
    if not headers:
        return None
    members = [f"{quoted(name)}: {_json(value)}" for name, value in dict(headers).items()]
    return f"{{{', '.join(members)}}}"


def _json(value: bytes | None) -> str:
    if value is None:
        return "null"
    try:
        return quoted(value.decode())
    except UnicodeDecodeError:
        return quoted(b64encode(value).decode())


_MADE: Final[Mapping[str, _MakeColumn]] = {
    "kafka_key": _keys,
    "kafka_topic": _topics,
    "kafka_partition": _partitions,
    "kafka_offset": _offsets,
    "kafka_timestamp": _timestamps,
    "kafka_headers": _headers,
}

assert {*_MADE, KAFKA_VALUE} == {*KAFKA_COLUMNS}
