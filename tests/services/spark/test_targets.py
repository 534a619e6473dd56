"""Targets end to end: what is in them after each run, as people and Spark read it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner

from tests.services.home import MEMORY, Home, clicks, counted, lasts, sessions, tumbling
from tidegate import Aggregation, ConfigError, Pipeline, Target, memory_table
from tidegate.cli import app
from tidegate.errors import StateLost
from tidegate.spark import reaching
from tidegate.spark.checking import checked
from tidegate.spark.reaching import unseen_by_tasks
from tidegate.targets.reading import read_target


def sent_in_three_runs(home: Home, kind: str) -> Pipeline:
    """A pipeline that ran three times, and beside its state a copy from after the first."""
    pipeline = home.pipeline(
        home.memory(clicks(("ann", 1), ("ann", 15))),
        target=Target(format=kind, options={"path": str(home.folder / "out")}),
    )
    home.run(pipeline)
    shutil.copytree(home.folder / "state", home.folder / "copy")
    for at in (25, 35):
        home.put(clicks(("ann", at)))
        home.run(pipeline)
    return pipeline


@pytest.mark.parametrize("kind", ["parquet", "json", "csv", "delta"])
def test_state_that_is_older_than_its_target_is_refused(home: Home, kind: str) -> None:
    """Rows of later epochs are there: they would come twice, or not at all."""
    pipeline = sent_in_three_runs(home, kind)
    shutil.rmtree(home.folder / "state")
    (home.folder / "copy").rename(home.folder / "state")
    with pytest.raises(StateLost, match=r"ends with epoch 1, but .* up to epoch 3"):
        home.run(pipeline)


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_rows_of_a_pipeline_whose_state_is_gone_are_not_sent_twice(home: Home, kind: str) -> None:
    """The table is left as it is, until somebody has emptied it."""
    target = Target(format=kind, options={"path": str(home.folder / "out")})
    pipeline = home.pipeline(
        home.memory(clicks(("ann", 1), ("ann", 15)), columns={"user": "string", "ts": "long"}),
        target=target,
    )
    home.run(pipeline)
    sent = read_target(target, pipeline=home.name)
    shutil.rmtree(home.folder / "state")
    for act in (checked, home.run):
        with pytest.raises(StateLost, match=r"that another state sent; .* is empty"):
            act(pipeline)
    assert read_target(target, pipeline=home.name).equals(sent)
    shutil.rmtree(home.folder / "out")
    checked(pipeline)
    assert home.run(pipeline).rows == 2


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_after_a_reset_a_target_that_has_rows_is_no_older_one(home: Home, kind: str) -> None:
    pipeline = home.pipeline(
        home.memory(clicks(("ann", 1), ("ann", 15))),
        target=Target(format=kind, options={"path": str(home.folder / "out")}),
    )
    home.run(pipeline)
    pipeline.reset()
    assert home.run(pipeline).rows == 2


def loses_staged_files(home: Home, monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    """From now on, what tasks stage is gone when an epoch comes to this point."""

    def reached(at: str) -> None:
        if at == point:
            for path in home.folder.rglob(".out.tidegate/*/*"):
                path.unlink()

    monkeypatch.setattr("tidegate.faults.reached", reached)


def test_rows_that_the_driver_cannot_find_are_not_committed(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks elsewhere, that stage on disks of their own, must not cost an epoch."""
    rows = clicks(("ann", 1), ("ann", 15))
    pipeline = home.pipeline(home.memory(rows), target=folder(home, "parquet"))
    with monkeypatch.context() as patched:
        loses_staged_files(home, patched, "commit")
        with pytest.raises(StateLost, match="is not there: nothing of the epoch was committed"):
            home.run(pipeline)
    assert [each.epoch for each in home.run(pipeline).epochs] == [1]
    assert counted(pl.read_parquet(home.folder / "out")) == [("ann", 0, 1)]


