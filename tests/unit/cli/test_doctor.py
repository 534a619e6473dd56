"""The doctor: what each probe finds, and what people see of it."""

from __future__ import annotations

import importlib
import io
import json
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from tidegate import Pipeline, Source, StateStore, Target, Watermark, Window
from tidegate.cli import probes
from tidegate.cli.probes import PACKAGES, Finding, Level, Part, Version
from tidegate.pipeline import Aggregation

ROOT = Path(__file__).parents[3]
shown_by = importlib.import_module(
    "tidegate.cli.doctor"
)  # the package has the command by this name
PYTHON = sys.version.split()[0]
GB = 10**9


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JAVA_HOME", "SPARK_HOME", "PYSPARK_PYTHON", "SPARK_LOCAL_IP", "SPARK_LOCAL_DIRS"):
        monkeypatch.delenv(name, raising=False)


# --- Python and packages ----------------------------------------------------------------------


def test_python_and_packages_of_this_environment_are_those_that_the_tests_run_on() -> None:
    assert [*probes.packages({})] == [
        Finding("ok", "Python", f"{PYTHON}, {sys.executable}"),
        *(Finding("ok", name, str(probes.installed(name))) for name in PACKAGES),
    ]


def test_ranges_of_packages_are_those_that_are_installed_by() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    by_extra = {
        f"tidegate[{name}]": each for name, each in project["optional-dependencies"].items()
    }
    wanted = {"tidegate": project["dependencies"], **by_extra}
    for name, package in PACKAGES.items():
        ranges = dict(map(_range, wanted[package.install]))
        assert ranges[name] == (package.lowest, package.below), name


def _range(requirement: str) -> tuple[str, tuple[Version, Version | None]]:
    name, lowest, below = re.findall(r"^([\w-]+)[^>]*>=([\d.]+)(?:,<([\d.]+))?", requirement)[0]
    return name, (_version(lowest), _version(below) if below else None)


def _version(text: str) -> Version:
    return tuple(map(int, text.split(".")))


def packages_with(
    monkeypatch: pytest.MonkeyPatch, name: str, version: str | None, **needed_for: str
) -> Finding:
    """What is found of a package that is of this version."""
    there = probes.installed
    monkeypatch.setattr(probes, "installed", lambda each: version if each == name else there(each))
    (found,) = [each for each in probes.packages(needed_for) if each.what == name]
    return found


