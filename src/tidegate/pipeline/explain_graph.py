"""A pipeline of several operators as a tree for a terminal: who reads whom, and how far behind.

A node stands below the first of its inputs; below the others it is named only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegate.eventtime import US_PER_MS
from tidegate.pipeline.graph import event_time_of, inputs_of, targets_of, times_of
from tidegate.pipeline.masking import masked
from tidegate.pipeline.operators import Bound, Operator, kind_of
from tidegate.pipeline.output_watermark import HoldBack
from tidegate.pipeline.source import ARRIVAL
from tidegate.pipeline.store import StateStore
from tidegate.pipeline.wording import whereabouts
from tidegate.text import duration_text

if TYPE_CHECKING:
    from tidegate.pipeline.pipeline import Pipeline

Row = tuple[str, str]
"""A name, indented by its depth, and what is said beside it."""


def graph_lines(pipeline: Pipeline, bound: Mapping[str, Bound]) -> list[str]:
    """The tree, a root for each source."""
    tree = _Tree(pipeline, bound)
    rows = [row for source in pipeline.sources for row in tree.below(source.name, 0)]
    width = max(len(name) for name, _ in rows) + 2
    return [f"{name:<{width}}{text}".rstrip() for name, text in rows]


@dataclass(frozen=True, slots=True)
class _Tree:
    pipeline: Pipeline
    bound: Mapping[str, Bound]
    drawn: set[str] = field(default_factory=set)

    def below(self, name: str, depth: int) -> Iterator[Row]:
        """A node, and all that reads it."""
        mark = f"{'   ' * (depth - 1)}-> " if depth else ""
        if name in self.drawn:
            yield f"{mark}{name}", "as above"
            return
        self.drawn.add(name)
        texts = [*self._said_of(name)] or [""]
        yield from zip([f"{mark}{name}", *[""] * (len(texts) - 1)], texts, strict=True)
        for reader, inputs in inputs_of(self.pipeline).items():
            if name in inputs:
                yield from self.below(reader, depth + 1)

    def _said_of(self, name: str) -> Iterator[str]:
        operators = {each.id: each for each in self.pipeline.operators}
        if name not in operators:
            return
        operator = operators[name]
        about, *_ = kind_of(operator).state_lines(operator, self.bound.get(name), StateStore())
        keys = f"by {', '.join(operator.group_by)}" if operator.group_by else "without a key"
        yield f"{keys}; {about}"
        for producer in inputs_of(self.pipeline)[name]:
            yield self._edge(operator, producer)
        if (target := targets_of(self.pipeline).get(name)) is not None:
            yield f"writes to {whereabouts(target.format, masked('', target.options))}"

    def _edge(self, operator: Operator, producer: str) -> str:
        column = event_time_of(self.pipeline, operator, producer) or ARRIVAL
        held = times_of(self.pipeline, producer)[column]
        return f"reads {producer} by {column}, {_behind(held)}"


def _behind(held: HoldBack) -> str:
    """How far an edge is behind the watermark of its producer.

    >>> _behind(HoldBack(wait_us=5_001)), _behind(HoldBack(wait_us=0, pane_us=60_000_000))
    ('5 ms 1 us behind its watermark', 'up to 1 min behind its watermark')
    """
    wait_us = held.wait_us + (held.pane_us or 0)
    if not wait_us:
        return "at its watermark"
    ms, us = divmod(wait_us, US_PER_MS)
    parts = [duration_text(ms)] if ms else []
    text = " ".join([*parts, f"{us} us"] if us else parts)
    return f"{'up to ' if held.pane_us else ''}{text} behind its watermark"
