"""Where rows come from: sources that Tidegate reads itself, and what every source must do.

    open_source(Source, log, pipeline) -> SourceReader.poll -> Slice.read -> record batches

The formats are listed in `pipeline/formats.py`, each with the function that opens it. Any other
format is read by Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidegate.pipeline import Source
from tidegate.pipeline.formats import SOURCES, opener
from tidegate.pipeline.plugins import source_format
from tidegate.sources.files import FilesReader
from tidegate.sources.generator import GeneratorReader
from tidegate.sources.memory import MemoryReader, MemoryStream, memory_stream
from tidegate.sources.protocol import (
    LogEntry,
    Offset,
    Polled,
    ReaderDefaults,
    SampledNames,
    Slice,
    SliceDefaults,
    SourceOpening,
    SourceReader,
    SourceTraits,
)

NATIVE_FORMATS: Final = tuple(SOURCES)
"""Those that come with Tidegate."""


def open_source(
    spec: Source, log: Sequence[LogEntry], *, pipeline: str = ""
) -> SourceReader | None:
    """Open a source with the log that was committed; None if its format is one of Spark's.

    `pipeline` is who reads it. Raises `ConfigError` with all that is wrong with its options.
    """
    found = source_format(spec.format)
    if found is None:
        return None
    opening = SourceOpening(source=spec, log=log, pipeline=pipeline)
    reader: SourceReader = opener(found, "format")(opening)
    return reader


__all__ = [
    "NATIVE_FORMATS",
    "FilesReader",
    "GeneratorReader",
    "LogEntry",
    "MemoryReader",
    "MemoryStream",
    "Offset",
    "Polled",
    "ReaderDefaults",
    "SampledNames",
    "Slice",
    "SliceDefaults",
    "SourceOpening",
    "SourceReader",
    "SourceTraits",
    "memory_stream",
    "open_source",
]
