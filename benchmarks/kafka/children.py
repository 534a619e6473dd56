"""Processes of their own: each prints one line of JSON, its last."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from typing import Any

from benchmarks.engine.measuring import TIMEOUT_S, started
from benchmarks.engine.memory import watch


@dataclass(frozen=True)
class Child:
    """One that runs."""

    name: str
    process: Popen[bytes]
    scratch: Path

    def said(self) -> Any:
        """Wait for its end; what its last line says."""
        peak_bytes = watch(self.process, TIMEOUT_S)
        if self.process.returncode:
            errors = (self.scratch / f"{self.name}.errors").read_text()[-4000:]
            code = self.process.returncode
            raise RuntimeError(f"{self.name} failed with code {code}:\n{errors}")
        lines = (self.scratch / f"{self.name}.json").read_text().splitlines()
        return {**json.loads(lines[-1]), "peak_bytes": peak_bytes}


@contextmanager
def running(
    module: str,
    settings: Mapping[str, Any],
    scratch: Path,
    *,
    python: str = sys.executable,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Child]:
    """`python -m module SETTINGS`, ended with this block."""
    name = module.rsplit(".", 1)[-1]
    command: Sequence[str] = [python, "-m", module, json.dumps(settings)]
    with ExitStack() as stack:
        out, err = (
            stack.enter_context((scratch / f"{name}.{kind}").open("wb"))
            for kind in ("json", "errors")
        )
        process = stack.enter_context(started([*command], out, err, environment or {}))
        yield Child(name, process, scratch)
