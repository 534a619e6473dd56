"""Joins of two streams (R11): one epoch after another, every row with every other.

    judge (R4, R5, R11) -> pad what is decided -> match all with all -> pad and let go

Interval and window joins hold rows, session joins hold sessions (R8); both let go by the watermark
after the epoch.  Times are microseconds; a watermark of None is minus infinity.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from .aggregates import Row

Key = tuple[Any, ...]
Span = tuple[int, int]  # [start, end)
Condition = bool | None  # None: SQL NULL, which is not true

_PADDED = {"left": ("left", "full", "anti"), "right": ("right", "full")}


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRules:
    """What a pipeline may say about its join; valid already, nothing is checked here.

    The bounds of an interval are effective: inclusive, none open.  `both` decides about a pair,
    `left_only` and `right_only` about one row of it; a pair needs all three to be true.
    """

    kind: str  # interval | tumbling_tumbling | tumbling_sliding | session_session
    type: str  # inner | left | right | full | semi | anti
    on: tuple[str, ...]
    lower_us: int = 0
    upper_us: int = 0
    size_us: int = 0
    offset_us: int = 0  # of the panes of both sides
    left_size_us: int = 0
    right_size_us: int = 0
    right_slide_us: int = 0
    match: str = "overlapping_pane"  # overlapping_pane | same_pane
    gap_us: int = 0
    cap_us: int = 2**61
    allowed_lateness_us: int = 0
    late_left: str = "drop"  # drop | side_output | dlq | reassign
    late_right: str = "drop"
    max_lateness_left_us: int = 0
    max_lateness_right_us: int = 0
    null_keys_equal: bool = False
    left_only: Callable[[Row], Condition] | None = None
    right_only: Callable[[Row], Condition] | None = None
    both: Callable[[Row, Row], Condition] | None = None


@dataclass(slots=True)
class JoinEpoch:
    """What one epoch sent and turned away."""

    pairs: list[tuple[Row | None, Row | None]] = field(
        default_factory=list
    )  # semi, anti: (row, None)
    late: list[tuple[str, Row, str]] = field(default_factory=list)  # side, as it came, reason
    reassigned: int = 0
    watermark_us: int | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class _Event:
    side: str  # left | right
    key: Key
    row: Row  # event_us is the time the row counts at (R5)
    decided: bool = False  # whatever comes, it matches nothing
    done: bool = False  # matched or padded: it is never padded (again)

    @property
    def event_us(self) -> int:
        return int(self.row["event_us"])


@dataclass(slots=True, kw_only=True, eq=False)
class _Session:
    side: str
    key: Key
    first_us: int
    last_us: int
    events: list[_Event]
    sealed: bool = False
    forgotten: bool = False  # by R3: nothing changes it any more

    def covers(self, event: _Event) -> bool:
        return self.first_us <= event.event_us <= self.last_us


class JoinOracle:
    """Both sides of one join, held in memory."""

    def __init__(self, rules: JoinRules) -> None:
        self._rules = rules
        self._events: list[_Event] = []  # interval and window joins
        self._sessions: list[_Session] = []  # session joins
        self._watermark_us: int | None = None

    def epoch(
        self, left: Sequence[Row], right: Sequence[Row], watermark_us: int | None
    ) -> JoinEpoch:
        """Take the rows, judged by the watermark so far, match, then move it and let go."""
        after = _latest(self._watermark_us, watermark_us)
        result = JoinEpoch(watermark_us=after)

        arrived = self._admit("left", left, result) + self._admit("right", right, result)
        for event in arrived:
            if event.decided:
                self._pad(event, result)
        if self._rules.kind == "session_session":
            self._match_sessions(arrived, after, result)
        else:
            self._match_rows([event for event in arrived if not event.decided], after, result)
        self._watermark_us = after
        return result

    def flush(self) -> JoinEpoch:
        """R15: an epoch without rows whose watermark is past everything held."""
        rules = self._rules
        ends_us = [self._wait_end_us(event.side, event.event_us) for event in self._events]
        ends_us += [session.last_us + 2 * rules.gap_us for session in self._sessions]
        latest_us = max((end_us for end_us in ends_us if end_us is not None), default=None)
        if latest_us is None:
            return self.epoch([], [], None)
        return self.epoch([], [], latest_us + rules.allowed_lateness_us + 1)

    def unsent(self) -> bool:
        """Whether a row that is held is still to be sent alone."""
        return any(e.side in self._padded_sides() and not e.done for e in self._events)

    def _padded_sides(self) -> list[str]:
        return [side for side, types in _PADDED.items() if self._rules.type in types]

    # R4, R5, R11: which rows may enter, all judged before any of them does

    def _admit(self, side: str, rows: Sequence[Row], result: JoinEpoch) -> list[_Event]:
        """R5: a late row is turned away, or counts at the watermark if it is not late there."""
        admitted = []
        for row in rows:
            event = self._event(side, row)
            reason = self._reason_late(event)
            moved = self._reassign(event) if reason else None
            if moved:
                event, reason = moved, self._reason_late(moved)
                result.reassigned += reason is None
            if reason:
                result.late.append((side, row, reason))
            else:
                admitted.append(event)
        return admitted

    def _event(self, side: str, row: Row) -> _Event:
        key = tuple(row[column] for column in self._rules.on)
        event = _Event(side=side, key=key, row=row)
        event.decided = not self._own_condition(event) or not self._in_a_shared_pane(event)
        return event

    def _own_condition(self, event: _Event) -> bool:
        rules = self._rules
        condition = rules.left_only if event.side == "left" else rules.right_only
        return condition is None or condition(event.row) is True

    def _in_a_shared_pane(self, event: _Event) -> bool:
        """Whether a window join has any pane at all in which the row could meet the other side."""
        if self._rules.kind == "session_session":
            return True
        return self._wait_end_us(event.side, event.event_us) is not None

    def _reason_late(self, event: _Event) -> str | None:
        if self._rules.kind == "session_session":
            return self._reason_late_for_sessions(event)
        end_us = self._late_end_us(event.side, event.event_us)
        return "late" if end_us is not None and self._past(end_us, self._watermark_us) else None

    def _reason_late_for_sessions(self, event: _Event) -> str | None:
        """R4, by the watermark and the sessions not forgotten before the epoch."""
        covering = [s for s in self._open_sessions(event.side, event.key) if s.covers(event)]
        if any(session.sealed for session in covering):
            return "sealed"
        forgotten = self._past(event.event_us + self._rules.gap_us, self._watermark_us)
        return "late" if forgotten and not covering else None

    def _reassign(self, event: _Event) -> _Event | None:
        """R5: the row as it counts at the watermark, if that is allowed."""
        rules, watermark_us = self._rules, self._watermark_us
        left = event.side == "left"
        policy = rules.late_left if left else rules.late_right
        max_lateness_us = rules.max_lateness_left_us if left else rules.max_lateness_right_us
        if policy != "reassign" or watermark_us is None:
            return None
        if watermark_us - event.event_us > max_lateness_us:
            return None
        return self._event(event.side, event.row | {"event_us": watermark_us})

    # R3, R11: times

    def _past(self, end_us: int, watermark_us: int | None) -> bool:
        """R3, R11: panes end at watermark >= end + L, intervals and sessions at watermark > it."""
        if watermark_us is None:
            return False
        over_us = end_us + self._rules.allowed_lateness_us
        if self._rules.kind in ("tumbling_tumbling", "tumbling_sliding"):
            return watermark_us >= over_us
        return watermark_us > over_us

    def _wait_end_us(self, side: str, event_us: int) -> int | None:
        """Until when (+ L) a row can meet a future row; None: it can meet no row at all."""
        rules = self._rules
        if rules.kind == "interval":
            return event_us + (rules.upper_us if side == "left" else -rules.lower_us)
        if rules.kind == "tumbling_tumbling":
            return self._tumbling(event_us, rules.size_us)[1]
        return self._last_shared_end_us(side, event_us)

    def _last_shared_end_us(self, side: str, event_us: int) -> int | None:
        """R11, tumbling x sliding: the end of the last pane a row can share with the other side."""
        rules = self._rules
        tumbling = self._tumbling(event_us, rules.left_size_us)
        sliding = self._sliding((event_us, event_us + 1))
        if side == "right" and not sliding:
            return None
        if rules.match == "same_pane":
            return tumbling[1]
        if side == "left":
            return max((end_us for _, end_us in self._sliding(tumbling)), default=None)
        return max(self._tumbling(end_us - 1, rules.left_size_us)[1] for _, end_us in sliding)

    def _late_end_us(self, side: str, event_us: int) -> int | None:
        """R11: until when (+ L) a row is not late, and finds all it matches; None: never late."""
        rules = self._rules
        if self._wait_end_us(side, event_us) is None:
            return None
        if rules.kind == "interval":
            return event_us
        if rules.kind == "tumbling_tumbling":
            return self._tumbling(event_us, rules.size_us)[1]
        if side == "left":
            return self._tumbling(event_us, rules.left_size_us)[1]
        # a right row: until left rows of the first pane that it shares are purged
        shared_us = event_us
        if rules.match == "overlapping_pane":
            shared_us = min(start_us for start_us, _ in self._sliding((event_us, event_us + 1)))
        first_pane = self._tumbling(shared_us, rules.left_size_us)
        return self._wait_end_us("left", first_pane[0])

    def _tumbling(self, event_us: int, size_us: int) -> Span:
        """The pane around a time."""
        start_us = event_us - (event_us - self._rules.offset_us) % size_us
        return start_us, start_us + size_us

    def _sliding(self, span: Span) -> list[Span]:
        """All sliding panes that overlap a span; none between two panes when slide > size."""
        size_us, slide_us = self._rules.right_size_us, self._rules.right_slide_us
        newest_us, _ = self._tumbling(span[1] - 1, slide_us)
        return [(us, us + size_us) for us in range(newest_us, span[0] - size_us, -slide_us)]

    # R11: which rows match

    def _match(self, left: _Event, right: _Event) -> bool:
        """Whether two rows are a pair, as far as keys and conditions say."""
        both = self._rules.both
        if left.decided or right.decided or not self._same_key(left.key, right.key):
            return False
        return both is None or both(left.row, right.row) is True

    def _same_key(self, left: Key, right: Key) -> bool:
        return left == right and (self._rules.null_keys_equal or None not in left)

    def _in_time(self, left_us: int, right_us: int) -> bool:
        """Whether two times may pair in an interval or window join."""
        rules = self._rules
        if rules.kind == "interval":
            return rules.lower_us <= right_us - left_us <= rules.upper_us
        if rules.kind == "tumbling_tumbling":
            size_us = rules.size_us
            return self._tumbling(left_us, size_us) == self._tumbling(right_us, size_us)
        pane = self._tumbling(left_us, rules.left_size_us)
        sliding = self._sliding((right_us, right_us + 1))
        if rules.match == "same_pane":
            return bool(sliding) and pane[0] <= right_us < pane[1]
        return any(start_us < pane[1] and pane[0] < end_us for start_us, end_us in sliding)

    # what goes out

    def _pair(self, left: _Event, right: _Event, result: JoinEpoch) -> None:
        """Send a pair; semi: the left row the first time; anti: nothing."""
        if self._rules.type == "semi" and not left.done:
            result.pairs.append((left.row, None))
        if self._rules.type not in ("semi", "anti"):
            result.pairs.append((left.row, right.row))
        left.done = right.done = True

    def _pad(self, event: _Event, result: JoinEpoch) -> None:
        """Send a row that can match no more and has not, if its side is an outer one."""
        if event.done or self._rules.type not in _PADDED[event.side]:
            return
        event.done = True
        result.pairs.append((event.row, None) if event.side == "left" else (None, event.row))

    # interval and window joins

    def _match_rows(self, arrived: list[_Event], after: int | None, result: JoinEpoch) -> None:
        """R11: every new row with every row that is held or new, then let go by the watermark."""
        everything = self._events + arrived
        lefts = [event for event in everything if event.side == "left"]
        rights = [event for event in everything if event.side == "right"]
        for left, right in product(lefts, rights):
            new = left in arrived or right in arrived
            if new and self._in_time(left.event_us, right.event_us) and self._match(left, right):
                self._pair(left, right, result)

        self._events = [event for event in everything if not self._wait_over(event, after)]
        for event in everything:
            if self._wait_over(event, after):
                self._pad(event, result)

    def _wait_over(self, event: _Event, watermark_us: int | None) -> bool:
        end_us = self._wait_end_us(event.side, event.event_us)
        return end_us is None or self._past(end_us, watermark_us)

    # session joins

    def _match_sessions(self, arrived: list[_Event], after: int | None, result: JoinEpoch) -> None:
        """R8, R11: fold, pair what is forgotten on both sides now, let go of what is over."""
        for side, key in dict.fromkeys((event.side, event.key) for event in arrived):
            self._fold(side, key, [e for e in arrived if (e.side, e.key) == (side, key)])

        gap_us = self._rules.gap_us
        forgotten_now = [
            s for s in self._sessions if not s.forgotten and self._past(s.last_us + gap_us, after)
        ]
        for session in forgotten_now:
            session.forgotten = True
        for left, right in self._overlapping():
            new = left in forgotten_now or right in forgotten_now
            if new and left.forgotten and right.forgotten:
                self._pair_all(left, right, result)

        over = [session for session in self._sessions if self._session_over(session, after)]
        for event in (event for session in over for event in session.events):
            self._pad(event, result)
        self._sessions = [session for session in self._sessions if session not in over]

    def _fold(self, side: str, key: Key, events: list[_Event]) -> None:
        """R8: open, unsealed sessions and rows from left to right, as one sequence."""
        rules = self._rules
        items = [s for s in self._open_sessions(side, key) if not s.sealed]
        self._sessions = [session for session in self._sessions if session not in items]
        events.sort(key=lambda e: (e.event_us, e.row["lane"], e.row["offset"]))
        items += [_session_of(event) for event in events]
        items.sort(key=lambda item: item.first_us)  # stable: held first, then by position

        current = items[0]
        self._sessions.append(current)
        for item in items[1:]:
            touches = item.first_us <= current.last_us + rules.gap_us
            last_us = max(current.last_us, item.last_us)
            if touches and last_us - current.first_us < rules.cap_us:
                current.last_us = last_us
                current.events += item.events
            else:
                current.sealed = touches
                current = item
                self._sessions.append(item)

    def _open_sessions(self, side: str, key: Key) -> list[_Session]:
        return [s for s in self._sessions if (s.side, s.key) == (side, key) and not s.forgotten]

    def _overlapping(self) -> list[tuple[_Session, _Session]]:
        """Left and right sessions of a key whose closed [first, last + gap] intersect."""
        gap_us = self._rules.gap_us
        lefts = [session for session in self._sessions if session.side == "left"]
        rights = [session for session in self._sessions if session.side == "right"]
        return [
            (left, right)
            for left, right in product(lefts, rights)
            if self._same_key(left.key, right.key)
            and left.first_us <= right.last_us + gap_us
            and right.first_us <= left.last_us + gap_us
        ]

    def _pair_all(self, left: _Session, right: _Session, result: JoinEpoch) -> None:
        for one, other in product(left.events, right.events):
            if self._match(one, other):
                self._pair(one, other, result)

    def _session_over(self, session: _Session, watermark_us: int | None) -> bool:
        """R11: whether no session of the other side, held or future, can still be paired with it.

        A row up to gap + L behind the watermark can still open one.
        """
        if not self._past(session.last_us + 2 * self._rules.gap_us, watermark_us):
            return False
        pairs = [pair for pair in self._overlapping() if session in pair]
        return all(left.forgotten and right.forgotten for left, right in pairs)


def _session_of(event: _Event) -> _Session:
    """R1: the session of one row."""
    return _Session(
        side=event.side,
        key=event.key,
        first_us=event.event_us,
        last_us=event.event_us,
        events=[event],
    )


def _latest(one: int | None, other: int | None) -> int | None:
    """The later of two watermarks: it never moves back (R2)."""
    return max((us for us in (one, other) if us is not None), default=None)