@pytest.mark.parametrize(
    ("version", "level"),
    [
        ("4.0.1", "problem"),
        ("4.1.0", "ok"),
        ("4.3.7.dev1", "ok"),
        ("4.4.0", "problem"),
        ("5.0", "problem"),
    ],
)
def test_pyspark_is_of_a_version_that_was_tried(
    version: str, level: Level, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = packages_with(monkeypatch, "pyspark", version)
    assert (found.level, found.found) == (level, version)


def test_a_missing_pyspark_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    hint = "pyspark 4.1 or later and below 4.4 is needed: pip install --upgrade 'tidegate[spark]'"
    found = packages_with(monkeypatch, "pyspark", None)
    assert found == Finding("problem", "pyspark", "not installed", hint)


def test_an_optional_package_is_a_note_unless_the_pipeline_needs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install = "pip install --upgrade 'tidegate[delta]'"
    assert packages_with(monkeypatch, "deltalake", None) == Finding(
        "note", "deltalake", "not installed", f"only needed for Delta tables as targets: {install}"
    )
    assert packages_with(monkeypatch, "deltalake", None, deltalake="the target") == Finding(
        "problem", "deltalake", "not installed, but needed for the target", install
    )


# --- Java and Spark ---------------------------------------------------------------------------


def program(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return file


class Java(NamedTuple):
    """A Java in JAVA_HOME, what it prints, and what the doctor finds."""

    prints: str
    level: Level
    found: str
    hint: str = ""


@pytest.mark.parametrize(
    "java",
    [
        Java("echo 'openjdk version \"17.0.15\" 2025-04-15' >&2", "ok", "17.0.15, "),
        Java("echo Picked up X >&2; echo 'java version \"21\" 2023' >&2", "ok", "21, "),
        Java(
            "echo 'openjdk version \"11.0.2\" 2019' >&2", "problem", "11.0.2, ", "install Java 17"
        ),
        Java("echo 'java version \"1.8.0_392\"' >&2", "problem", "1.8.0_392, ", "set JAVA_HOME to"),
        Java("exit 1", "problem", "which cannot be started", "install Java 17"),
    ],
)
def test_java_is_of_a_version_that_spark_can_use(
    java: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    binary = program(tmp_path / "bin" / "java", java.prints)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    (finding,) = probes.java()
    assert finding.level == java.level
    assert java.found in finding.found
    assert str(binary) in finding.found
    assert java.hint in finding.hint


def test_java_is_found_as_spark_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path = program(tmp_path / "bin" / "java", "echo 'java version \"17.0.1\"'")
    monkeypatch.setenv("PATH", str(on_path.parent))
    assert [*probes.java()] == [Finding("ok", "Java", f"17.0.1, {on_path}")]
    monkeypatch.setenv("JAVA_HOME", "/gone")
    (gone,) = probes.java()
    assert gone.found == "JAVA_HOME is /gone, which has no bin/java"
    assert gone.hint.startswith("unset JAVA_HOME")
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", "")
    (none,) = probes.java()
    assert (none.level, none.found) == ("problem", "not found, neither on PATH nor by JAVA_HOME")
    assert "openjdk-17-jre-headless" in none.hint


def test_spark_home_is_of_the_same_version_as_pyspark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pyspark = importlib.import_module("pyspark")
    monkeypatch.setenv("SPARK_HOME", str(Path(str(pyspark.__file__)).parent))
    assert [*probes.spark_home()] == []
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    (empty,) = probes.spark_home()
    assert (empty.level, empty.found) == ("problem", f"{tmp_path}, which has no Spark in it")
    jars = tmp_path / "jars"
    jars.mkdir()
    (jars / "spark-core_2.13-3.5.1.jar").touch()
    (other,) = probes.spark_home()
    assert other.level == "problem"
    assert other.found == f"{tmp_path} with Spark 3.5.1, but pyspark is {pyspark.__version__}"
    (jars / "spark-core_2.13-3.5.1.jar").rename(jars / f"spark-core_2.13-{pyspark.__version__}.jar")
    (same,) = probes.spark_home()
    assert same.level == "note"


@pytest.mark.parametrize(
    ("prints", "level", "found"),
    [
        (f"echo {PYTHON} True", "ok", f", Python {PYTHON}"),
        ("echo 3.8.1 False", "problem", f" is Python 3.8.1, the driver's is {PYTHON}"),
        (f"echo {PYTHON} False", "problem", ", which has no tidegate"),
        ("exit 3", "problem", ", which cannot be started"),
    ],
)
def test_workers_run_the_python_of_the_driver(
    prints: str, level: Level, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = program(tmp_path / "python", prints)
    monkeypatch.setenv("PYSPARK_PYTHON", str(python))
    (finding,) = probes.worker_python()
    assert (finding.level, finding.found) == (level, f"{python}{found}")
    assert (level == "ok") == (finding.hint == "")


def test_this_python_does_for_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert [each.level for each in probes.worker_python()] == ["ok"]


# --- the machine ------------------------------------------------------------------------------


def test_what_a_container_was_given_counts(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    assert probes.cores_and_memory(tmp_path) == (1, 1_000_000)
    cores, memory = probes.cores_and_memory(tmp_path / "none")
    assert cores == os.cpu_count()
    assert memory > GB


@pytest.mark.parametrize(
    ("cores", "memory", "level"),
    [(2, 8 * GB, "ok"), (64, 8 * GB, "note"), (4, 2 * GB, "note"), (1, GB, "problem")],
)
def test_spark_and_its_workers_fit_into_the_memory(
    cores: int, memory: int, level: Level, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probes, "cores_and_memory", lambda: (cores, memory))
    (found,) = probes.memory()
    assert (found.level, "fewer cores" in found.hint) == (level, level != "ok")


@pytest.mark.parametrize(
    ("limit", "levels"),
    [(255, ["problem"]), (256, ["note"]), (1024, []), (resource.RLIM_INFINITY, [])],
)
def test_few_open_files_are_told(
    limit: int, levels: list[Level], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    assert [each.level for each in probes.open_files()] == levels


def test_a_machine_without_an_address_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "nowhere.invalid")
    (found,) = probes.host_name()
    assert found.found.startswith("nowhere.invalid has no address: ")
    assert "SPARK_LOCAL_IP" in found.hint
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    assert [*probes.host_name()] == []


# --- files and folders ------------------------------------------------------------------------


class Disk(NamedTuple):
    free: int


@pytest.mark.parametrize(
    ("free", "level", "found"),
    [(5 * GB, "ok", "5 GB"), (GB - 1, "note", "1e+03 MB"), (10**6, "problem", "1 MB")],
)
def test_a_folder_has_room(
    free: int, level: Level, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Disk(free))
    there = probes.written("state folder", tmp_path)
    assert (there.level, there.found) == (level, f"{tmp_path}, {found} free")
    to_come = probes.written("state folder", tmp_path / "a" / "b")
    assert (to_come.level, to_come.found) == (level, f"{tmp_path}/a/b, to be made, {found} free")


def test_a_folder_can_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.touch()
    assert probes.read("source", str(file)) == Finding("ok", "source", str(file))
    below = probes.written("target", file / "out")
    assert (below.level, below.found) == ("problem", f"{file} is a file, not a folder")
    missing = probes.read("source", f"{tmp_path}/gone/*.csv")
    assert (missing.level, missing.found) == ("problem", f"{tmp_path}/gone is not there")
    monkeypatch.setattr(os, "access", lambda *_: False)
    closed = probes.written("target", tmp_path / "out")
    assert (closed.level, closed.found) == (
        "problem",
        f"{tmp_path} cannot be written to by this user",
    )
    closed = probes.read("source", str(file))
    assert (closed.level, closed.found) == ("problem", f"{file} cannot be read by this user")


def test_scratch_of_spark_is_where_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", "/a/scratch, /b")
    found = [each.found.split(",")[0] for each in probes.scratch()]
    assert found == ["/a/scratch", "/b"]


# --- what a pipeline uses ---------------------------------------------------------------------


def pipeline(**parts: Any) -> Pipeline:
    return Pipeline(
        **{
            "name": "clicks",
            "sources": Source(
                name="clicks", format="csv", event_time="at", options={"path": "data/*.csv"}
            ),
            "window": Window(
                kind="tumbling",
                width_ms=1000,
                group_by="user",
                aggregations=[Aggregation(kind="count")],
            ),
            "watermark": Watermark(max_out_of_order_ms=0),
            "target": Target(format="parquet", options={"path": "out"}),
            "state_store": StateStore(url="state"),
            **parts,
        }
    )


def found_of(made: Pipeline) -> list[tuple[str, str]]:
    findings = (each for part in probes.parts_of(made) for each in probes.used_by(part))
    return [(each.what, each.found.split(",")[0]) for each in findings]


def test_folders_of_a_pipeline_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "data").mkdir()
    assert found_of(pipeline(rejected=Target(format="csv", options={"path": "bad"}))) == [
        ("state folder", f"{tmp_path}/state"),
        ("source clicks", f"{tmp_path}/data"),
        ("target", f"{tmp_path}/out"),
        ("target: staging", f"{tmp_path}"),
        ("target of rejected rows", f"{tmp_path}/bad"),
    ]


def test_what_is_elsewhere_is_left_to_who_reads_it() -> None:
    s3 = {"path": "s3://bucket/x"}
    made = pipeline(
        sources=Source(name="clicks", format="parquet", event_time="at", options=s3),
        target=Target(format="orc", options={"path": "out"}),
    )
    assert [what for what, _ in found_of(made)] == ["state folder"]


@pytest.fixture
def listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def closed() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_brokers_are_tried(listening: int, closed: int) -> None:
    servers = f"127.0.0.1:{listening}, 127.0.0.1:{closed},no port:x"
    options = {"bootstrap_servers": servers, "topic": "clicks"}
    found = [*probes.used_by(Part("source clicks", "source", "kafka", options))]
    assert [(each.level, each.found) for each in found] == [
        ("ok", f"127.0.0.1:{listening} takes connections"),
        ("problem", f"127.0.0.1:{closed} cannot be reached: connection refused"),
        ("problem", found[2].found),
    ]
    assert "no port:x cannot be reached: port could not be cast" in found[2].found


def test_a_database_that_is_away_is_named_without_a_password(closed: int) -> None:
    url = f"postgresql://ann:s3cret@127.0.0.1:{closed}/x"
    (found,) = probes.used_by(Part("state store", "store", "postgres", {"url": url}))
    assert (found.level, found.what) == ("problem", "state store")
    assert found.found.startswith(f"postgres 127.0.0.1:{closed}/x: ")
    assert "Connection refused" in found.found
    assert found.hint == "check that it runs and can be reached, and host and port of the url"
    assert "s3cret" not in str(found)


def test_packages_that_a_pipeline_needs_are_named_with_what_needs_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(probes, "installed", lambda _: None)
    made = pipeline(
        sources=Source(name="clicks", format="kafka", event_time="at", options={"topic": "t"}),
        target=Target(format="delta", options={"path": "s3://bucket/x"}),
        state_store=StateStore(kind="postgres", url="postgresql://db/x"),
    )
    found = {each.what: each.found for each in probes.findings(made)}
    assert [found[name].rpartition("needed for ")[2] for name in [*PACKAGES][5:]] == [
        "target",
        "state store",
        "source clicks",
    ]


# --- what people see --------------------------------------------------------------------------

FINDINGS = [
    Finding("ok", "Python", "3.11.2"),
    Finding("problem", "Java", "not found", "install it"),
    Finding("note", "deltalake", "not installed [yet]"),
]


def test_a_finding_is_a_line_and_its_hint_another() -> None:
    assert shown_by.lines_of(FINDINGS) == [
        "ok       Python     3.11.2",
        "problem  Java       not found",
        "                    -> install it",
        "note     deltalake  not installed [yet]",
    ]


@pytest.mark.parametrize("terminal", [True, False])
def test_all_of_it_is_shown_in_a_terminal_and_in_a_pipe(terminal: bool) -> None:
    to = Console(force_terminal=terminal, record=True, width=60, file=io.StringIO())
    shown_by.show(FINDINGS, to)
    text = to.export_text()
    assert [each for each in ("3.11.2", "install it", "[yet]") if each not in text] == []
    assert text.splitlines()[-1] == "1 problem, 1 note"


@pytest.fixture
def app() -> typer.Typer:
    made = typer.Typer()
    made.command()(shown_by.doctor)
    return made


def test_json_says_the_same(app: typer.Typer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "findings", lambda _: FINDINGS)
    result = CliRunner().invoke(app, ["--json"])
    told = json.loads(result.output)
    assert (told["problems"], told["notes"]) == (1, 1)
    assert told["findings"][1] == {
        "level": "problem",
        "what": "Java",
        "found": "not found",
        "hint": "install it",
    }
    assert result.exit_code == 1


def test_notes_are_no_failure(app: typer.Typer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "findings", lambda _: [FINDINGS[0], FINDINGS[2]])
    result = CliRunner().invoke(app, [])
    assert result.output.splitlines()[-1] == "no problems, 1 note"
    assert result.exit_code == 0


PIPELINE = """
name = "clicks"
[[sources]]
name = "clicks"
format = "json"
event_time = "at"
options = {{ path = "{folder}/missing" }}
[transform.window]
kind = "tumbling"
width_ms = 1000
group_by = "user"
aggregations = [{{ kind = "count" }}]
[target]
format = "parquet"
options = {{ path = "{folder}/out" }}
[state_store]
url = "{folder}/state"
"""


def test_the_folders_of_a_pipeline_file_are_among_the_findings(
    app: typer.Typer, tmp_path: Path
) -> None:
    file = tmp_path / "clicks.toml"
    file.write_text(PIPELINE.format(folder=tmp_path))
    result = CliRunner().invoke(app, [str(file), "--json"])
    found = {each["what"]: each for each in json.loads(result.output)["findings"]}
    assert found["source clicks"]["found"] == f"{tmp_path}/missing is not there"
    assert found["state folder"]["found"].startswith(f"{tmp_path}/state, to be made, ")
    assert found["target"]["level"] == "ok"
    assert result.exit_code == 1
    assert not (tmp_path / "state").exists()


def test_a_broken_pipeline_file_is_a_mistake_of_the_user(app: typer.Typer, tmp_path: Path) -> None:
    file = tmp_path / "clicks.toml"
    file.write_text("nome = 'x'")
    result = CliRunner().invoke(app, [str(file)])
    assert result.exit_code == 2
    assert "clicks.toml:1" in result.stderr


def test_the_doctor_works_where_nothing_of_spark_is(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "sys.modules['pyspark'] = None\n"
        "import importlib.metadata as m\n"
        "real = m.version\n"
        "def version(name):\n"
        "    if name == 'pyspark': raise m.PackageNotFoundError(name)\n"
        "    return real(name)\n"
        "m.version = version\n"
        "from tidegate.cli import app\n"
        "app(['doctor', '--json', '--spark'])\n"
    )
    environment = {**os.environ, "PATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={name: value for name, value in environment.items() if name != "JAVA_HOME"},
    )
    assert done.returncode == 1, done.stderr
    found = {each["what"]: each for each in json.loads(done.stdout)["findings"]}
    assert found["pyspark"]["found"] == "not installed"
    assert found["Java"]["found"] == "not found, neither on PATH nor by JAVA_HOME"
    assert found["Spark"]["level"] == "problem"
