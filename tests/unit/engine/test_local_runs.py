"""The loop, recovery, takeover and publishing, in this process: no JVM, milliseconds each."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.engine.local_runs import Clicks, fail_at, unsteady
from tidegate.engine.local import LocalBackend
from tidegate.engine.recover import open_engine
from tidegate.errors import ConfigError, LostLease, PipelineInUse, PlanChanged
from tidegate.pipeline import RunSettings, Source

CLICKS = [("ann", 0), ("bob", 3), ("ann", 8), ("cid", 25), ("bob", 40), ("ann", 41), ("ann", 70)]
SESSIONS = [("ann", 0, 2), ("ann", 41, 1), ("bob", 3, 1), ("bob", 40, 1), ("cid", 25, 1)]
"""Without that of the last click: nothing has closed it."""
POINTS = ("plan", "map", "step", "staged", "commit", "committed", "publishing")


@pytest.fixture
def clicks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clicks:
    monkeypatch.setattr("tidegate.engine.loop._PAUSE_S", 0)
    made = Clicks(tmp_path)
    made.put(*CLICKS)
    return made


def test_a_run_goes_to_the_end_of_its_input(clicks: Clicks) -> None:
    result = clicks.run().execute()
    assert clicks.sessions() == SESSIONS
    assert result.counts["rows"] == 7
    assert [epoch.epoch for epoch in result.epochs] == [1, 2, 3, 4]


def test_a_run_goes_on_where_the_last_one_ended(clicks: Clicks) -> None:
    clicks.run().execute()
    clicks.put(("ann", 75), ("bob", 90))
    clicks.run(shards=3, on_end="flush").execute()
    assert clicks.sessions() == sorted([*SESSIONS, ("ann", 70, 2), ("bob", 90, 1)])


def test_nothing_new_is_no_epoch(clicks: Clicks) -> None:
    clicks.run().execute()
    assert clicks.run().execute().epochs == ()


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("times", [1, 3])
def test_a_run_that_fails_anywhere_takes_itself_over_and_counts_nothing_twice(
    clicks: Clicks, monkeypatch: pytest.MonkeyPatch, point: str, times: int
) -> None:
    reached = fail_at(monkeypatch, point, times, RuntimeError("gone"))
    clicks.run(on_end="flush").execute()
    assert reached.count(point) > times
    assert clicks.sessions() == sorted([*SESSIONS, ("ann", 70, 1)])


@pytest.mark.parametrize("point", POINTS)
def test_a_run_that_dies_anywhere_is_finished_by_the_next(
    clicks: Clicks, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    with monkeypatch.context() as patched:
        fail_at(patched, point, 2, KeyboardInterrupt())  # nothing answers that
        with pytest.raises(KeyboardInterrupt):
            clicks.run().execute()
    clicks.run(on_end="flush").execute()
    assert clicks.sessions() == sorted([*SESSIONS, ("ann", 70, 1)])


@pytest.mark.parametrize("fails", [(1,), (2, 3), (1, 3, 5)])
def test_what_a_failed_job_has_staged_does_not_exist(clicks: Clicks, fails: tuple[int]) -> None:
    clicks.run(unsteady(*fails), on_end="flush").execute()
    assert clicks.sessions() == sorted([*SESSIONS, ("ann", 70, 1)])


def test_a_run_that_fails_again_and_again_gives_up(clicks: Clicks) -> None:
    with pytest.raises(RuntimeError, match="the executor is gone"):
        clicks.run(unsteady(*range(2, 9))).execute()


def test_a_mistake_of_the_user_is_not_tried_again(
    clicks: Clicks, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached = fail_at(monkeypatch, "plan", 1, ConfigError([]))
    with pytest.raises(ConfigError):
        clicks.run().execute()
    assert reached.count("plan") == 1


def test_a_run_that_lost_its_pipeline_ends_and_changes_nothing(
    clicks: Clicks, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached = fail_at(monkeypatch, "commit", 2, LostLease("another driver has it"))
    with pytest.raises(LostLease):
        clicks.run().execute()
    assert reached.count("committed") == 1
    assert clicks.sessions() == []


def test_one_driver_has_a_pipeline_at_a_time(clicks: Clicks) -> None:
    engine = open_engine(clicks.pipeline, LocalBackend(), RunSettings(shards=1))
    try:
        with pytest.raises(PipelineInUse):
            clicks.run().execute()
    finally:
        engine.close()
    clicks.run().execute()
    assert clicks.sessions() == SESSIONS


def test_the_head_of_an_epoch_that_failed_is_not_used_again(clicks: Clicks) -> None:
    engine = open_engine(clicks.pipeline, LocalBackend(), RunSettings(shards=1))
    try:
        before = engine.head
        stepped = engine.step(engine.poll(0))
        assert engine.head is stepped.head is not before
        assert stepped.manifest.epoch == stepped.head.epoch == before.epoch + 1
    finally:
        engine.close()
    again = open_engine(clicks.pipeline, LocalBackend(), RunSettings(shards=1))
    assert again.head == before
    again.close()


def test_state_of_another_plan_is_refused(clicks: Clicks) -> None:
    clicks.run().execute()
    (window,) = clicks.pipeline.operators
    changed = window.model_copy(update={"gap_ms": 1})
    clicks.pipeline = clicks.pipeline.model_copy(update={"operators": (changed,)})
    with pytest.raises(PlanChanged, match="gap_ms changed from 10000 to 1"):
        clicks.run().execute()


def test_what_needs_spark_is_refused_with_all_that_is_wrong(clicks: Clicks) -> None:
    (source,) = clicks.pipeline.sources
    strange = Source(
        name="clicks",
        format="avro",
        event_time="at",
        transform="SELECT * FROM source",
        columns=None,
    )
    assert source.name == strange.name
    clicks.pipeline = clicks.pipeline.model_copy(update={"sources": (strange,)})
    with pytest.raises(ConfigError) as refused:
        clicks.run().execute()
    assert [problem.at for problem in refused.value.problems] == [
        "sources[0].format",
        "sources[0].transform",
    ]
