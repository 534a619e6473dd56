"""The rules of the house, executed: layers, what an import loads, what an error survives."""

from __future__ import annotations

import ast
import importlib
import inspect
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tidegate import errors
from tidegate.errors import Problem

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "tidegate"
MODULES = sorted(SOURCE.rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


every_module = pytest.mark.parametrize("path", MODULES, ids=name_of)


# --- imports ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "module",
    [
        "tidegate",
        "tidegate.pipeline",
        "tidegate.core.local",
        "tidegate.testing",
        "tidegate.cli",
    ],
)
def test_importing_it_does_not_import_pyspark(module: str) -> None:
    program = f"import sys, {module}; print('pyspark' in sys.modules)"
    assert output_of([sys.executable, "-c", program]) == "False"


def test_imports_point_down_only() -> None:
    command = Path(sys.executable).with_name("lint-imports")
    assert output_of([str(command), "--no-cache"]).endswith(" 0 broken.")


def output_of(command: list[str]) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


OUTSIDE = {"pyspark", "logging", "os", "time", "datetime", "sqlite3", "psycopg", "random", "uuid"}
"""Spark, SQL, clocks, logs, the environment, chance: nothing of it may decide about event time."""


@pytest.mark.parametrize("path", sorted((SOURCE / "core").rglob("*.py")), ids=name_of)
def test_the_core_knows_nothing_of_the_outside(path: Path) -> None:
    assert set(imported(parsed(path))) & OUTSIDE == set()


