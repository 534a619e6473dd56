"""What all tests share: fixtures as plug-ins, and how long properties are searched."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.fix_postgres", "tests.fix_spark"]

os.environ.setdefault("POLARS_MAX_THREADS", "1")  # as in a Spark worker

settings.register_profile(
    "tidegate",
    deadline=None,
    max_examples=int(os.environ.get("TIDEGATE_EXAMPLES", "100")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("tidegate")
