"""Places that driver and tasks share: what a task does not see is told before any row is read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from tidegate import Aggregation, ConfigError, Pipeline, Source, Target, Window
from tidegate.engine.inputs import NativeInput
from tidegate.sources.files import FilesReader
from tidegate.spark.reaching import missing_paths, refuse_unseen, shared_places
from tidegate.state import SqliteDepot
from tidegate.targets import TargetWriter, open_target


def pipeline(folder: Path) -> Pipeline:
    source = Source(
        name="clicks",
        format="json",
        event_time="at",
        columns={"at": "timestamp", "user": "string"},
        options={"path": str(folder / "in")},
    )
    window = Window(
        kind="tumbling",
        width_ms=10_000,
        group_by="user",
        aggregations=[Aggregation(kind="count", output_name="n")],
        emit="on_window_close",
    )
    target = Target(format="parquet", options={"path": str(folder / "out")})
    return Pipeline(name="clicks", sources=source, window=window, target=target, rejected=target)


class Asked:
    """Tasks that see nothing of some folders, and what they were asked for."""

    def __init__(self, *unseen: Path) -> None:
        self.unseen, self.times = unseen, list[list[str]]()

    def __call__(self, paths: Sequence[str]) -> set[str]:
        self.times.append([*paths])
        return {path for path in paths if any(Path(path).is_relative_to(u) for u in self.unseen)}


def refused(folder: Path, asked: Asked) -> None:
    (folder / "in").mkdir(exist_ok=True)
    (folder / "parts").mkdir(exist_ok=True)
    made = pipeline(folder)
    writers: dict[str, TargetWriter] = {}
    for channel in ("main", "rejected"):
        writer = open_target(made.target, pipeline=made.name, channel=channel)
        assert writer is not None
        writers[channel] = writer
    reader = FilesReader(made.sources[0], ())
    inputs = {"clicks": NativeInput(place=0, reader=reader)}
    depot = SqliteDepot(folder / "parts")
    refuse_unseen(made, shared_places(made, depot, writers, inputs), asked)


def test_what_every_task_sees_leaves_no_trace(tmp_path: Path) -> None:
    asked = Asked()
    refused(tmp_path, asked)
    (paths,) = asked.times  # one question for all
    assert len(paths) == 4
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_all_places_that_a_task_does_not_see_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="mount one file system") as caught:
        refused(tmp_path, Asked(tmp_path))
    assert [problem.at for problem in caught.value.problems] == [
        "state_store.url",
        "sources.options.path",
        "target.options.path",
        "rejected.options.path",
    ]


def test_a_folder_on_every_machine_with_files_on_one_is_told(tmp_path: Path) -> None:
    """A folder of the same name is there for tasks, but it is another one."""
    (tmp_path / "in").mkdir()
    first = tmp_path / "in" / "1.json"
    first.write_text('{"at": "2026-01-05T12:10:00Z", "user": "ann"}\n')
    with pytest.raises(ConfigError, match=r"1\.json, which not every Spark task can see"):
        refused(tmp_path, Asked(first))


def test_a_task_says_what_is_not_there(tmp_path: Path) -> None:
    order = json.dumps([str(tmp_path), str(tmp_path / "nowhere")]).encode()
    (said,) = missing_paths(order, iter([pa.record_batch({"id": [0]})]))
    assert said.to_pylist() == [{"path": str(tmp_path / "nowhere")}]
