"""What all tests share: fixtures as plug-ins, and how long properties are searched."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.fix_kafka", "tests.fix_postgres", "tests.fix_spark"]

os.environ.setdefault("POLARS_MAX_THREADS", "1")  # as in a Spark worker

settings.register_profile(
    "tidegate",
    deadline=None,
    max_examples=int(os.environ.get("TIDEGATE_EXAMPLES", "60")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("tidegate")

SLOW_FIRST = (
    "tests/faults/test_kafka",
    "tests/faults",
    "tests/scenarios/test_scenarios_on_spark",
    "tests/unit/test_",
    "tests/integration",
    "tests/unit/targets/test_kafka",
    "tests/scenarios/test_joins_on_spark",
    "tests/unit/sources/test_kafka",
    "tests/unit/cli",
    "tests/properties",
)
"""Files whose tests take seconds each: begun last, one of them would be waited for alone."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes long; within that, the order is whatever it was."""

    def place(item: pytest.Item) -> int:
        found = (nth for nth, each in enumerate(SLOW_FIRST) if item.nodeid.startswith(each))
        return next(found, len(SLOW_FIRST))

    items.sort(key=place)
