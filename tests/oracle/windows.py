"""Fixed windows and sessions: one epoch after another, one row after another.

Times are microseconds; a watermark of None is minus infinity.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .aggregates import Aggregate, Row, aggregate

Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a pipeline may say about its window; valid already, nothing is checked here."""

    kind: str  # session | tumbling | hopping | cumulate
    group_by: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]
    gap_us: int | None = None
    gap_column: str | None = None  # each row's own gap, in milliseconds
    nonpositive_gap: str = "drop"  # drop | keep
    cap_us: int = 2**61
    width_us: int = 0
    hop_us: int = 0  # tumbling, cumulate: the width
    step_us: int = 0  # cumulate: [s, s + step), [s, s + 2 step), ... [s, s + width)
    offset_us: int = 0
    allowed_lateness_us: int | None = 0  # None: unbounded
    late_data: str = "drop"  # drop | reopen | side_output | dlq | reassign
    max_lateness_us: int = 0
    emit: str = "on_watermark"  # ... on_window_close on_update changelog final every complete
    every_us: int = 0


@dataclass(slots=True)
class OracleEpoch:
    """What one epoch sent and turned away."""

    rows: list[Row] = field(default_factory=list)  # changelog: with `op`, all take-backs first
    retracted: list[Row] = field(default_factory=list)  # group columns, window_start; no changelog
    deleted: list[Row] = field(default_factory=list)  # whole rows of ids that are no more
    edge: list[tuple[int, Row]] = field(default_factory=list)  # R16: -1 or +1; take-backs first
    late: list[tuple[Row, str]] = field(default_factory=list)  # unchanged; "late" or "sealed"
    reassigned: int = 0
    left_out: int = 0  # for a gap that is NULL or not positive
    watermark_us: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    key: Key
    row: Row  # a copy: event_us is the time the row counts at (R5)
    gap_us: int

    @property
    def event_us(self) -> int:
        return int(self.row["event_us"])

    @property
    def taken_back(self) -> bool:
        """R16: whether the row takes an earlier one back; only fixed windows get such rows."""
        return bool(self.row.get("sign", 1) < 0)

    @property
    def place(self) -> tuple[int, int, int]:
        """A row that is taken back has the time and position it was sent with."""
        return self.event_us, int(self.row["lane"]), int(self.row["offset"])


@dataclass(slots=True, kw_only=True)
class _Window:
    key: Key
    start_us: int  # a session's first event
    last_us: int  # a session's last event (fixed windows: not used)
    end_us: int  # a session's highest event + gap
    rows: list[Row]
    sealed: bool = False
    unsent: bool = True  # changed since it was last sent
    out: Row | None = None  # the row the target holds under this id
    on_edge: Row | None = None  # the row that readers hold (R16)
    revision: int = -1  # the highest ever sent, by whatever was merged into it too

    def covers(self, event: _Event) -> bool:
        return self.start_us <= event.event_us <= self.last_us