def test_a_pipeline_whose_staged_rows_are_gone_goes_on_without_them(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = clicks(("ann", 1), ("ann", 15))
    pipeline = home.pipeline(home.memory(rows), target=folder(home, "parquet"))
    with monkeypatch.context() as patched:
        loses_staged_files(home, patched, "committed")
        with pytest.raises(StateLost, match="tidegate state skip-publish"):
            home.run(pipeline)
    home.put(clicks(("ann", 25)))
    with pytest.raises(StateLost):
        home.run(pipeline)
    command = ["state", "skip-publish", str(home.folder / "state"), "--yes"]
    result = CliRunner().invoke(app, command)
    assert "epoch 1, channel main: 1 row in 1 part\n" in result.stdout
    home.run(pipeline)
    assert counted(pl.read_parquet(home.folder / "out")) == [("ann", 10, 1)]
    assert "has published all" in CliRunner().invoke(app, command).stdout


def test_tasks_elsewhere_are_asked_for_what_they_must_see(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reaching, "on_this_machine", lambda _: False)
    home.write("1.parquet", clicks(("ann", 1), ("ann", 15)))
    pipeline = home.pipeline(home.files(), target=folder(home, "parquet"))
    assert home.run(pipeline).rows == 2
    there, missing = str(home.folder), str(home.folder / "nowhere")
    assert unseen_by_tasks(home.spark, [there, missing]) == {missing}


FIRST = clicks(("ann", 1), ("bob", 2), ("ann", 11), (None, 12), ("cid", 25))
THEN = clicks(("ann", 26), ("cid", 33), ("bob", 50))


def folder(home: Home, kind: str, **parts: Any) -> Target:
    return Target(format=kind, options={"path": str(home.folder / "out")}, **parts)


def visible(home: Home) -> list[Path]:
    return sorted((home.folder / "out").iterdir())


def ran_twice(home: Home, **parts: Any) -> Pipeline:
    """A run that leaves windows open, and one that closes them."""
    pipeline = home.pipeline(home.memory(FIRST), **parts)
    home.run(pipeline)
    home.put(THEN)
    home.run(pipeline, on_end="flush")
    return pipeline


ALL = [("ann", 0, 1), ("ann", 10, 1), ("ann", 20, 1), ("bob", 0, 1), ("bob", 50, 1)]
ALL += [("cid", 20, 1), ("cid", 30, 1)]


@pytest.mark.parametrize("kind", ["parquet", "json", "csv"])
def test_a_second_run_adds_files_and_changes_none(home: Home, kind: str) -> None:
    pipeline = home.pipeline(home.memory(FIRST), target=folder(home, kind))
    home.run(pipeline)
    before = {path: path.read_bytes() for path in visible(home)}
    assert before
    home.put(THEN)
    home.run(pipeline, on_end="flush")
    after = {path: path.read_bytes() for path in visible(home)}
    assert before.items() < after.items()
    assert all(path.suffix == f".{kind}" for path in after)
    frame = home.read("out", kind).selectExpr(
        "user", "unix_seconds(cast(window_start AS timestamp)) AS s", "cast(count AS int) AS n"
    )
    rows = sorted(((r.user, r.s, r.n) for r in frame.collect()), key=str)
    assert rows == sorted([*ALL, (None, 10, 1)], key=str)
    assert home.run(pipeline).epochs == ()
    assert {path: path.read_bytes() for path in visible(home)} == after


def test_nothing_but_whole_files_is_ever_in_the_folder_that_people_read(home: Home) -> None:
    seen: list[list[int]] = []
    pipeline = home.pipeline(home.memory(FIRST), target=folder(home, "parquet"))
    settings = {"max_rows_per_epoch": 2, "on_end": "flush"}

    def look(_: object) -> None:
        paths = visible(home) if (home.folder / "out").exists() else []
        seen.append([pl.read_parquet(path).height for path in paths])

    result = home.run(pipeline, on_epoch=look, **settings)
    assert len(seen) == len(result.epochs) >= 3  # none has failed
    assert sum(seen[-1]) == 5
    staged = [path for path in home.folder.rglob(".out.tidegate/*/*") if path.is_file()]
    assert staged == []


def test_delta_is_appended_to_once_for_each_epoch(home: Home) -> None:
    ran_twice(home, target=folder(home, "delta"))
    table = pl.from_arrow(DeltaTable(str(home.folder / "out")).to_pyarrow_table())
    assert isinstance(table, pl.DataFrame)
    rows = counted(table.filter(pl.col("user").is_not_null()))
    assert rows == ALL


def test_delta_upserts_leave_one_row_for_each_window(home: Home) -> None:
    """The session of ann grows backwards: its id changes, and the old row goes."""
    target = folder(home, "delta", mode="upsert")
    window = sessions(emit="on_update")
    pipeline = home.pipeline(
        home.memory(clicks(("ann", 20), (None, 5))),
        window=window,
        target=target,
        watermark=lasts(60),
    )
    home.run(pipeline)
    first = DeltaTable(str(home.folder / "out")).to_pyarrow_table().to_pylist()
    home.put(clicks(("ann", 12), (None, 6), ("ann", 60)))
    home.run(pipeline)
    home.put(clicks(("ann", 45), ("ann", 53)))
    home.run(pipeline)
    last = pl.DataFrame(DeltaTable(str(home.folder / "out")).to_pyarrow_table())
    assert len(first) == 2
    assert counted(last, "count", "revision") == [
        (None, 5, 2, 1),
        ("ann", 12, 2, 1),
        ("ann", 45, 3, 1),
    ]


@pytest.mark.parametrize(
    ("emit", "more"),
    [
        ("on_watermark", {}),
        ("on_watermark", {"late_data": "reopen", "allowed_lateness_ms": 10_000}),
        ("on_window_close", {"allowed_lateness_ms": 10_000}),
        ("on_update", {}),
        ("final", {}),
        ("every", {"every_ms": 5_000}),
    ],
)
def test_whatever_the_strategy_a_table_ends_with_the_same_windows(
    home: Home, emit: str, more: dict[str, Any]
) -> None:
    ran_twice(home, window=tumbling(emit=emit, **more))
    assert [row for row in home.counted() if row[0]] == ALL
    assert home.table().filter(pl.col("user").is_null()).height == 1


def test_a_changelog_in_files_sums_up_to_the_windows(home: Home) -> None:
    window = sessions(emit="changelog")
    rows = clicks(("ann", 20), ("bob", 1))
    pipeline = home.pipeline(
        home.memory(rows), window=window, target=folder(home, "parquet"), watermark=lasts(60)
    )
    home.run(pipeline)
    home.put(clicks(("ann", 12), ("bob", 5), ("ann", 12)))
    home.run(pipeline, on_end="flush")
    changes = pl.read_parquet(home.folder / "out" / "*.parquet")
    assert sorted(changes.select("user", "op", "count").rows()) == [
        ("ann", "+I", 1),
        ("ann", "+I", 3),
        ("ann", "-D", 1),
        ("bob", "+I", 1),
        ("bob", "+U", 2),
        ("bob", "-U", 1),
    ]


def test_the_console_shows_each_epoch_and_what_is_taken_back(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline = home.pipeline(
        home.memory(clicks(("ann", 20))),
        window=sessions(emit="on_update"),
        target=Target(format="console"),
        watermark=lasts(60),
    )
    home.run(pipeline)
    home.put(clicks(("ann", 12)))
    home.run(pipeline)
    shown = capsys.readouterr().out
    assert f"{home.name} · main · epoch 1" in shown
    assert f"{home.name} · main · epoch 2" in shown
    assert "taken back: user=ann" in shown


def test_any_format_of_spark_is_appended_to(home: Home) -> None:
    ran_twice(home, target=folder(home, "orc"))
    frame = home.read("out", "orc").selectExpr("user", "unix_seconds(window_start)", "count")
    assert sorted(tuple(row) for row in frame.where("user IS NOT NULL").collect()) == ALL


def test_late_rows_go_unchanged_to_their_channel(home: Home) -> None:
    window = tumbling(late_data="side_output")
    pipeline = home.pipeline(
        home.memory(clicks(("ann", 1), ("ann", 35), note=["a", "b"])), window=window, late=MEMORY
    )
    home.run(pipeline)
    home.put(clicks(("bob", 2), ("ann", 36), note=["too late", "c"]))
    result = home.run(pipeline, on_end="flush")
    assert home.counted() == [("ann", 0, 1), ("ann", 30, 2)]
    late = home.table("late")
    assert late.columns == ["user", "ts", "note", "reason"]
    assert late.rows() == [("bob", 2, "too late", "late")]
    assert result.counts["late"] == 1


def test_channels_are_files_like_any_target(home: Home) -> None:
    late = Target(format="json", options={"path": str(home.folder / "late")})
    rejected = Target(format="csv", options={"path": str(home.folder / "rejected")})
    source = home.memory(clicks(("ann", 50), ("bob", None), tags=[["x"], ["y", "z"]]))
    window = tumbling(late_data="dlq", late_channel="too_late")
    pipeline = home.pipeline(
        source, window=window, channels={"too_late": late, "rejected": rejected}
    )
    home.run(pipeline)
    home.put(clicks(("cid", 1), tags=[["w"]]))
    home.run(pipeline)
    assert home.read("late", "json").select("user", "ts", "tags").collect() == [("cid", 1, ["w"])]
    (row,) = home.read("rejected", "csv").collect()
    assert row.asDict() == {
        "user": "bob",
        "ts": None,
        "tags": '["y","z"]',
        "reason": "no_event_time",
    }


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ({"target": Target(format="parquet")}, "target.options.path: found nothing"),
        ({"target": Target(format="memory", options={"nam": "x"})}, "target.options.nam: "),
        ({"rejected": Target(format="csv")}, "channels.rejected.options.path: found nothing"),
        ({"target": Target(format="orcc")}, "target.format: found 'orcc'"),
        ({"target": Target(format="table")}, "target.options.table: found nothing"),
    ],
)
def test_a_target_that_cannot_be_opened_is_told_by_its_place(
    home: Home, parts: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        home.run(home.pipeline(home.memory(FIRST), **parts))
    assert told in str(refused.value)
    assert home.run(home.pipeline(home.memory())).rows == FIRST.height


def test_a_target_that_only_appends_refuses_updates(home: Home) -> None:
    with pytest.raises(ConfigError, match=r"window.emit: found 'on_update'(.|\n)*hint: "):
        home.pipeline(
            home.memory(FIRST), target=folder(home, "orc"), window=tumbling(emit="on_update")
        )


def test_a_memory_table_of_other_columns_is_refused_before_a_row_is_read(home: Home) -> None:
    name = f"{home.name}.shared"
    target = Target(format="memory", options={"name": name})
    home.run(home.pipeline(home.memory(FIRST), target=target))
    assert memory_table(name).rows().height
    total = tumbling(aggregations=[Aggregation(kind="max", input_column="ts")])
    other = home.pipeline(home.memory(), name=f"{home.name}-2", target=target, window=total)
    with pytest.raises(ConfigError, match="with other columns: 'count', 'max_ts'"):
        home.run(other)
