"""Pipelines as a chain of calls that reads like the graph.

    stream(source) -> .where .select .window .join .to -> pipeline_of(name, streams) -> Pipeline

Every call makes a new value and changes none. Windows and joins take the keywords of `Window` and
`Join`; what they read follows from where they stand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tidegate.errors import ConfigError, Problem
from tidegate.pipeline import Join, Pipeline, Source, Target, Window


@dataclass(frozen=True, kw_only=True)
class Stream:
    """Rows of a source, window or join, and how the next window reads them."""

    node: Source | Window | Join
    inputs: tuple[Stream, ...] = ()
    reading: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What its readers call it."""
        return self.node.name if isinstance(self.node, Source) else self.node.id

    def where(self, condition: str) -> Stream:
        """Only the rows for which an SQL condition is true; several must all hold."""
        before = self.reading.get("where")
        both = condition if before is None else f"({before}) AND ({condition})"
        return self._read(where=both)

    def select(self, **columns: str) -> Stream:
        """Instead of all columns these, as SQL by name, and the event time."""
        return self._read(select=columns)

    def by_time(self, column: str) -> Stream:
        """Read by this time column, such as `window_start`, and not by the default."""
        return self._read(event_time=column)

    def window(self, **keys: Any) -> Stream:
        """A window over these rows; `keys` are those of `Window`."""
        made = Window(**{"inputs": self.name, **self.reading, **keys})
        return Stream(node=made, inputs=(self._whole(),))

    def join(self, right: Stream, **keys: Any) -> Stream:
        """These rows on the left, joined with others; `keys` are those of `Join`."""
        reading = {**right.reading, **self.reading}
        made = Join(**{"left": self.name, "right": right.name, **reading, **keys})
        return Stream(node=made, inputs=(self._whole(), right._whole()))

    def to(self, target: Target) -> Stream:
        """Write the results to a target, and go on with them."""
        if isinstance(self.node, Source) or self.reading:
            hint = "call window or join in front of it"
            raise ConfigError([Problem("to", self.name, "the results of a window or join", hint)])
        return replace(self, node=type(self.node)(**{**dict(self.node), "target": target}))

    def _read(self, **changes: Any) -> Stream:
        return replace(self, reading={**self.reading, **changes})

    def _whole(self) -> Stream:
        return replace(self, reading={}) if self.reading else self


def stream(source: Source) -> Stream:
    """Begin with the rows of a source."""
    return Stream(node=source)


def pipeline_of(name: str, *streams: Stream, **parts: Any) -> Pipeline:
    """Make a pipeline of all that these streams are made of; `parts` are those of `Pipeline`.

    Sources and operators come in the order in which they are met, inputs first.
    """
    met = set[int]()
    nodes = list[Source | Window | Join]()
    for each in streams:
        for node in _nodes(each, met):
            if node not in nodes:  # the same source may begin two streams
                nodes.append(node)
    sources = [node for node in nodes if isinstance(node, Source)]
    operators = [node for node in nodes if not isinstance(node, Source)]
    return Pipeline(name=name, sources=sources, operators=operators, **parts)


def _nodes(of: Stream, met: set[int]) -> Sequence[Source | Window | Join]:
    """What a stream is made of, without what was met by its `id`."""
    if id(of) in met:
        return ()
    met.add(id(of))
    behind = [node for each in of.inputs for node in _nodes(each, met)]
    return [*behind, of.node]
