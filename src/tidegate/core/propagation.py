"""Watermarks through a graph of operators: each passes on what it has heard, held back.

    sources -> [watermark] -> operator -> operator -> sinks

An operator that keeps rows sends results that are older than what it has heard, so its
output watermark is the least of its inputs minus what it holds back. No edge ever carries
a smaller watermark than before: an operator that tries has broken its promise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from typing import TypedDict

from tidegate.errors import ConfigError, Problem, WatermarkViolation
from tidegate.eventtime import BEGINNING, FOREVER, plus


class PropagationState(TypedDict):
    """What is committed: the last watermark that each source and operator has sent."""

    sent_us: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """An operator of the graph; its inputs are sources and other operators, by name.

    `hold_back_us` = `FOREVER` sends nothing on until the input is over.
    """

    id: str
    inputs: tuple[str, ...]
    hold_back_us: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """An acyclic graph of operators over sources: `ConfigError` names all that is wrong with one.

    A source that no operator reads counts for nothing.
    """

    sources: tuple[str, ...]
    operators: tuple[Node, ...]

    def __post_init__(self) -> None:
        problems = [*_name_problems(self), *_node_problems(self)] or _cycle_problems(self)
        if problems:
            raise ConfigError(problems)

    @property
    def in_order(self) -> tuple[Node, ...]:
        """The operators, each after all that it reads from."""
        by_id = {node.id: node for node in self.operators}
        order = TopologicalSorter(_inputs_by_id(self)).static_order()
        return tuple(by_id[name] for name in order if name in by_id)

    @property
    def sinks(self) -> tuple[str, ...]:
        """The operators that no operator reads from."""
        read = {name for node in self.operators for name in node.inputs}
        return tuple(node.id for node in self.operators if node.id not in read)


@dataclass(frozen=True, slots=True, kw_only=True)
class Propagation:
    """The watermark that each source and each operator of a graph has sent last.

    All edges out of one node carry the same watermark; `BEGINNING` before the first.
    """

    graph: Graph
    sent_us: Mapping[str, int] = field(default_factory=dict)

    def advance(
        self, source_us: Mapping[str, int], *, hold_back_us: Mapping[str, int] | None = None
    ) -> Propagation:
        """Send the sources' new watermarks through the whole graph.

        A source that is not named stays where it is. `hold_back_us` says for single
        operators what they hold back in this step, in place of what the graph says.
        Raises `WatermarkViolation`, naming the operator (or source), on a step back.
        """
        held_us = {node.id: node.hold_back_us for node in self.graph.operators}
        _check_named(source_us, self.graph.sources)
        _check_named(hold_back_us or {}, held_us)
        held_us |= hold_back_us or {}

        sent = _sending(self, source_us)
        for node in self.graph.in_order:
            output_us = _held_back(sent.heard_us(node.id), held_us[node.id])
            sent = _sending(sent, {node.id: output_us})
        return sent

    def output_us(self, name: str) -> int:
        """Tell the watermark that a source or operator has sent last."""
        return self.sent_us.get(name, BEGINNING)

    def heard_us(self, operator: str) -> int:
        """Tell the watermark that an operator closes by: the least of its inputs."""
        inputs = next(node.inputs for node in self.graph.operators if node.id == operator)
        return min(self.output_us(name) for name in inputs)

    @property
    def global_us(self) -> int:
        """The least watermark of the sinks: all output before it is out."""
        return min((self.output_us(sink) for sink in self.graph.sinks), default=BEGINNING)

    def to_dict(self) -> PropagationState:
        """Give what to commit with the epoch, as plain JSON values."""
        return PropagationState(sent_us=dict(sorted(self.sent_us.items())))

    def restored(self, committed: PropagationState) -> Propagation:
        """Bring this graph as far along as `committed` says, forgetting nodes it does not have."""
        names = {*self.graph.sources, *(node.id for node in self.graph.operators)}
        sent_us = {name: us for name, us in committed["sent_us"].items() if name in names}
        return replace(self, sent_us=sent_us)


def _sending(before: Propagation, outputs_us: Mapping[str, int]) -> Propagation:
    for name, us in outputs_us.items():
        if us < before.output_us(name):
            raise WatermarkViolation(name, before.output_us(name), us)
    return replace(before, sent_us={**before.sent_us, **outputs_us})


def _held_back(heard_us: int, hold_back_us: int) -> int:
    if hold_back_us >= FOREVER and heard_us < FOREVER:
        return BEGINNING
    return plus(heard_us, -hold_back_us)


def _inputs_by_id(graph: Graph) -> dict[str, tuple[str, ...]]:
    return {node.id: node.inputs for node in graph.operators}


def _name_problems(graph: Graph) -> list[Problem]:
    uses = Counter([*graph.sources, *(node.id for node in graph.operators)])
    return [
        Problem(f"operators.{name}", f"{times} sources or operators of this name", "one")
        for name, times in uses.items()
        if times > 1
    ]


def _node_problems(graph: Graph) -> list[Problem]:
    names = {*graph.sources, *(node.id for node in graph.operators)}
    return [problem for node in graph.operators for problem in _problems_of(node, names)]


def _problems_of(node: Node, names: set[str]) -> list[Problem]:
    at, known = f"operators.{node.id}", ", ".join(sorted(names))
    problems = [
        Problem(f"{at}.inputs", repr(name), f"a source or operator of the plan ({known})")
        for name in node.inputs
        if name not in names
    ]
    if not node.inputs:
        problems.append(Problem(f"{at}.inputs", "none", "at least one source or operator"))
    if node.hold_back_us < 0:
        problems.append(Problem(f"{at}.hold_back_us", str(node.hold_back_us), "at least 0"))
    return problems


def _cycle_problems(graph: Graph) -> list[Problem]:
    try:
        TopologicalSorter(_inputs_by_id(graph)).prepare()
    except CycleError as error:
        around: list[str] = error.args[1]
        hint = "let one of them read from a source instead"
        return [Problem("operators", f"a cycle: {' -> '.join(around)}", "no cycle", hint)]
    return []


def _check_named(given: Iterable[str], names: Iterable[str]) -> None:
    known = set(names)
    unknown = sorted(set(given) - known)
    if unknown:
        raise ValueError(f"found {unknown[0]!r}, expected one of {sorted(known)}")
