"""The demo: what it says is what is there, also when it is not right."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import polars as pl
import pytest
import typer
from typer.testing import CliRunner

from tidegate.cli import app, demo_story
from tidegate.cli.demo_pipeline import GAP_MS, NAME, DemoPlan
from tidegate.cli.demo_proof import (
    Tables,
    differences,
    expected,
    found,
    judged_clicks,
)
from tidegate.cli.demo_run import run_once
from tidegate.errors import ConfigError
from tidegate.frontends.toml import load_pipeline
from tidegate.state import folder_catalog

ROWS = 40_000


@dataclass(frozen=True)
class Ran:
    """A demo that was run from a shell, with its output to a pipe."""

    code: int
    said: str
    complained: str
    plan: DemoPlan
    temporary: Path


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    home = tmp_path_factory.mktemp("home")
    temporary = home / "tmp"
    temporary.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", "from tidegate.cli import main; main()", "demo", f"--rows={ROWS}"],
        cwd=home,
        env={**os.environ, "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    plan = DemoPlan(folder=home / "tidegate-demo", rows=ROWS)
    return Ran(done.returncode, done.stdout, done.stderr, plan, temporary)


def test_a_demo_comes_to_its_end_in_plain_text(ran: Ran) -> None:
    assert ran.code == 0, ran.complained
    assert not re.search(r"[^\n\x20-\x7e]", ran.said + ran.complained)
    assert max(map(len, ran.said.splitlines())) <= 80


def test_a_demo_is_killed_in_an_epoch_and_goes_on_behind_the_last_one(ran: Ran) -> None:
    killed = re.search(r"SIGKILL to process (\d+) and its Spark, in epoch 9\n", ran.said)
    assert killed
    assert not Path(f"/proc/{killed[1]}").exists()
    assert re.search(r"Its Spark job had finished: \d+ files are staged", ran.said)
    assert "8 epochs with 16,000 clicks are committed." in ran.said
    shown = [re.split(r"[ ,]", line)[1] for line in ran.complained.splitlines()]
    first, second = [str(each) for each in range(1, 9)], [str(each) for each in range(9, 21)]
    assert shown == ["starting", *first, "starting", *second, "ended:"]
    assert "ended: 24,000 rows in 12 epochs" in ran.complained
    state = folder_catalog(ran.plan.state).committed(NAME)
    assert state is not None
    assert (state.epoch, state.published_epoch, state.token) == (20, 20, 2)


def test_a_demo_says_how_many_clicks_are_where(ran: Ran) -> None:
    there = found(ran.plan)
    assert there.clicks == ROWS
    assert min(there.out.height, there.held.height, there.late.height) > 100
    for what, rows, clicks in (
        ("finished sessions, in parquet", there.out.height, there.out["clicks"].sum()),
        ("open sessions, in the state", there.held.height, there.held["clicks"].sum()),
        ("late clicks, in parquet", there.late.height, there.late.height),
    ):
        assert re.search(rf"{what} +{rows:,} +{clicks:,}\s", ran.said)
    assert "Checked: nothing is lost, nothing counted twice" in ran.said


def test_a_demo_leaves_a_report_and_nothing_that_nobody_needs(ran: Ran) -> None:
    page = ran.plan.report.read_text(encoding="utf-8")
    assert "killed, started again" in page
    assert "Nothing is lost" in page
    assert not [*ran.temporary.glob("tidegate-demo-*")]
    assert "tidegate-demo/report.html" in ran.said


def test_a_result_with_a_session_less_is_told_and_not_praised(
    ran: Ran, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = next(iter(sorted(ran.plan.sessions.glob("*.parquet"))))
    aside = file.rename(tmp_path / file.name)
    try:
        with pytest.raises(typer.Exit) as ended:
            demo_story.prove(ran.plan, [])
    finally:
        aside.rename(file)
    said = capsys.readouterr()
    assert (ended.value.exit_code, said.out) == (1, "")
    assert re.search(r"not what it must be\n  finished sessions: \d+ missing", said.err)


@pytest.fixture(scope="module")
def must() -> Tables:
    return expected(judged_clicks(DemoPlan(folder=Path("nowhere"), rows=ROWS)))


def test_all_clicks_are_expected_somewhere(must: Tables) -> None:
    assert must.clicks == ROWS
    assert differences(must, must) == []


def _wrongs(must: Tables) -> Iterator[tuple[str, Tables]]:
    later = pl.col("window_end") + pl.duration(microseconds=1)
    yield "finished sessions: 1 missing", replace(must, out=must.out.tail(-1))
    yield "open sessions: 1 too much", replace(must, held=must.held.vstack(must.held.head(1)))
    yield "late clicks: 1 missing", replace(must, late=must.late.tail(-1))
    moved = must.out.head(1).with_columns(window_end=later).vstack(must.out.tail(-1))
    yield "finished sessions: 1 missing", replace(must, out=moved)
    yield "finished sessions: 1 too much", replace(must, out=moved)


def test_whatever_differs_is_named(must: Tables) -> None:
    for told, wrong in _wrongs(must):
        assert any(each.startswith(told) for each in differences(must, wrong))


def test_sessions_by_the_definition_are_the_expected_ones(must: Tables) -> None:
    """A loop over rows, against the frames."""
    clicks = judged_clicks(DemoPlan(folder=Path("nowhere"), rows=ROWS))
    gap_us = GAP_MS * 1000
    times: dict[int, list[int]] = {}
    for user, us in (
        clicks.filter(~pl.col("late")).select("user_id", pl.col("event_time").dt.epoch("us")).rows()
    ):
        times.setdefault(user, []).append(us)
    sessions = []
    for user, found_us in times.items():
        begin = last = min(found_us)
        for us in sorted(found_us):
            if us > last + gap_us:
                sessions.append((user, begin, last + gap_us))
                begin = us
            last = us
        sessions.append((user, begin, last + gap_us))
    bounds = pl.col("window_start", "window_end").dt.epoch("us")
    frames = pl.concat([must.out, must.held]).select("user_id", bounds)
    assert sorted(frames.rows()) == sorted(sessions)


def test_the_file_is_a_pipeline_that_can_be_run_from_anywhere(tmp_path: Path) -> None:
    plan = DemoPlan(folder=tmp_path / 'a "b" é', rows=ROWS)
    plan.prepare()
    loaded = load_pipeline(plan.file)
    assert loaded.pipeline.target.options["path"] == str(plan.sessions)
    assert loaded.settings.max_rows_per_epoch == ROWS // 20
    assert "session" in loaded.explain()


def test_an_older_demo_is_replaced(tmp_path: Path) -> None:
    plan = DemoPlan(folder=tmp_path / "demo", rows=ROWS)
    plan.prepare()
    plan.file.write_text("changed")
    plan.sessions.mkdir()
    (plan.sessions / "old.parquet").touch()
    plan.prepare()
    assert plan.file.read_text() == plan.text()
    assert not plan.sessions.exists()


@pytest.mark.parametrize("mark", [False, True])
def test_a_folder_with_other_things_is_left_alone(tmp_path: Path, mark: bool) -> None:
    folder = tmp_path / "mine"
    plan = DemoPlan(folder=folder, rows=ROWS)
    if mark:
        plan.prepare()
    folder.mkdir(exist_ok=True)
    (folder / "thesis.txt").write_text("years of work")
    before = sorted(folder.iterdir())
    result = CliRunner().invoke(app, ["demo", "--folder", str(folder)])
    assert result.exit_code == 2
    assert "mine with thesis.txt, expected a new folder, or one of an older demo" in result.output
    assert sorted(folder.iterdir()) == before


def test_a_folder_that_looks_like_a_demo_and_is_none_is_left_alone(tmp_path: Path) -> None:
    plan = DemoPlan(folder=tmp_path, rows=ROWS)
    plan.file.write_text("mine")
    with pytest.raises(ConfigError, match=re.escape("pipeline.toml, expected a new folder")):
        plan.prepare()
    assert plan.file.read_text() == "mine"


def test_what_is_missing_is_said_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    result = CliRunner().invoke(app, ["demo", "--folder", str(tmp_path / "demo")])
    assert result.exit_code == 1
    assert "tidegate: this machine cannot run Spark\nproblem  Java  JAVA_HOME is" in result.stderr
    assert "install Java 17" in result.stderr
    assert not (tmp_path / "demo").exists()


def test_a_mistake_in_the_file_comes_back_from_the_run(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.toml"
    file.write_text("name = 5\n")
    with pytest.raises(ConfigError, match=r"pipeline\.toml:1"):
        run_once(file, tmp_path / "log")


def test_a_run_that_breaks_is_told_with_the_end_of_its_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as ended:
        run_once(cast("Path", 5), tmp_path / "log")  # no file at all
    assert ended.value.exit_code == 1
    said = capsys.readouterr().err
    assert re.search(r"exit code 1; the end of .*log:\n(  .*\n)+  \w+Error: .*int", said)
