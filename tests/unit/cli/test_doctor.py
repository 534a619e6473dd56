"""The doctor: findings by facts, facts by looking, and what people see of them."""

from __future__ import annotations

import importlib
import io
import json
import os
import re
import socket
import subprocess
import sys
import time
import tomllib
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from tidegate import Pipeline, Source, StateStore, Target, Watermark, Window
from tidegate.cli import doctor_gathering, doctor_machine
from tidegate.cli.doctor_checks import OPTIONAL, REQUIRED, Finding, Level, examined
from tidegate.cli.doctor_facts import (
    Facts,
    Interpreter,
    Java,
    Machine,
    Place,
    Server,
    Spark,
    Version,
)
from tidegate.cli.doctor_gathering import gathered, java_facts, spark_facts
from tidegate.cli.doctor_pipeline import Address, Part, addresses_of, places_of, servers_of, uses_of
from tidegate.cli.doctor_places import seen
from tidegate.pipeline import Aggregation

ROOT = Path(__file__).parents[3]
shown_by = importlib.import_module(
    "tidegate.cli.doctor"
)  # the package has the command by this name
NOW_S = 1_790_000_000.0

HEALTHY = Facts(
    python=Interpreter(path="/env/bin/python", version=(3, 11, 2)),
    packages={
        "polars": "2.1.0",
        "pyarrow": "26.0.1",
        "numpy": "2.4.6",
        "pandas": "2.3.3",
        "pyspark": "4.3.0",
        "deltalake": "1.6.6",
        "psycopg": "3.2.0",
        "confluent-kafka": "2.5.0",
    },
    java=Java(home=None, binary="/usr/bin/java", version="17.0.15", needed=17),
    spark=Spark(package_folder="/env/pyspark"),
    machine=Machine(
        cores=2,
        memory_bytes=8 * 10**9,
        open_files=1024,
        filesystem_encoding="utf-8",
        text_encoding="UTF-8",
        host_name="here",
        now_s=NOW_S,
    ),
)
STATE = Place(
    what="state folder",
    path="/data/state",
    use="write",
    nearest="/data/state",
    free_bytes=5 * 10**9,
    enough_bytes=10**9,
)


def odd(facts: Facts) -> list[Finding]:
    """What is not as it should be."""
    return [finding for finding in examined(facts) if finding.level != "ok"]


def of(facts: Facts, what: str) -> list[Finding]:
    return [finding for finding in examined(facts) if finding.what == what]


def levels(facts: Facts) -> list[tuple[Level, str]]:
    return [(finding.level, finding.what) for finding in odd(facts)]


def test_on_a_healthy_machine_everything_is_fine() -> None:
    assert odd(HEALTHY) == []
    assert [finding.what for finding in examined(HEALTHY)] == [
        "Python",
        *REQUIRED,
        "Java",
        *OPTIONAL,
        "cores",
        "memory",
        "open files",
        "encoding",
        "clock",
    ]


def test_whatever_is_odd_comes_with_something_to_do() -> None:
    bad = replace(
        HEALTHY,
        python=Interpreter(path="/old/python", version=(3, 9, 1)),
        packages={},
        java=Java(home=None, binary=None, version=None, needed=17),
        spark=Spark(
            package_folder=None,
            home="/opt/spark",
            conf_dir="/gone",
            conf_dir_there=False,
            driver_memory="64g",
            workers=Interpreter(path="/x", version=None, same_environment=False),
        ),
        machine=Machine(
            cores=64,
            memory_bytes=10**9,
            open_files=64,
            filesystem_encoding="ascii",
            text_encoding="ANSI_X3.4-1968",
            host_name="here",
            host_error="name unknown",
            now_s=0,
        ),
        places=(replace(STATE, permitted=False),),
        servers=(Server(what="state store", address="db:5432", error="refused"),),
    )
    findings = examined(bad)
    assert [each.what for each in findings if each.level == "ok"] == ["cores"]
    assert [each.what for each in findings if each.level != "ok" and not each.hint] == []


