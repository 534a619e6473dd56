"""Random graphs of up to four operators, valid by R16, and rows for them in random epochs.

A graph is a case as a scenario file has it, so that any engine of graphs can run it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from hypothesis import strategies as st

Row = dict[str, Any]
Given = tuple[str, Row]
"""A row and the source it comes from."""

_EMITS = ("on_watermark", "on_window_close", "on_update", "changelog", "every", "final")
_CORRECTING = ("on_update", "changelog", "every")
_TAKE_BACK = ("count_col", "sum", "avg")
_ANY = (*_TAKE_BACK, "min", "max", "first", "last", "count_distinct", "values")
_JOIN_TYPES = ("inner", "left", "right", "full", "semi", "anti")


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """What readers must know of a node."""

    id: str
    times: tuple[str, ...]
    """Its time columns, the default first; none: it cannot be read."""
    numbers: tuple[str, ...]
    keyed: bool
    """Whether its rows have the column `user`."""
    corrects: bool = False


@dataclass(frozen=True, kw_only=True)
class Graph:
    """Sources and operators as a case has them."""

    sources: dict[str, Row]
    operators: tuple[Row, ...]

    def case(self, steps: Sequence[Sequence[Given]], *, initial: int | None = None) -> Row:
        """A case that feeds it these rows, one step after another, and compares every operator."""
        fed = [
            {"rows": {s: [row for of, row in step if of == s] for s in self.sources}, "expect": {}}
            for step in steps
        ]
        return {
            "kind": "graph",
            "sources": self.sources,
            "operators": list(self.operators),
            "watermark": {"mode": "per_batch", "initial": initial},
            "outputs": [operator["id"] for operator in self.operators],
            "steps": fed,
            "final": {},
        }

    def sent_once(self) -> Graph:
        """The same graph, in which each window sends once."""
        once = {"emit": "on_window_close", "late_data": "drop", "every_ms": None}
        operators = [
            operator | {"window": operator["window"] | once} if "window" in operator else operator
            for operator in self.operators
        ]
        return replace(self, operators=tuple(operators))


@st.composite
def graphs(draw: st.DrawFn, *, lateness: bool = True) -> Graph:
    """One or two sources and up to four operators, each reading any nodes before it."""
    delay_ms = st.sampled_from((0, 5, 20))
    sources: dict[str, Row] = {n: {"max_out_of_order_ms": draw(delay_ms)} for n in ("s", "t")}
    nodes = [Drawn(id=name, times=("ts",), numbers=("v",), keyed=True) for name in sources]
    operators: list[Row] = []
    for nth in range(draw(st.sampled_from((4, 3, 2, 1)))):
        operator, node = draw(_operators(f"o{nth}", nodes, lateness=lateness))
        operators.append(operator)
        nodes.append(node)
    read = {each[side] for each in operators for side in ("from", "left", "right") if side in each}
    used = {name: sources[name] for name in sources if name in read}
    return Graph(sources=used, operators=tuple(operators))


@st.composite
def _operators(
    draw: st.DrawFn, id_: str, nodes: Sequence[Drawn], *, lateness: bool
) -> tuple[Row, Drawn]:
    """An operator over any readable nodes; the last ones are more likely, so chains are."""
    readable = [node for node in nodes if node.times]
    producer = draw(st.sampled_from([*readable[:1:-1], *readable[:1:-1], *readable]))
    edge: Row = {
        "id": id_,
        "from": producer.id,
        "event_time": draw(st.sampled_from(producer.times)),
    }
    if draw(st.integers(0, 3)) == 3:
        edge["where"] = f"{draw(st.sampled_from(producer.numbers))} > {draw(st.integers(-2, 2))}"
    lateness_ms = draw(st.sampled_from((0, 0, 3, 15))) if lateness else 0
    if producer.corrects:
        return draw(_fixed(edge, producer, lateness_ms))
    partners = [node for node in readable if node.keyed and not node.corrects]
    kinds = ["fixed", "fixed", "stateless"]
    if producer.keyed:
        kinds += ["session", "session", "join", "join"]
        kinds += ["dedupe"] if producer.id in ("s", "t") else []
    kind = draw(st.sampled_from(kinds))
    if kind == "join":
        return draw(_joins(id_, producer, draw(st.sampled_from(partners)), lateness_ms))
    if kind == "session":
        return draw(_sessions(edge, producer, lateness_ms))
    if kind == "fixed":
        return draw(_fixed(edge, producer, lateness_ms))
    if kind == "dedupe":
        edge["dedupe"] = {"id": ["id"], "horizon_ms": 1000, "scope": "global"}
    return edge, replace(producer, id=id_, times=(edge["event_time"],))


@st.composite
def _sending(draw: st.DrawFn, lateness_ms: int) -> Row:
    """How a window is sent."""
    emit = draw(st.sampled_from(_EMITS))
    keys: Row = {"emit": emit, "allowed_lateness_ms": lateness_ms}
    if emit == "every":
        keys["every_ms"] = draw(st.sampled_from((1, 10, 40)))
    if emit == "on_watermark" and draw(st.booleans()):
        keys["late_data"] = "reopen"
    return keys


def _corrects(window: Row) -> bool:
    return window["emit"] in _CORRECTING or window.get("late_data") == "reopen"


@st.composite
def _fixed(draw: st.DrawFn, edge: Row, producer: Drawn, lateness_ms: int) -> tuple[Row, Drawn]:
    step_ms, steps = draw(st.integers(1, 12)), draw(st.integers(1, 4))
    kind = draw(st.sampled_from(("tumbling", "tumbling", "hopping", "cumulate")))
    shape: Row = {"kind": kind, "width_ms": step_ms * steps}
    if kind == "hopping":
        shape["hop_ms"] = draw(st.integers(1, 2 * step_ms))
    if kind == "cumulate":
        shape["step_ms"] = step_ms
    if kind != "cumulate":
        shape["offset_ms"] = draw(st.integers(-5, 5))
    window = shape | draw(_sending(lateness_ms))
    keyed = producer.keyed and draw(st.booleans())
    kinds = _TAKE_BACK if producer.corrects else _ANY
    return draw(_window(edge, producer, window, keyed=keyed, kinds=kinds))


@st.composite
def _sessions(draw: st.DrawFn, edge: Row, producer: Drawn, lateness_ms: int) -> tuple[Row, Drawn]:
    """Without a cap that a stream reaches: disorder across epochs may cut elsewhere (R13)."""
    shape = {"kind": "session", "gap_ms": draw(st.integers(1, 10)), "max_session_duration_ms": 5000}
    window = shape | draw(_sending(lateness_ms))
    return draw(_window(edge, producer, window, keyed=True, kinds=_ANY))


@st.composite
def _window(
    draw: st.DrawFn, edge: Row, producer: Drawn, window: Row, *, keyed: bool, kinds: Sequence[str]
) -> tuple[Row, Drawn]:
    """A window, its `n` a count and its `a` an aggregate that is a number."""
    column = draw(st.sampled_from(producer.numbers))
    names = {"a": draw(st.sampled_from([k for k in kinds if k != "values"]))}
    names |= {"b": draw(st.sampled_from(kinds))}
    operator = edge | {
        "window": window,
        "group_by": ["user"] if keyed else [],
        "aggregates": {"n": "count"} | {name: f"{kind}({column})" for name, kind in names.items()},
    }
    node = Drawn(
        id=edge["id"],
        times=("window_time", "window_start"),
        numbers=("n", "a"),
        keyed=keyed,
        corrects=_corrects(window),
    )
    return operator, node


@st.composite
def _joins(
    draw: st.DrawFn, id_: str, left: Drawn, right: Drawn, lateness_ms: int
) -> tuple[Row, Drawn]:
    type_ = draw(st.sampled_from(_JOIN_TYPES))
    join: Row = {"type": type_, "allowed_lateness_ms": lateness_ms}
    times = ["match_ts", "left_event_ts", "right_event_ts"]
    if draw(st.booleans()):
        lower_ms = draw(st.integers(-10, 10))
        join |= {"lower_ms": lower_ms, "upper_ms": lower_ms + draw(st.integers(0, 15))}
    else:
        times = ["match_ts"]
        join["window"] = {"kind": "tumbling", "width_ms": draw(st.integers(1, 20))}
    numbers = left.numbers
    if type_ in ("semi", "anti"):
        times = [name for name in times if name != "right_event_ts"]
    else:
        both = {*left.numbers} & {*right.numbers}
        numbers = tuple(f"left_{name}" if name in both else name for name in left.numbers)
        numbers += tuple(f"right_{name}" if name in both else name for name in right.numbers)
    operator = {"id": id_, "left": left.id, "right": right.id, "join": join, "on": ["user"]}
    return operator, Drawn(id=id_, times=tuple(times), numbers=numbers, keyed=True)


# rows


@st.composite
def given_rows(draw: st.DrawFn, graph: Graph, *, disorder: bool) -> list[Given]:
    """Rows of all sources in order of arrival; an id says which row it is, wherever it repeats.

    Without disorder none is further behind than the delay of its source allows, so none is late.
    They come from a seed, since values that are drawn one by one are too often alike.
    """
    random, rows = Random(draw(st.integers(0, 2**32))), list[Given]()
    latest_ms = dict.fromkeys(graph.sources, 0)
    for nth in range(draw(st.sampled_from((16, 12, 8, 4, 2, 0)))):
        source = random.choice(sorted(graph.sources))
        behind_ms = 60 if disorder else graph.sources[source]["max_out_of_order_ms"]
        ts = latest_ms[source] + random.randint(-behind_ms, 25)
        latest_ms[source] = max(latest_ms[source], ts)
        user, value = random.choice("aab"), random.choice((None, -3, 0, 1, 2))
        rows.append((source, {"ts": ts, "user": user, "v": value, "id": nth}))
        if random.randrange(8) == 0:
            rows.append(rows[-1])
    return rows


def split(rows: Sequence[Given], cuts: Sequence[int]) -> list[list[Given]]:
    """The rows in epochs that end at these places; at least one epoch."""
    ends = sorted({*(cut for cut in cuts if cut < len(rows)), len(rows)})
    return [list(rows[start:end]) for start, end in zip([0, *ends], ends, strict=False)]


cuts = st.lists(st.integers(0, 16), max_size=8)
