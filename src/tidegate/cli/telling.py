"""What the command says to people, and the exit codes by which scripts know what happened.

Whatever it says may quote data: values, headers, names of files. So everything that is printed
goes through `say` or `say_json`, or is a `Text` of `plain` text: nothing in it steers a terminal,
and nothing in brackets is taken for markup.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import NoReturn

import typer
from rich.console import Console

from tidegate.errors import (
    ConfigError,
    LostLease,
    PipelineInUse,
    PlanChanged,
    ScenarioError,
    StateFormatError,
    StoreUnavailable,
    TidegateError,
    telling_line,
)

TRACEBACK = "TIDEGATE_TRACEBACK"
"""Set in the environment: show where an error came from."""

_DISK_FULL = re.compile(r"no space left on device|disk is full|disk quota exceeded", re.IGNORECASE)
_KEPT = "what is committed is kept: run it again and it goes on from there"


class Exit(IntEnum):
    """How a command ended."""

    OK = 0
    """All is done."""
    FAILED = 1
    """Something broke on the way: a source, the disk, Spark. To run again may help."""
    MISTAKE = 2
    """What the user wrote cannot be run as it is."""
    IN_USE = 3
    """Another driver runs the pipeline."""
    OTHER_STATE = 4
    """The state belongs to a pipeline, or a version, that computes something else."""
    BY_SIGNAL = 128
    """And the number of the signal: the command was stopped, and finished its epoch."""


_CODES: Sequence[tuple[type[Exception], Exit]] = (
    (ConfigError, Exit.MISTAKE),
    (ScenarioError, Exit.MISTAKE),
    (PipelineInUse, Exit.IN_USE),
    (LostLease, Exit.IN_USE),
    (PlanChanged, Exit.OTHER_STATE),
    (StateFormatError, Exit.OTHER_STATE),
)


def console() -> Console:
    """Where results go."""
    return Console(highlight=False, soft_wrap=True)


def plain(text: str) -> str:
    r"""Text in one line that steers no terminal.

    >>> plain("a\x1b[31mb\n")
    'a\ufffd[31mb\ufffd'
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)


def plain_lines(text: str) -> str:
    """The same of each line; a tab is some blanks."""
    return "\n".join(plain(line.expandtabs()) for line in text.split("\n"))


def say(text: str, *, err: bool = False) -> None:
    """Print text, on the error stream if it is a problem, or progress."""
    typer.echo(plain_lines(text), err=err)


def say_json(text: str) -> None:
    r"""Print JSON, with what is not printable as `\u001b`: it means the same."""
    typer.echo("\n".join(map(_escaped, text.split("\n"))))


def _escaped(line: str) -> str:
    if line.isprintable():
        return line
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in line)


class PlainFormatter(logging.Formatter):
    """What is logged, as `say` would print it."""

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter`."""
        return plain_lines(super().format(record))


def fail(message: str, code: Exit = Exit.FAILED) -> NoReturn:
    """End the command with a message."""
    say(f"tidegate: {message}", err=True)
    raise typer.Exit(int(code))


def code_of(error: BaseException) -> Exit:
    """The exit code that tells scripts of an error."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), Exit.FAILED)


def message_of(error: BaseException) -> str:
    """What to tell a person of an error: what happened, and what to do."""
    if isinstance(error, ConfigError) and len(error.problems) > 1:
        return f"{len(error.problems)} problems\n{error}"
    text = str(error).strip()
    if isinstance(error, StoreUnavailable):  # if a disk is full, it is not one of this machine
        return text
    if _DISK_FULL.search(text) or getattr(error, "errno", None) == errno.ENOSPC:
        hint = "make room (`tidegate doctor` shows how much there is); " + _KEPT
        return f"the disk is full: {telling_line(error)}\n  hint: {hint}"
    if isinstance(error, TidegateError):
        return text
    if isinstance(error, OSError) and error.filename is not None:
        what = (error.strerror or type(error).__name__).lower()
        first = "give this user the right to it; " if isinstance(error, PermissionError) else ""
        return f"{error.filename}: {what}\n  hint: {first}{_KEPT}"
    hint = f"{_KEPT}; `tidegate doctor` looks for what is odd, {TRACEBACK}=1 shows more"
    return f"{telling_line(error)}\n  hint: {hint}"


@contextmanager
def told() -> Iterator[None]:
    """Turn what goes wrong in a command into a message and an exit code, not a traceback."""
    try:
        yield
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except KeyboardInterrupt:
        raise typer.Exit(Exit.BY_SIGNAL + 2) from None
    except BrokenPipeError:  # whoever read what we say has gone
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - for the flush at exit
        raise typer.Exit(Exit.FAILED) from None
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        fail(message_of(error), code_of(error))