# --- Python and packages ----------------------------------------------------------------------


def test_an_old_python_is_a_problem() -> None:
    facts = replace(HEALTHY, python=Interpreter(path="/p", version=(3, 10, 9)))
    hint = "make an environment with Python 3.11 or later"
    assert odd(facts) == [Finding("problem", "Python", "3.10.9, /p", hint)]


def test_ranges_of_packages_are_those_that_are_installed_by() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["spark"]]
    ranges = dict(filter(None, map(_range, wanted)))
    assert {name: ranges[name] for name in REQUIRED} == REQUIRED
    assert tuple(map(int, project["requires-python"].removeprefix(">=").split("."))) == (3, 11)


def _range(requirement: str) -> tuple[str, tuple[Version, Version | None]] | None:
    found = re.fullmatch(r"([\w-]+)>=([\d.]+)(?:,<([\d.]+))?", requirement)
    if found is None:
        return None
    name, lowest, below = found.groups()
    return name, (_version(lowest), _version(below) if below else None)


def _version(text: str) -> Version:
    return tuple(map(int, text.split(".")))


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
def test_pyspark_is_of_a_version_that_was_tried(version: str, level: Level) -> None:
    facts = replace(HEALTHY, packages={**HEALTHY.packages, "pyspark": version})
    (found,) = of(facts, "pyspark")
    assert (found.level, found.found) == (level, version)


def test_a_missing_pyspark_says_how_to_get_it() -> None:
    facts = replace(HEALTHY, packages={**HEALTHY.packages, "pyspark": None})
    hint = "pyspark 4.1 or later and below 4.4 is needed: pip install --upgrade 'tidegate[spark]'"
    assert odd(facts) == [Finding("problem", "pyspark", "not installed", hint)]


def test_an_optional_package_is_a_note_unless_the_pipeline_needs_it() -> None:
    facts = replace(HEALTHY, packages={**HEALTHY.packages, "deltalake": None})
    hint = "only needed for Delta tables as targets: pip install 'tidegate[delta]'"
    assert odd(facts) == [Finding("note", "deltalake", "not installed", hint)]
    found = "not installed, but needed for the target"
    assert odd(replace(facts, used_packages={"deltalake": "the target"})) == [
        Finding("problem", "deltalake", found, "pip install 'tidegate[delta]'")
    ]


# --- Java and Spark ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("java", "level", "found", "hint"),
    [
        (Java(home=None, binary=None, version=None, needed=17), "problem", "not found", "install"),
        (
            Java(home="/gone", binary=None, version=None, needed=17),
            "problem",
            "JAVA_HOME is /gone, which has no bin/java",
            "unset JAVA_HOME",
        ),
        (
            Java(home=None, binary="/j", version="11.0.2", needed=17),
            "problem",
            "11.0.2, /j",
            "openjdk-17-jre-headless",
        ),
        (
            Java(home="/eight", binary="/j", version="1.8.0_392", needed=17),
            "problem",
            "1.8.0_392",
            "set JAVA_HOME to its folder",
        ),
        (Java(home=None, binary="/j", version="17.0.1", needed=21), "problem", "17.0.1", "Java 21"),
        (Java(home=None, binary="/j", version=None, needed=17), "note", "does not say", "--spark"),
        (Java(home=None, binary="/j", version="21", needed=17), "ok", "21, /j", ""),
    ],
)
def test_java_is_there_and_of_a_version_that_spark_can_use(
    java: Java, level: Level, found: str, hint: str
) -> None:
    (finding,) = of(replace(HEALTHY, java=java), "Java")
    assert finding.level == level
    assert found in finding.found
    assert hint in finding.hint


