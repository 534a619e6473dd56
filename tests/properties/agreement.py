"""Core and oracle side by side, on any columns and in any century."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl
from polars import selectors as cs

from tests.oracle.engine import rules_of
from tests.oracle.windows import Oracle
from tests.properties.streams import COLUMNS, Epoch, Row
from tests.properties.test_the_core_agrees_with_the_oracle import of_core, of_oracle
from tidegate.core import local
from tidegate.core.compiling import polars_type
from tidegate.core.local import LocalRun
from tidegate.pipeline import DataType, Window


def assert_agreement(
    window: Window,
    stream: Sequence[Epoch],
    shards: Sequence[int] = (),
    columns: Mapping[str, str] = COLUMNS,
) -> None:
    """Every epoch, a flush, and the first epoch once more; restarted where `shards` says."""
    run, oracle, seen = LocalRun(window, columns), Oracle(rules_of(window)), 0
    for nth, epoch in enumerate([*stream, None, *stream[:1]]):
        if epoch is None:
            assert in_plain_times(window, run.flush()) == of_oracle(window, oracle.flush())
            continue
        got = run.epoch(frame(epoch.rows, columns), epoch.watermark_us)
        placed = [row | {"lane": 0, "offset": seen + n} for n, row in enumerate(epoch.rows)]
        seen += len(placed)
        expected = of_oracle(window, oracle.epoch(placed, epoch.watermark_us))
        assert in_plain_times(window, got) == expected
        for count in shards[nth : nth + 1]:
            run = LocalRun.restored(window, columns, run.saved(), shards=count)


def frame(rows: Sequence[Row], columns: Mapping[str, str] = COLUMNS) -> pl.DataFrame:
    """Rows as the core takes them."""
    types = {name: polars_type(DataType.parse(text)) for name, text in columns.items()}
    return pl.DataFrame(list(rows), schema={"event_us": pl.Int64(), **types})


def in_plain_times(window: Window, epoch: local.Epoch) -> dict[str, Any]:
    """As `of_core`, with times as integers: Python's own end with the year 9999."""
    times = cs.datetime().cast(pl.Int64)
    return of_core(
        window,
        replace(
            epoch,
            rows=epoch.rows.with_columns(times),
            retracted=epoch.retracted.with_columns(times),
        ),
    )
