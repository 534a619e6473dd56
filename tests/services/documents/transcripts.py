"""Commands shown in a page with what they print: read, run, and compared.

    <!-- run by tests/services/documents/test_documents.py -->
    ```console
    $ tidegate check
    sessions: can be run
    ...
    ```

`...` stands for anything within a line, and alone for any lines. A command whose output has a
line that begins with `tidegate: ` must fail, every other must succeed. Files are shown behind
`<!-- written to pipeline.toml -->`.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner

from tidegate.cli import app

_BLOCK = re.compile(
    r"<!-- run by [^>]*? -->\n```console\n(?P<commands>.*?)```\n"
    r"|<!-- written to (?P<file>\S+) -->\n```\w+\n(?P<text>.*?)```\n",
    re.DOTALL,
)
_OWN = re.compile(r"tidegate [^|&;<>$`]*")
"""A command that needs no shell: it runs in this process, on the session of the tests."""
ANYTHING = re.escape("...")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command, and what the page says it prints."""

    line: str
    shown: str

    @property
    def fails(self) -> bool:
        return re.search(r"^tidegate: ", self.shown, re.MULTILINE) is not None

    def agrees(self, printed: str) -> bool:
        """Whether the page shows what was printed, but for trailing spaces and `...`.

        >>> Command(line="", shown="epoch 1, ... s\\n").agrees("epoch 1, 2 rows in 3.10 s\\n")
        True
        >>> Command(line="", shown="epoch 1, ...\\n").agrees("epoch 1, 2 rows\\nended\\n")
        False
        >>> Command(line="", shown="epoch 1\\n...\\n").agrees("epoch 1\\nepoch 2\\nended\\n")
        True
        """
        lines = [
            "(?:.*\n)*" if line == "..." else re.escape(line).replace(ANYTHING, ".*") + "\n"
            for line in _trimmed(self.shown)
        ]
        text = "".join(f"{line}\n" for line in _trimmed(printed))
        return re.fullmatch("".join(lines), text) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A file that the page shows."""

    path: str
    text: str


def steps_of(page: str) -> Iterator[Command | Written]:
    """What a page does, in order."""
    for block in _BLOCK.finditer(page):
        if block["file"]:
            yield Written(path=block["file"], text=block["text"])
        else:
            yield from _commands(block["commands"])


def _commands(text: str) -> Iterator[Command]:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        lines = part.splitlines(keepends=True)
        more = 1 + next((n for n, line in enumerate(lines) if not line.endswith("\\\n")), 0)
        yield Command(line="".join(lines[:more]).strip(), shown="".join(lines[more:]))


def differences(page: str, folder: Path) -> list[str]:
    """Run a page in a folder; tell where it does not do what it says."""
    found = []
    for step in steps_of(page):
        if isinstance(step, Written):
            (folder / step.path).write_text(step.text)
        elif step.line.startswith("cd "):
            folder /= step.line.removeprefix("cd ")
        else:
            code, printed = _run(step.line, folder)
            if bool(code) != step.fails or not step.agrees(printed):
                found.append(f"$ {step.line}\n{printed}(exit code {code})")
    return found


def _run(line: str, folder: Path) -> tuple[int, str]:
    if _OWN.fullmatch(line):
        with chdir(folder):
            result = CliRunner().invoke(app, shlex.split(line)[1:])
        return result.exit_code, result.output
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", line],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PATH": path},
    )
    return done.returncode, done.stdout


def _trimmed(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]