@pytest.mark.parametrize(
    ("home", "version", "expected"),
    [
        ("/env/pyspark", "4.3.0", []),
        ("/opt/spark", "4.3.0", [("note", "SPARK_HOME")]),
        ("/opt/spark", "3.5.1", [("problem", "SPARK_HOME")]),
        ("/opt/spark", None, [("problem", "SPARK_HOME")]),
    ],
)
def test_spark_home_is_of_the_same_version_as_pyspark(
    home: str, version: str | None, expected: list[tuple[Level, str]]
) -> None:
    spark = replace(HEALTHY.spark, home=home, home_version=version)
    assert levels(replace(HEALTHY, spark=spark)) == expected


@pytest.mark.parametrize(("there", "level"), [(True, "note"), (False, "problem")])
def test_a_folder_of_settings_is_named(there: bool, level: Level) -> None:
    spark = replace(HEALTHY.spark, conf_dir="/etc/spark", conf_dir_there=there)
    assert levels(replace(HEALTHY, spark=spark)) == [(level, "SPARK_CONF_DIR")]


@pytest.mark.parametrize(
    ("workers", "found"),
    [
        (Interpreter(path="/env/bin/python3", version=(3, 11, 2)), None),
        (
            Interpreter(path="/o", version=(3, 12, 1), same_environment=False),
            ("problem", "/o is Python 3.12.1, the driver's is 3.11.2"),
        ),
        (
            Interpreter(path="/o", version=(3, 11, 9), same_environment=False, has_tidegate=False),
            ("problem", "/o, which has no tidegate"),
        ),
        (
            Interpreter(path="/o", version=(3, 11, 9), same_environment=False),
            ("note", "/o, another environment than the driver's"),
        ),
        (
            Interpreter(path="/o", version=None, same_environment=False),
            ("problem", "/o, which cannot be started"),
        ),
    ],
)
def test_workers_run_the_python_of_the_driver(
    workers: Interpreter, found: tuple[Level, str] | None
) -> None:
    facts = replace(HEALTHY, spark=replace(HEALTHY.spark, workers=workers))
    expected = [] if found is None else [found]
    assert [(each.level, each.found) for each in odd(facts)] == expected


# --- the machine ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"memory_bytes": 900 * 10**6}, [("problem", "memory")]),
        ({"memory_bytes": 2 * 10**9}, [("note", "memory")]),
        ({"memory_bytes": None}, []),
        ({"cores": 64}, [("note", "memory")]),
        ({"open_files": 255}, [("problem", "open files")]),
        ({"open_files": 256}, [("note", "open files")]),
        ({"open_files": None}, []),
        ({"filesystem_encoding": "ascii"}, [("problem", "encoding")]),
        ({"text_encoding": "ISO-8859-1"}, [("note", "encoding")]),
        ({"host_error": "name unknown"}, [("problem", "host name")]),
        ({"now_s": 86_400.0}, [("problem", "clock")]),
        ({"now_s": 4_200_000_000.0}, [("problem", "clock")]),
        ({"jumped_s": -2.0}, [("problem", "clock")]),
        ({"jumped_s": 0.1}, []),
    ],
)
def test_the_machine_is_judged_by_what_it_has(
    change: dict[str, Any], expected: list[tuple[Level, str]]
) -> None:
    assert levels(replace(HEALTHY, machine=replace(HEALTHY.machine, **change))) == expected


def test_a_larger_heap_than_the_memory_is_a_problem() -> None:
    spark = replace(HEALTHY.spark, driver_memory="16g")
    assert levels(replace(HEALTHY, spark=spark)) == [("problem", "memory")]


