"""Epochs one by one: how many rows a second, and where the time went."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from tidegate.cli.report.facts import EpochFacts, Report
from tidegate.cli.report.marks import Scale, chart, element, hint, label, line, ticks
from tidegate.cli.report.words import count, rounded, seconds

_GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "step": ("receive", "load", "kernel", "count"),
    "read": ("read", "split"),
    "make durable": ("stage", "commit", "publish"),
    "plan": ("plan",),
    "Spark: scheduling, shuffle": ("shuffle",),
}
"""Parts of an epoch as people think of them, from the bottom of a bar to its top."""
_OTHER: Final = "other"
_WHOLE: Final = "job"
"""What parts of tasks add up to: it would count twice."""

_LEFT: Final = 50
_TOP: Final = 38
_BETWEEN: Final = 34
_BOTTOM: Final = 38


@dataclass(frozen=True, slots=True)
class _Frame:
    """Two panels with one axis of epochs."""

    epochs: Sequence[EpochFacts]
    width: int
    rate: Scale
    time: Scale

    @property
    def slot(self) -> float:
        """The room of an epoch."""
        return (self.width - _LEFT) / len(self.epochs)

    def x(self, nth: float) -> float:
        """Where the room of the nth epoch begins."""
        return _LEFT + self.slot * nth


def epochs(report: Report, *, width: int, heights: tuple[int, int]) -> str:
    """Rows a second above, time by part below; the scale is that of warm epochs."""
    found = [each for each in report.epochs if each.seconds > 0]
    if not found:
        return ""
    longest = max(each.seconds for each in report.warm_epochs) or max(e.seconds for e in found)
    above = _TOP + heights[0]
    below = above + _BETWEEN + heights[1]
    frame = _Frame(
        found,
        width,
        Scale(0, max(1.0, *(each.rows / each.seconds for each in found)), above, _TOP),
        Scale(0, 1.1 * longest, below, above + _BETWEEN),
    )
    marks = [
        *_axes(frame, report.rows_are),
        *(mark for nth, each in enumerate(found) for mark in _epoch(frame, nth, each, report)),
        *_restarts(frame, report.restarts_are),
    ]
    return chart(marks, width, below + _BOTTOM, "throughput and time of each epoch")


def grouped(epoch: EpochFacts) -> dict[str, float]:
    """The time of an epoch by group; what no part tells is `other`."""
    known = {
        name: sum(epoch.parts.get(part, 0.0) for part in parts) for name, parts in _GROUPS.items()
    }
    rest = epoch.seconds - sum(known.values())
    return {**known, _OTHER: rest if rest > 0.02 * epoch.seconds else 0.0}


def shares(report: Report) -> dict[str, float]:
    """The share of each group in the time of warm epochs; those without any are left out."""
    total: dict[str, float] = {}
    for each in report.warm_epochs:
        for name, spent in grouped(each).items():
            total[name] = total.get(name, 0.0) + spent
    whole = sum(total.values())
    return {name: spent / whole for name, spent in total.items() if spent}


def part_class(name: str) -> str:
    """The class that gives a group its colour."""
    return f"part-{[*_GROUPS, _OTHER].index(name)}"


def _axes(frame: _Frame, rows_are: str) -> Iterator[str]:
    for scale, text, name in (
        (frame.rate, rounded, f"{rows_are} per second"),
        (frame.time, seconds, "time"),
    ):
        for value in ticks(0, scale.high, 4):
            yield line(_LEFT, scale(value), frame.width, scale(value), "grid")
            shown = text(value) if value else "0"
            yield label(shown, _LEFT - 6, scale(value) + 4, "tick", text_anchor="end")
        yield label(name, 0, scale.end - 11, "note")
        yield line(_LEFT, scale.begin, frame.width, scale.begin, "axis")
    every = max(1, round(len(frame.epochs) * (34 / (frame.width - _LEFT))))
    for nth, each in enumerate(frame.epochs):
        if nth % every == 0:
            x = frame.x(nth + 0.5)
            yield label(str(each.epoch), x, frame.time.begin + 16, "tick", text_anchor="middle")
    yield label("epoch", frame.width, frame.time.begin + 33, "note", text_anchor="end")


def _epoch(frame: _Frame, nth: int, epoch: EpochFacts, report: Report) -> Iterator[str]:
    gap = min(6.0, frame.slot * 0.2)
    x, width = frame.x(nth) + gap / 2, frame.slot - gap
    rate = frame.rate(epoch.rows / epoch.seconds)
    told = hint(_told(epoch, report))
    yield element(
        "rect", told, x=x, y=rate, width=width, height=frame.rate.begin - rate, class_="rate"
    )
    parts = grouped(epoch)
    ends = [*accumulate(parts.values())]
    bars = (
        element(
            "rect",
            x=x,
            y=frame.time.clipped(end),
            width=width,
            height=frame.time.clipped(end - parts[name]) - frame.time.clipped(end),
            class_=part_class(name),
        )
        for name, end in zip(parts, ends, strict=True)
        if frame.time.clipped(end - parts[name]) - frame.time.clipped(end) > 0.05
    )
    yield element("g", told, *bars)
    if epoch.seconds > frame.time.high:
        yield from _beyond(frame, x, width, epoch)


def _beyond(frame: _Frame, x: float, width: float, epoch: EpochFacts) -> Iterator[str]:
    """A bar that leaves the scale is cut, and says how long it is."""
    top = frame.time.end
    cut = f"M{x - 2:.1f} {top + 9:.1f}l{width + 4:.1f} -5v4l-{width + 4:.1f} 5z"
    yield element("path", d=cut, class_="cut")
    text = seconds(epoch.seconds)
    yield label(text, x, top - 4, "value")


def _told(epoch: EpochFacts, report: Report) -> str:
    lines = [
        f"epoch {epoch.epoch}: {count(epoch.rows, report.rows_are)} in {seconds(epoch.seconds)}",
        *(f"{name}: {seconds(spent)}" for name, spent in grouped(epoch).items() if spent),
    ]
    return "\n".join([*lines, f"late: {epoch.late}"] if epoch.late else lines)


def _restarts(frame: _Frame, text: str) -> Iterator[str]:
    for nth, each in enumerate(frame.epochs):
        if nth and each.run != frame.epochs[nth - 1].run:
            x = frame.x(nth)
            yield line(x, frame.rate.end - 20, x, frame.time.begin, "restart")
            yield label(text, x, frame.rate.end - 26, "note strong", text_anchor="middle")
