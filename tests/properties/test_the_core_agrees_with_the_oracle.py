"""The kernels and the specification in code, on random input: every epoch, every row."""

from __future__ import annotations

import math
from typing import Any

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.engine import rules_of
from tests.oracle.windows import Oracle, OracleEpoch
from tests.properties.streams import COLUMNS, Epoch, streams, windows
from tidegate.core import local
from tidegate.core.compiling import polars_type
from tidegate.core.local import LocalRun
from tidegate.pipeline import DataType, Window

SCHEMA = {"event_us": pl.Int64(), **{n: polars_type(DataType.parse(t)) for n, t in COLUMNS.items()}}


@given(
    window=windows(),
    stream=streams(),
    shards=st.lists(st.integers(1, 5), min_size=7),
    flush=st.booleans(),
)
def test_every_epoch_is_what_the_rules_say(
    window: Window, stream: list[Epoch], shards: list[int], flush: bool
) -> None:
    run, oracle = LocalRun(window, COLUMNS, shards=shards[-1]), Oracle(rules_of(window))
    seen = 0
    for count, epoch in zip(shards, stream, strict=False):
        placed = [row | {"lane": 0, "offset": seen + n} for n, row in enumerate(epoch.rows)]
        seen += len(placed)
        expected = oracle.epoch(placed, epoch.watermark_us)
        got = run.epoch(table(epoch), epoch.watermark_us)
        assert of_core(window, got) == of_oracle(window, expected)
        run = LocalRun.restored(window, COLUMNS, run.saved(), shards=count)
    if flush:
        assert of_core(window, run.flush()) == of_oracle(window, oracle.flush())
        after = Epoch(stream[0].rows, None)
        placed = [row | {"lane": 0, "offset": seen + n} for n, row in enumerate(after.rows)]
        assert of_core(window, run.epoch(table(after), None)) == of_oracle(
            window, oracle.epoch(placed, None)
        )


def table(epoch: Epoch) -> pl.DataFrame:
    return pl.DataFrame(list(epoch.rows), schema=SCHEMA)


def of_core(window: Window, epoch: local.Epoch) -> dict[str, Any]:
    """An epoch of the core as plain, sorted values."""
    return {
        "rows": _sorted(
            window, [_plain(row) for row in epoch.rows.drop("session_id", strict=False).to_dicts()]
        ),
        "retracted": _sorted(
            window,
            [
                _plain({k: row[k] for k in (*window.group_by, "window_start")})
                for row in epoch.retracted.to_dicts()
            ],
        ),
        "late": _sorted(window, [_plain(row) for row in epoch.late.to_dicts()]),
        "counts": (epoch.reassigned, epoch.left_out),
        "watermark_us": None if epoch.watermark_us == -(2**63) else epoch.watermark_us,
    }


def of_oracle(window: Window, epoch: OracleEpoch) -> dict[str, Any]:
    """An epoch of the oracle as plain, sorted values."""
    late = [
        {k: v for k, v in row.items() if k not in ("lane", "offset", "original_event_ts")}
        | {"reason": reason}
        for row, reason in epoch.late
    ]
    return {
        "rows": _sorted(window, [_plain(row) for row in epoch.rows]),
        "retracted": _sorted(window, [_plain(row) for row in epoch.retracted]),
        "late": _sorted(window, [_plain(row) for row in late]),
        "counts": (epoch.reassigned, epoch.left_out),
        "watermark_us": epoch.watermark_us,
    }


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: _value(value) for name, value in row.items()}


def _value(value: Any) -> Any:
    if hasattr(value, "timestamp"):
        return round(value.timestamp() * 1_000_000)
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else round(value, 9)
    return value


def _sorted(window: Window, rows: list[dict[str, Any]]) -> list[str]:
    """As text, so that NULLs and numbers sort. Take-backs of a key stay before its current rows."""
    return sorted(repr(sorted(row.items(), key=lambda item: item[0])) for row in rows)
