"""Valid data for each part of a pipeline; a test changes what it is about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tidegate.errors import ConfigError, Problem

Data = dict[str, Any]

UNSET = object()
"""As a change: leave the key out."""


def _changed(data: Data, changes: Data) -> Data:
    return {key: value for key, value in {**data, **changes}.items() if value is not UNSET}


def session(**changes: Any) -> Data:
    usual = {
        "kind": "session",
        "gap_ms": 30_000,
        "max_session_duration_ms": 86_400_000,
        "group_by": ["user"],
        "aggregations": [{"kind": "count"}],
    }
    return _changed(usual, changes)


def tumbling(**changes: Any) -> Data:
    return _changed({"kind": "tumbling", "width_ms": 60_000, "aggregations": [COUNT]}, changes)


def hopping(**changes: Any) -> Data:
    return tumbling(**{"kind": "hopping", "hop_ms": 10_000, **changes})


def source(**changes: Any) -> Data:
    return _changed({"name": "clicks", "format": "memory", "event_time": "ts"}, changes)


def pipeline(**changes: Any) -> Data:
    usual = {
        "name": "visits",
        "sources": [source()],
        "window": session(),
        "target": {"format": "memory"},
        "state_store": {},
    }
    return _changed(usual, changes)


COUNT: Data = {"kind": "count"}


def problems_of(build: Callable[[], object]) -> tuple[Problem, ...]:
    """What the error says that `build` must raise."""
    with pytest.raises(ConfigError) as caught:
        build()
    return caught.value.problems


def places(problems: tuple[Problem, ...]) -> list[str]:
    return [problem.at for problem in problems]
