"""A graph of operators (R14, R15, R16): one epoch after another, one operator after another.

    rows -> sources -> edges -> operators -> edges -> operators -> what each sends

Each operator judges its rows by its own watermark before the epoch; then that moves to the
minimum over its inputs.  Times are microseconds; a watermark of None is minus infinity.
"""

import copy
from collections.abc import Mapping, Sequence

from tidegate.errors import WatermarkViolation
from tidegate.testing.forms import Row, ms_of, us_of
from tidegate.testing.graph_form import GraphForm, GraphSource
from tidegate.testing.graph_runner import GraphFed, GraphSent

from .dedupe import DedupeRules
from .edge_expressions import Instant
from .edges import RESERVED, Delivered, Edge, EdgeRow, default_time, edge_watermark
from .graph_nodes import Running, running
from .graph_plan import TIME, Node, plan_of


class SourceClock:
    """R2: the highest time seen - the delay, never back; moved once `advance_threshold` rows came.

    In mode `explicit` rows do not move it.
    """

    def __init__(self, settings: GraphSource, initial_us: int | None) -> None:
        self.watermark_us = initial_us
        self.started = False  # a source without a row yet holds no other (alignment)
        self._settings = settings
        self._highest_us: int | None = None
        self._rows = 0

    def observe(self, times_us: Sequence[int]) -> None:
        self._rows += len(times_us)
        self._highest_us = _latest(self._highest_us, max(times_us, default=None))
        if self._highest_us is not None and self._rows >= self._settings.advance_threshold:
            self._rows = 0
            self.advance(self._highest_us - self._settings.max_out_of_order_ms)

    def advance(self, watermark_us: int) -> None:
        self.watermark_us = _latest(self.watermark_us, int(watermark_us))


