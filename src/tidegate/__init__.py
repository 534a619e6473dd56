"""Tidegate: event-time stream processing on Spark, with state one can see and trust.

    A pipeline is a pure step, `(plan, state, events, watermark) -> (changes, output)`,
    run once per shard per epoch. Spark moves the rows; the state store remembers; nothing
    is seen before it is committed.

The flow: `pipeline` says what to run, `core` says what it means, `sources`, `state` and `targets`
are the outside, `spark` runs it, `testing` proves it. Start reading at `tidegate.core.step`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tidegate.errors import ConfigError, TidegateError
from tidegate.frontends.fluent import Stream, pipeline_of, stream
from tidegate.frontends.python import pipeline, run_streaming_pipeline
from tidegate.frontends.toml import PipelineFile, load_pipeline
from tidegate.pipeline import (
    Aggregation,
    Join,
    Pipeline,
    RunSettings,
    Source,
    StateStore,
    Target,
    Watermark,
    Window,
)

if TYPE_CHECKING:
    from tidegate.core.local import windows_of
    from tidegate.sources import memory_stream
    from tidegate.targets import memory_table

__all__ = [
    "Aggregation",
    "ConfigError",
    "Join",
    "Pipeline",
    "PipelineFile",
    "RunSettings",
    "Source",
    "StateStore",
    "Stream",
    "Target",
    "TidegateError",
    "Watermark",
    "Window",
    "load_pipeline",
    "memory_stream",
    "memory_table",
    "pipeline",
    "pipeline_of",
    "run_streaming_pipeline",
    "stream",
    "windows_of",
]


_LOADED_WHEN_USED = {
    "windows_of": "tidegate.core.local",
    "memory_stream": "tidegate.sources",
    "memory_table": "tidegate.targets",
}


def __getattr__(name: str) -> Any:
    """Load the core with its array libraries only for whoever computes.

    A pipeline can be written, checked and explained without them.
    """
    if name in _LOADED_WHEN_USED:
        return getattr(importlib.import_module(_LOADED_WHEN_USED[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