# --- places and servers -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "level", "found"),
    [
        ({}, "ok", "/data/state, 5 GB free"),
        ({"nearest": "/data"}, "ok", "/data/state, to be made, 5 GB free"),
        ({"free_bytes": 999_999_999}, "note", "/data/state, 1e+03 MB free"),
        ({"free_bytes": 1_000_000}, "problem", "/data/state, 1 MB free"),
        ({"free_bytes": None}, "ok", "/data/state"),
        ({"permitted": False}, "problem", "/data/state cannot be written to by this user"),
        (
            {"nearest": "/data", "folder": False},
            "problem",
            "/data is a file, not a folder",
        ),
        ({"use": "read"}, "ok", "/data/state"),
        ({"use": "read", "nearest": "/data"}, "problem", "/data/state is not there"),
        ({"use": "read", "permitted": False}, "problem", "/data/state cannot be read by this user"),
    ],
)
def test_a_place_is_judged_by_its_use(change: dict[str, Any], level: Level, found: str) -> None:
    facts = replace(HEALTHY, places=(replace(STATE, **change),))
    assert [(each.level, each.found) for each in of(facts, "state folder")] == [(level, found)]


def test_a_file_from_the_future_is_a_problem_of_the_clock() -> None:
    ahead = replace(STATE, newest=("/data/state/tidegate.db", NOW_S + 7200))
    (found,) = odd(replace(HEALTHY, places=(ahead,)))
    assert (found.level, found.what) == ("problem", "state folder: times")
    assert found.found.startswith("/data/state/tidegate.db was changed at 2026-09-21T")
    a_little = replace(STATE, newest=("/data/state/tidegate.db", NOW_S + 5))
    assert odd(replace(HEALTHY, places=(a_little,))) == []


def test_a_server_is_reached_or_a_problem() -> None:
    up = Server(what="state store", address="db:5432")
    down = replace(up, error="connection refused")
    assert [
        (each.level, each.found) for each in of(replace(HEALTHY, servers=(up, down)), up.what)
    ] == [
        ("ok", "db:5432 takes connections"),
        ("problem", "db:5432 cannot be reached: connection refused"),
    ]


# --- looking ----------------------------------------------------------------------------------


def test_the_facts_of_this_machine_are_those_that_the_tests_run_on() -> None:
    facts = gathered(os.environ)
    assert facts.python == Interpreter(path=sys.executable, version=sys.version_info[:3])
    assert facts.java.needed == 17
    assert facts.spark.package_folder is not None
    assert abs(facts.machine.now_s - time.time()) < 60
    assert abs(facts.machine.jumped_s) < 60
    assert facts.machine.cores >= 1
    assert [finding for finding in examined(facts) if finding.what in ("Python", *REQUIRED)] == [
        Finding("ok", "Python", f"{'.'.join(map(str, sys.version_info[:3]))}, {sys.executable}"),
        *(Finding("ok", name, str(facts.packages[name])) for name in REQUIRED),
    ]


def java_in(folder: Path, version: str | None) -> Path:
    binary = folder / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text("#!/bin/sh\nexit 1\n")
    binary.chmod(0o755)
    if version is not None:
        (folder / "release").write_text(f'IMPLEMENTOR="X"\nJAVA_VERSION="{version}"\n')
    return binary


def test_java_is_found_as_spark_finds_it_and_never_started(tmp_path: Path) -> None:
    on_path = java_in(tmp_path / "seventeen", "17.0.9")
    of_home = java_in(tmp_path / "eleven", "11.0.2")
    silent = java_in(tmp_path / "silent", None)
    path = {"PATH": str(on_path.parent)}
    assert java_facts(path) == Java(home=None, binary=str(on_path), version="17.0.9", needed=17)
    eleven = str(tmp_path / "eleven")
    assert java_facts({**path, "JAVA_HOME": eleven}) == Java(
        home=eleven, binary=str(of_home), version="11.0.2", needed=17
    )
    gone = str(tmp_path / "gone")
    assert java_facts({**path, "JAVA_HOME": gone}) == Java(
        home=gone, binary=None, version=None, needed=17
    )
    assert java_facts({"PATH": str(silent.parent)}).version is None
    assert java_facts({"PATH": ""}).binary is None


def test_a_link_to_java_is_followed_to_its_version(tmp_path: Path) -> None:
    binary = java_in(tmp_path / "jvm", "21.0.1")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(binary)
    assert java_facts({"PATH": str(tmp_path / "bin")}).version == "21.0.1"


