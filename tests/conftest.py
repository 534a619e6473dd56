"""What all tests share: fixtures as plug-ins, which worker runs what, how long properties search.

    faults      runs that are killed: a Spark, a Kafka and a PostgreSQL that may be harmed
    kafka       Kafka without Spark: mostly waits for the broker
    spark       everything else on Spark
    postgres    PostgreSQL without Spark, and what else is no unit test
    the rest    needs no server, or starts its own: a file at a time, wherever there is room

A group stays on one worker, so each server is started once for it. Where a file stands says what
it needs.
"""

from __future__ import annotations

import os
import re
from typing import Final

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

pytest_plugins = ["tests.fix_kafka", "tests.fix_packages", "tests.fix_postgres", "tests.fix_spark"]

pytest.register_assert_rewrite(
    "tidegate.testing.aggregate_contract",
    "tidegate.testing.contracts",
    "tidegate.testing.depot_contract",
    "tidegate.testing.reset_contract",
    "tidegate.testing.source_contract",
    "tidegate.testing.target_contract",
)

os.environ.setdefault("POLARS_MAX_THREADS", "1")  # as in a Spark worker

settings.register_profile(
    "tidegate",
    deadline=None,
    max_examples=int(os.environ.get("TIDEGATE_EXAMPLES", "60")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("tidegate")

GROUPS: Final = (
    ("faults", re.compile(r"tests/faults/")),
    ("kafka", re.compile(r"tests/services/kafka/(?!.*_on_spark)")),
    ("alone", re.compile(r"tests/services/\w+/test_(demo|notebook)\.py")),
    ("spark", re.compile(r"tests/services/(spark|cli|documents)/|.*_on_spark\.py")),
    ("postgres", re.compile(r"tests/services/")),
    ("properties", re.compile(r"tests/properties/")),
)
"""By where a file stands, in the order in which they begin: the longest first. Each file that is
alone, or has properties, is a group of its own; by night, when each killed run has a JVM of its own
anyway, so is each file of faults."""

FILE_BY_FILE: Final = {"alone", "properties"} | (
    {"faults"} if os.getenv("TIDEGATE_OWN_JVM") else set()
)


def group_of(nodeid: str) -> tuple[int, str]:
    """The place of a test's group in the order, and its name."""
    file = nodeid.partition("::")[0]
    for place, (name, files) in enumerate(GROUPS):
        if files.match(file):
            return place, file if name in FILE_BY_FILE else name
    return len(GROUPS), file


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the groups in order; within a group the order is whatever it was."""
    items.sort(key=lambda item: group_of(item.nodeid)[0])


class ByGroup(LoadScopeScheduling):  # type: ignore[misc]  # xdist says no types
    """Gives a worker a whole group."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)[1]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByGroup:
    """How tests come to workers."""
    return ByGroup(config, log)
