"""Documents say what happens: every one of them is run."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.attaching import to_attach
from tests.unit.transcripts import differences, steps_of
from tidegate.testing import load_scenarios

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
HOWTOS = sorted(ROOT.glob("docs/howto/*.md"))
WITH_COMMANDS = [
    page for page in sorted(ROOT.glob("docs/**/*.md")) if [*steps_of(page.read_text())]
]

WITH_STREAMS = [page for page in HOWTOS if ".readStream" in page.read_text()]

RUN_CODE = re.compile(r"<!-- run by .*? -->\n```python\n(.*?)```\n", re.DOTALL)
RUN_AND_PRINTED = re.compile(RUN_CODE.pattern + r"\n```\n(.*?)```", re.DOTALL)
RUN_SQL = re.compile(r"<!-- run by .*? -->\n```sql\n(.*?)```\n", re.DOTALL)

README_CODE = RUN_AND_PRINTED.findall((ROOT / "README.md").read_text())
(ON_SPARK,) = [each for each in README_CODE if ".run(" in each[0]]

KILLED = -9
ATTACHED = "from tests.faults.attaching import attached; attached()\n"
"""Before code that is to find a session, as in a notebook of a cluster."""


@pytest.mark.parametrize(
    ("code", "printed"), [each for each in README_CODE if each is not ON_SPARK]
)
def test_the_readme_prints_what_it_shows(code: str, printed: str, tmp_path: Path) -> None:
    assert _output(["-c", code], tmp_path) == printed


@pytest.mark.spark
def test_the_readme_prints_what_it_shows_also_when_it_was_killed(
    spark: SparkSession, tmp_path: Path
) -> None:
    code, printed = ON_SPARK
    ours = to_attach(spark.sparkContext)
    killed = _run(["-c", ATTACHED + code], tmp_path, **ours, TIDEGATE_FAULT="committed:4")
    assert killed.returncode == KILLED, killed.stderr
    assert _output(["-c", ATTACHED + code], tmp_path, **ours) == printed


def test_the_readme_has_code_to_run() -> None:
    assert len(README_CODE) == 3


@pytest.mark.spark
@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: page.stem)
def test_the_commands_of_a_page_do_what_it_shows(
    page: Path, spark: SparkSession, tmp_path: Path
) -> None:
    assert differences(page.read_text(), tmp_path) == []


def test_the_pages_with_commands_are_found() -> None:
    assert {page.stem for page in WITH_COMMANDS} >= {"quickstart", "change-a-running-pipeline"}


@pytest.mark.spark
def test_every_how_to_runs_and_prints_what_it_shows(spark: SparkSession, tmp_path: Path) -> None:
    """All of them in one process, each in a folder of its own, on the Spark of the tests."""
    pages = [page for page in HOWTOS if page not in WITH_STREAMS]
    ours = to_attach(spark.sparkContext)
    assert _not_printed(pages, tmp_path, before=ATTACHED, **ours) == []
    found = [
        found
        for page in pages
        for script in RUN_SQL.findall(page.read_text())
        for found in _rows(tmp_path / page.stem / "state" / "tidegate.db", script)
    ]
    assert found == [True] * 7


@pytest.mark.spark
@pytest.mark.parametrize("page", WITH_STREAMS, ids=lambda page: page.stem)
def test_a_how_to_with_streams_of_spark_runs_and_prints_what_it_shows(
    page: Path, tmp_path: Path
) -> None:
    """In a process of its own: their paths are relative to where the JVM began."""
    assert _not_printed([page], tmp_path) == []


def _not_printed(
    pages: list[Path], folder: Path, before: str = "", **environment: str
) -> list[str]:
    """Run the code of pages; give the outputs that they show and that do not come."""
    texts = {page.stem: page.read_text() for page in pages}
    for name, text in texts.items():
        (folder / name).mkdir()
        (folder / f"{name}.py").write_text("\n".join(RUN_CODE.findall(text)))
    known = {"PYSPARK_PYTHON": sys.executable, **environment}
    printed = _output(["-c", before + RUN_ALL, *texts], folder, **known)
    shown = [output for text in texts.values() for _, output in RUN_AND_PRINTED.findall(text)]
    return [each for each in shown if each not in printed]


RUN_ALL = """
import os, sys
from pathlib import Path
folder = Path.cwd()
for name in sys.argv[1:]:
    os.chdir(folder / name)
    file = folder / f"{name}.py"
    exec(compile(file.read_text(), str(file), "exec"), {"__name__": name})
"""


def _rows(database: Path, script: str) -> list[bool]:
    """For each statement whether it finds anything, but for the log, which may be empty."""
    queries = [each for each in script.split(";") if each.strip()]
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
        return [
            bool(connection.execute(each).fetchall()) or "streaming_log" in each for each in queries
        ]


def test_the_figures_of_why_are_those_of_the_readme() -> None:
    measured = [
        line
        for line in (ROOT / "docs" / "why.md").read_text().splitlines()
        if re.match(r"\| (sessions|two streams).*\d", line)
    ]
    assert len(measured) == 3
    assert [line for line in measured if line not in (ROOT / "README.md").read_text()] == []


def test_every_case_named_in_the_semantics_exists_in_its_file() -> None:
    text = (ROOT / "docs" / "semantics.md").read_text()
    body, _, _ = text.partition("\n[r01]:")
    files = dict(re.findall(r"^\[(r\d\d[a-z]?)\]: (\S+)$", text, re.MULTILINE))
    known = {rule: _case_ids(ROOT / "docs" / path) for rule, path in files.items()}
    everywhere = set().union(*known.values())
    named = set(re.findall(r"`([a-z0-9]+(?:-[a-z0-9]+){2,})`", body))
    assert named - everywhere == set()
    assert everywhere - named == set()


@pytest.mark.parametrize(
    "page", sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]), ids=lambda p: p.name
)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())
    relative = [link for link in links if "://" not in link]
    assert [link for link in relative if not (page.parent / link).exists()] == []


@pytest.mark.parametrize(
    "page", sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]), ids=lambda p: p.name
)
def test_the_links_to_a_heading_lead_to_one(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s:]*\.md|)#([^)\s]+)\)", page.read_text())
    missing = [
        (to, heading)
        for to, heading in links
        if heading not in _headings(page.parent / to if to else page)
    ]
    assert missing == []


def _headings(page: Path) -> set[str]:
    """Headings as GitHub names them in addresses."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_module_and_point_that_the_architecture_names_is_there() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    _, _, table = text.partition("## To change X, open Y")
    named = re.findall(
        r"`((?:core|pipeline|sources|spark|state|targets|testing)/[\w/]+\.py)`", table
    )
    assert [each for each in named if not (ROOT / "src" / "tidegate" / each).exists()] == []
    sources = "".join(path.read_text() for path in ROOT.glob("src/tidegate/**/*.py"))
    points = set(re.findall(r'faults\.reached\("(\w+)"\)', sources))
    assert [point for point in sorted(points) if f"`{point}`" not in text] == []


def _case_ids(path: Path) -> set[str]:
    return {scenario.id for scenario in load_scenarios(path)}


def _output(arguments: list[str], folder: Path, **environment: str) -> str:
    done = _run(arguments, folder, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _run(
    arguments: list[str], folder: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder where it may leave what it likes."""
    local = {"SPARK_LOCAL_IP": "127.0.0.1", "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1"}
    local["PYTHONPATH"] = f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, **local, **environment},
    )
