"""Documents say what happens: every one of them is run, all on the Spark of the tests."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.faults.attaching import to_attach
from tests.services.documents.transcripts import differences, steps_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[3]
HOWTOS = sorted(ROOT.glob("docs/howto/*.md"))
WITH_COMMANDS = [
    page for page in sorted(ROOT.glob("docs/**/*.md")) if [*steps_of(page.read_text())]
]

RUN_CODE = re.compile(r"<!-- run by .*? -->\n```python\n(.*?)```\n", re.DOTALL)
RUN_AND_PRINTED = re.compile(RUN_CODE.pattern + r"\n```\n(.*?)```", re.DOTALL)
RUN_SQL = re.compile(r"<!-- run by .*? -->\n```sql\n(.*?)```\n", re.DOTALL)
WITH_CODE = [page for page in HOWTOS if RUN_CODE.search(page.read_text())]
QUERIES = 7
"""In all pages, each shown as one that finds something."""

README_CODE = RUN_AND_PRINTED.findall((ROOT / "README.md").read_text())
(ON_SPARK,) = [each for each in README_CODE if ".run(" in each[0]]

KILLED = -9
ATTACHED = "from tests.faults.attaching import attached; attached()\n"
"""Before code that is to find a session, as in a notebook of a cluster."""


@contextmanager
def inside(folder: Path, spark: SparkSession) -> Iterator[None]:
    """Relative paths begin in this folder, for Python and for the JVM."""
    jvm: Any = spark._jvm
    files = jvm.org.apache.hadoop.fs.FileSystem.getLocal(spark._jsc.hadoopConfiguration())
    before = jvm.System.getProperty("user.dir")

    def begin_in(place: str) -> None:
        jvm.System.setProperty("user.dir", place)  # of file systems that are opened from now on
        files.setWorkingDirectory(jvm.org.apache.hadoop.fs.Path(place))

    begin_in(str(folder))
    try:
        with chdir(folder):
            yield
    finally:
        begin_in(before)


def run(name: str, code: str) -> None:
    """As a script of that name."""
    exec(compile(code, f"{name}.py", "exec"), {"__name__": name})


@pytest.mark.parametrize(
    ("code", "printed"), [each for each in README_CODE if each is not ON_SPARK]
)
def test_the_readme_prints_what_it_shows(
    code: str, printed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with chdir(tmp_path):
        run("readme", code)
    assert capsys.readouterr().out == printed


def test_the_readme_prints_what_it_shows_also_when_it_was_killed(
    spark: SparkSession, tmp_path: Path
) -> None:
    code, printed = ON_SPARK
    ours = to_attach(spark.sparkContext)
    killed = _script(ATTACHED + code, tmp_path, **ours, TIDEGATE_FAULT="committed:4")
    assert killed.returncode == KILLED, killed.stderr
    done = _script(ATTACHED + code, tmp_path, **ours)
    assert (done.returncode, done.stdout) == (0, printed), done.stderr


def test_the_readme_has_code_to_run() -> None:
    assert len(README_CODE) == 3


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: page.stem)
def test_the_commands_of_a_page_do_what_it_shows(
    page: Path, spark: SparkSession, tmp_path: Path
) -> None:
    assert differences(page.read_text(), tmp_path) == []


def test_the_pages_with_commands_are_found() -> None:
    assert {page.stem for page in WITH_COMMANDS} >= {"quickstart", "change-a-running-pipeline"}


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.stem)
def test_the_code_of_a_page_prints_what_it_shows(
    page: Path, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = page.read_text()
    with inside(tmp_path, spark):
        run(page.stem, "\n".join(RUN_CODE.findall(text)))
    printed = capsys.readouterr().out
    shown = [output for _, output in RUN_AND_PRINTED.findall(text)]
    assert [each for each in shown if each not in printed] == []
    queries = [each for script in RUN_SQL.findall(text) for each in _queries(script)]
    assert [each for each in queries if not _finds(tmp_path / "state" / "tidegate.db", each)] == []


def test_the_queries_of_pages_are_found() -> None:
    texts = [page.read_text() for page in WITH_CODE]
    scripts = [script for text in texts for script in RUN_SQL.findall(text)]
    assert len([each for script in scripts for each in _queries(script)]) == QUERIES


def _queries(script: str) -> list[str]:
    return [each for each in script.split(";") if each.strip()]


def _finds(database: Path, query: str) -> bool:
    """Whether it finds anything, but for the log, which may be empty."""
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
        return bool(connection.execute(query).fetchall()) or "streaming_log" in query


def _script(code: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own, in a folder where it may leave what it likes."""
    local = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    local["PYTHONPATH"] = f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, **local, **environment},
    )