def test_the_java_that_is_needed_is_read_off_the_classes_of_spark(tmp_path: Path) -> None:
    (tmp_path / "jars").mkdir()
    with zipfile.ZipFile(tmp_path / "jars" / "spark-launcher_2.13-4.9.0.jar", "w") as jar:
        magic = bytes.fromhex("cafebabe0000") + (44 + 21).to_bytes(2, "big")
        jar.writestr("org/apache/spark/launcher/SparkLauncher.class", magic + b"rest")
    assert doctor_gathering._java_needed(tmp_path) == 21
    assert spark_facts({"SPARK_HOME": str(tmp_path)}, None).home_version == "4.9.0"
    assert doctor_gathering._java_needed(tmp_path / "nothing") == 17
    assert spark_facts({"SPARK_HOME": str(tmp_path / "nothing")}, None).home_version is None


def test_settings_of_spark_are_read_where_they_are_named(tmp_path: Path) -> None:
    text = "# comment\nspark.driver.memory   3g\nspark.local.dir /a/scratch,/b\n\nspark.odd\n"
    (tmp_path / "spark-defaults.conf").write_text(text)
    environment = {"SPARK_CONF_DIR": str(tmp_path), "PATH": os.environ["PATH"]}
    facts = gathered(environment)
    assert facts.spark.driver_memory == "3g"
    assert [(each.what, each.path) for each in facts.places if each.what == "Spark's scratch"] == [
        ("Spark's scratch", "/a/scratch"),
        ("Spark's scratch", "/b"),
    ]
    assert spark_facts({**environment, "SPARK_DRIVER_MEMORY": "5g"}, None).driver_memory == "5g"


def test_the_python_of_workers_is_asked_unless_it_is_this_one(tmp_path: Path) -> None:
    def workers(path: str) -> Interpreter | None:
        return spark_facts({"PYSPARK_PYTHON": path}, None).workers

    this = workers(sys.executable)
    assert this is not None
    assert this.same_environment
    other = tmp_path / "python"
    other.write_text("#!/bin/sh\necho 3 8 1 False\n")
    other.chmod(0o755)
    assert workers(str(other)) == Interpreter(
        path=str(other), version=(3, 8, 1), same_environment=False, has_tidegate=False
    )
    other.write_text("#!/bin/sh\nexit 3\n")
    assert workers(str(other)) == Interpreter(
        path=str(other), version=None, same_environment=False, has_tidegate=False
    )
    assert workers(str(tmp_path / "gone")) == Interpreter(
        path=str(tmp_path / "gone"), version=None, same_environment=False, has_tidegate=False
    )


def test_what_a_container_was_given_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    monkeypatch.setattr(doctor_machine, "_GROUP", tmp_path)
    assert (doctor_machine._memory(), doctor_machine._cores()) == (1_000_000, 1)


def test_a_machine_without_an_address_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "nowhere.invalid")
    assert doctor_machine.machine_facts({}).host_error is not None
    assert doctor_machine.machine_facts({"SPARK_LOCAL_IP": "127.0.0.1"}).host_error is None


def test_a_place_that_is_not_there_is_seen_by_the_folder_above_it(tmp_path: Path) -> None:
    place = seen("state folder", tmp_path / "a" / "b", enough=7)
    assert (place.nearest, place.folder, place.permitted) == (str(tmp_path), True, True)
    assert place.free_bytes is not None
    assert place.enough_bytes == 7


def test_the_newest_file_of_a_place_is_found(tmp_path: Path) -> None:
    for name, changed_s in (("a", 50), ("in/b", 100), ("c", 60)):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("")
        os.utime(file, (0, changed_s))
    assert seen("state folder", tmp_path, times=True).newest == (str(tmp_path / "in" / "b"), 100.0)
    assert seen("state folder", tmp_path).newest is None


# --- what a pipeline uses ---------------------------------------------------------------------


