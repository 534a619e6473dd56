"""Examples do what they say: from Python, from their file, and with the same pipeline in both."""

from __future__ import annotations

import importlib.util
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from tests.fix_packages import GEOMETRIC_MEAN, SQLITE_TABLES, environment_with
from tests.kafka_broker import KafkaServer
from tidegate.cli import app
from tidegate.frontends.toml import load_pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[3] / "examples"
LOCAL = ROOT / "click_sessions"
"""Windows over frames that somebody holds, without Spark: there is nothing to put into a file."""
NOTEBOOKS = ROOT / "notebook"
PACKAGES = (SQLITE_TABLES, GEOMETRIC_MEAN)
"""What packages bring has to be registered before a process begins."""
EXAMPLES = sorted(
    path for path in ROOT.iterdir() if path.is_dir() and path not in (LOCAL, NOTEBOOKS, *PACKAGES)
)

BY_PYTHON = ROOT / "sessions_from_files"

in_each = pytest.mark.parametrize("folder", EXAMPLES, ids=lambda path: path.name)
TOPICS = ("clicks", "clicks.rejected", "sessions")


@pytest.fixture
def served(
    folder: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """With a broker, where an example needs one."""
    if not folder.name.endswith("_kafka"):
        yield
        return
    server: KafkaServer = request.getfixturevalue("kafka_server")
    monkeypatch.setenv("KAFKA_SERVERS", server.servers)
    yield
    for topic in TOPICS:
        server.delete_topic(topic)


@in_each
def test_the_file_and_the_python_of_an_example_are_one_pipeline(folder: Path) -> None:
    written = load_pipeline(folder / "pipeline.toml").pipeline
    built = _module(folder).PIPELINE
    assert written.fingerprint() == built.fingerprint()
    assert written == built


def test_an_example_prints_its_expected_output_from_python(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One of them: the others are the same value from a file, which the command runs."""
    monkeypatch.chdir(tmp_path)
    _module(BY_PYTHON).main()
    assert capsys.readouterr().out == _expected(BY_PYTHON)


@pytest.mark.usefixtures("served")
@in_each
def test_an_example_prints_its_expected_output_when_the_command_runs_it(
    folder: Path,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    _module(folder).main(_by_command(folder / "pipeline.toml"))
    assert capsys.readouterr().out == _expected(folder)


def test_an_example_can_be_run_as_a_script(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(_script(LOCAL))],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == _expected(LOCAL)


def test_a_pipeline_runs_on_formats_of_another_package(tmp_path: Path) -> None:
    """Twice: what has been read and sent is neither read nor sent again."""
    environment = environment_with(SQLITE_TABLES, tmp_path / "site")
    shutil.copy(SQLITE_TABLES / "pipeline.toml", tmp_path)
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.executescript((SQLITE_TABLES / "clicks.sql").read_text())
        for _ in range(2):
            done = subprocess.run(
                [sys.executable, "-m", "tidegate.cli", "run", "--on-end", "flush"],
                capture_output=True,
                text=True,
                check=False,
                cwd=tmp_path,
                env=environment,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            query = "SELECT user, window_start, window_end, clicks FROM sessions ORDER BY 2, 1"
            assert connection.execute(query).fetchall() == [
                ("ann", "2026-01-01T12:00:00.000000+00:00", "2026-01-01T12:00:50.000000+00:00", 2),
                ("bob", "2026-01-01T12:00:05.000000+00:00", "2026-01-01T12:00:35.000000+00:00", 1),
                ("ann", "2026-01-01T12:05:00.000000+00:00", "2026-01-01T12:05:30.000000+00:00", 1),
            ]


def _script(folder: Path) -> Path:
    (script,) = folder.glob("*.py")
    return script


def _module(folder: Path) -> ModuleType:
    script = _script(folder)
    spec = importlib.util.spec_from_file_location(f"example_{folder.name}", script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _expected(folder: Path) -> str:
    return (folder / "expected_output.txt").read_text()


def _by_command(file: Path) -> Callable[..., None]:
    """What an example calls to run its pipeline: `tidegate run`, with settings as options."""

    def run(**settings: Any) -> None:
        options = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
        done = CliRunner().invoke(app, ["run", str(file), *options])
        assert done.exit_code == 0, done.output

    return run
