"""A run on the screen: live on a terminal, a line an epoch elsewhere, JSON for machines.

    EpochReport -> RunProgress -> RunStatus -> [LiveScreen | Lines | JsonLines]

Progress goes to the error stream, but for JSON, which is what was asked for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from tidegate.cli.telling import plain, say, say_json
from tidegate.engine.status import EpochReport, RunProgress, RunStatus, known_us
from tidegate.pipeline.wording import whereabouts
from tidegate.text import bytes_text, count_text, elapsed_text, instant_text

if TYPE_CHECKING:
    from tidegate.engine.loop import RunResult

Style = Literal["auto", "live", "plain", "json"]

_WORTH_A_WORD = 0.04
"""A part of an epoch that takes a smaller share is not named on the screen."""


class Screen(Protocol):
    """Something that shows how a run goes on."""

    def began(self, name: str) -> None:
        """The run is starting."""
        ...

    def moved(self, status: RunStatus, report: EpochReport) -> None:
        """An epoch was committed."""
        ...

    def ended(self, result: RunResult, status: RunStatus) -> None:
        """The run came to its end, or was stopped."""
        ...


@dataclass(kw_only=True)
class Progress:
    """Gives epochs to a screen; its `on_epoch` is for `Pipeline.run`."""

    screen: Screen
    run: RunProgress

    def on_epoch(self, report: EpochReport) -> None:
        """Show an epoch that was committed."""
        self.screen.moved(self.run.took(report), report)

    def ended(self, result: RunResult) -> None:
        """Show what the run came to."""
        self.screen.ended(result, self.run.status)


@contextmanager
def progress(name: str, style: Style = "auto") -> Iterator[Progress]:
    """Show a run in the block: live on a terminal, unless told otherwise."""
    console = Console(stderr=True, highlight=False)
    if style == "auto":
        style = "live" if console.is_terminal else "plain"
    run = RunProgress(status=RunStatus(pipeline=name))
    screen: Screen
    if style == "live":
        with LiveScreen.on(console) as screen:
            screen.began(name)
            yield Progress(screen=screen, run=run)
        return
    screen = JsonLines() if style == "json" else Lines()
    screen.began(name)
    yield Progress(screen=screen, run=run)


class JsonLines:
    """One JSON object a line, on the standard output."""

    def began(self, name: str) -> None:
        """See `Screen`."""
        self._say({"event": "started", "pipeline": name})

    def moved(self, status: RunStatus, report: EpochReport) -> None:
        """See `Screen`; times are in microseconds, durations in seconds."""
        self._say(
            {
                "event": "epoch",
                "epoch": report.epoch,
                "rows": report.rows,
                "seconds": round(report.seconds, 6),
                "rows_per_second": round(status.rows_per_second, 1),
                "watermark_us": status.watermark_us,
                "sources": {
                    name: {
                        "watermark_us": known_us(each.watermark_us),
                        "lag_us": status.lag_us[name],
                        "idle": name in report.watermarks.idle,
                    }
                    for name, each in report.watermarks.sources.items()
                },
                "open": report.open,
                "state_bytes": report.state_bytes,
                "worker_cache_bytes": report.worker_cache_bytes,
                "counts": dict(status.counts),
                "parts": {name: round(spent, 6) for name, spent in _parts(report).items()},
            }
        )

    def ended(self, result: RunResult, status: RunStatus) -> None:
        """See `Screen`."""
        self._say(
            {
                "event": "ended" if result.stopped_by is None else "stopped",
                "pipeline": status.pipeline,
                "epoch": status.last.epoch if status.last else None,
                "watermark_us": result.watermark_us,
                "counts": dict(result.counts),
            }
        )

    def _say(self, data: Mapping[str, Any]) -> None:
        say_json(json.dumps(data))


class Lines:
    """A line an epoch, for logs."""

    def began(self, name: str) -> None:
        """See `Screen`."""
        self._say(f"{name}: starting")

    def moved(self, status: RunStatus, report: EpochReport) -> None:
        """See `Screen`."""
        lags_us = [us for us in status.lag_us.values() if us is not None]
        words = [
            f"epoch {report.epoch}",
            f"{count_text(report.rows, 'rows')} in {elapsed_text(report.seconds * 1e6)}",
            f"{status.rows_per_second:,.0f} rows/s",
            f"watermark {instant_text(status.watermark_us)}",
            f"lag {elapsed_text(max(lags_us))}" if lags_us else "",
            f"{report.open:,} open" if report.open is not None else "",
            *_troubles(status.counts),
            f"state {bytes_text(report.state_bytes)}",
        ]
        self._say(", ".join(word for word in words if word))

    def ended(self, result: RunResult, status: RunStatus) -> None:
        """See `Screen`."""
        self._say(summary(result, status))

    def _say(self, line: str) -> None:
        say(line, err=True)


def summary(result: RunResult, status: RunStatus) -> str:
    """What a run came to, in a line."""
    how = "ended" if result.stopped_by is None else "stopped, and goes on when it is run again"
    if status.last is None:
        return f"{status.pipeline}: {how}: nothing new to read"
    target, open_ = result.pipeline.target, status.last.open
    rows = count_text(status.counts.get("rows", 0), "rows")
    words = [
        f"{rows} in {count_text(status.epochs, 'epochs')}",
        elapsed_text(status.seconds * 1e6),
        f"{result.counts.get('sent', 0):,} sent to {whereabouts(target.format, target.options)}",
        *_troubles(result.counts),
        f"{open_:,} open" if open_ is not None else "",
    ]
    return f"{status.pipeline}: {how}: {', '.join(word for word in words if word)}"


def _troubles(counts: Mapping[str, int]) -> Iterator[str]:
    for name in ("late", "rejected", "left_out"):
        if counts.get(name):
            yield f"{counts[name]:,} {name.replace('_', ' ')}{_reasons(counts, f'{name}.')}"


def _reasons(counts: Mapping[str, int], prefix: str) -> str:
    found = {name.removeprefix(prefix): n for name, n in counts.items() if name.startswith(prefix)}
    told = ", ".join(f"{count:,} {reason}" for reason, count in sorted(found.items()))
    return f" ({told})" if told else ""


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

    def began(self, name: str) -> None:
        """See `Screen`."""
        self.live.update(Spinner("dots", Text(f" {plain(name)}: starting Spark")))

    def moved(self, status: RunStatus, report: EpochReport) -> None:
        """See `Screen`."""
        self.live.update(Group(_numbers(status, report), _sources(status, report), _time(report)))

    def ended(self, result: RunResult, status: RunStatus) -> None:
        """See `Screen`."""
        self.live.update(Text(plain(summary(result, status))))


def _numbers(status: RunStatus, report: EpochReport) -> Table:
    table = Table.grid(padding=(0, 3))
    counts = status.counts
    cells = [
        ("epoch", f"{report.epoch}"),
        ("rows", f"{counts.get('rows', 0):,}"),
        ("rows/s", f"{status.rows_per_second:,.0f}"),
        ("open", "-" if report.open is None else f"{report.open:,}"),
        ("sent", f"{counts.get('sent', 0):,}"),
        ("late", f"{counts.get('late', 0):,}"),
        ("rejected", f"{counts.get('rejected', 0):,}"),
        ("state", bytes_text(report.state_bytes)),
    ]
    table.add_row(*(Text(title, style="dim") for title, _ in [("", ""), *cells]))
    table.add_row(Text(plain(status.pipeline), style="bold"), *(value for _, value in cells))
    return table


def _sources(status: RunStatus, report: EpochReport) -> Table:
    table = Table.grid(padding=(0, 3))
    for name, each in report.watermarks.sources.items():
        lag_us = status.lag_us[name]
        table.add_row(
            Text(f"  {plain(name)}", style="cyan"),
            f"watermark {instant_text(each.watermark_us)}",
            f"lag {'-' if lag_us is None else elapsed_text(lag_us)}",
            Text("idle", style="yellow") if name in report.watermarks.idle else Text(""),
        )
    return table


def _time(report: EpochReport) -> Text:
    parts = _parts(report)
    total = sum(parts.values()) or 1.0
    text = Text(f"  {elapsed_text(report.seconds * 1e6)} an epoch: ", style="dim")
    for name, spent in parts.items():
        if spent / total >= _WORTH_A_WORD:
            text.append(f"{name} {spent / total:.0%}  ", style="dim")
    return text


def _parts(report: EpochReport) -> dict[str, float]:
    """Parts that add up: `job` is the sum of others."""
    return {name: spent for name, spent in report.parts.items() if name != "job"}
