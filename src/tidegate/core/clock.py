"""The clock of one epoch: the watermark before it, and the one after it."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.eventtime import BEGINNING, FOREVER


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Rows are judged by `before_us`; windows close and are forgotten by `after_us`.

    `flush` marks the epoch that ends a run: it has no rows, sends what is not out and
    forgets everything. `flushed_us` is the watermark of the last such epoch, or BEGINNING:
    with unbounded lateness nothing but a flush ever makes a row late.
    """

    before_us: int
    after_us: int
    flush: bool = False
    flushed_us: int = BEGINNING

    def __post_init__(self) -> None:
        if not self.before_us <= self.after_us < FOREVER:
            raise ValueError(f"a watermark moves on: {self.before_us} us, then {self.after_us} us")
