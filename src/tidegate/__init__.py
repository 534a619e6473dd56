"""Tidegate: event-time stream processing on Spark, with state one can see and trust.

    A pipeline is a pure step, `(plan, state, events, watermark) -> (changes, output)`,
    run once per shard per epoch. Spark moves the rows; the state store remembers; nothing
    is seen before it is committed.

The flow: `pipeline` says what to run, `core` says what it means, `testing` proves it. Start
reading at `tidegate.core.step`.
"""

from tidegate.core.local import LocalRun, windows_of
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
