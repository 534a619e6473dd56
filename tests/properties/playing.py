"""A stream played to the core, or to the oracle, from the first epoch to the last flush."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.oracle.engine import rules_of
from tests.oracle.windows import Oracle
from tests.properties.streams import COLUMNS, Epoch, Row
from tests.properties.targets import plain, plain_rows
from tests.properties.test_the_core_agrees_with_the_oracle import table
from tidegate.core import local
from tidegate.core.local import LocalRun
from tidegate.pipeline import Window


class Played(NamedTuple):
    """What one epoch sent, in plain values."""

    rows: list[Row]
    retracted: list[Row]
    watermark_us: int
    flushed: bool


def by_core(
    window: Window, stream: list[Epoch], flush_after: int | None = None
) -> Iterator[Played]:
    """The epochs of the core; it is flushed after the epoch so numbered, and at the end."""
    run = LocalRun(window, COLUMNS)
    for nth, epoch in enumerate(stream):
        yield _of_core(run.epoch(table(epoch), epoch.watermark_us))
        if nth == flush_after:
            yield _of_core(run.flush(), flushed=True)
    yield _of_core(run.flush(), flushed=True)


def _of_core(epoch: local.Epoch, *, flushed: bool = False) -> Played:
    rows, retracted = plain_rows(epoch.rows), plain_rows(epoch.retracted)
    return Played(rows, retracted, epoch.watermark_us, flushed)


def by_oracle(
    window: Window, stream: list[Epoch], flush_after: int | None = None
) -> Iterator[tuple[list[Row], list[Row]]]:
    """The same by the oracle: the rows and the ids taken back."""
    oracle, seen = Oracle(rules_of(window)), 0
    for nth, epoch in enumerate(stream):
        placed = [row | {"lane": 0, "offset": seen + n} for n, row in enumerate(epoch.rows)]
        seen += len(placed)
        sent = oracle.epoch(placed, epoch.watermark_us)
        yield [plain(row) for row in sent.rows], sent.retracted
        if nth == flush_after:
            flushed = oracle.flush()
            yield [plain(row) for row in flushed.rows], flushed.retracted
    last = oracle.flush()
    yield [plain(row) for row in last.rows], last.retracted
