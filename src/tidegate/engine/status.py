"""What an epoch came to, and where its run stands: for status, metrics and screens.

engine -> EpochReport -> RunProgress -> RunStatus -> numbers -> [status, JSON, terminal, notebook]
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from tidegate.core.watermark import PipelineWatermark
from tidegate.engine.numbers import cells, numbers_dict, phrase_of, text_of
from tidegate.eventtime import US_PER_SECOND, known_us, now_us, steady_us
from tidegate.pipeline.html import fields_html
from tidegate.pipeline.masking import masked_text

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
    """Its number; numbers go on over runs."""
    rows: int
    """Rows that it admitted."""
    counts: Mapping[str, int]
    """Rows by what became of them."""
    watermark_us: int
    """The pipeline's, behind the epoch."""
    watermarks: PipelineWatermark
    """The same by source, or partition of a source, with who is idle and who is left out."""
    state_rows: int
    """Rows of state in force, superseded ones included: never too few."""
    state_bytes: int
    """Their size."""
    open: int | None
    """Open windows, or rows that wait in a join, when they were counted last; None before."""
    worker_cache_bytes: int
    """The most memory in which a Python worker keeps state between epochs."""
    seconds: float
    """From the plan to what is published, without the time it waited for other epochs."""
    parts: Mapping[str, float]
    """Where the time went, in the order of its parts; what shards do side by side is their mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """Where a run stands."""

    pipeline: str
    """Its name."""
    state: State = "starting"
    """`starting`, `running`, `waiting` (for rows), `ended` or `failed`."""
    epoch: int = 0
    """The last one committed, by this run or before it; 0 before the run knows."""
    epochs: int = 0
    """How many this run has committed."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Rows by what became of them, in this run."""
    rows_per_second: float = 0.0
    """Admitted rows, over the ten seconds before the last commit."""
    seconds: float = 0.0
    """From the start of the run to its last commit."""
    watermark_us: int | None = None
    """The pipeline's; None before there is one."""
    lag_us: Mapping[str, int | None] = field(default_factory=dict)
    """By source, or partition of a source: how far its watermark was behind the clock at the last
    commit; None before it has one."""
    state_rows: int = 0
    """Rows of state in force, superseded ones included."""
    state_bytes: int = 0
    """Their size."""
    worker_cache_bytes: int = 0
    """The most memory in which a Python worker keeps state between epochs; 0 before an epoch."""
    last: EpochReport | None = None
    """The report of the last epoch of this run; None before it."""
    error: BaseException | None = None
    """What a run that failed failed of."""

    def to_dict(self) -> dict[str, Any]:
        """The status as JSON has it, with the fields of a line of `tidegate run --json`."""
        error = None if self.error is None else masked_text(str(self.error))
        shown = {"pipeline": self.pipeline, "state": self.state}
        return {**shown, **numbers_dict(self), "error": error}

    def _repr_html_(self) -> str:
        held = f"{phrase_of('state_rows', self)}, {text_of('state_bytes', self)}"
        fields = {"state": self.state, **cells(self, "status"), "held": held}
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