def pipeline(**parts: Any) -> Pipeline:
    return Pipeline(
        **{
            "name": "clicks",
            "sources": Source(
                name="clicks", format="json", event_time="at", options={"path": "in"}
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


def test_a_pipeline_names_the_folders_it_uses() -> None:
    uses = uses_of(pipeline(rejected=Target(format="csv", options={"path": "bad"})))
    assert uses.reads == (("source clicks", "in"),)
    assert uses.writes == (("target", "out"), ("target of rejected rows", "bad"))
    assert (uses.state, uses.servers, uses.packages) == ("state", (), {})


def test_a_pipeline_names_the_servers_and_packages_it_uses() -> None:
    made = pipeline(
        sources=Source(
            name="clicks",
            format="kafka",
            event_time="at",
            options={"bootstrap.servers": "one:9093, two", "topic": "clicks"},
        ),
        target=Target(format="delta", options={"path": "s3://bucket/x"}),
        state_store=StateStore(kind="postgres", url="postgresql://ann:p@ss@db:6432/x"),
    )
    uses = uses_of(made)
    assert (uses.reads, uses.writes, uses.state) == ((), (), None)
    assert uses.servers == (
        ("source clicks", Address("one", 9093)),
        ("source clicks", Address("two", 9092)),
        ("state store", Address("db", 6432)),
    )
    assert uses.packages == {
        "confluent-kafka": "the source clicks",
        "deltalake": "the target",
        "psycopg": "the state store",
    }


@pytest.mark.parametrize(
    ("url", "addresses"),
    [
        ("postgresql://db/x", ["db:5432"]),
        ("postgresql://u:s3cret@a:1,b:2/x?sslmode=require", ["a:1", "b:2"]),
        ("postgresql:///x", []),
        ("host=db port=7 user=ann password=s3cret", ["db:7"]),
        ("host=/run/postgresql", ["/run/postgresql"]),
        ("", []),
    ],
)
def test_addresses_of_postgres_hold_no_secret(url: str, addresses: list[str]) -> None:
    part = Part("target", "postgres", {"url": url})
    assert [str(each) for each in addresses_of(part)] == addresses


def test_places_of_a_pipeline_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    made = pipeline(
        sources=Source(name="clicks", format="csv", event_time="at", options={"path": "data/*.csv"})
    )
    assert [(each.what, each.path, each.use) for each in places_of(uses_of(made))] == [
        ("state folder", f"{tmp_path}/state", "write"),
        ("source clicks", f"{tmp_path}/data", "read"),
        ("target", f"{tmp_path}/out", "write"),
        ("target: staging", str(tmp_path), "write"),
    ]


@pytest.fixture
def listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_servers_are_tried(listening: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        free = closed.getsockname()[1]
    source = Source(
        name="clicks",
        format="kafka",
        event_time="at",
        options={"bootstrap.servers": f"127.0.0.1:{listening},127.0.0.1:{free}", "topic": "t"},
    )
    found = [*servers_of(uses_of(pipeline(sources=source)))]
    assert [(each.address, each.error) for each in found] == [
        (f"127.0.0.1:{listening}", None),
        (f"127.0.0.1:{free}", "connection refused"),
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
    monkeypatch.setattr(shown_by, "gathered", lambda *_, **__: replace(HEALTHY, packages={}))
    result = CliRunner().invoke(app, ["--json"])
    told = json.loads(result.output)
    assert (told["problems"], told["notes"]) == (len(REQUIRED), len(OPTIONAL))
    assert told["findings"][0] == {
        "level": "ok",
        "what": "Python",
        "found": "3.11.2, /env/bin/python",
        "hint": "",
    }
    assert result.exit_code == 1


def test_notes_are_no_failure(app: typer.Typer, monkeypatch: pytest.MonkeyPatch) -> None:
    without = replace(HEALTHY, packages={**HEALTHY.packages, "deltalake": None})
    monkeypatch.setattr(shown_by, "gathered", lambda *_, **__: without)
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
