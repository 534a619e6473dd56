"""How much is run: by day, and at night more of what `make test` has a case of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings


def at_night(*cases: Any) -> Iterable[Any]:
    """Cases for `make nightly`; one with several values is a tuple."""
    return [
        pytest.param(*(case if isinstance(case, tuple) else [case]), marks=pytest.mark.nightly)
        for case in cases
    ]


def examples(share: float) -> settings:
    """So many of the examples that other properties are searched with, by day and at night."""
    return settings(max_examples=max(1, round(settings().max_examples * share)))