class Oracle:
    """All windows of one pipeline, held in memory."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._windows: dict[Key, list[_Window]] = {}
        self._watermark_us: int | None = None
        self._flushed_us: int | None = None  # the watermark of the last flush

    def epoch(self, rows: Sequence[Row], watermark_us: int | None) -> OracleEpoch:
        """Take `rows`, judged by the watermark so far, then move it, send, and forget."""
        before, after = self._watermark_us, _latest(self._watermark_us, watermark_us)
        result = OracleEpoch(watermark_us=after)

        gone = self._take(rows, result)
        self._send([w for w in self._held() if self._due(w, before, after)], gone, result)
        self._windows = {
            key: [w for w in windows if not self._forgotten(w.end_us, after)]
            for key, windows in self._windows.items()
        }
        self._watermark_us = after
        return result

    def flush(self, rows: Sequence[Row] = (), watermark_us: int | None = None) -> OracleEpoch:
        """R15: send what is not out, forget everything, and move past all of it.

        In a graph the last epoch has rows too: those that the inputs send in their flush.
        """
        result = OracleEpoch()
        gone = self._take(rows, result)
        lateness_us = self._rules.allowed_lateness_us or 0
        forgotten_us = [w.end_us + lateness_us + 1 for w in self._held()]
        after = _latest(self._watermark_us, max(forgotten_us, default=None))
        result.watermark_us = after = _latest(after, watermark_us)

        complete = self._rules.emit == "complete"
        self._send([w for w in self._held() if w.rows and (w.unsent or complete)], gone, result)
        self._windows = {}
        self._watermark_us = self._flushed_us = after
        return result

    def held(self) -> list[Row]:
        """What is not forgotten: group columns, bounds, and whether it is sealed."""
        return [self._id(w) | {"window_end": w.end_us, "sealed": w.sealed} for w in self._held()]

    def unsent(self) -> bool:
        """Whether something held is still to be sent."""
        return any(w.rows and w.unsent for w in self._held())

    def forgotten_by_flush_us(self) -> int | None:
        """The watermark of the last flush; None: there was none."""
        return self._flushed_us

    # R3: when a window closes, and when it is forgotten

    def _closed(self, end_us: int, watermark_us: int | None, lateness_us: int = 0) -> bool:
        """R3: a fixed window at watermark >= end, a session at watermark > end."""
        if watermark_us is None:
            return False
        if self._rules.kind == "session":
            return watermark_us > end_us + lateness_us
        return watermark_us >= end_us + lateness_us

    def _forgotten(self, end_us: int, watermark_us: int | None) -> bool:
        """R3, the same with + L; with L unbounded only what a flush has passed (R15).

        `complete` ignores the watermark: it sends every window for ever.
        """
        lateness_us = self._rules.allowed_lateness_us
        if lateness_us is None or self._rules.emit == "complete":
            return self._closed(end_us, self._flushed_us)
        return self._closed(end_us, watermark_us, lateness_us)

    # R4, R5: which rows may enter, all judged before any of them does

    def _admit(self, rows: Sequence[Row], result: OracleEpoch) -> list[_Event]:
        """R5: a late row is turned away, or counts at the watermark if it is not late there."""
        admitted = []
        for row in rows:
            event = self._event(row)
            if event is None:
                result.left_out += 1
                continue
            reason = self._reason_late(event)
            moved = self._reassign(event) if reason else None
            if moved:
                event, reason = moved, self._reason_late(moved)
                result.reassigned += reason is None
            if reason:
                result.late.append((row, reason))
            else:
                admitted.append(event)
        return admitted

    def _event(self, row: Row) -> _Event | None:
        """R1: None for a row that is left out because of its gap."""
        gap_us = self._rules.gap_us or 0
        if self._rules.gap_column is not None:
            gap_us = max(row[self._rules.gap_column] or 0, 0) * 1000
            if gap_us == 0 and self._rules.nonpositive_gap == "drop":
                return None
        key = tuple(row[column] for column in self._rules.group_by)
        return _Event(key=key, row=row | {"original_event_ts": None}, gap_us=gap_us)

    def _reason_late(self, event: _Event) -> str | None:
        """R4, by the watermark and the windows held before the epoch."""
        if self._rules.kind != "session":
            ends_us = [end_us for _, end_us in self._spans(event.event_us)]
            all_forgotten = all(self._forgotten(end, self._watermark_us) for end in ends_us)
            return "late" if ends_us and all_forgotten else None

        covering = [w for w in self._windows.get(event.key, []) if w.covers(event)]
        if any(w.sealed for w in covering):
            return "sealed"
        # with a gap column the own gap counts as 0
        own_end_us = event.event_us + (self._rules.gap_us or 0)
        forgotten = self._forgotten(own_end_us, self._watermark_us)
        return "late" if forgotten and not covering else None

    def _reassign(self, event: _Event) -> _Event | None:
        """R5: the row as it counts at the watermark, if that is allowed."""
        watermark_us = self._watermark_us
        if self._rules.late_data != "reassign" or watermark_us is None:
            return None
        if watermark_us - event.event_us > self._rules.max_lateness_us:
            return None
        row = event.row | {"event_us": watermark_us, "original_event_ts": event.event_us}
        return _Event(key=event.key, row=row, gap_us=event.gap_us)

    # R1, R8: rows enter windows; returned are the windows whose ids are no more (R7)

    def _take(self, rows: Sequence[Row], result: OracleEpoch) -> list[_Window]:
        """Rows enter; readers lose the rows of all that changes (R16).

        Returned are also the windows that have no row left: they are deleted if they are out.
        """
        gone = self._enter(self._admit(rows, result))
        gone += [w for w in self._held() if not w.rows]
        for window in [*gone, *self._held()]:
            if window.on_edge is not None and (window.unsent or window in gone):
                result.edge.append((-1, window.on_edge))
                window.on_edge = None
        return gone

    def _enter(self, events: list[_Event]) -> list[_Window]:
        if self._rules.kind != "session":
            for event in sorted(events, key=lambda event: not event.taken_back):
                self._enter_fixed(event)
            return []
        superseded: list[_Window] = []
        for key in dict.fromkeys(event.key for event in events):
            superseded += self._fold(key, [event for event in events if event.key == key])
        return superseded

    def _spans(self, event_us: int) -> list[tuple[int, int]]:
        """All fixed windows [start, end) around a time; none between two when hop > width."""
        rules = self._rules
        newest_us = event_us - (event_us - rules.offset_us) % rules.hop_us
        if rules.kind == "cumulate":
            ends_us = range(
                newest_us + rules.step_us, newest_us + rules.width_us + 1, rules.step_us
            )
            return [(newest_us, end_us) for end_us in ends_us if event_us < end_us]
        starts_us = range(newest_us, event_us - rules.width_us, -rules.hop_us)
        return [(start_us, start_us + rules.width_us) for start_us in starts_us]

    def _enter_fixed(self, event: _Event) -> None:
        """R4: into, or out of, every window around the event that is not forgotten."""
        for start_us, end_us in self._spans(event.event_us):
            if self._forgotten(end_us, self._watermark_us):
                continue
            window = self._fixed_window(event.key, start_us, end_us)
            if not event.taken_back:
                window.rows.append(event.row)
                window.unsent = True
                continue
            for row in window.rows:
                if (row["event_us"], row["lane"], row["offset"]) == event.place:
                    window.rows.remove(row)
                    window.unsent = True
                    break

    def _fixed_window(self, key: Key, start_us: int, end_us: int) -> _Window:
        windows = self._windows.setdefault(key, [])
        for window in windows:
            if (window.start_us, window.end_us) == (start_us, end_us):
                return window
        window = _Window(key=key, start_us=start_us, last_us=end_us, end_us=end_us, rows=[])
        windows.append(window)
        return window

    def _fold(self, key: Key, events: list[_Event]) -> list[_Window]:
        """R8: unsealed sessions and rows from left to right, as one sequence."""
        held = self._windows.get(key, [])
        sealed = [w for w in held if w.sealed]  # those keep their place and take no rows
        items = [w for w in held if not w.sealed]
        events = sorted(events, key=lambda e: (e.event_us, e.row["lane"], e.row["offset"]))
        items += [_session_of(event) for event in events]
        items.sort(key=lambda item: item.start_us)  # stable: held first, then by position

        current, sessions = items[0], [items[0]]
        superseded: list[_Window] = []
        for item in items[1:]:
            touches = item.start_us <= current.end_us
            within_cap = max(current.last_us, item.last_us) - current.start_us < self._rules.cap_us
            if touches and within_cap:
                superseded.append(item)  # its start, and so its id, is gone (R7)
                _absorb(current, item)
            else:
                current.sealed = touches
                current = item
                sessions.append(item)
        self._windows[key] = sealed + sessions
        return superseded

    # R6, R7: what goes out

    def _due(self, window: _Window, before: int | None, after: int | None) -> bool:
        """R6: whether a changed window goes out in the epoch that moves the watermark so."""
        rules = self._rules
        if rules.emit == "complete":
            return bool(window.rows)
        if not window.unsent or not window.rows:
            return False
        if window.sealed or self._forgotten(window.end_us, after):
            return True
        closed = self._closed(window.end_us, after)
        if rules.emit == "on_watermark":
            return closed and rules.late_data == "reopen"
        if rules.emit == "every":
            closes_now = closed and not self._closed(window.end_us, before)
            return closes_now or _ticks(before, after, rules.every_us)
        return rules.emit in ("on_update", "changelog")

    def _send(self, due: list[_Window], gone: list[_Window], result: OracleEpoch) -> None:
        """R6, R7: take back what is no more, then send the current rows."""
        result.deleted = [window.out for window in gone if window.out is not None]
        for window in gone:
            window.out, window.unsent = None, False
        if self._rules.emit != "changelog":
            id_columns = (*self._rules.group_by, "window_start")
            result.retracted = [{name: row[name] for name in id_columns} for row in result.deleted]
            result.rows = [self._current(w, result) for w in due]
            return
        result.rows = [{"op": "-D"} | row for row in result.deleted]
        result.rows += [{"op": "-U"} | w.out for w in due if w.out is not None]
        ops = ["+I" if w.out is None else "+U" for w in due]
        result.rows += [
            {"op": op} | self._current(w, result) for op, w in zip(ops, due, strict=True)
        ]

    def _current(self, window: _Window, result: OracleEpoch) -> Row:
        """The row of a window as it is now, with its revision (R7); from here on it is out."""
        window.revision += 1
        bounds = {"window_end": window.end_us, "revision": window.revision}
        outputs = aggregate(self._rules.aggregates, window.rows)
        window.out = window.on_edge = self._id(window) | bounds | outputs
        window.unsent = False
        result.edge.append((1, window.out))
        return dict(window.out)

    def _id(self, window: _Window) -> Row:
        group = dict(zip(self._rules.group_by, window.key, strict=True))
        return group | {"window_start": window.start_us}

    def _held(self) -> list[_Window]:
        return [w for windows in self._windows.values() for w in windows]


def _session_of(event: _Event) -> _Window:
    """R1: the session of one row."""
    at, end = event.event_us, event.event_us + event.gap_us
    return _Window(key=event.key, start_us=at, last_us=at, end_us=end, rows=[event.row])


def _absorb(session: _Window, later: _Window) -> None:
    """R1, R7: make one session of two; `later` starts no earlier, so the id stays."""
    session.last_us = max(session.last_us, later.last_us)
    session.end_us = max(session.end_us, later.end_us)
    session.rows += later.rows
    session.revision = max(session.revision, later.revision)
    session.unsent = True


def _latest(one: int | None, other: int | None) -> int | None:
    """The later of two watermarks: it never moves back (R2)."""
    return max((us for us in (one, other) if us is not None), default=None)


def _ticks(before: int | None, after: int | None, every_us: int) -> bool:
    """R6: whether floor(watermark / every) grows."""
    if before is None or after is None:
        return after is not None
    return after // every_us > before // every_us
