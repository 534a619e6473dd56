"""How far event time has come, and who is waited for."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tidegate.eventtime import us_of_ms
from tidegate.pipeline.fieldtypes import DurationMs
from tidegate.pipeline.validation import Value


class Watermark(Value):
    """Says when no earlier event is expected: the highest event time seen, less some disorder."""

    max_out_of_order_ms: DurationMs = 0
    """How much earlier than the latest event seen another one may be without being late."""
    source_idleness_ms: DurationMs = 60_000
    """After so long without anything unread, a source is idle and no longer waited for."""
    advance_when_idle: bool = False
    """Whether the watermark follows the wall clock while all sources are idle."""
    advance_threshold: Annotated[int, Field(ge=1)] | None = None
    """Move the watermark only when so many more rows have come; by default with every epoch."""
    max_future_skew_ms: DurationMs | Literal["unbounded"] = 86_400_000
    """Reject rows further ahead of the clock than this, before they move the watermark."""

    @property
    def max_out_of_order_us(self) -> int:
        """The disorder that makes nothing late."""
        return us_of_ms(self.max_out_of_order_ms)

    @property
    def source_idleness_us(self) -> int:
        """The silence after which a source is idle."""
        return us_of_ms(self.source_idleness_ms)

    @property
    def max_future_skew_us(self) -> int | None:
        """How far ahead of the clock a row may be; None without a guard."""
        skew_ms = self.max_future_skew_ms
        return None if skew_ms == "unbounded" else us_of_ms(skew_ms)