def imported(tree: ast.AST) -> Iterator[str]:
    """The top-level packages that are imported anywhere in a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


PROBES = {"hasattr", "runtime_checkable", "TypeGuard", "TypeIs"}
MAY_PROBE = {"targets/delta.py": {"hasattr"}}  # types of delta-rs


def test_readers_and_writers_are_not_probed() -> None:
    """Each has all verbs of its protocol: a method that is missing is found by mypy."""
    used = {
        name_of(path): {node.id for node in ast.walk(parsed(path)) if isinstance(node, ast.Name)}
        for package in ("sources", "targets", "spark")
        for path in (SOURCE / package).rglob("*.py")
    }
    assert {name: found for name, all_ in used.items() if (found := all_ & PROBES)} == MAY_PROBE


# --- documents --------------------------------------------------------------------------------


@every_module
def test_every_module_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(parsed(path)), "a docstring that says where we are in the flow"


# --- errors -----------------------------------------------------------------------------------


def exceptions() -> dict[str, type[BaseException]]:
    return {
        name: found
        for name, found in inspect.getmembers(errors, inspect.isclass)
        if issubclass(found, BaseException) and found.__module__ == errors.__name__
    }


EXAMPLES: dict[str, BaseException] = {
    "TidegateError": errors.TidegateError("something"),
    "InMemoryStateWarning": errors.InMemoryStateWarning("state is in memory"),
    "ConfigError": errors.ConfigError(
        [Problem("window.gap_ms", "0", "a positive number", "30_000"), Problem("", "a", "b")]
    ),
    "PlanChanged": errors.PlanChanged(["gap_ms was 5, is 6"], "reset the state"),
    "WatermarkViolation": errors.WatermarkViolation("window", 20, 10),
    "AggregateOverflow": errors.AggregateOverflow("price", {"user": None, "day": "x"}, "long"),
    "StateLimitReached": errors.StateLimitReached("max_keys", 11, 10, "raise it"),
    "SparkUnavailable": errors.SparkUnavailable("no java on the PATH"),
    "StateFormatError": errors.StateFormatError("format version 9"),
    "StateLost": errors.StateLost("part 1-2-a is gone"),
    "StoreUnavailable": errors.StoreUnavailable("the server is gone"),
    "BrokerUnavailable": errors.BrokerUnavailable("kafka a:9092: connection refused"),
    "TargetRefused": errors.TargetRefused("the table t refuses rows"),
    "LostLease": errors.LostLease("another driver has it"),
    "TargetClaimed": errors.TargetClaimed("another driver claimed it"),
    "EpochTaken": errors.EpochTaken("epoch 3 does not follow 4"),
    "PipelineInUse": errors.PipelineInUse("run by process 7"),
    "SourceChanged": errors.SourceChanged("a.parquet has changed"),
    "UnreadableSource": errors.UnreadableSource("a.parquet is no parquet file"),
    "InconsistentEpoch": errors.InconsistentEpoch("slice 3 came twice"),
    "BatchOutOfOrder": errors.BatchOutOfOrder("batch 7 after batch 3"),
    "MisplacedRow": errors.MisplacedRow("rows of key groups 1..2"),
    "ScenarioError": errors.ScenarioError("unknown engine"),
}


def test_there_is_an_example_of_every_exception() -> None:
    assert set(EXAMPLES) == set(exceptions())


@pytest.mark.parametrize("name", exceptions())
def test_every_exception_survives_pickling(name: str) -> None:
    error = EXAMPLES[name]
    arrived: Any = pickle.loads(pickle.dumps(error))
    assert type(arrived) is type(error)
    assert (str(arrived), arrived.args) == (str(error), error.args)
    assert vars(arrived) == vars(error)


@pytest.mark.parametrize("name", exceptions())
def test_every_error_raised_on_purpose_is_a_tidegate_error(name: str) -> None:
    assert issubclass(exceptions()[name], errors.TidegateError | Warning)


# --- what runs code ---------------------------------------------------------------------------

RUNS_CODE = {
    *("pickle.load", "pickle.loads", "cloudpickle.load", "cloudpickle.loads", "marshal.loads"),
    *("eval", "exec", "compile", "__import__", "os.system", "os.popen", "yaml.load"),
    *("multiprocessing.get_context", "multiprocessing.Pipe"),  # they pickle what they send
}
"""Functions that run what they are given, or can be made to by it."""

MAY_RUN_CODE = {
    "cli/demo_run.py": {"multiprocessing.get_context"},  # a pipe to a process of its own
    "spark/frame_tasks.py": {"pickle.loads"},  # orders of the driver
    "spark/native_tasks.py": {"pickle.loads"},
    "tasks/orders.py": {"pickle.loads"},
    "testing/depot_contract.py": {"pickle.loads"},  # what it has pickled itself
    "testing/source_contract.py": {"pickle.loads"},
    "testing/target_contract.py": {"pickle.loads"},
    "testing/scenario.py": {"yaml.load"},  # with a safe loader
}
"""Who may all the same: what they read is never written by a row, a topic, a file or a table."""


def _code_run_by(path: Path) -> set[str]:
    """The calls and imports of such functions, and shells."""
    found = set[str]()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Call):
            found |= {ast.unparse(node.func)} & RUNS_CODE
            found |= {"shell=True" for each in node.keywords if each.arg == "shell"}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{each.name}" for each in node.names} & RUNS_CODE
    return found


def test_only_what_the_driver_wrote_itself_is_unpickled() -> None:
    found = {name_of(path): run for path in MODULES if (run := _code_run_by(path))}
    assert found == MAY_RUN_CODE


def test_commands_print_text_by_one_door() -> None:
    """`telling.say` and `say_json`: whatever data is quoted there steers no terminal."""
    prints = {"print", "typer.echo", "typer.secho", "rich.print"}
    calls = {
        name_of(path): [node for node in ast.walk(parsed(path)) if isinstance(node, ast.Call)]
        for path in (SOURCE / "cli").rglob("*.py")
    }
    found = {name for name, nodes in calls.items() if {ast.unparse(n.func) for n in nodes} & prints}
    assert found == {"cli/telling.py"}


# --- the way of a row -----------------------------------------------------------------------------

MOST_FUNCTIONS = 60
"""That a row passes between a topic and a table."""


def test_the_way_of_a_row_is_short_and_as_it_is_described() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text().split("## The way of a row")[1]
    lines = [line.split() for line in text.split("```")[1].strip().splitlines()]
    functions = [(module, name) for module, *names in lines for name in names]
    for module, name in functions:
        found: Any = importlib.import_module(f"tidegate.{module}")
        for part in name.split("."):
            found = getattr(found, part)
        assert callable(found), name
    assert len(functions) <= MOST_FUNCTIONS
