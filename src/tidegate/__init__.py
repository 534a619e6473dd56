"""Tidegate: event-time stream processing on Spark, with state one can see and trust.

    A pipeline is a pure step, `(plan, state, events, watermark) -> (changes, output)`,
    run once per shard per epoch. Spark moves the rows; the state store remembers; nothing
    is seen before it is committed.

The flow: `pipeline` says what to run, `core` says what it means, `testing` proves it. Start
reading at `tidegate.core.step`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tidegate.errors import ConfigError, TidegateError
from tidegate.pipeline import (
    Aggregation,
    Pipeline,
    Source,
    StateStore,
    Target,
    Watermark,
    Window,
)

if TYPE_CHECKING:
    from tidegate.core.local import LocalRun, windows_of

__all__ = [
    "Aggregation",
    "ConfigError",
    "LocalRun",
    "Pipeline",
    "Source",
    "StateStore",
    "Target",
    "TidegateError",
    "Watermark",
    "Window",
    "windows_of",
]


def __getattr__(name: str) -> Any:
    """Load the core with its array libraries only for whoever computes.

    A pipeline can be written, checked and explained without them.
    """
    if name in ("LocalRun", "windows_of"):
        return getattr(importlib.import_module("tidegate.core.local"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
