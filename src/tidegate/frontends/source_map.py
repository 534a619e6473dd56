"""Where the parts of a pipeline are written: a file, and in it a line for each path."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from tidegate.errors import ConfigError, Problem
from tidegate.pipeline.paths import around, as_written


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceMap:
    """The lines of a file by path, and what is called otherwise there than in a `Pipeline`."""

    file: Path
    lines: Mapping[str, int]
    worded: Callable[[Problem], Problem]
    """Says a problem in the words of the file's language."""
    moved: Mapping[str, str] = field(default_factory=dict)
    """By the path of something in the pipeline: its path in the file, where that differs."""

    def line_of(self, path: str) -> int:
        """The line of a path, or of the nearest part around it that is in the file."""
        while path and path not in self.lines:
            path = around(path)
        return self.lines.get(path, 1)

    def located(self, problems: Sequence[Problem]) -> list[Problem]:
        """Problems of the pipeline with their lines, in the order of these."""
        moved = [as_written(problem, self.moved) for problem in problems]
        placed = [(self.line_of(problem.at), problem) for problem in moved]
        placed.sort(key=lambda each: each[0])
        return [at_line(self.file, line, self.worded(problem)) for line, problem in placed]

    @contextmanager
    def locating(self) -> Iterator[None]:
        """Raise a `ConfigError` about the pipeline as one about the file."""
        try:
            yield
        except ConfigError as error:
            raise ConfigError(self.located(error.problems)) from error.__cause__


def at_line(file: Path, line: int, problem: Problem) -> Problem:
    """A problem with its file and line."""
    where = f"{file}:{line}"
    return replace(problem, at=f"{where}: {problem.at}" if problem.at else where)
