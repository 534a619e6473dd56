"""Messages and exit codes for what goes wrong."""

from __future__ import annotations

import errno
import sqlite3

import pytest
import typer

from tidegate.cli.telling import TRACEBACK, Exit, code_of, message_of, told
from tidegate.errors import (
    ConfigError,
    LostLease,
    PipelineInUse,
    PlanChanged,
    Problem,
    StateFormatError,
    StateLost,
    StoreUnavailable,
)

IN_A_TASK = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "parts.py", line 110, in _write
    rest = rest[file.write(rest) :]
OSError: [Errno 28] No space left on device
"""


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError([Problem("a", "b", "c")]), 2),
        (PipelineInUse("x"), 3),
        (LostLease("x"), 3),
        (PlanChanged(["x"]), 4),
        (StateFormatError("x"), 4),
        (StateLost("x"), 1),
        (RuntimeError("x"), 1),
    ],
)
def test_scripts_can_tell_errors_apart(error: Exception, code: int) -> None:
    assert code_of(error) == code


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        sqlite3.OperationalError("database or disk is full"),
        RuntimeError(IN_A_TASK),
    ],
)
def test_a_full_disk_is_told_as_one(error: Exception) -> None:
    said = message_of(error)
    assert said.startswith("the disk is full: ")
    assert "what is committed is kept" in said
    assert "Traceback" not in said


def test_the_full_disk_of_a_server_is_not_looked_for_here() -> None:
    found = "postgres db:5432/x: could not extend file: No space left on device"
    said = f"{found}\n  hint: make room on the server; what is committed is kept"
    assert message_of(StoreUnavailable(said)) == said


def test_a_missing_permission_names_the_file() -> None:
    said = message_of(PermissionError(errno.EACCES, "Permission denied", "/data/x"))
    assert said.startswith("/data/x: permission denied\n")


def test_an_error_that_nobody_expected_says_what_to_do() -> None:
    said = message_of(ZeroDivisionError())
    assert said.startswith("ZeroDivisionError\n")
    assert "tidegate doctor" in said
    assert TRACEBACK in said


def test_several_problems_are_counted() -> None:
    said = message_of(ConfigError([Problem("a", "1", "2"), Problem("b", "3", "4")]))
    assert said.splitlines() == ["2 problems", "a: found 1, expected 2", "b: found 3, expected 4"]


def test_a_command_ends_with_a_message_and_not_a_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(TRACEBACK, raising=False)
    with pytest.raises(typer.Exit) as ended, told():
        raise StateLost("a part is gone")
    assert ended.value.exit_code == Exit.FAILED
    assert capsys.readouterr().err == "tidegate: a part is gone\n"
    with pytest.raises(typer.Exit) as ended, told():
        raise KeyboardInterrupt
    assert ended.value.exit_code == 130


def test_whoever_looks_for_a_fault_gets_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TRACEBACK, "1")
    with pytest.raises(StateLost), told():
        raise StateLost("a part is gone")


def test_what_strangers_named_and_wrote_steers_no_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    odd = "a\x1b]0;owned\x07.json: CSV parse error: \x1b[2J\udcff\u202e\n  hint: rename it"
    with pytest.raises(typer.Exit), told():
        raise StateLost(odd)
    told_ = capsys.readouterr().err
    assert told_ == (
        "tidegate: a\N{REPLACEMENT CHARACTER}]0;owned\N{REPLACEMENT CHARACTER}.json: "
        "CSV parse error: \N{REPLACEMENT CHARACTER}[2J"
        "\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}\n  hint: rename it\n"
    )
