"""The package of the example keeps the contracts, and the command knows its formats."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from tests.fix_packages import SQLITE_TABLES, environment_with


@pytest.fixture
def environment(tmp_path: Path) -> Mapping[str, str]:
    return environment_with(SQLITE_TABLES, tmp_path / "site")


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A folder with the pipeline of the example and its database."""
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "pipeline.toml").write_text((SQLITE_TABLES / "pipeline.toml").read_text())
    with closing(sqlite3.connect(folder / "shop.db")) as connection:
        connection.executescript((SQLITE_TABLES / "clicks.sql").read_text())
    return folder


def ran(
    environment: Mapping[str, str], folder: Path, *command: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_example_keeps_the_contracts(environment: Mapping[str, str], tmp_path: Path) -> None:
    options = ("-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--import-mode=importlib")
    done = ran(environment, tmp_path, "pytest", *options, str(SQLITE_TABLES / "test_contracts.py"))
    assert done.returncode == 0, done.stdout
    assert " passed in " in done.stdout


def test_check_knows_the_formats_of_the_example(environment: Mapping[str, str], shop: Path) -> None:
    done = ran(environment, shop, "tidegate.cli", "check")
    assert (done.returncode, done.stdout.splitlines()) == (
        0,
        [
            "click-sessions: can be run",
            "  source clicks: user string, at string",
            "  sends: user string, window_start timestamp, window_end timestamp, session_id long, "
            "clicks long, revision long",
            "  state: none yet, the first run begins at the beginning",
        ],
    ), done.stderr


def test_mistakes_in_options_are_found_where_they_are_written(
    environment: Mapping[str, str], shop: Path
) -> None:
    file = shop / "pipeline.toml"
    file.write_text(file.read_text().replace('table = "sessions"', 'tabel = "sessions"'))
    done = ran(environment, shop, "tidegate.cli", "check")
    assert done.returncode == 2
    lines = [each for each in done.stderr.splitlines() if "pipeline.toml" in each]
    assert [each.partition(": ")[2].partition(":")[0] for each in lines] == [
        "target.options.tabel",
        "target.options.table",
    ]


def test_without_the_package_its_format_is_taken_for_one_of_spark(shop: Path) -> None:
    """There is no such format: `check` would start Spark to ask for it."""
    program = (
        "from tidegate import load_pipeline; from tidegate.sources import open_source;"
        "print(open_source(load_pipeline('pipeline.toml').pipeline.sources[0], []))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=shop, capture_output=True, text=True, check=False
    )
    assert "'upsert'" not in done.stderr
    assert done.stdout == "None\n", done.stderr
