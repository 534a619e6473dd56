"""A run on the screen: live on a terminal, a line an epoch elsewhere, JSON for machines.

    RunStatus -> numbers -> [LiveScreen | Lines | JsonLines]

Each is a listener of the run. Progress goes to the error stream, but for JSON, which is what was
asked for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from tidegate.cli.telling import plain, say, say_json
from tidegate.engine.listeners import Listener
from tidegate.engine.numbers import (
    NUMBER,
    cells,
    labelled,
    numbers_dict,
    phrase_of,
    phrases,
    text_of,
)
from tidegate.engine.status import EpochReport, RunStatus
from tidegate.pipeline.wording import whereabouts
from tidegate.text import share_text

if TYPE_CHECKING:
    from tidegate.engine.loop import RunResult

Style = Literal["auto", "live", "plain", "json"]

_WORTH_A_WORD = 0.04
"""A part of an epoch that takes a smaller share is not named on the screen."""


@contextmanager
def progress(style: Style = "auto") -> Iterator[Listener]:
    """Show a run in the block: live on a terminal, unless told otherwise."""
    console = Console(stderr=True, highlight=False)
    if style == "auto":
        style = "live" if console.is_terminal else "plain"
    if style == "live":
        with LiveScreen.on(console) as screen:
            yield screen
    else:
        yield JsonLines() if style == "json" else Lines()


class JsonLines:
    """One JSON object a line, on the standard output."""

    def started(self, status: RunStatus) -> None:
        """See `Listener`."""
        self._say({"event": "started", "pipeline": status.pipeline})

    def epoch(self, report: EpochReport, status: RunStatus) -> None:
        """See `Listener`; times are in microseconds, durations in seconds."""
        self._say({"event": "epoch", **numbers_dict(status)})

    def ended(self, status: RunStatus, result: RunResult | None) -> None:
        """See `Listener`; of a run that failed the command says why."""
        if result is None:
            return
        numbers = numbers_dict(status)
        self._say(
            {
                "event": "ended" if result.stopped_by is None else "stopped",
                "pipeline": status.pipeline,
                "epoch": status.last.epoch if status.last else None,
                "watermark_us": numbers["watermark_us"],
                "counts": numbers["counts"],
            }
        )

    def _say(self, data: Mapping[str, Any]) -> None:
        say_json(json.dumps(data))


class Lines:
    """A line an epoch, for logs."""

    def started(self, status: RunStatus) -> None:
        """See `Listener`."""
        self._say(f"{status.pipeline}: starting")

    def epoch(self, report: EpochReport, status: RunStatus) -> None:
        """See `Listener`."""
        what = f"{phrase_of('epoch_rows', status)} in {text_of('epoch_seconds', status)}"
        self._say(", ".join([phrase_of("epoch", status), what, *phrases(status, "line")]))

    def ended(self, status: RunStatus, result: RunResult | None) -> None:
        """See `Listener`."""
        if result is not None:
            self._say(summary(result, status))

    def _say(self, line: str) -> None:
        say(line, err=True)


def summary(result: RunResult, status: RunStatus) -> str:
    """What a run came to, in a line."""
    how = "ended" if result.stopped_by is None else "stopped, and goes on when it is run again"
    if status.last is None:
        return f"{status.pipeline}: {how}: nothing new to read"
    target = result.pipeline.target
    words = [
        f"{phrase_of('admitted_rows', status)} in {phrase_of('epochs', status)}",
        text_of("run_seconds", status),
        f"{phrase_of('sent_rows', status)} to {whereabouts(target.format, target.options)}",
        *phrases(status, "summary"),
    ]
    return f"{status.pipeline}: {how}: {', '.join(words)}"


@dataclass
class LiveScreen:
    """A table that is drawn again with each epoch."""

    live: Live

    @classmethod
    @contextmanager
    def on(cls, console: Console) -> Iterator[LiveScreen]:
        """Draw on a terminal while the block runs; what was drawn last stays."""
        with Live(console=console, refresh_per_second=8, transient=False) as live:
            yield cls(live)

    def started(self, status: RunStatus) -> None:
        """See `Listener`."""
        self.live.update(Spinner("dots", Text(f" {plain(status.pipeline)}: starting Spark")))

    def epoch(self, report: EpochReport, status: RunStatus) -> None:
        """See `Listener`."""
        self.live.update(Group(_numbers(status), _sources(status), _time(status)))

    def ended(self, status: RunStatus, result: RunResult | None) -> None:
        """See `Listener`; of a run that failed the last epoch stays."""
        if result is not None:
            self.live.update(Text(plain(summary(result, status))))


def _numbers(status: RunStatus) -> Table:
    table, shown = Table.grid(padding=(0, 3)), cells(status, "live")
    table.add_row("", *(Text(title, style="dim") for title in shown))
    table.add_row(Text(plain(status.pipeline), style="bold"), *shown.values())
    return table


def _sources(status: RunStatus) -> Table:
    table = Table.grid(padding=(0, 3))
    for name, numbers in labelled(status, "source").items():
        words = (
            Text(number.phrase(value), style="yellow" if number.unit == "true or false" else "")
            for number, value in numbers
        )
        table.add_row(Text(f"  {plain(name)}", style="cyan"), *words)
    return table


def _time(status: RunStatus) -> Text:
    parts = {
        name: seconds or 0 for name, seconds in NUMBER["part_seconds"].by_label(status).items()
    }
    total = sum(parts.values()) or 1
    text = Text(f"  {text_of('epoch_seconds', status)} an epoch: ", style="dim")
    for name, seconds in parts.items():
        if seconds / total >= _WORTH_A_WORD:
            text.append(f"{name} {share_text(seconds / total)}  ", style="dim")
    return text
