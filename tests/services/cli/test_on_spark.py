"""Commands that run something on the Spark session that is there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from typer.testing import CliRunner

from tests.unit.cli.test_cli import HOLDS
from tidegate.cli import app

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_case_runs_on_spark(tmp_path: Path, spark: SparkSession) -> None:
    (tmp_path / "case.yaml").write_text(f"cases:{HOLDS}")
    result = CliRunner().invoke(app, ["scenario", str(tmp_path), "--engine", "spark"])
    assert result.output.splitlines() == ["1 passed, 0 failed, 0 skipped"]
    assert result.exit_code == 0


def test_the_doctor_runs_a_task(spark: SparkSession) -> None:
    result = CliRunner().invoke(app, ["doctor", "--spark", "--json"])
    found = {each["what"]: each for each in json.loads(result.output)["findings"]}
    assert re.fullmatch(
        r"4\.\d\.\d started in [\d.]+ m?s, first task [\d.]+ m?s", found["Spark"]["found"]
    )
    assert found["Spark"]["level"] == "ok"
