"""The command line: lines, counts and exit codes."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidegate.cli import app
from tidegate.frontends.toml import load_pipeline

HOLDS = """
- id: holds
  window: {kind: tumbling, width_ms: 10}
  steps: [{advance_watermark: 10, expect: []}]
"""
SKIPPED = """
- id: chained
  pipeline: []
"""
FAILS = """
- id: wrong
  window: {kind: tumbling, width_ms: 10}
  steps:
  - {advance_watermark: 10, expect: [{count: 1}], expect_watermark: 11}
"""


def _file(folder: Path, *cases: str) -> str:
    path = folder / "cases.yaml"
    path.write_text("cases:" + "".join(cases), encoding="utf-8")
    return str(path)


def test_a_case_that_fails_and_one_that_is_skipped_have_a_line_each(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["scenario", _file(tmp_path, HOLDS, SKIPPED, FAILS)])
    assert result.output.splitlines() == [
        "skipped chained: kind chained, not built yet",
        "failed wrong: step 0: expected and not sent: {count: 1}"
        " | step 0: watermark: expected 11, found 10",
        "1 passed, 1 failed, 1 skipped",
    ]
    assert result.exit_code == 1


@pytest.mark.parametrize("engine", ["core", "core-restart"])
def test_nothing_failed_is_success(tmp_path: Path, engine: str) -> None:
    path = _file(tmp_path, HOLDS, SKIPPED)
    result = CliRunner().invoke(app, ["scenario", path, "--engine", engine])
    assert result.output.splitlines()[-1] == "1 passed, 0 failed, 1 skipped"
    assert result.exit_code == 0


def test_several_paths_are_one_run(tmp_path: Path) -> None:
    path = _file(tmp_path, HOLDS)
    result = CliRunner().invoke(app, ["scenario", path, str(tmp_path)])
    assert result.output.splitlines() == ["2 passed, 0 failed, 0 skipped"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["scenario", "/nowhere.yaml"], "tidegate: /nowhere.yaml: no such file or folder\n"),
        (["scenario", "/nowhere.yaml", "--engine", "flink"], "flink"),
        (["scenario"], "PATH"),
        (["scenery"], "scenery"),
    ],
)
def test_a_mistake_of_the_user_is_told_without_a_traceback(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert "Traceback" not in result.output


def test_a_broken_file_is_a_mistake_of_the_user(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["scenario", _file(tmp_path, "\n- tier: core")])
    assert result.exit_code == 2
    assert "case number 1 has no id" in result.stderr


def test_help_names_the_commands() -> None:
    result = CliRunner().invoke(app, ["--help"])
    assert result.exit_code == 0
    assert "scenario" in result.output
    assert "version" in result.output


def test_a_shell_that_completes_does_not_wait_for_the_core() -> None:
    heavy = "('polars', 'pyarrow', 'numpy', 'pyspark', 'sqlglot')"
    code = f"import sys, tidegate.cli; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_new_pipeline_is_named_after_its_folder_as_far_as_names_go(tmp_path: Path) -> None:
    folder = tmp_path / 'my "visits" of today'
    assert CliRunner().invoke(app, ["init", str(folder)]).exit_code == 0
    assert load_pipeline(folder / "pipeline.toml").pipeline.name == "my-visits-of-today"


def test_a_new_pipeline_is_not_given_a_name_that_it_could_not_run_under(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["init", str(tmp_path), "--name", "try/../x"])
    assert result.exit_code == 2
    assert "--name: found 'try/../x', expected 1 to 100 letters" in result.output
    assert [*tmp_path.iterdir()] == []
