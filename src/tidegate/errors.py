"""Every exception of Tidegate.

An error speaks to the person who must act: where it is, what was found, what was
expected, what to do. All parts are kept in `args`, so an error raised in a Spark
worker arrives at the driver whole.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


def telling_line(error: BaseException) -> str:
    """The line of an error that says most: of a traceback in it, as Spark sends them, the last."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if _TELLING.match(line)]
    return (telling or lines[:1] or [type(error).__name__])[-1]


_TELLING = re.compile(r"[\w.]*(Error|Exception)\b")


class TidegateError(Exception):
    """The root of all errors that Tidegate raises on purpose."""


class InMemoryStateWarning(UserWarning):
    """State is kept in memory only: a crash loses all of it."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a pipeline: where, what was found, what was expected, what to do."""

    at: str
    found: str
    expected: str
    hint: str = ""

    def __str__(self) -> str:
        where = f"{self.at}: " if self.at else ""
        line = f"{where}found {self.found}, expected {self.expected}"
        return f"{line}\n  hint: {self.hint}" if self.hint else line


class ConfigError(TidegateError, ValueError):
    """A pipeline that cannot be run as written, with every problem that was found."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__(tuple(problems))
        self.problems = tuple(problems)

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


class PlanChanged(TidegateError):
    """The stored state belongs to a pipeline that differs from this one in what it computes."""

    def __init__(self, changes: Sequence[str], hint: str = "") -> None:
        super().__init__(tuple(changes), hint)
        self.changes, self.hint = tuple(changes), hint

    def __str__(self) -> str:
        lines = [f"the pipeline changed: {change}" for change in self.changes]
        return "\n".join([*lines, f"  hint: {self.hint}"] if self.hint else lines)


class WatermarkViolation(TidegateError):
    """A watermark moved back: an operator broke its promise about the past."""

    def __init__(self, operator: str, was_us: int, became_us: int) -> None:
        super().__init__(operator, was_us, became_us)
        self.operator, self.was_us, self.became_us = operator, was_us, became_us

    def __str__(self) -> str:
        return (
            f"watermark of operator {self.operator!r} moved back "
            f"from {self.was_us} us to {self.became_us} us"
        )


class AggregateOverflow(TidegateError):
    """A sum left the range of its type; going on would publish a wrong number."""

    def __init__(self, column: str, key: dict[str, Any], limit: str) -> None:
        super().__init__(column, key, limit)
        self.column, self.key, self.limit = column, key, limit

    def __str__(self) -> str:
        return (
            f"sum of column {self.column!r} for key {self.key} does not fit {self.limit}\n"
            f"  hint: cast {self.column!r} to decimal or double in the source's transform"
        )


class StateLimitReached(TidegateError):
    """State grew past a limit that the pipeline sets."""

    def __init__(self, limit: str, found: int, allowed: int, hint: str = "") -> None:
        super().__init__(limit, found, allowed, hint)
        self.limit, self.found, self.allowed, self.hint = limit, found, allowed, hint

    def __str__(self) -> str:
        line = f"{self.limit}: found {self.found}, allowed are {self.allowed}"
        return f"{line}\n  hint: {self.hint}" if self.hint else line


class SparkUnavailable(TidegateError):
    """Spark cannot be started here."""


class StateFormatError(TidegateError):
    """Stored state that this version cannot read."""


class StateLost(TidegateError):
    """State that a manifest names is not there, or not what was written."""


class StoreUnavailable(TidegateError):
    """The database cannot be used now: it is not reached, restarts, is full, or refuses.

    What is committed is kept; trying again may help.
    """


class BrokerUnavailable(TidegateError):
    """Kafka cannot be used now: no broker is reached in time, or a leader is missing.

    Nothing is lost by it; trying again may help.
    """


class TargetRefused(TidegateError):
    """A target says no to rows: a constraint, a type, a table that is gone.

    Nothing of the epoch is visible there.
    """


class LostLease(TidegateError):
    """Another driver has taken the pipeline over: this one may not commit any more."""


class TargetClaimed(LostLease):
    """A driver that has lost the pipeline claimed its target; the run takes it back."""


class EpochTaken(TidegateError):
    """The epoch to commit does not follow the last one that is committed."""


class PipelineInUse(TidegateError):
    """Another driver runs this pipeline now."""


class SourceChanged(TidegateError):
    """What was planned to be read is no longer what is there: changed, or gone."""


class UnreadableSource(TidegateError):
    """Rows that are not what the source says: a corrupt file, a missing or retyped column."""


class InconsistentEpoch(TidegateError):
    """Tasks of one epoch do not agree on what they saw; nothing of it is committed."""


class BatchOutOfOrder(TidegateError):
    """A micro-batch that neither is the last one committed nor follows it."""


class MisplacedRow(TidegateError):
    """A row reached a shard that does not own its key group: the split in front of it is broken."""


class ScenarioError(TidegateError):
    """A scenario file that cannot be read."""
