"""Where rows come from: sources that Tidegate reads itself, and what every source must do.

    open_source(Source, log, pipeline) -> SourceReader.poll -> Slice.read -> record batches

Formats that are not in `NATIVE_FORMATS` are read by Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tidegate.kafka import need_confluent_kafka
from tidegate.pipeline import Source
from tidegate.sources.files import FilesReader
from tidegate.sources.generator import GeneratorReader
from tidegate.sources.memory import MemoryReader, MemoryStream, memory_stream
from tidegate.sources.protocol import LogEntry, Offset, Polled, Slice, SourceReader

_READERS: Final[Mapping[str, Callable[[Source, Sequence[LogEntry]], SourceReader]]] = {
    "files": FilesReader,
    "parquet": FilesReader,
    "json": FilesReader,
    "csv": FilesReader,
    "generator": GeneratorReader,
    "memory": MemoryReader,
}

NATIVE_FORMATS: Final = frozenset([*_READERS, "kafka"])
"""What `open_source` can open."""


def open_source(
    spec: Source, log: Sequence[LogEntry], *, pipeline: str = ""
) -> SourceReader | None:
    """Open a source with the log that was committed; None if its format is one of Spark's.

    `pipeline` is who reads it. Raises `ConfigError` with all that is wrong with its options.
    """
    if spec.format == "kafka":
        return _open_kafka(spec, log, pipeline)
    reader = _READERS.get(spec.format)
    return None if reader is None else reader(spec, log)


def _open_kafka(spec: Source, log: Sequence[LogEntry], pipeline: str) -> SourceReader:
    need_confluent_kafka("format")
    from tidegate.sources.kafka import KafkaReader  # noqa: PLC0415  # needs confluent_kafka

    return KafkaReader(spec, log, pipeline)


__all__ = [
    "NATIVE_FORMATS",
    "FilesReader",
    "GeneratorReader",
    "LogEntry",
    "MemoryReader",
    "MemoryStream",
    "Offset",
    "Polled",
    "Slice",
    "SourceReader",
    "memory_stream",
    "open_source",
]
