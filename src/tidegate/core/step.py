"""One epoch of one shard. Read this first.

    judge -> merge -> settle -> changes

`step` is a pure function of the operator, the state before, the rows that arrived and the
clock. Nothing it returns is visible before the epoch commits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import polars as pl

from tidegate.core.arrays import Bools, Int64s
from tidegate.core.clock import Clock
from tidegate.core.hashing import key_group
from tidegate.core.rows import HandedOn, Rows, TurnedAway
from tidegate.core.segments import Segment
from tidegate.core.stacks import Stack, Tables, compacted
from tidegate.errors import MisplacedRow


class Turned(Protocol):
    """What `judge` returns: whatever the operator needs next, and who was turned away."""

    @property
    def late(self) -> Sequence[TurnedAway]:
        """Rows turned away, of each input."""
        ...

    @property
    def counts(self) -> Mapping[str, int]:
        """Rows by what became of them."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What an operator sends in an epoch, and the one segment it adds to its state."""

    sent: pl.DataFrame
    """Current rows; or with a column `op`, changes of rows."""
    retracted: pl.DataFrame
    """Identities that were sent before and count no more."""
    segment: Segment | Tables | None
    """All that changed; None if nothing did."""
    counts: Mapping[str, int] = field(default_factory=dict)
    handed_on: HandedOn | None = None
    """What readers get; None if there are none."""
    passed: Rows | None = None
    """The rows behind `sent`, where an operator hands rows on as they came."""
    outlives_flush: bool = False
    """Whether a flush, which forgets everything held, leaves this state as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readable:
    """Rows of state for people: the key of each, what is held, and until which watermark."""

    key_hash: Int64s
    keys: pl.DataFrame
    values: pl.DataFrame
    forget_us: Int64s
    what: str = "windows"


Chosen = Callable[[Segment], Bools]
"""Says which rows of a table of state are meant."""

J = TypeVar("J", bound=Turned)
M = TypeVar("M")


class StateView(Protocol):
    """What an operator holds, looked at without an epoch; every answer reads all state."""

    def over_us(self, held: Stack[Any], watermark_us: int) -> int | None:
        """The watermark of a flush: one microsecond past the latest time at which anything held
        is forgotten, unbounded lateness taken as 0; None if nothing is held.
        """
        ...

    def count_keys(self, held: Stack[Any], watermark_us: int) -> int:
        """How many keys hold anything that is not forgotten."""
        ...

    def count_open(self, held: Stack[Any], watermark_us: int) -> int:
        """How many windows, or waiting rows, are not forgotten."""
        ...

    def readable(self, held: Stack[Any], chosen: Chosen) -> Readable | None:
        """What is held, as a user would be sent it; None if nothing is."""
        ...


class Operator(Protocol[J, M]):
    """State segments and rows in; output and changes out. Windows are operators, and joins.

    An operator is a value: it remembers nothing between calls but what stands in segments.
    """

    def judge(self, held: Stack[Any], arrived: Sequence[Rows], clock: Clock) -> J:
        """Decide by the watermark before the epoch which rows enter; one `Rows` an input."""
        ...

    def merge(self, held: Stack[Any], judged: J, clock: Clock) -> M:
        """Bring the accepted rows together with what is held of the units they touch."""
        ...

    def settle(self, held: Stack[Any], merged: M, clock: Clock) -> Settled:
        """Close, send and forget by the watermark after the epoch."""
        ...

    @property
    def state(self) -> StateView:
        """What it holds, for flushes, limits and people."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """How a stack of segments becomes the next: which ones it keeps, and `segment` on top."""

    segment: Any
    """A `Segment`, or `Tables`, as the operator keeps them; or None."""
    keeps: tuple[int, ...]

    def apply(self, held: Stack[Any]) -> Stack[Any]:
        """The stack after the epoch."""
        return held.put(self.segment, self.keeps)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """What one epoch of one shard sends, turns away, and remembers."""

    sent: pl.DataFrame
    retracted: pl.DataFrame
    late: Sequence[TurnedAway]
    """Of each input."""
    changes: Changes
    counts: Mapping[str, int] = field(default_factory=dict)
    handed_on: HandedOn | None = None
    """What operators that read this one get; None if there are none."""
    passed: Rows | None = None
    """The rows behind `sent`, of an operator that hands rows on as they came."""


def step(
    operator: Operator[J, M],
    held: Stack[Any],
    arrived: Sequence[Rows],
    clock: Clock,
    *,
    owned: range,
) -> StepResult:
    """Run one epoch of the shard that owns the key groups `owned`."""
    for events in arrived:
        _check_owned(events, owned)
        if clock.flush and len(events):
            raise ValueError(f"a flush takes no rows, found {len(events)}")
    judged = operator.judge(held, arrived, clock)
    merged = operator.merge(held, judged, clock)
    settled = operator.settle(held, merged, clock)
    return StepResult(
        sent=settled.sent,
        retracted=settled.retracted,
        late=judged.late,
        changes=_changes(held, settled, clock),
        passed=settled.passed,
        counts={
            **judged.counts,
            **settled.counts,
            "sent": settled.sent.height,
            "retracted": settled.retracted.height,
        },
        handed_on=settled.handed_on,
    )


def _changes(held: Stack[Any], settled: Settled, clock: Clock) -> Changes:
    """The new segment, merged with its neighbours where sizes ask for it.

    Segments that are forgotten as a whole go; a flush forgets all, but for an operator's own rule.
    """
    if clock.flush and not settled.outlives_flush:
        return Changes(segment=None, keeps=())
    segment = settled.segment
    top, replaces = segment, 0
    if segment is not None and len(segment):
        top, replaces = compacted(held, segment, watermark_us=clock.after_us)
    rest = held.segments[: len(held.segments) - replaces]
    keeps = tuple(nth for nth, each in enumerate(rest) if each.over_us > clock.after_us)
    return Changes(segment=top if top is not None and len(top) else None, keeps=keeps)


def _check_owned(events: Rows, owned: range) -> None:
    groups = key_group(events.key_hash)
    if len(groups) and (groups.min() < owned.start or groups.max() >= owned.stop):
        raise MisplacedRow(
            f"rows of key groups {groups.min()}..{groups.max()} reached the shard "
            f"of key groups {owned.start}..{owned.stop - 1}"
        )
