"""The page of metrics has all that a run reports, and nothing else: runs are its proof."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from tidegate.cli import app
from tidegate.core import admission
from tidegate.engine.status import EpochReport, RunStatus, State

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "metrics.md").read_text()

WINDOWS = """
name = "metrics-windows"

[[sources]]
name = "clicks"
format = "json"
event_time = "at"
columns = { user = "string", at = "string", rest = "bigint" }
options = { path = "clicks" }

[transform.window]
kind = "session"
gap_column = "rest"
max_session_duration_ms = 3_600_000
group_by = "user"
aggregations = [{ kind = "count" }]

[state_store]

[target]
format = "memory"

[run]
on_end = "flush"
"""
JOIN = """
name = "metrics-joined"

[[sources]]
name = "clicks"
format = "json"
event_time = "at"
columns = { user = "string", at = "string", rest = "bigint" }
options = { path = "clicks" }

[transform.join]
left = "clicks"
right = "clicks"
on = "user"
time_window_ms = 1_000

[target]
format = "memory"
"""


@pytest.fixture(scope="module")
def told(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Every JSON line of a run over windows, of one over a join, and of one that fails."""
    folder = tmp_path_factory.mktemp("metrics")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        (folder / "clicks").mkdir()
        noon = "2026-01-05T12:00:00Z"
        rows = [("ann", noon, 30), ("bob", None, 30), ("ann", "soon", 30), ("bob", noon, 30)]
        lines = [json.dumps({"user": u, "at": at, "rest": rest}) for u, at, rest in rows]
        (folder / "clicks" / "1.json").write_text("\n".join(lines) + "\n")
        for name, text in (("windows", WINDOWS), ("join", JOIN), ("wrong", "name = 1")):
            (folder / f"{name}.toml").write_text(text)
        return [*said("windows.toml", 0), *said("join.toml", 0), *said("wrong.toml", 2)]


def said(file: str, code: int) -> Iterator[dict[str, Any]]:
    done = CliRunner().invoke(app, ["run", file, "--json"])
    assert done.exit_code == code, done.output
    yield from (json.loads(line) for line in done.stdout.splitlines())


@pytest.mark.parametrize("event", ["started", "epoch", "ended", "failed"])
def test_the_fields_of_a_line_are_those_on_the_page(event: str, told: list[dict[str, Any]]) -> None:
    lines = [line for line in told if line["event"] == event]
    assert lines
    assert {tuple(line) for line in lines} == {tuple(rows_of(f"`{event}`"))}


def test_the_events_are_those_on_the_page(told: list[dict[str, Any]]) -> None:
    shown = set(re.findall(r"^\| `event` \| (.*) \|$", PAGE, re.MULTILINE))
    named = {name for each in shown for name in re.findall(r'`"(\w+)"`', each)}
    assert named == {line["event"] for line in told} | {"stopped"}


def test_what_is_said_of_a_source_is_on_the_page(told: list[dict[str, Any]]) -> None:
    words = re.findall(r"`(\w+)`", rows_of("`epoch`")["sources"])
    sources = [each for line in epochs(told) for each in line["sources"].values()]
    assert {tuple(each) for each in sources} == {tuple(words)}


def test_the_counts_are_those_on_the_page(told: list[dict[str, Any]]) -> None:
    counted = {name for line in epochs(told) for name in line["counts"]}
    reasons = {name for name in counted if name.startswith("rejected.")}
    assert reasons == {"rejected.no_event_time", "rejected.unparsable"}
    assert counted - reasons == {*rows_of("## Counts", "count")} - {"rejected.<reason>", "lost"}


def test_the_reasons_are_those_on_the_page() -> None:
    reasons = {admission.NO_EVENT_TIME, admission.UNPARSABLE}
    reasons |= {admission.OUT_OF_RANGE, admission.FUTURE}
    assert {*rows_of("## Counts", "reason")} == reasons


def test_the_parts_of_time_are_those_on_the_page_in_their_order(
    told: list[dict[str, Any]],
) -> None:
    shown = [name for name in rows_of("## Parts of time") if name != "job"]
    spent = [[*line["parts"]] for line in epochs(told)]
    assert {name for each in spent for name in each} == {*shown}
    for each in spent:
        assert each == sorted(each, key=shown.index)


@pytest.mark.parametrize(
    ("heading", "kind"), [("## `EpochReport`", EpochReport), ("## `RunStatus`", RunStatus)]
)
def test_the_fields_of_a_result_are_those_on_the_page(heading: str, kind: type) -> None:
    properties = [name for name, value in vars(kind).items() if isinstance(value, property)]
    known = {each.name for each in fields(kind)} | {*properties}
    assert {*rows_of(heading)} == known


def test_the_states_of_a_run_are_those_on_the_page() -> None:
    said_of = rows_of("## `RunStatus`")["state"]
    assert re.findall(r"`(\w+)`", said_of) == [*get_args(State)]


def epochs(told: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [line for line in told if line["event"] == "epoch"]


def rows_of(heading: str, column: str = "") -> Mapping[str, str]:
    """The first table behind a line that begins so, or that with this first column, by name."""
    _, found, rest = PAGE.partition(f"\n{heading}")
    assert found
    _, found, rest = rest.partition(f"\n| {column}" if column else "\n|---")
    assert found
    table, _, _ = rest.partition("\n\n")
    return dict(re.findall(r"^\| `([^`]+)` \| (.*) \|$", table, re.MULTILINE))
