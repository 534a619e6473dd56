"""The operators of a graph while it runs: the oracles of windows, joins and dedupe, on edges."""

from collections.abc import Sequence
from typing import Protocol

from .aggregates import Row
from .dedupe import DedupeOracle, DedupeRules
from .edge_expressions import Instant
from .edges import Delivered, EdgeRow, columns_of, hashed
from .graph_plan import Node, join_columns
from .joins import JoinOracle, JoinRules
from .windows import Oracle, OracleEpoch, Rules

_WORDS = {"+I": "insert", "-D": "delete", "-U": "update_before", "+U": "update_after"}


class Running(Protocol):
    """One operator; every input is a list of rows as its edge carries them."""

    watermark_us: int | None  # its own; None: minus infinity

    def epoch(self, inputs: Sequence[list[Row]], watermark_us: int | None) -> Delivered:
        """Judge the rows by the watermark so far, then move it."""
        ...

    def flush(self, inputs: Sequence[list[Row]], watermark_us: int | None) -> Delivered:
        """R15: the same, then send what is not out, and forget everything."""
        ...

    def unsent(self) -> bool:
        """Whether it holds something that is still to be sent."""
        ...

    def promised_us(self) -> int | None:
        """W - L (R16); with L unbounded only what a flush has passed."""
        ...


class RunningWindow:
    def __init__(self, node: Node, rules: Rules) -> None:
        self.watermark_us: int | None = None
        self._node, self._rules, self._oracle = node, rules, Oracle(rules)

    def epoch(self, inputs: Sequence[list[Row]], watermark_us: int | None) -> Delivered:
        return self._delivered(self._oracle.epoch(inputs[0], watermark_us))

    def flush(self, inputs: Sequence[list[Row]], watermark_us: int | None) -> Delivered:
        return self._delivered(self._oracle.flush(inputs[0], watermark_us))

    def unsent(self) -> bool:
        return self._oracle.unsent()

    def promised_us(self) -> int | None:
        lateness_us = self._rules.allowed_lateness_us
        if lateness_us is None:
            return self._oracle.forgotten_by_flush_us()
        return None if self.watermark_us is None else self.watermark_us - lateness_us

    def _delivered(self, epoch: OracleEpoch) -> Delivered:
        self.watermark_us = epoch.watermark_us
        if self._rules.emit == "changelog":
            sent = [self._columns(row) | {"op": _WORDS[row["op"]]} for row in epoch.rows]
        else:
            gone = [] if self._rules.emit == "complete" else epoch.deleted
            sent = [self._columns(row) | {"op": "delete"} for row in gone]
            sent += [self._columns(row) for row in epoch.rows]
        edge = [self._edge_row(sign, row) for sign, row in epoch.edge]
        return Delivered(sent=sent, edge=edge, late=len(epoch.late))

    def _columns(self, row: Row) -> Row:
        """A window row as FORM.md has it, with the revision."""
        start, end = Instant(row["window_start"]), Instant(row["window_end"])
        times = {"window_start": start, "window_end": end, "window_time": Instant(end - 1)}
        return row | times

    def _edge_row(self, sign: int, row: Row) -> EdgeRow:
        """The id of a session is its start (R7), that of a fixed window its bounds."""
        identity = [row[column] for column in (*self._rules.group_by, "window_start")]
        if self._rules.kind != "session":
            identity.append(row["window_end"])
        offset = hashed(identity)
        return EdgeRow(columns=self._columns(row), lane=self._node.number, offset=offset, sign=sign)


