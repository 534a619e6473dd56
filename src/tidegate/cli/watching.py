"""A run as people see it: what each epoch came to, summed up, without a word of how it looks."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tidegate.eventtime import BEGINNING, US_PER_SECOND, text_of

if TYPE_CHECKING:
    from tidegate.spark.epochs import EpochResult

PARTS = (
    *("plan", "read", "split", "shuffle", "receive"),
    *("load", "kernel", "stage", "count", "commit", "publish"),
)
"""Where the time of an epoch goes, in the order in which it does; others come behind them."""
_WITHIN = ("job",)
"""Sums of other parts."""
_RECENT_S = 10.0
"""Of so many seconds is the present rate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceView:
    """How far one source has come."""

    watermark_us: int | None
    lag_us: int | None
    """How far its watermark is behind the clock."""
    idle: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Where a run stands after an epoch."""

    epoch: int
    epochs: int
    """In this run."""
    rows: int
    """Admitted, in this run."""
    rows_per_second: float
    """Lately."""
    epoch_rows: int
    epoch_seconds: float
    watermark_us: int | None
    sources: Mapping[str, SourceView]
    open: int | None
    counts: Mapping[str, int]
    state_bytes: int
    worker_cache_bytes: int
    """The most of a worker."""
    parts: Mapping[str, float]
    """Seconds, of the last epoch."""
    elapsed_s: float

    def to_dict(self) -> dict[str, Any]:
        """For machines: times in microseconds, durations in seconds."""
        sources = {
            name: {"watermark_us": each.watermark_us, "lag_us": each.lag_us, "idle": each.idle}
            for name, each in self.sources.items()
        }
        return {
            "event": "epoch",
            "epoch": self.epoch,
            "rows": self.epoch_rows,
            "seconds": round(self.epoch_seconds, 6),
            "rows_per_second": round(self.rows_per_second, 1),
            "watermark_us": self.watermark_us,
            "sources": sources,
            "open": self.open,
            "state_bytes": self.state_bytes,
            "worker_cache_bytes": self.worker_cache_bytes,
            "counts": dict(self.counts),
            "parts": {name: round(spent, 6) for name, spent in self.parts.items()},
        }


@dataclass(slots=True)
class Watcher:
    """Takes epochs as they are committed."""

    began_s: float
    rows: int = 0
    epochs: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    _recent: deque[tuple[float, int]] = field(default_factory=deque)

    def saw(self, result: EpochResult, *, now_us: int, at_s: float) -> View:
        """The view after an epoch; `at_s` is a clock that never goes back."""
        self.rows += result.rows
        self.epochs += 1
        for name, count in result.counts.items():
            self.counts[name] = self.counts.get(name, 0) + count
        return View(
            epoch=result.epoch,
            epochs=self.epochs,
            rows=self.rows,
            rows_per_second=self._rate(at_s, result),
            epoch_rows=result.rows,
            epoch_seconds=result.seconds,
            watermark_us=_known(result.watermark_us),
            sources=_sources(result, now_us),
            open=result.open,
            counts=dict(self.counts),
            state_bytes=result.state_bytes,
            worker_cache_bytes=result.worker_cache_bytes,
            parts=_parts(result.parts),
            elapsed_s=at_s - self.began_s,
        )

    def _rate(self, at_s: float, result: EpochResult) -> float:
        if not self._recent:  # an epoch is seen when it is over
            self._recent.append((at_s - result.seconds, 0))
        self._recent.append((at_s, result.rows))
        while len(self._recent) > 2 and at_s - self._recent[0][0] > _RECENT_S:
            self._recent.popleft()
        took = at_s - self._recent[0][0]
        rows = sum(rows for _, rows in list(self._recent)[1:])
        return rows / took if took > 0 else 0.0


def _known(watermark_us: int) -> int | None:
    return None if watermark_us == BEGINNING else watermark_us


def _sources(result: EpochResult, now_us: int) -> dict[str, SourceView]:
    watermarks = result.watermarks
    views = {}
    for name, each in watermarks.sources.items():
        reached = _known(each.watermark_us)
        lag_us = None if reached is None else now_us - reached
        views[name] = SourceView(watermark_us=reached, lag_us=lag_us, idle=name in watermarks.idle)
    return views


def _parts(parts: Mapping[str, float]) -> dict[str, float]:
    known = {name: parts[name] for name in PARTS if name in parts}
    rest = {name: spent for name, spent in parts.items() if name not in (*PARTS, *_WITHIN)}
    return {**known, **rest}


def lag_text(us: int) -> str:
    """How far behind, for people.

    >>> lag_text(1_500_000), lag_text(90_000_000), lag_text(3 * 86_400_000_000), lag_text(-5)
    ('1.5 s', '1 min 30 s', '3 d', '0 s')
    """
    if us <= 0:
        return "0 s"
    if us < 60 * US_PER_SECOND:
        return f"{us / US_PER_SECOND:.1f} s"
    minutes, hours, days = us // (60 * US_PER_SECOND), 60, 60 * 24
    if minutes < hours:
        return f"{minutes} min {us // US_PER_SECOND % 60} s"
    if minutes < 2 * days:
        return f"{minutes // hours} h {minutes % hours} min"
    return f"{minutes // days} d"


def instant_text(us: int | None) -> str:
    """A time for people, UTC.

    >>> instant_text(1_767_225_638_779_135), instant_text(None)
    ('2026-01-01 00:00:38.779', '-')
    """
    return "-" if us is None else text_of(us).replace("T", " ").removesuffix("Z")
