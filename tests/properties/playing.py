"""A stream played to the core from the first epoch to the last flush."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple
from unittest import mock

from tests.properties.agreement import frame
from tests.properties.streams import COLUMNS, Epoch, Row
from tests.properties.targets import plain_rows
from tidegate.core import local, step
from tidegate.core.local import LocalRun
from tidegate.core.segments import Segment
from tidegate.core.stacks import Stack
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
        yield _of_core(run.epoch(frame(epoch.rows), epoch.watermark_us))
        if nth == flush_after:
            yield _of_core(run.flush(), flushed=True)
    yield _of_core(run.flush(), flushed=True)


def _of_core(epoch: local.Epoch, *, flushed: bool = False) -> Played:
    rows, retracted = plain_rows(epoch.rows), plain_rows(epoch.retracted)
    return Played(rows, retracted, epoch.watermark_us, flushed)


def never_compacted(_stack: Stack, top: Segment, *, watermark_us: int) -> tuple[Segment, int]:
    """Every epoch leaves a segment of its own, so that stacks get as deep as they can."""
    return top, 0


@contextmanager
def compaction(*, on: bool) -> Iterator[None]:
    """Run with or without the merging of segments behind an epoch."""
    if on:
        yield
    else:
        with mock.patch.object(step, "compacted", never_compacted):
            yield