class RunningJoin:
    def __init__(self, node: Node, rules: JoinRules, left: Sequence[str], right: Sequence[str]):
        self.watermark_us: int | None = None
        self._node, self._rules, self._oracle = node, rules, JoinOracle(rules)
        self._left_names, self._right_names = join_columns(
            rules.on, frozenset(left), frozenset(right)
        )

    def epoch(self, inputs: Sequence[list[Row]], watermark_us: int | None) -> Delivered:
        epoch = self._oracle.epoch(inputs[0], inputs[1], watermark_us)
        self.watermark_us = epoch.watermark_us
        rows = [self._row(*pair) for pair in epoch.pairs]
        return Delivered(sent=[r.columns for r in rows], edge=rows, late=len(epoch.late))

    def flush(self, inputs: Sequence[list[Row]], watermark_us: int | None) -> Delivered:
        """Match what has come, then let go of everything."""
        matched = self.epoch(inputs, None)
        flushed = self._oracle.flush()
        rows = [*matched.edge, *(self._row(*pair) for pair in flushed.pairs)]
        moved = self._oracle.epoch([], [], watermark_us)
        self.watermark_us = moved.watermark_us
        return Delivered(sent=[row.columns for row in rows], edge=rows, late=matched.late)

    def unsent(self) -> bool:
        return self._oracle.unsent()

    def promised_us(self) -> int | None:
        lateness_us = self._rules.allowed_lateness_us
        return None if self.watermark_us is None else self.watermark_us - lateness_us

    def _row(self, left: Row | None, right: Row | None) -> EdgeRow:
        sides = (left or {}, right or {})
        times = [side["event_us"] for side in sides if side]
        one_side = self._rules.type in ("semi", "anti")
        columns = self._left_columns(sides[0]) if one_side else self._both_columns(*sides)
        columns["match_ts"] = Instant(max(times))
        places = [(side.get("lane"), side.get("offset")) for side in sides]
        return EdgeRow(columns=columns, lane=self._node.number, offset=hashed(places))

    def _left_columns(self, left: Row) -> Row:
        """Semi, anti: the rows of the left side as they are."""
        return columns_of(left) | {"left_event_ts": _time_of(left)}

    def _both_columns(self, one: Row, other: Row) -> Row:
        columns = {name: (one or other)[name] for name in self._rules.on}
        columns |= {new: one.get(name) for name, new in self._left_names.items()}
        columns |= {new: other.get(name) for name, new in self._right_names.items()}
        return columns | {"left_event_ts": _time_of(one), "right_event_ts": _time_of(other)}


def _time_of(row: Row) -> Instant | None:
    return Instant(row["event_us"]) if row else None


class RunningDedupe:
    """R14: rows pass with the position they have; a flush forgets no id."""

    def __init__(self, rules: DedupeRules) -> None:
        self.watermark_us: int | None = None
        self._oracle = DedupeOracle(rules)

    def epoch(self, inputs: Sequence[list[Row]], watermark_us: int | None) -> Delivered:
        epoch = self._oracle.epoch(inputs[0], watermark_us)
        self.watermark_us = watermark_us
        delivered = _passed(epoch.rows)
        delivered.late, delivered.duplicates = epoch.late, epoch.duplicates
        delivered.differing = epoch.differing
        return delivered

    flush = epoch

    def unsent(self) -> bool:
        return False

    def promised_us(self) -> int | None:
        return self.watermark_us


class RunningStateless:
    def __init__(self) -> None:
        self.watermark_us: int | None = None

    def epoch(self, inputs: Sequence[list[Row]], watermark_us: int | None) -> Delivered:
        self.watermark_us = watermark_us
        return _passed(inputs[0])

    flush = epoch

    def unsent(self) -> bool:
        return False

    def promised_us(self) -> int | None:
        return self.watermark_us


def _passed(rows: Sequence[Row]) -> Delivered:
    passed = [
        EdgeRow(columns=columns_of(row), lane=row["lane"], offset=row["offset"]) for row in rows
    ]
    return Delivered(sent=[row.columns for row in passed], edge=passed)


def running(node: Node, nodes: dict[str, Node]) -> Running:
    """What runs a node: a source is stateless, or a dedupe."""
    rules = node.rules
    if isinstance(rules, Rules):
        return RunningWindow(node, rules)
    if isinstance(rules, JoinRules):
        left, right = (nodes[edge.producer].columns.names for edge in node.inputs)
        return RunningJoin(node, rules, sorted(left), sorted(right))
    return RunningStateless() if rules is None else RunningDedupe(rules)
