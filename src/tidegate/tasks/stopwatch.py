"""Where the time of an epoch goes, in this worker.

What map tasks send must not depend on a clock, so their times stay in the worker, and the
next step that runs there takes them along in its report. They are for people to look at:
nothing depends on them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

_SPENT: dict[str, float] = {}


@contextmanager
def part(name: str) -> Iterator[None]:
    """Count the time until the end of the block as spent on `name`."""
    begun = time.perf_counter()
    try:
        yield
    finally:
        _SPENT[name] = _SPENT.get(name, 0.0) + time.perf_counter() - begun


def taken() -> dict[str, float]:
    """What was spent since the last call."""
    spent = dict(_SPENT)
    _SPENT.clear()
    return spent
