"""How to run a pipeline: nothing here is part of it, or of the fingerprint of its state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tidegate.errors import Problem
from tidegate.pipeline.fieldtypes import PositiveMs
from tidegate.pipeline.validation import Rule, Value

KEY_GROUPS = 256
"""Keys are placed in so many groups, which shards share: the most shards there can be."""


def flush_needs_an_end(settings: RunSettings) -> Iterator[Problem]:
    """A run without an end is stopped, and goes on when it is started again."""
    if settings.on_end == "flush" and settings.mode == "continuous":
        hint = "stop it, then run once with mode='available_now', on_end='flush'"
        yield Problem("on_end", "'flush'", "'keep' for mode='continuous'", hint)


class RunSettings(Value):
    """The mode and the sizes of one run; every one of them may differ in the next."""

    mode: Literal["available_now", "continuous"] = "available_now"
    """`available_now` reads what there is and ends, `continuous` goes on until it is stopped."""
    on_end: Literal["keep", "flush"] = "keep"
    """At the end of the input: keep open windows for the next run, or send and forget them."""
    max_rows_per_epoch: Annotated[int, Field(gt=0)] = 1_000_000
    """About how many rows one epoch takes at most; an epoch never makes its own rows late."""
    shards: Annotated[int, Field(ge=1, le=KEY_GROUPS)] | None = None
    """In how many parts state is kept and stepped; by default as many as Spark has cores."""
    poll_interval_ms: PositiveMs = 500
    """How long a continuous run waits before it asks sources again that had nothing."""

    rules: ClassVar[tuple[Rule, ...]] = (flush_needs_an_end,)
