"""Reading a source to its end as the engine does, and files to read."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
from hypothesis import settings

from tidegate.pipeline import Source
from tidegate.sources import LogEntry, Offset, Polled, SourceReader, open_source
from tidegate.testing.source_contract import (
    NOW_US,
    as_stored,
    drained,
    frame_of,
    log_of,
    poll,
    slices_of,
)

__all__ = [
    "CLICKS",
    "NOW_US",
    "as_stored",
    "batches",
    "clicks",
    "drained",
    "everything",
    "fewer_examples",
    "frame_of",
    "log_of",
    "opened",
    "poll",
    "put_text",
    "settled",
    "slices_of",
    "source",
    "stamped",
    "write",
]

CLICKS = {"user": "long", "ts": "timestamp", "page": "string", "amount": "double"}
"""The columns of `clicks`."""

fewer_examples = settings(max_examples=max(10, settings().max_examples // 4))
"""For properties that write files."""


def source(format: str, columns: Mapping[str, str] | None = None, /, **options: Any) -> Source:
    return Source(
        name="clicks", format=format, event_time="arrival", columns=columns, options=options
    )


def opened(
    format: str,
    columns: Mapping[str, str] | None = None,
    log: Sequence[LogEntry] = (),
    /,
    **options: Any,
) -> SourceReader:
    reader = open_source(source(format, columns, **options), log)
    assert reader is not None
    return reader


def clicks(begin: int, end: int) -> pl.DataFrame:
    """Rows that are all different, with lines of different lengths."""
    number = pl.Series("user", range(begin, end), dtype=pl.Int64)
    return pl.DataFrame({"user": number}).with_columns(
        ts=(pl.lit(1_767_225_600_000_000) + pl.col("user") * 1_500_000).cast(
            pl.Datetime("us", "UTC")
        ),
        page=pl.when(pl.col("user") % 5 == 0)
        .then(None)
        .otherwise(pl.format('/é{} "q", x', pl.col("user") * pl.col("user"))),
        amount=pl.col("user") / 4,
    )


def write(rows: pl.DataFrame, path: Path, mtime_s: int = 1_000, **options: Any) -> Path:
    """Write rows in the format that the name says."""
    text = rows.with_columns(pl.col(pl.Datetime).dt.to_string("iso:strict"))
    if path.suffix == ".parquet":
        rows.write_parquet(path, **options)
    elif path.suffix == ".json":
        text.write_ndjson(path)
    else:
        text.write_csv(path, **options)
    return stamped(path, mtime_s)


def put_text(path: Path, text: str | bytes, mtime_s: int = 1_000) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return stamped(path, mtime_s)


def stamped(path: Path, mtime_s: int) -> Path:
    os.utime(path, (mtime_s, mtime_s))
    return path


def settled(reader: SourceReader, since: Offset | None = None, **limits: int) -> Polled:
    """The second of two polls: what was there before both is finished."""
    poll(reader, since, max_rows=1)
    return poll(reader, since, **limits)


def everything(reader: SourceReader, **limits: Any) -> pl.DataFrame:
    return frame_of(slices_of(drained(reader, **limits)))


def batches(polled: Polled, columns: Sequence[str] | None = None) -> list[pa.RecordBatch]:
    return [batch for part in polled.slices for batch in part.read(columns)]