class GraphOracle:
    """A whole graph in memory: an engine of graph cases.

    Raises `ConfigError` for a graph that is refused.
    """

    def __init__(self, form: GraphForm) -> None:
        self._nodes = plan_of(form)
        initial_us = None if form.watermark.initial is None else int(form.watermark.initial)
        self._explicit = form.watermark.mode == "explicit"
        self._drift_us = form.watermark.max_drift_ms
        self._clocks = {n: SourceClock(form.settings(n), initial_us) for n in form.sources}
        self._running = {id_: running(node, self._nodes) for id_, node in self._nodes.items()}
        self._edges_us: dict[tuple[str, str], int] = {}  # the highest watermark of each edge
        self._seen = dict.fromkeys(form.sources, 0)
        self._unread: dict[str, list[Row]] = {name: [] for name in form.sources}
        self._idle: set[str] = set()
        self._left_out: set[tuple[str, int]] = set()  # operator, number of the input
        self._run({}, flush=False)  # the first watermark reaches every operator

    # what an engine can do

    def epoch(self, fed: GraphFed) -> GraphSent:
        held = self._held()
        for source, rows in fed.rows.items():
            self._unread[source] += rows
        self._idle -= {*fed.active, *(name for name, rows in fed.rows.items() if rows)}
        for source, us in fed.advance_us.items():
            self._clocks[source].advance(us)
            self._clocks[source].started = True
            self._idle.discard(source)
        read = self._read([name for name in self._clocks if name not in held])
        self._idle |= {*fed.idle}
        return self._run(read, flush=False, held=held)

    def flush(self) -> GraphSent:
        """R15: the last epoch reads what alignment held, and empties the left-out set."""
        sent = self._run(self._read(list(self._clocks)), flush=True)
        self._idle, self._left_out = set(), set()
        return sent

    def restart(self) -> None:
        self._running, self._clocks = copy.deepcopy((self._running, self._clocks))

    def close(self) -> None:
        """There is nothing to clean up."""

    # sources

    def _held(self) -> list[str]:
        """Alignment, judged before the epoch: sources that are too far ahead of the slowest."""
        counting = [
            clock.watermark_us
            for name, clock in self._clocks.items()
            if clock.started and name not in self._idle and clock.watermark_us is not None
        ]
        if self._drift_us is None or not counting:
            return []
        limit_us = min(counting) + self._drift_us
        return [
            name
            for name, clock in self._clocks.items()
            if clock.watermark_us is not None and clock.watermark_us > limit_us
        ]

    def _read(self, sources: Sequence[str]) -> dict[str, list[EdgeRow]]:
        """The rows of these sources, placed; those without a time are rejected (R9, R12)."""
        read: dict[str, list[EdgeRow]] = {}
        for name in sources:
            rows = [self._placed(name, row) for row in self._unread[name]]
            self._unread[name] = []
            read[name] = [row for row in rows if row.columns[TIME] is not None]
            self._clocks[name].started |= bool(read[name])
            if not self._explicit:
                self._clocks[name].observe([row.columns[TIME] for row in read[name]])
        return read

    def _placed(self, source: str, row: Row) -> EdgeRow:
        assert not RESERVED & row.keys(), f"a column of {source} has a name that the oracle uses"
        node, offset = self._nodes[source], self._seen[source]
        self._seen[source] += 1
        time = None if row[TIME] is None else Instant(us_of(row[TIME]))
        columns = dict.fromkeys(sorted(node.columns.names)) | row | {TIME: time}
        return EdgeRow(columns=columns, lane=node.number, offset=offset)

    # one epoch of everything

    def _run(
        self, read: Mapping[str, list[EdgeRow]], *, flush: bool, held: Sequence[str] = ()
    ) -> GraphSent:
        delivered: dict[str, Delivered] = {}
        for id_, node in self._nodes.items():
            run = self._running[id_]
            if id_ in self._clocks:
                inputs = [self._own_edge(node).carry(read.get(id_, []))]
                watermark_us = self._clocks[id_].watermark_us
            else:
                inputs = [edge.carry(delivered[edge.producer].edge) for edge in node.inputs]
                watermark_us = self._moved(node, run)
            take = run.flush if flush else run.epoch
            delivered[id_] = take(inputs, watermark_us)
        return GraphSent(
            rows={name: [_written(row) for row in each.sent] for name, each in delivered.items()},
            watermarks_us={id_: self._output_us(node) for id_, node in self._nodes.items()},
            late={name: each.late for name, each in delivered.items()},
            duplicates={name: each.duplicates for name, each in delivered.items()},
            duplicate_differs={name: each.differing for name, each in delivered.items()},
            held=held,
        )

    def _own_edge(self, source: Node) -> Edge:
        """What stands between a source and its dedupe."""
        rules = source.rules
        needed = (*rules.key, *rules.id) if isinstance(rules, DedupeRules) else ()
        return Edge(producer=source.id, time_column=TIME, needed=needed)

    # watermarks

    def _edge_us(self, edge: Edge) -> int | None:
        """R16: the watermark of an edge, which never moves back."""
        output, run = self._nodes[edge.producer].output, self._running[edge.producer]
        found_us = edge_watermark(output, edge.time_column, run.promised_us())
        if found_us is None:
            return None
        was_us = self._edges_us.get((edge.producer, edge.time_column), found_us)
        if found_us < was_us:
            raise WatermarkViolation(edge.producer, was_us, found_us)
        self._edges_us[edge.producer, edge.time_column] = found_us
        return found_us

    def _output_us(self, node: Node) -> int | None:
        """The lowest over the edges to its readers; of a sink, by its default time column."""
        edges = [e for each in self._nodes.values() for e in each.inputs if e.producer == node.id]
        sink = Edge(producer=node.id, time_column=default_time(node.output))
        return _lowest([self._edge_us(edge) for edge in edges or [sink]])

    def _moved(self, node: Node, run: Running) -> int | None:
        """R16: the minimum over the inputs that count, never back.

        While none counts it stays; when the sources of all are idle it is the highest (R2).
        """
        inputs_us = [self._edge_us(edge) for edge in node.inputs]
        for nth, edge in enumerate(node.inputs):
            self._leave_out_or_not(node, nth, edge, inputs_us[nth], run.watermark_us)
        counting = [us for n, us in enumerate(inputs_us) if (node.id, n) not in self._left_out]
        if counting:
            return _latest(run.watermark_us, _lowest(counting))
        if all(self._all_idle(edge) for edge in node.inputs):
            return _latest(run.watermark_us, *inputs_us)
        return run.watermark_us

    def _leave_out_or_not(
        self, node: Node, nth: int, edge: Edge, input_us: int | None, watermark_us: int | None
    ) -> None:
        """R2, R16: an input is left out from when all its sources are idle and its producers hold
        nothing unsent, until it has caught up with the watermark of its reader.
        """
        if self._all_idle(edge):
            if not any(self._running[each].unsent() for each in self._upstream(edge.producer)):
                self._left_out.add((node.id, nth))
        elif watermark_us is None or (input_us is not None and input_us >= watermark_us):
            self._left_out.discard((node.id, nth))

    def _all_idle(self, edge: Edge) -> bool:
        return self._idle >= self._upstream(edge.producer) & self._clocks.keys()

    def _upstream(self, id_: str) -> set[str]:
        """A node and all that it reads, directly or not."""
        inputs = self._nodes[id_].inputs
        return {id_}.union(*(self._upstream(edge.producer) for edge in inputs))


def _latest(*watermarks_us: int | None) -> int | None:
    """The latest of several watermarks."""
    return max((us for us in watermarks_us if us is not None), default=None)


def _lowest(watermarks_us: Sequence[int | None]) -> int | None:
    """The minimum rule: one that is minus infinity holds all."""
    known = [us for us in watermarks_us if us is not None]
    return min(known) if len(known) == len(watermarks_us) else None


def _written(row: Row) -> Row:
    """A row as a case writes it: instants in ms."""
    return {name: _value(value) for name, value in row.items()}


def _value(value: object) -> object:
    if isinstance(value, list):
        return [_value(each) for each in value]
    return ms_of(value) if isinstance(value, Instant) else value
