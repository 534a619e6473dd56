"""Core and oracle side by side, on columns of any type and in any century."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl
from polars.testing import assert_frame_equal

from tests.oracle.engine import rules_of
from tests.oracle.windows import Oracle, OracleEpoch
from tests.properties.streams import COLUMNS, Epoch, Row
from tests.properties.targets import in_digits_of, plain, plain_rows
from tidegate.core import local
from tidegate.core.compiling import polars_type
from tidegate.core.hashing import xxhash64
from tidegate.core.local import LocalRun
from tidegate.core.segment_format import from_bytes, to_bytes
from tidegate.pipeline import DataType, Window, bind


def assert_agreement(
    window: Window,
    stream: Sequence[Epoch],
    shards: Sequence[int] = (),
    columns: Mapping[str, str] = COLUMNS,
    *,
    flush_after: int | None = None,
) -> None:
    """Every epoch, a flush, and the first epoch once more; restarted where `shards` says.

    A flush also comes behind the epoch `flush_after`. Rows have the published columns and types,
    ids are hashes that anybody can compute (R7), and what a restart reads is what was held.
    """
    run, oracle, seen = LocalRun(window, columns), Oracle(rules_of(window)), 0
    schema = bind(window, columns).output_schema
    published = {name: polars_type(datatype) for name, datatype in schema.items()}
    epochs: list[Epoch | None] = [*stream, None, *stream[:1]]
    if flush_after is not None:
        epochs.insert(min(flush_after + 1, len(stream)), None)
    for nth, epoch in enumerate(epochs):
        if epoch is None:
            got, expected = run.flush(), oracle.flush()
        else:
            placed = [row | {"lane": 0, "offset": seen + n} for n, row in enumerate(epoch.rows)]
            seen += len(placed)
            got = run.epoch(frame(epoch.rows, columns), epoch.watermark_us)
            expected = oracle.epoch(placed, epoch.watermark_us)
        assert dict(got.rows.schema) == published
        assert of_core(window, got) == of_oracle(window, expected, got.rows.schema)
        assert_ids_are_hashes(window, got)
        for count in shards[nth : nth + 1]:
            assert_same_behind_bytes(run)
            run = LocalRun.restored(window, columns, run.saved(), shards=count)


def assert_ids_are_hashes(window: Window, epoch: local.Epoch) -> None:
    """`session_id` is the hash of the group columns and `window_start`, also of what is gone."""
    for sent in (epoch.rows, epoch.retracted) if window.kind == "session" else ():
        recomputed = xxhash64([sent[name] for name in (*window.group_by, "window_start")])
        assert sent["session_id"].to_list() == recomputed.tolist()
        windows, ids = ([*window.group_by, each] for each in ("window_start", "session_id"))
        assert sent.select(ids).n_unique() == sent.select(windows).n_unique()


def assert_same_behind_bytes(run: LocalRun) -> None:
    """State as bytes and back is the same: every row, every type, every bit."""
    for stack in run.stacks:
        for segment in stack.segments:
            read = from_bytes(to_bytes(segment))
            assert (read.unit_time, read.appends) == (segment.unit_time, segment.appends)
            assert_frame_equal(read.rows, segment.rows, check_exact=True)


def frame(rows: Sequence[Row], columns: Mapping[str, str] = COLUMNS) -> pl.DataFrame:
    """Rows as the core takes them."""
    types = {name: polars_type(DataType.parse(text)) for name, text in columns.items()}
    return pl.DataFrame(list(rows), schema={"event_us": pl.Int64(), **types})


def of_core(window: Window, epoch: local.Epoch) -> dict[str, Any]:
    """An epoch of the core as plain, sorted values."""
    ids = [*window.group_by, "window_start"]
    return {
        "rows": _sorted(plain_rows(epoch.rows.drop("session_id", strict=False))),
        "retracted": _sorted(plain_rows(epoch.retracted.select(ids))),
        "late": _sorted(plain_rows(epoch.late)),
        "counts": (epoch.reassigned, epoch.left_out),
        "watermark_us": None if epoch.watermark_us == -(2**63) else epoch.watermark_us,
    }


def of_oracle(
    window: Window, epoch: OracleEpoch, schema: Mapping[str, pl.DataType]
) -> dict[str, Any]:
    """An epoch of the oracle as plain, sorted values, its decimals in the digits of `schema`."""
    hidden = ("lane", "offset", "original_event_ts")
    late = [
        {k: v for k, v in row.items() if k not in hidden} | {"reason": reason}
        for row, reason in epoch.late
    ]
    return {
        "rows": _sorted(plain(in_digits_of(row, schema)) for row in epoch.rows),
        "retracted": _sorted(map(plain, epoch.retracted)),
        "late": _sorted(map(plain, late)),
        "counts": (epoch.reassigned, epoch.left_out),
        "watermark_us": epoch.watermark_us,
    }


def _sorted(rows: Iterable[Row]) -> list[str]:
    """As text, so that NULLs and numbers sort."""
    return sorted(repr(sorted(row.items(), key=lambda item: item[0])) for row in rows)
