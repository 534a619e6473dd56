"""What is run at night: more of what `make test` has a case of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def at_night(*cases: Any) -> Iterable[Any]:
    """Cases for `make nightly`; one with several values is a tuple."""
    return [
        pytest.param(*(case if isinstance(case, tuple) else [case]), marks=pytest.mark.nightly)
        for case in cases
    ]
