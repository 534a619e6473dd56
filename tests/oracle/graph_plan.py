"""A graph as values (R16), and which graphs are refused.

GraphForm -> [plan_of] -> nodes in an order in which inputs come first
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from tidegate.errors import ConfigError, Problem
from tidegate.eventtime import US_PER_MS
from tidegate.testing.graph_form import GraphForm, GraphOperator

from .aggregates import Aggregate, Row
from .dedupe import DedupeRules
from .edge_expressions import SqlExpression
from .edges import (
    Edge,
    FixedWindows,
    IntervalJoin,
    Output,
    PaneJoin,
    Passing,
    Sessions,
    Unreadable,
    default_time,
    single,
)
from .join_scenarios import rules_of as join_rules_of
from .joins import JoinRules
from .windows import Rules

TIME = "ts"
_NO_CAP_MS = 10**12
_TAKES_BACK = ("count", "count_col", "sum", "avg")
_BOUNDS = ("window_start", "window_end", "window_time")


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Names of columns; a source may have others: a case does not say which it has."""

    names: frozenset[str]
    others: bool = False

    def lack(self, name: str) -> bool:
        return not self.others and name not in self.names


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A source or an operator: its number, what it reads, and its rules."""

    id: str
    number: int
    inputs: tuple[Edge, ...]
    output: Output
    rules: Rules | JoinRules | DedupeRules | None  # None: a source without dedupe, or stateless
    columns: Columns

    @property
    def lateness_us(self) -> int | None:
        """L; None: unbounded."""
        rules = self.rules
        return rules.allowed_lateness_us if isinstance(rules, Rules | JoinRules) else 0


def plan_of(form: GraphForm) -> dict[str, Node]:
    """The nodes by id, sources first, each operator behind its inputs.

    Raises `ConfigError` with all that is wrong; what depends on the shape of the graph is only
    looked at once that is sound.
    """
    problems = [*_names(form), *_shape(form)]
    ordered = [] if problems else _in_order(form, problems)
    problems += [each for operator in form.operators for each in _alone(operator)]
    if problems:
        raise ConfigError(problems)

    nodes = {name: _source(form, nth, name) for nth, name in enumerate(form.sources)}
    for nth, operator in enumerate(ordered, start=len(nodes)):
        problems += _between(form, operator, nodes)
        nodes[operator.id] = _operator(operator, nth, nodes)
    problems += [each for name in form.sources for each in _dedupe_on(form, name)]
    if problems:
        raise ConfigError(problems)
    return nodes


# what is wrong with names and shape


def _names(form: GraphForm) -> Iterator[Problem]:
    known = [*form.sources, *(operator.id for operator in form.operators)]
    for name in dict.fromkeys(name for name in known if known.count(name) > 1):
        yield Problem(f"operators.{name}", "an id that is used twice", "an id of its own")
    for operator in form.operators:
        for name in operator.inputs:
            if name not in known:
                at, expected = f"operators.{operator.id}", f"one of {', '.join(known)}"
                yield Problem(at, f"the input {name}", expected, _near(name, known))
    for name in form.outputs or ():
        if name not in known:
            yield Problem("outputs", name, "an operator")


def _shape(form: GraphForm) -> Iterator[Problem]:
    read = {name for operator in form.operators for name in operator.inputs}
    for name in form.sources:
        if name not in read:
            expected = "an operator that reads it: its rows go nowhere"
            yield Problem(f"sources.{name}", "no reader", expected)
    if not form.sources or not form.operators:
        yield Problem("", "no sources or no operators", "at least one of each")


def _in_order(form: GraphForm, problems: list[Problem]) -> list[GraphOperator]:
    """Every operator behind its inputs; a cycle is a problem."""
    ordered: list[GraphOperator] = []
    waiting = list(form.operators)
    while waiting:
        known = {*form.sources, *(each.id for each in ordered)}
        ready = [each for each in waiting if known.issuperset(each.inputs)]
        if not ready:
            names = ", ".join(each.id for each in waiting)
            problems.append(Problem("operators", f"a cycle among {names}", "inputs before readers"))
            return []
        ordered += ready
        waiting = [each for each in waiting if each not in ready]
    return ordered


# what is wrong with one operator, whatever it reads


def _alone(operator: GraphOperator) -> Iterator[Problem]:
    at = f"operators.{operator.id}"
    if operator.window is not None:
        yield from _window_alone(at, operator, operator.window)
    if operator.join is not None:
        if not operator.keys:
            yield Problem(f"{at}.on", "no columns", "the columns by which rows match")
        for name in ("where", "select", "event_time"):
            if getattr(operator, name) is not None:
                yield Problem(f"{at}.{name}", "two inputs", "an operator with one input")
    if operator.dedupe is not None:
        yield from _dedupe_alone(f"{at}.dedupe", operator.dedupe)
        if operator.dedupe.get("scope") == "key" and not operator.group_by:
            yield Problem(f"{at}.group_by", "none", "the key columns of a dedupe with scope key")


def _window_alone(at: str, operator: GraphOperator, window: Row) -> Iterator[Problem]:
    kind = window.get("kind")
    if kind == "session" and not operator.group_by:
        yield Problem(f"{at}.group_by", "none", "the key columns of a session")
    if kind == "cumulate" and window["width_ms"] % window["step_ms"]:
        expected = f"a multiple of the step, {window['step_ms']}"
        yield Problem(f"{at}.window.width_ms", str(window["width_ms"]), expected)


def _dedupe_alone(at: str, dedupe: Row) -> Iterator[Problem]:
    if not dedupe.get("id"):
        yield Problem(f"{at}.id", "none", "the columns of a message id")
    if dedupe.get("scope") not in ("key", "global"):
        yield Problem(f"{at}.scope", str(dedupe.get("scope")), "key or global")
    if dedupe.get("horizon_ms") is None:
        yield Problem(f"{at}.horizon_ms", "none", "how long an id may come again, in ms")


# what is wrong between an operator and its inputs


def _between(form: GraphForm, operator: GraphOperator, nodes: dict[str, Node]) -> Iterator[Problem]:
    for name in operator.inputs:
        producer = nodes[name]
        yield from _readable(operator, producer)
        if name not in form.sources:
            yield from _corrected(operator, form.operator(name))
    yield from _columns_there(operator, nodes)


def _readable(operator: GraphOperator, producer: Node) -> Iterator[Problem]:
    at, times = f"operators.{operator.id}", producer.output.delays_us()
    if isinstance(producer.output, Unreadable):
        yield Problem(
            f"{at}.from", producer.id, f"an operator that can be read: {producer.output.why}"
        )
    elif operator.event_time is not None and operator.event_time not in times:
        found = f"{operator.event_time}, which is no time column of {producer.id}"
        yield Problem(f"{at}.event_time", found, f"one of {', '.join(times)}")


def _corrected(operator: GraphOperator, producer: GraphOperator) -> Iterator[Problem]:
    """R16: only fixed windows whose aggregates take rows back read what corrects itself."""
    at = f"operators.{operator.id}"
    if not producer.corrects_itself:
        return
    because = f"{producer.id} corrects itself"
    if operator.window is None or operator.window.get("kind") == "session":
        what = "a session" if operator.window else "no window"
        yield Problem(at, what, f"a fixed window, since {because}")
        return
    for aggregate in aggregates_of(operator):
        if aggregate.kind not in _TAKES_BACK:
            found = f"{aggregate.kind}({aggregate.input_column})"
            expected = f"one of {', '.join(_TAKES_BACK)}, since {because}"
            yield Problem(f"{at}.aggregates.{aggregate.output_name}", found, expected)


def _columns_there(operator: GraphOperator, nodes: dict[str, Node]) -> Iterator[Problem]:
    at = f"operators.{operator.id}"
    producers = [nodes[name] for name in operator.inputs]
    if operator.join is not None:
        for producer in producers:
            yield from _missing(f"{at}.on", operator.keys, producer.columns)
        return
    written = {"where": operator.where} | (operator.select or {})
    for name, text in written.items():
        if text is not None:
            columns = SqlExpression(text).columns
            yield from _missing(f"{at}.{name}", sorted(columns), producers[0].columns)
    edge = edge_of(operator, producers[0])
    if edge.time_column in (operator.select or {}):
        expected = f"another name: the event time flows on as {edge.time_column}"
        yield Problem(f"{at}.select", edge.time_column, expected)
    columns_left = _behind(edge, producers[0])
    yield from _missing(f"{at}.group_by", operator.group_by or (), columns_left)
    for each in aggregates_of(operator):
        if each.input_column is not None:
            where = f"{at}.aggregates.{each.output_name}"
            yield from _missing(where, [each.input_column], columns_left)
    id_ = _listed((operator.dedupe or {}).get("id", ()))
    yield from _missing(f"{at}.dedupe.id", id_, columns_left)


def _missing(at: str, wanted: Sequence[str], there: Columns) -> Iterator[Problem]:
    for name in wanted:
        if there.lack(name):
            expected = f"one of {', '.join(sorted(there.names))}"
            yield Problem(at, f"the column {name}", expected, _near(name, there.names))


def _near(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, known, n=1)
    return f"did you mean {near[0]}?" if near else ""


def _dedupe_on(form: GraphForm, source: str) -> Iterator[Problem]:
    """R14: scope key is the key of the readers, so they must have one and the same."""
    at, dedupe = f"sources.{source}.dedupe", form.settings(source).dedupe
    if dedupe is None:
        return
    yield from _dedupe_alone(at, dedupe)
    readers = [each for each in form.operators if source in each.inputs]
    if dedupe.get("scope") == "key" and single(_key_of(each) for each in readers) is None:
        found = ", ".join(f"{each.id} by {_key_of(each)}" for each in readers)
        yield Problem(f"{at}.scope", f"key, with the readers {found}", "readers with one key")


def _key_of(reader: GraphOperator) -> tuple[str, ...] | None:
    """The key of a reader; None: it has none."""
    if reader.join is not None:
        return reader.keys
    if reader.window is None and not reader.group_by:
        return None
    return tuple(reader.group_by or ())


# nodes


def _source(form: GraphForm, number: int, name: str) -> Node:
    dedupe = form.settings(name).dedupe
    rules = None
    if dedupe is not None and not list(_dedupe_alone("", dedupe)):
        readers = [each for each in form.operators if name in each.inputs]
        key = single(_key_of(each) for each in readers) if dedupe["scope"] == "key" else ()
        rules = _dedupe_rules(dedupe, key or ())
    rows = [row for step in form.steps for row in step.fed.get(name, [])]
    columns = Columns(names=frozenset([TIME, *(n for row in rows for n in row)]), others=True)
    output = Passing(event_time=TIME)
    return Node(id=name, number=number, inputs=(), output=output, rules=rules, columns=columns)


def _operator(operator: GraphOperator, number: int, nodes: dict[str, Node]) -> Node:
    producers = [nodes[name] for name in operator.inputs]
    edges = tuple(edge_of(operator, producer) for producer in producers)
    if operator.window is not None:
        rules: Any = window_rules(operator)
        output: Output = _output_of_window(operator, rules)
        outputs = [each.output_name for each in rules.aggregates]
        columns = Columns(names=frozenset([*rules.group_by, *_BOUNDS, *outputs]))
    elif operator.join is not None:
        rules = replace(join_rules_of(operator.join), on=operator.keys)
        output, columns = _output_of_join(operator.join, rules), _joined(rules, producers)
    else:
        rules = None
        if operator.dedupe is not None:
            key = operator.group_by or () if operator.dedupe["scope"] == "key" else ()
            rules = _dedupe_rules(operator.dedupe, key)
        output, columns = Passing(event_time=edges[0].time_column), _behind(edges[0], producers[0])
    return Node(
        id=operator.id, number=number, inputs=edges, output=output, rules=rules, columns=columns
    )


def edge_of(operator: GraphOperator, producer: Node) -> Edge:
    """What stands between a producer and an operator."""
    select = operator.select
    return Edge(
        producer=producer.id,
        time_column=operator.event_time or default_time(producer.output),
        where=None if operator.where is None else SqlExpression(operator.where),
        select=None if select is None else {n: SqlExpression(t) for n, t in select.items()},
        needed=tuple(_read_by(operator)),
    )


def _read_by(operator: GraphOperator) -> Iterator[str]:
    """The columns that an operator cannot do without: they are NULL where no row has them."""
    yield from operator.group_by or ()
    yield from operator.keys
    yield from _listed((operator.dedupe or {}).get("id", ()))
    yield from (a.input_column for a in aggregates_of(operator) if a.input_column is not None)
    if operator.window is not None and (gap_column := window_rules(operator).gap_column):
        yield gap_column


def _listed(names: str | Sequence[str]) -> Sequence[str]:
    return [names] if isinstance(names, str) else names


def _behind(edge: Edge, producer: Node) -> Columns:
    """The columns a reader finds."""
    if edge.select is not None:
        return Columns(names=frozenset([*edge.select, edge.time_column]))
    return producer.columns


def _output_of_window(operator: GraphOperator, rules: Rules) -> Output:
    if operator.complete:
        return Unreadable(why=f"{operator.id} sends its complete table each time")
    if rules.kind == "session":
        gap_us = None if rules.gap_column else rules.gap_us
        return Sessions(gap_us=gap_us, cap_us=rules.cap_us)
    return FixedWindows(width_us=rules.width_us)


def _output_of_join(join: Row, rules: JoinRules) -> Output:
    if rules.kind == "interval":
        if join.get("lower_ms") is None or join.get("upper_ms") is None:
            return Unreadable(why="the join has an open bound")
        return IntervalJoin(type=rules.type, lower_us=rules.lower_us, upper_us=rules.upper_us)
    if rules.kind == "tumbling_tumbling":
        return PaneJoin(size_us=rules.size_us, offset_us=rules.offset_us)
    return Unreadable(why=f"the join is of kind {rules.kind}")


def _joined(rules: JoinRules, producers: Sequence[Node]) -> Columns:
    left, right = (producer.columns for producer in producers)
    if rules.type in ("semi", "anti"):
        return Columns(names=left.names | {"left_event_ts", "match_ts"}, others=left.others)
    renamed = join_columns(rules.on, left.names, right.names)
    names = [*rules.on, *renamed[0].values(), *renamed[1].values()]
    times = ["left_event_ts", "right_event_ts", "match_ts"]
    return Columns(names=frozenset([*names, *times]), others=left.others or right.others)


def join_columns(
    on: Sequence[str], left: frozenset[str], right: frozenset[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """The names of the columns of both sides, but the keys, in the rows of their join."""
    both = left & right
    return (
        {name: f"left_{name}" if name in both else name for name in left - {*on}},
        {name: f"right_{name}" if name in both else name for name in right - {*on}},
    )


# rules of single operators


def window_rules(operator: GraphOperator) -> Rules:
    """What a window says, in the oracle's words; what it leaves out has its default."""
    window = {name: value for name, value in (operator.window or {}).items() if value is not None}
    lateness = window.get("allowed_lateness_ms", 0)
    own_gaps = window["kind"] == "session" and "gap_ms" not in window
    width_ms = window.get("width_ms", 0)
    return Rules(
        kind=window["kind"],
        group_by=tuple(operator.group_by or ()),
        aggregates=tuple(aggregates_of(operator)),
        gap_us=None if own_gaps else _us(window.get("gap_ms", 0)),
        gap_column=window.get("gap_column", "gap_ms") if own_gaps else None,
        nonpositive_gap=window.get("nonpositive_gap", "drop"),
        cap_us=_us(window.get("max_session_duration_ms", _NO_CAP_MS)),
        width_us=_us(width_ms),
        hop_us=_us(window.get("hop_ms", width_ms)),
        step_us=_us(window.get("step_ms", 0)),
        offset_us=_us(window.get("offset_ms", 0)),
        allowed_lateness_us=None if lateness == "unbounded" else _us(lateness),
        late_data=window.get("late_data", "drop"),
        max_lateness_us=_us(window.get("max_lateness_ms", 0)),
        emit=window.get("emit", "on_watermark"),
        every_us=_us(window.get("every_ms", 0)),
    )


def aggregates_of(operator: GraphOperator) -> list[Aggregate]:
    """`count`, or `f(column)`; `count(column)` counts values, `values` is `collect`."""
    if operator.window is None:
        return []
    written = {"count": "count"} if operator.aggregates is None else operator.aggregates
    return [_aggregate(name, text) for name, text in written.items()]


def _aggregate(name: str, text: str) -> Aggregate:
    found = re.fullmatch(r"\s*(\w+)\s*(?:\(\s*(\w+|\*)?\s*\))?\s*", text)
    assert found is not None, f"{name}: expected f(column), found {text}"
    kind, column = found[1], None if found[2] in (None, "*") else found[2]
    kind = "count_col" if kind == "count" and column else {"values": "collect"}.get(kind, kind)
    return Aggregate(kind=kind, input_column=column, output_name=name)


def _dedupe_rules(dedupe: Row, key: Sequence[str]) -> DedupeRules:
    return DedupeRules(
        id=tuple(_listed(dedupe["id"])),
        key=tuple(key),
        horizon_us=_us(dedupe["horizon_ms"]),
    )


def _us(ms: float) -> int:
    return round(ms * US_PER_MS)
