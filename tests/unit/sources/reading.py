"""Reading a source to its end as the engine does, and files to read."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
from hypothesis import settings

from tidegate.pipeline import Source
from tidegate.sources import LogEntry, Offset, Polled, Slice, SourceReader, open_source
from tidegate.sources.numbering import numbering

CLICKS = {"user": "long", "ts": "timestamp", "page": "string", "amount": "double"}
"""The columns of `clicks`."""

NOW_US = 4_102_444_800_000_000
"""2100: the files of tests were written long ago."""

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


def as_stored(value: Any) -> Any:
    """What comes back of something that was committed."""
    return json.loads(json.dumps(value))


def poll(
    reader: SourceReader,
    since: Offset | None = None,
    *,
    max_rows: int = 1_000,
    slices: int = 1,
    now_us: int = NOW_US,
) -> Polled:
    return reader.poll(since, max_rows=max_rows, slices=slices, now_us=now_us)


def settled(reader: SourceReader, since: Offset | None = None, **limits: int) -> Polled:
    """The second of two polls: what was there before both is finished."""
    poll(reader, since, max_rows=1)
    return poll(reader, since, **limits)


def drained(
    reader: SourceReader,
    since: Offset | None = None,
    *,
    max_rows: int = 1_000,
    slices: int = 1,
    most: int = 1_000,
) -> list[Polled]:
    """Poll until nothing is unread; every poll must move on, but for files that settle."""
    polls: list[Polled] = []
    for _ in range(most):
        polls.append(poll(reader, since, max_rows=max_rows, slices=slices))
        since = as_stored(polls[-1].until)
        if not polls[-1].unread:
            return polls
    raise AssertionError(f"still unread after {most} polls, at {since}")


def log_of(polls: Iterable[Polled]) -> list[LogEntry]:
    return [as_stored(entry) for each in polls for entry in each.discovered]


def slices_of(polls: Iterable[Polled]) -> list[Slice]:
    return [part for each in polls for part in each.slices]


def frame_of(parts: Iterable[Slice], columns: Sequence[str] | None = None) -> pl.DataFrame:
    """The rows of slices as a task gets them, whose numbers must be unique and ascending, and have
    room for more behind a transform.
    """
    frames, behind, behind_apart = [], -1, (0, 0)
    for part in pickle.loads(pickle.dumps(list(parts))):
        batches = list(part.read(columns))
        rows = sum(batch.num_rows for batch in batches)
        assert part.first_offset >= behind
        assert part.span >= rows
        behind = part.first_offset + part.span
        far = numbering(part, transformed=True)
        assert (far.partition, far.first) >= behind_apart
        assert far.room >= 1_000 * rows
        behind_apart = (far.partition, far.first + far.room)
        frames += [pl.DataFrame(batch) for batch in batches]
    return pl.concat(frames) if frames else pl.DataFrame()


def everything(reader: SourceReader, **limits: Any) -> pl.DataFrame:
    return frame_of(slices_of(drained(reader, **limits)))


def batches(polled: Polled, columns: Sequence[str] | None = None) -> list[pa.RecordBatch]:
    return [batch for part in polled.slices for batch in part.read(columns)]
