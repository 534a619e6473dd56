"""`tidegate state rewind`: a source is read again, and nothing counts twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from tidegate.cli import app
from tidegate.frontends.toml import load_pipeline

PIPELINE = """\
name = "counted"

[[sources]]
name = "clicks"
format = "json"
event_time = "at"
event_time_unit = "s"
options = { path = "clicks" }

[[sources]]
name = "orders"
format = "json"
event_time = "at"
event_time_unit = "s"
options = { path = "orders" }

[transform.window]
kind = "tumbling"
width_ms = 10_000
group_by = ["user"]
inputs = ["clicks", "orders"]
aggregations = [{ kind = "count", output_name = "rows" }]

[state_store]
[target]
format = "memory"
"""


def rewound(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(app, ["state", "rewind", "p.toml", *arguments])
    assert result.exit_code == code, result.output
    return result


def listed() -> dict[str, Any]:
    """What the pipeline holds, but for how long."""
    result = CliRunner().invoke(app, ["state", "list", "p.toml", "--json"])
    found: dict[str, Any] = json.loads(result.stdout)[0]
    return {name: value for name, value in found.items() if name != "committed_s_ago"}


def written(path: str, *times: int) -> None:
    Path(path).parent.mkdir(exist_ok=True)
    lines = [json.dumps({"user": "ann", "at": at}) for at in times]
    Path(path).write_text("\n".join(lines) + "\n")


@pytest.fixture(autouse=True)
def after_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.toml").write_text(PIPELINE.replace("counted", f"counted-{tmp_path.name}"))
    written("clicks/1.json", 1, 2)
    written("clicks/2.json", 3)
    written("orders/1.json", 4)
    load_pipeline("p.toml").run(spark=spark)


def counted(spark: SparkSession) -> list[int]:
    result = load_pipeline("p.toml").run(spark=spark, on_end="flush")
    found: pl.DataFrame = result.to_polars()
    return found["rows"].to_list()


def test_a_source_is_read_again_from_its_beginning_and_others_go_on(spark: SparkSession) -> None:
    said = rewound("--source", "clicks", "--to", "earliest", "--reset-state", "--yes").stdout
    assert "the next run reads clicks again, and goes on with all other sources" in said
    assert counted(spark) == [3]  # the order was read before, and is not read again


def test_a_source_is_read_again_from_an_offset(spark: SparkSession) -> None:
    offset = listed()["sources"]["clicks"]
    first = json.dumps({**offset, "file": 1} if "file" in offset else dict.fromkeys(offset, 1))
    rewound("--source", "clicks", "--to", first, "--reset-state", "--yes")
    assert counted(spark) == [1]


def test_a_command_that_is_killed_has_changed_nothing(spark: SparkSession) -> None:
    arguments = ["--source", "clicks", "--to", "earliest", "--reset-state", "--yes"]
    before = listed()
    command = [sys.executable, "-m", "tidegate.cli", "state", "rewind", "p.toml", *arguments]
    killed = subprocess.run(
        command,
        env={**os.environ, "TIDEGATE_FAULT": "committing"},
        capture_output=True,
        check=False,
    )
    assert (killed.returncode, listed()) == (-signal.SIGKILL, before)
    rewound(*arguments)
    assert counted(spark) == [3]


def test_without_forgetting_the_state_it_is_refused(spark: SparkSession) -> None:
    said = rewound("--source", "clicks", "--to", "earliest", code=2).stderr
    assert "would count twice" in said
    assert counted(spark) == [4]


@pytest.mark.parametrize(
    ("source", "to", "told"),
    [
        ("click", "earliest", "did you mean 'clicks'?"),
        ("clicks", "yesterday", "earliest, or an offset such as {"),
        ("clicks", '{"page": 3}', "earliest, or an offset such as {"),
        ("clicks", "[1]", "earliest, or an offset such as {"),
    ],
)
def test_what_is_no_source_and_no_offset_is_told(source: str, to: str, told: str) -> None:
    said = rewound("--source", source, "--to", to, "--reset-state", "--yes", code=2).stderr
    assert told in said


def test_an_offset_that_was_never_reached_is_refused() -> None:
    offset = listed()["sources"]["clicks"]
    beyond = json.dumps({name: at + 100 for name, at in offset.items()})
    said = rewound("--source", "clicks", "--to", beyond, "--reset-state", "--yes", code=2).stderr
    assert "no offset behind" in said


def test_somebody_is_asked() -> None:
    arguments = ("--source", "clicks", "--to", "earliest", "--reset-state")
    assert "nobody is there to be asked" in rewound(*arguments, code=2).stderr
