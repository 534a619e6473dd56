"""Whose rows are in a target: what `tidegate check` says of it, and what a reset notes there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate import Aggregation, Pipeline, Source, StateStore, Target, Window
from tidegate.errors import LostLease, StateLost
from tidegate.spark.checking import checked
from tidegate.state import open_store
from tidegate.targets import FilesWriter, open_target
from tidegate.testing.target_contract import key, rows, stage


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"user": "ann", "at": "2026-01-01T12:00:00Z"}\n')
    return pipeline_with_state(tmp_path, "state")


def pipeline_with_state(folder: Path, state: str) -> Pipeline:
    counted = {"group_by": "user", "aggregations": [Aggregation(kind="count")]}
    return Pipeline(
        name="orders",
        sources=[
            Source(
                name="clicks",
                format="json",
                event_time="at",
                columns={"user": "string", "at": "timestamp"},
                options={"path": str(folder / "in")},
            )
        ],
        operators=[Window.from_dict({"kind": "tumbling", "width_ms": 1_000, **counted})],
        target=Target(format="parquet", options={"path": str(folder / "out")}),
        state_store=StateStore(url=str(folder / state)),
    )


def filled(pipeline: Pipeline) -> tuple[FilesWriter, str]:
    """A writer that has sent a row of the first epoch, and its incarnation."""
    store = open_store(pipeline.state_store, pipeline.name)
    incarnation = store.open().incarnation
    store.close()
    writer = open_target(pipeline.target, pipeline=pipeline.name, channel="main")
    assert isinstance(writer, FilesWriter)
    writer.claim(incarnation)
    part = stage(writer, rows(("ann", 0, 1)), name="1-1-x")
    writer.publish(key(0, incarnation=incarnation), [part])
    return writer, incarnation


def test_a_pipeline_whose_rows_are_in_its_target_can_be_run(pipeline: Pipeline) -> None:
    filled(pipeline)
    assert checked(pipeline).committed is not None


def test_a_pipeline_whose_target_another_state_has_filled_cannot_be_run(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    filled(pipeline)
    with pytest.raises(StateLost, match=r"that another state sent; .* is empty"):
        checked(pipeline_with_state(tmp_path, "elsewhere"))


def test_a_reset_refuses_whoever_slept_through_it(pipeline: Pipeline) -> None:
    sleeper, before = filled(pipeline)
    pipeline.reset()
    with pytest.raises(LostLease, match="'orders' was taken over"):
        sleeper.publish(key(2, incarnation=before), [stage(sleeper, rows(("bob", 0, 1)))])
    assert checked(pipeline).committed is not None
