"""What an epoch came to, and where its run stands: for status, metrics and screens.

engine -> EpochReport -> RunProgress -> RunStatus -> [Run.status, `tidegate run`, notebooks]
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from tidegate.core.watermark import PipelineWatermark
from tidegate.eventtime import BEGINNING, US_PER_SECOND, now_us, steady_us
from tidegate.pipeline.html import fields_html
from tidegate.pipeline.masking import masked_text
from tidegate.text import bytes_text, instant_text

State = Literal["starting", "running", "waiting", "ended", "failed"]

PARTS: Final = (
    *("plan", "job", "read", "split", "shuffle", "receive"),
    *("load", "kernel", "stage", "count", "commit", "publish"),
)
"""Where the time of an epoch goes, in the order in which it does; `job` is all up to `count`."""
_RECENT_US: Final = 10 * US_PER_SECOND
"""Rows per second are those of so long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochReport:
    """What a committed epoch came to, for people and metrics: numbers only, for runs keep many."""

    epoch: int
    rows: int
    """Admitted ones."""
    counts: Mapping[str, int]
    """Rows by what became of them."""
    watermark_us: int
    watermarks: PipelineWatermark
    state_rows: int
    """How much is held, with what newer rows supersede: never too few."""
    state_bytes: int
    """The size of all segments that count."""
    open: int | None
    """The windows that are open, or rows of a join that wait, when they were counted last."""
    worker_cache_bytes: int
    """The most memory in which a Python worker keeps state between epochs."""
    seconds: float
    """From the plan to what is published, without the time it waited for other epochs."""
    parts: Mapping[str, float]
    """Where the time went, in the order of `PARTS`; what shards do side by side is their mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """Where a run stands."""

    pipeline: str
    state: State = "starting"
    epoch: int = 0
    """The last one committed, by this run or before it."""
    epochs: int = 0
    """How many this run has committed."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Rows by what became of them, in this run."""
    rows_per_second: float = 0.0
    """Admitted ones, in the ten seconds before the last commit."""
    seconds: float = 0.0
    """From the start of the run to its last commit."""
    watermark_us: int | None = None
    lag_us: Mapping[str, int | None] = field(default_factory=dict)
    """How far the watermark of each source was behind the clock at the last commit."""
    state_rows: int = 0
    state_bytes: int = 0
    worker_cache_bytes: int = 0
    """The most memory in which a Python worker keeps state between epochs."""
    last: EpochReport | None = None
    """The last epoch of this run."""
    error: BaseException | None = None

    def _repr_html_(self) -> str:
        fields: dict[str, object] = {
            "state": self.state,
            "epoch": self.epoch,
            **usual_counts(self.counts),
            "watermark": instant_text(self.watermark_us),
            "held": f"{self.state_rows:,} rows, {bytes_text(self.state_bytes)}",
        }
        failed = {} if self.error is None else {"error": masked_text(str(self.error))}
        return fields_html(f"run of {self.pipeline}", {**fields, **failed})


@dataclass(slots=True, kw_only=True)
class RunProgress:
    """The status of a run, epoch by epoch."""

    status: RunStatus
    clock: Callable[[], int] = now_us
    steady: Callable[[], int] = steady_us
    """A clock that nobody sets."""
    _began_us: int = field(init=False)
    _recent: deque[tuple[int, int]] = field(default_factory=deque, init=False)
    """When epochs were over, and their rows."""

    def __post_init__(self) -> None:
        self._began_us = self.steady()

    def took(self, report: EpochReport) -> RunStatus:
        """The status behind an epoch that was committed just now."""
        at_us, counts = self.steady(), Counter(self.status.counts)
        counts.update(report.counts)
        self.status = replace(
            self.status,
            epoch=report.epoch,
            epochs=self.status.epochs + 1,
            counts=dict(counts),
            rows_per_second=self._rate(report, at_us),
            seconds=(at_us - self._began_us) / US_PER_SECOND,
            watermark_us=known_us(report.watermark_us),
            lag_us=self._lag_us(report.watermarks),
            state_rows=report.state_rows,
            state_bytes=report.state_bytes,
            worker_cache_bytes=report.worker_cache_bytes,
            last=report,
        )
        return self.status

    def _rate(self, report: EpochReport, at_us: int) -> float:
        if not self._recent:  # an epoch is seen when it is over
            self._recent.append((at_us - round(report.seconds * US_PER_SECOND), 0))
        self._recent.append((at_us, report.rows))
        while len(self._recent) > 2 and at_us - self._recent[0][0] > _RECENT_US:
            self._recent.popleft()
        took_us = at_us - self._recent[0][0]
        rows = sum(rows for _, rows in self._recent) - self._recent[0][1]
        return rows * US_PER_SECOND / took_us if took_us > 0 else 0.0

    def _lag_us(self, watermarks: PipelineWatermark) -> dict[str, int | None]:
        reached = {name: known_us(each.watermark_us) for name, each in watermarks.sources.items()}
        now = self.clock()
        return {name: None if us is None else now - us for name, us in reached.items()}


def known_us(watermark_us: int) -> int | None:
    """A watermark; None before there is one."""
    return None if watermark_us == BEGINNING else watermark_us


def usual_counts(counts: Mapping[str, int]) -> dict[str, str]:
    """What became of rows: those that came in and went out, and what is not usual."""
    usual = {name: counts.get(name, 0) for name in ("rows", "late", "rejected", "sent")}
    unusual = {name: counts[name] for name in ("reassigned", "retracted") if counts.get(name)}
    return {name: f"{count:,}" for name, count in {**usual, **unusual}.items()}
