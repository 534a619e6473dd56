"""Bounds and what was found, for the end of a run."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

WIDTH = 120


class Summary:
    """The bounds met so far; all of one test are looked at before any fails it."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, str]] = []
        self._missed: list[str] = []

    def at_least(self, what: str, found: float, bound: float) -> None:
        self._add(what, found, f">= {bound}", reached=found >= bound)

    def at_most(self, what: str, found: float, bound: float | None) -> None:
        told = "none" if bound is None else f"<= {bound}"
        self._add(what, found, told, reached=bound is None or found <= bound)

    def show(self) -> None:
        """Print each bound with what was found."""
        table = Table("what", "found", "bound", title="bounds", title_justify="left")
        for line in self.lines:
            table.add_row(*line)
        Console(width=WIDTH).print("\n", table)

    def settle(self) -> None:
        missed, self._missed = self._missed, []
        assert not missed, f"bounds missed: {'; '.join(missed)}"

    def _add(self, what: str, found: float, bound: str, *, reached: bool) -> None:
        self.lines.append((what, f"{found:.2f}", bound if reached else f"{bound}  MISSED"))
        if not reached:
            self._missed.append(f"{what} is {found:.2f}, bound {bound}")
