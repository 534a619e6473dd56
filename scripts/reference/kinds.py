"""Which keys each kind of window and join has: found by trying, so it is what the rules say."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any, Final

from scripts.reference.fields import value_of
from scripts.reference.markdown import code, table
from tidegate.errors import ConfigError
from tidegate.pipeline.validation import Value

_ALWAYS: Final[Mapping[str, Mapping[str, Any]]] = {
    "Window": {"aggregations": [{"kind": "count"}]},
    "Join": {"left": "a", "right": "b", "on": "k"},
}
_MINIMAL: Final[Mapping[str, Mapping[str, Mapping[str, Any]]]] = {
    "Window": {
        "session": {"gap_ms": 1, "max_session_duration_ms": 9, "group_by": "k"},
        "tumbling": {"width_ms": 4},
        "hopping": {"width_ms": 4, "hop_ms": 2},
    },
    "Join": {
        "interval": {"time_window_ms": 1},
        "tumbling_tumbling": {"size_ms": 4},
        "tumbling_sliding": {"left_size_ms": 4, "right_size_ms": 4, "right_slide_ms": 2},
        "session_session": {"gap_ms": 1, "max_session_duration_ms": 9},
    },
}
"""Of each kind one that is right, and with a key less is not."""
_TRIED: Final[Mapping[str, Mapping[str, Any]]] = {
    "Window": {
        **{"gap_ms": 1, "gap_column": "g", "max_session_duration_ms": 9},
        **{"width_ms": 4, "hop_ms": 2, "offset_ms": 1},
    },
    "Join": {
        **{"min_delta_ms": 0, "max_delta_ms": 5, "time_window_ms": 1, "max_state_age_ms": 5},
        **{"min_inclusive": False, "max_inclusive": False, "size_ms": 4, "offset_ms": 1},
        **{"left_size_ms": 4, "right_size_ms": 4, "right_slide_ms": 2, "match": "same_pane"},
        **{"gap_ms": 1, "max_session_duration_ms": 9, "output": "pairs"},
    },
}
"""A value for each key that not every kind has."""
_NOT_OF_KIND: Final = re.compile(r"no \w+ for ")


def kinds(model: str) -> str:
    """Which of the keys that not every kind has it needs, and which it may have."""
    rows = []
    for kind, minimal in _MINIMAL[model].items():
        needs = [_Need(model, kind, name) for name in minimal]
        stand_in = {name for need in needs for names in need.instead for name in names}
        may = [
            name
            for name, value in _TRIED[model].items()
            if name not in stand_in | minimal.keys() and _may_have(model, kind, {name: value})
        ]
        words = (", ".join(map(str, needs)), ", ".join(map(code, may)) or "-")
        rows.append((code(json.dumps(kind)), *words))
    return table(("kind", "needs", "may have"), rows)


class _Need:
    """A key that a kind cannot do without, and the smallest sets of keys that do instead."""

    def __init__(self, model: str, kind: str, name: str) -> None:
        rest = {key: value for key, value in _MINIMAL[model][kind].items() if key != name}
        if not _problems(model, kind, rest):
            raise ValueError(f"{model} of kind {kind!r} does not need {name}")
        self.name = name
        self.instead = [*_smallest(model, kind, rest, without=name)]

    def __str__(self) -> str:
        ways = [(self.name,), *self.instead]
        return " or ".join(" with ".join(map(code, names)) for names in ways)


def _smallest(
    model: str, kind: str, rest: Mapping[str, Any], *, without: str
) -> Iterator[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    others = [name for name in _TRIED[model] if name != without and name not in rest]
    for names in (*combinations(others, 1), *combinations(others, 2)):
        added = {name: _TRIED[model][name] for name in names}
        if not any({*names} > {*each} for each in found) and not _problems(
            model, kind, {**rest, **added}
        ):
            found.append(names)
            yield names


def _may_have(model: str, kind: str, more: Mapping[str, Any]) -> bool:
    told = _problems(model, kind, {**_MINIMAL[model][kind], **more})
    return not any(_NOT_OF_KIND.match(expected) for expected in told)


def _problems(model: str, kind: str, data: Mapping[str, Any]) -> list[str]:
    """What was expected where the value is refused."""
    value: type[Value] = value_of(model)
    try:
        value.from_dict({**_ALWAYS[model], "kind": kind, **data})
    except ConfigError as error:
        return [problem.expected for problem in error.problems]
    return []
