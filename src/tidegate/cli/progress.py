"""A run on the screen: live on a terminal, a line an epoch elsewhere, JSON for machines.

    EpochResult -> Watcher -> View -> [Live | Lines | JsonLines]

Progress goes to the error stream, but for JSON, which is what was asked for.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from tidegate.cli.telling import plain, say, say_json
from tidegate.cli.watching import View, Watcher, instant_text, lag_text
from tidegate.eventtime import now_us
from tidegate.pipeline.explain import bytes_text
from tidegate.pipeline.wording import whereabouts

if TYPE_CHECKING:
    from tidegate.spark.epochs import EpochResult
    from tidegate.spark.running import RunResult

Style = Literal["auto", "live", "plain", "json"]

_WORTH_A_WORD = 0.04
"""A part of an epoch that takes a smaller share is not named on the screen."""


class Screen(Protocol):
    """Something that shows how a run goes on."""

    def began(self, name: str) -> None:
        """The run is starting."""
        ...

    def moved(self, view: View) -> None:
        """An epoch was committed."""
        ...

    def ended(self, name: str, result: RunResult, view: View | None) -> None:
        """The run came to its end, or was stopped."""
        ...


@dataclass
class Progress:
    """Gives epochs to a screen; its `on_epoch` is for `Pipeline.run`."""

    screen: Screen
    clock: Callable[[], float] = time.monotonic
    wall_us: Callable[[], int] = now_us
    view: View | None = None
    watcher: Watcher = field(init=False)

    def __post_init__(self) -> None:
        self.watcher = Watcher(self.clock())

    def on_epoch(self, result: EpochResult) -> None:
        """Show an epoch that was committed."""
        self.view = self.watcher.saw(result, now_us=self.wall_us(), at_s=self.clock())
        self.screen.moved(self.view)


@contextmanager
def progress(name: str, style: Style = "auto") -> Iterator[Progress]:
    """Show a run in the block: live on a terminal, unless told otherwise."""
    console = Console(stderr=True, highlight=False)
    if style == "auto":
        style = "live" if console.is_terminal else "plain"
    screen: Screen
    if style == "live":
        with LiveScreen.on(console) as screen:
            screen.began(name)
            yield Progress(screen)
        return
    screen = JsonLines() if style == "json" else Lines()
    screen.began(name)
    yield Progress(screen)


class JsonLines:
    """One JSON object a line, on the standard output."""

    def began(self, name: str) -> None:
        """See `Screen`."""
        self._say({"event": "started", "pipeline": name})

    def moved(self, view: View) -> None:
        """See `Screen`."""
        self._say(view.to_dict())

    def ended(self, name: str, result: RunResult, view: View | None) -> None:
        """See `Screen`."""
        self._say(
            {
                "event": "ended" if result.stopped_by is None else "stopped",
                "pipeline": name,
                "epoch": view.epoch if view else None,
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

    def moved(self, view: View) -> None:
        """See `Screen`."""
        lags = [each.lag_us for each in view.sources.values() if each.lag_us is not None]
        words = [
            f"epoch {view.epoch}",
            f"{view.epoch_rows:,} rows in {view.epoch_seconds:.2f} s",
            f"{view.rows_per_second:,.0f} rows/s",
            f"watermark {instant_text(view.watermark_us)}",
            f"lag {lag_text(max(lags))}" if lags else "",
            f"{view.open:,} open" if view.open is not None else "",
            *_troubles(view.counts),
            f"state {bytes_text(view.state_bytes)}",
        ]
        self._say(", ".join(word for word in words if word))

    def ended(self, name: str, result: RunResult, view: View | None) -> None:
        """See `Screen`."""
        self._say(summary(name, result, view))

    def _say(self, line: str) -> None:
        say(line, err=True)


def summary(name: str, result: RunResult, view: View | None) -> str:
    """What a run came to, in a line."""
    how = "ended" if result.stopped_by is None else "stopped, and goes on when it is run again"
    if view is None:
        return f"{name}: {how}: nothing new to read"
    target = result.pipeline.target
    words = [
        f"{view.rows:,} rows in {view.epochs} {'epoch' if view.epochs == 1 else 'epochs'}",
        f"{view.elapsed_s:.1f} s",
        f"{result.counts.get('sent', 0):,} sent to {whereabouts(target.format, target.options)}",
        *_troubles(result.counts),
        f"{view.open:,} open" if view.open is not None else "",
    ]
    return f"{name}: {how}: {', '.join(word for word in words if word)}"


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
    name: str = ""

    @classmethod
    @contextmanager
    def on(cls, console: Console) -> Iterator[LiveScreen]:
        """Draw on a terminal while the block runs; what was drawn last stays."""
        with Live(console=console, refresh_per_second=8, transient=False) as live:
            yield cls(live)

    def began(self, name: str) -> None:
        """See `Screen`."""
        self.name = name
        self.live.update(Spinner("dots", Text(f" {plain(name)}: starting Spark")))

    def moved(self, view: View) -> None:
        """See `Screen`."""
        self.live.update(Group(_numbers(self.name, view), _sources(view), _time(view)))

    def ended(self, name: str, result: RunResult, view: View | None) -> None:
        """See `Screen`."""
        self.live.update(Text(plain(summary(name, result, view))))


def _numbers(name: str, view: View) -> Table:
    table = Table.grid(padding=(0, 3))
    counts = view.counts
    cells = [
        ("epoch", f"{view.epoch}"),
        ("rows", f"{view.rows:,}"),
        ("rows/s", f"{view.rows_per_second:,.0f}"),
        ("open", "-" if view.open is None else f"{view.open:,}"),
        ("sent", f"{counts.get('sent', 0):,}"),
        ("late", f"{counts.get('late', 0):,}"),
        ("rejected", f"{counts.get('rejected', 0):,}"),
        ("state", bytes_text(view.state_bytes)),
    ]
    table.add_row(*(Text(title, style="dim") for title, _ in [("", ""), *cells]))
    table.add_row(Text(plain(name), style="bold"), *(value for _, value in cells))
    return table


def _sources(view: View) -> Table:
    table = Table.grid(padding=(0, 3))
    for name, each in view.sources.items():
        behind = "-" if each.lag_us is None else lag_text(each.lag_us)
        waits = Text("idle", style="yellow") if each.idle else Text("")
        table.add_row(
            Text(f"  {plain(name)}", style="cyan"),
            f"watermark {instant_text(each.watermark_us)}",
            f"lag {behind}",
            waits,
        )
    return table


def _time(view: View) -> Text:
    total = sum(view.parts.values()) or 1.0
    text = Text(f"  {view.epoch_seconds:.2f} s an epoch: ", style="dim")
    for name, spent in view.parts.items():
        if spent / total >= _WORTH_A_WORD:
            text.append(f"{name} {spent / total:.0%}  ", style="dim")
    return text
