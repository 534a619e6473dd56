"""Tasks that die, run twice, or run again: only what is committed counts."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # it has no types

from tests.faults.conftest import Undisturbed
from tests.faults.operators import SETTINGS
from tests.faults.outcome import assert_same, outcome, parts_in_store, runs_of_epochs
from tests.faults.pipelines import MODULE, pipeline_of
from tests.faults.processes import ROOT, driver, wait_for
from tests.faults.stopping import run_until
from tests.faults.unsteady import FORMAT, reads, unsteady_source
from tests.nights import at_night
from tidegate.engine.executor import EpochOrders, map_order
from tidegate.engine.recover import open_engine
from tidegate.errors import InconsistentEpoch
from tidegate.eventtime import now_us
from tidegate.pipeline import Pipeline, RunSettings
from tidegate.pipeline.formats import SOURCES
from tidegate.spark.backend import SparkBackend
from tidegate.spark.executor import SparkExecutor
from tidegate.tasks.map_task import map_slices
from tidegate.tasks.orders import JobContext

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Plant = Callable[..., None]


@pytest.fixture
def plant(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Plant:
    """Plant a fault in the Python workers: new ones are started that know of it."""

    def planted(fault: str, held: Path | None = None) -> None:
        environment = spark.sparkContext.environment
        monkeypatch.setitem(environment, "TIDEGATE_FAULT", fault)
        monkeypatch.setitem(environment, "PYTHONPATH", str(ROOT))
        if held is not None:
            monkeypatch.setitem(environment, "TIDEGATE_FAULT_FILE", str(held))

    return planted


@pytest.mark.parametrize("fault", [*at_night("map:3", "step:3"), "staged:3"])
def test_a_run_whose_workers_die_takes_itself_over(
    spark: SparkSession, tmp_path: Path, undisturbed: Undisturbed, plant: Plant, fault: str
) -> None:
    plant(fault)
    pipeline_of(tmp_path).run(spark=spark, shards=2, **SETTINGS)
    assert_same(outcome(tmp_path).but_for_staged(), undisturbed())
    tokens = {token for of_epoch in runs_of_epochs(tmp_path).values() for token in of_epoch}
    assert len(tokens) > 1


def test_a_task_that_dies_with_its_output_staged_is_run_again_by_spark(
    spark: SparkSession, tmp_path: Path, undisturbed: Undisturbed
) -> None:
    retried = {"MASTER": "local[2,4]", "TIDEGATE_FAULT": "staged:3"}
    with driver(MODULE, tmp_path, {"shards": 2}, own_jvm=True, environment=retried) as run:
        assert run.end() == 0, run.said()
    assert {*map(tuple, runs_of_epochs(tmp_path).values())} == {("1",)}
    found = outcome(tmp_path)
    assert found.staged  # by those who died
    assert_same(found.but_for_staged(), undisturbed())
    pipeline_of(tmp_path).run(spark=spark, shards=2, **SETTINGS)
    assert_same(outcome(tmp_path), undisturbed())


def test_a_job_that_runs_again_after_its_commit_changes_nothing(
    spark: SparkSession,
    tmp_path: Path,
    undisturbed: Undisturbed,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jobs: list[tuple[SparkExecutor, EpochOrders]] = []
    run = SparkExecutor.run

    def remembered(executor: SparkExecutor, orders: EpochOrders) -> Any:
        jobs.append((executor, orders))
        return run(executor, orders)

    monkeypatch.setattr(SparkExecutor, "run", remembered)
    pipeline_of(tmp_path).run(spark=spark, shards=2, **SETTINGS)
    before, parts = outcome(tmp_path), parts_in_store(tmp_path)
    executor, orders = jobs[3]
    twins = run(SparkExecutor(spark=executor.spark, context=executor.context), orders)
    segments = [report.segment for each in twins for report in each.operators.values()]
    assert len(parts_in_store(tmp_path) - parts) == sum(each is not None for each in segments)
    found = outcome(tmp_path)
    assert len(found.staged) == sum(len(each.outputs) for each in twins) > 0
    assert_same(found.but_for_staged(), before)
    pipeline_of(tmp_path).run(spark=spark, shards=2, **SETTINGS)
    assert parts_in_store(tmp_path) < parts
    assert_same(outcome(tmp_path), undisturbed())


def test_a_slice_is_mapped_to_the_same_bytes_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs: list[tuple[JobContext, EpochOrders]] = []
    run = SparkExecutor.run

    def remembered(executor: SparkExecutor, orders: EpochOrders) -> Any:
        jobs.append((executor.context, orders))
        return run(executor, orders)

    monkeypatch.setattr(SparkExecutor, "run", remembered)
    run_until(spark, pipeline_of(tmp_path), 1, shards=3)
    assert _mapped(*jobs[0]) == _mapped(*jobs[0]) != []


def _mapped(context: JobContext, orders: EpochOrders) -> list[dict[str, list[Any]]]:
    order = map_order(orders.feeds, orders.step.now_us)
    batches = map_slices(context, order, range(len(order.tasks)))
    return [batch.to_pydict() for batch in batches]


@pytest.fixture
def unsteady(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SOURCES, FORMAT.name, FORMAT)


def lose_shuffle_files(spark: SparkSession, held: Path, ended: Callable[[], bool]) -> None:
    """Delete what map tasks have written as soon as the first steps are under way."""
    wait_for(held.exists, "a step")
    local = Path(spark.sparkContext.getConf().get("spark.local.dir", ""))
    lost = [*local.rglob("shuffle_*")]
    assert lost
    for path in lost:
        path.unlink()

    def go_on() -> bool:
        held.unlink(missing_ok=True)  # of every worker that comes to the point
        return ended()

    wait_for(go_on, "the end of the epoch")


SPARKS_OWN_CHECKS = "spark.sql.shuffle.orderIndependentChecksum"


def first_epoch(spark: SparkSession, pipeline: Pipeline, held: Path, *, checks: bool) -> None:
    """Run one epoch, and lose what its map tasks have written on the way."""
    backend = SparkBackend(spark)
    engine, session = (
        open_engine(pipeline, backend, RunSettings(**SETTINGS, shards=4)),
        backend.session,
    )
    try:
        for name in ("enabled", "enableFullRetryOnMismatch", "enableQueryLevelRollbackOnMismatch"):
            session.conf.set(f"{SPARKS_OWN_CHECKS}.{name}", str(checks).lower())
        with ThreadPoolExecutor(1) as beside:
            epoch = beside.submit(lambda: engine.run(engine.poll(now_us())))
            lose_shuffle_files(spark, held, epoch.done)
        epoch.result()
    finally:
        engine.close()


def test_map_output_that_is_lost_is_made_again(
    spark: SparkSession, tmp_path: Path, undisturbed: Undisturbed, plant: Plant, unsteady: None
) -> None:
    notes, held = tmp_path / "notes", tmp_path / "held"
    plant("step:1", held)
    pipeline = pipeline_of(tmp_path, unsteady_source(notes, steady=True))
    first_epoch(spark, pipeline, held, checks=True)
    assert max(reads(notes).values()) > 1
    plant("nowhere")
    pipeline.run(spark=spark, shards=4, **SETTINGS)
    assert_same(outcome(tmp_path), undisturbed())


@pytest.mark.parametrize("checks", [False, *at_night(True)])
def test_a_source_that_gives_other_rows_the_second_time_is_found_out(
    spark: SparkSession,
    tmp_path: Path,
    undisturbed: Undisturbed,
    plant: Plant,
    unsteady: None,
    *,
    checks: bool,
) -> None:
    ours, sparks = "a map task that ran again gave other rows", "indeterminate output"
    notes, held = tmp_path / "notes", tmp_path / "held"
    plant("step:1", held)
    pipeline = pipeline_of(tmp_path, unsteady_source(notes, steady=False))
    with pytest.raises(
        Py4JJavaError if checks else InconsistentEpoch, match=sparks if checks else ours
    ):
        first_epoch(spark, pipeline, held, checks=checks)
    assert max(reads(notes).values()) > 1
    assert outcome(tmp_path).epoch == 0
    plant("nowhere")
    steady = pipeline_of(tmp_path, unsteady_source(notes, steady=True))
    steady.run(spark=spark, shards=4, **SETTINGS)
    assert_same(outcome(tmp_path).but_for_staged(), undisturbed())
