"""Runs with state and results in PostgreSQL that are killed come to the same, row for row."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.clicks import EPOCHS, SETTINGS, note_of_epoch
from tests.faults.postgres_clicks import MODULE, Found, Places, found, pipeline
from tests.faults.processes import driver
from tests.postgres_server import Server
from tidegate.postgres.pool import close_idle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TOGETHER, APART = "together", "apart"
_LONGEST_S = 0.8
"""About what three epochs take."""
_AHEAD = 4
"""So many epochs behind what is committed a run that is to be killed is held at the latest."""
_KILLS = 3

Homes = Callable[[str], Path]
Undisturbed = Callable[[], Found]


@pytest.fixture
def homes(tmp_path: Path, postgres_server: Server) -> Iterator[Homes]:
    """Folders of runs, each with schemas of its own; results beside the state, or elsewhere."""
    made = []

    def home(where: str) -> Path:
        state = postgres_server.new_place()
        other = postgres_server.new_place_elsewhere() if where == APART else None
        made.extend([state] if other is None else [state, other])
        folder = tmp_path / f"run-{len(made)}"
        Places(state=state, other=other).write(folder)
        return folder

    yield home
    close_idle()
    for place in made:
        postgres_server.drop(place)


@pytest.fixture(scope="module")
def undisturbed(
    spark: SparkSession, postgres_server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Undisturbed:
    """What the clicks come to, wherever the results are."""

    @cache
    def run() -> Found:
        folder = tmp_path_factory.mktemp("undisturbed")
        Places(state=postgres_server.new_place()).write(folder)
        pipeline(folder).run(spark=spark, shards=2, **SETTINGS)
        return found(folder)

    return run


def assert_same(came: Found, expected: Found) -> None:
    assert len(expected.tables["main"]) > 500
    assert len(expected.tables["rejected"]) > 50
    for table, rows in expected.tables.items():
        missing, more = {*rows} - {*came.tables[table]}, {*came.tables[table]} - {*rows}
        assert not missing, f"{len(missing)} rows of {table} are missing: {sorted(missing)[:3]}"
        assert not more, f"{len(more)} rows of {table} are too many: {sorted(more)[:3]}"
        assert len(came.tables[table]) == len(rows)
    assert came == expected


@pytest.mark.parametrize(
    ("where", "fault", "shards"),
    [
        (TOGETHER, "step:6", 2),
        (TOGETHER, "staged:7", 2),
        (TOGETHER, "committing:4", 1),
        (TOGETHER, "committed:5", 2),
        (APART, "commit:3", 2),
        (APART, "publishing:5", 1),
    ],
)
def test_a_run_killed_at_a_point_comes_to_the_same(
    spark: SparkSession, homes: Homes, undisturbed: Undisturbed, where: str, fault: str, shards: int
) -> None:
    folder = homes(where)
    with driver(MODULE, folder, {"shards": shards}, fault=fault) as run:
        run.wait_at_fault()
        run.kill()
    assert 0 < found(folder).epoch < EPOCHS
    pipeline(folder).run(spark=spark, shards=2, **SETTINGS)
    assert_same(found(folder), undisturbed())


POINTS = (
    *("plan:4", "map:2", "step:2", "compaction:2", "staged:2"),
    *("commit:4", "committing:4", "committed:4"),
)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("where", "fault"),
    [
        *((TOGETHER, point) for point in POINTS),
        *((APART, point) for point in (*POINTS, "publishing:3")),
    ],
)
def test_a_run_killed_at_each_point_and_in_its_garbage_comes_to_the_same(
    spark: SparkSession, homes: Homes, undisturbed: Undisturbed, where: str, fault: str
) -> None:
    folder = homes(where)
    with driver(MODULE, folder, {"shards": 1}, fault=fault) as run:
        run.wait_at_fault()
        run.kill()
    with driver(MODULE, folder, {"shards": 1}, fault="garbage:1") as run:
        run.wait_at_fault()
        run.kill()
    assert found(folder).epoch < EPOCHS
    pipeline(folder).run(spark=spark, shards=2, **SETTINGS)
    assert_same(found(folder), undisturbed())


def killed_at_random(folder: Path, chance: random.Random) -> None:
    """Kill the driver, or all of its processes, some time after its first epoch is out.

    It is held in a commit some epochs later: so it never ends before it is killed.
    """
    done = found(folder).epoch
    fault = f"committing:{min(_AHEAD, EPOCHS - done)}"
    settings = {"shards": chance.choice([1, 2, 4])}
    with driver(MODULE, folder, settings, fault=fault, own_jvm=True) as run:
        run.wait_until(note_of_epoch(folder, done + 1))
        with suppress(subprocess.TimeoutExpired):
            run.process.wait(chance.uniform(0, _LONGEST_S))
        assert run.process.poll() is None, run.said()
        if chance.random() < 0.4:
            run.process.kill()
        else:
            run.kill()


@pytest.mark.parametrize("where", [TOGETHER, APART])
def test_a_run_killed_at_any_moment_comes_to_the_same(
    spark: SparkSession, homes: Homes, undisturbed: Undisturbed, where: str
) -> None:
    folder = homes(where)
    killed_at_random(folder, random.Random(where))
    pipeline(folder).run(spark=spark, shards=2, **SETTINGS)
    assert_same(found(folder), undisturbed())


@pytest.mark.nightly
@pytest.mark.parametrize("where", [TOGETHER, APART])
@pytest.mark.parametrize("seed", range(20))
def test_a_run_killed_three_times_comes_to_the_same(
    spark: SparkSession, homes: Homes, undisturbed: Undisturbed, where: str, seed: int
) -> None:
    """Forty runs, three kills each: a hundred and twenty."""
    folder, chance = homes(where), random.Random(seed)
    for _ in range(_KILLS):
        killed_at_random(folder, chance)
    assert found(folder).epoch < EPOCHS
    pipeline(folder).run(spark=spark, shards=2, **SETTINGS)
    assert_same(found(folder), undisturbed())
