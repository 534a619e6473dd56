"""Pipelines from Python: by one call, or around a function that transforms the source."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate.errors import ConfigError, Problem
from tidegate.pipeline import (
    Join,
    Pipeline,
    RunSettings,
    Source,
    StateStore,
    Target,
    Watermark,
    Window,
)
from tidegate.pipeline.fingerprint import code_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.engine.loop import Run, RunResult

    TransformFunction = Callable[[DataFrame], DataFrame]

logger = logging.getLogger("tidegate")

_RUN_KEYS = (*RunSettings.model_fields, "spark", "local", "listeners", "on_epoch")


def run_streaming_pipeline(
    *,
    sources: Source | Sequence[Source],
    target: Target,
    window: Window | None = None,
    join: Join | None = None,
    state_store: StateStore | None = None,
    name: str | None = None,
    watermark: Watermark | None = None,
    channels: Mapping[str, Target] | None = None,
    late: Target | None = None,
    rejected: Target | None = None,
    **settings: Any,
) -> RunResult:
    """Make a pipeline and run it to its end; `settings` are those of `RunSettings`.

    The name, under which state is kept, is by default made of the first source and the kind of
    the window or join.
    """
    parts = {"watermark": watermark, "channels": channels, "late": late, "rejected": rejected}
    first = sources if isinstance(sources, Source) else next(iter(sources), None)
    operator = window or join
    kind = operator.kind if operator else "nothing"
    made = Pipeline(
        name=name or f"{first.name if first else 'pipeline'}-{kind}",
        sources=sources,
        target=target,
        window=window,
        join=join,
        state_store=state_store,
        **{key: value for key, value in parts.items() if value is not None},  # type: ignore[arg-type]
    )
    return made.run(**settings)


@dataclass(frozen=True, kw_only=True)
class TransformedPipeline:
    """A pipeline around a function that transforms the rows of its source.

    Called, it is that function. The code of the function is part of the pipeline's fingerprint,
    without comments, layout, docstrings and type hints; code that the function calls is not.
    """

    pipeline: Pipeline
    function: TransformFunction
    settings: Mapping[str, Any]

    def __call__(self, source: DataFrame) -> DataFrame:
        """Transform rows, as the pipeline does."""
        return self.function(source)

    def run(self, **settings: Any) -> RunResult:
        """As `Pipeline.run`; `settings` win over those of the decorator."""
        every = {**self.settings, **settings}
        return _running().run(self.pipeline, function=self.function, **every)  # type: ignore[no-any-return]

    def start(self, **settings: Any) -> Run:
        """As `Pipeline.start`; `settings` win over those of the decorator."""
        every = {**self.settings, **settings}
        return _running().start(self.pipeline, function=self.function, **every)  # type: ignore[no-any-return]

    def explain(self) -> str:
        """As `Pipeline.explain`."""
        return self.pipeline.explain()


def pipeline(**parts: Any) -> Callable[[TransformFunction], TransformedPipeline]:
    """Make a pipeline of the function below: it gets the rows of the source as a DataFrame.

    `parts` are those of `Pipeline`, and settings of `RunSettings`; the name is by default
    that of the function. The function must be a stateless, deterministic transform.
    """
    settings = {key: parts.pop(key) for key in _RUN_KEYS if key in parts}

    def around(function: TransformFunction) -> TransformedPipeline:
        made = Pipeline(**{"name": function.__name__, **parts})
        if len(made.sources) != 1:
            found = f"{len(made.sources)} sources"
            hint = "give each source a transform of its own instead"
            raise ConfigError([Problem("sources", found, "one source for a function", hint)])
        if code_of(function) is None:
            logger.warning(
                "the source code of %s cannot be read: a change of it will not be noticed",
                function.__name__,
            )
        return TransformedPipeline(pipeline=made, function=function, settings=settings)

    return around


def _running() -> Any:
    """The engine: loaded when somebody runs, and not before."""
    return importlib.import_module("tidegate.spark.running")
