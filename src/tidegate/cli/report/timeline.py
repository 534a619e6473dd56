"""Windows in event time: a line for each key, the longest window of each marked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tidegate.cli.report.facts import Report, WindowFacts
from tidegate.cli.report.marks import Scale, chart, element, hint, label, line, time_ticks
from tidegate.cli.report.words import clock, count, duration, moment

_TOP: Final = 30
_BOTTOM: Final = 26
_LONGEST_KEY: Final = 14


@dataclass(frozen=True, slots=True)
class _Lane:
    """A key with its windows, and the longest of them."""

    key: str
    windows: Sequence[WindowFacts]
    longest: WindowFacts


def timeline(report: Report, *, width: int, lanes: int, lane_height: int = 19) -> str:
    """The keys with the longest windows, longest first."""
    shown = _lanes(report.shown_windows, lanes)
    if not shown:
        return ""
    narrow = width < 600
    left = 12 + 7.2 * max(len(_short(lane.key)) for lane in shown)
    right = width - (82 if narrow else 172)
    bottom = _TOP + lane_height * len(shown)
    x = _time_scale(shown, left, right)
    marks = [
        *_axis(x, bottom, ticks=4 if narrow else 9),
        *_restarts(report, x, bottom),
        *(
            mark
            for nth, lane in enumerate(shown)
            for mark in _lane(lane, x, _TOP + lane_height * nth, lane_height, report)
        ),
        *_lengths(shown, width, lane_height, "" if narrow else report.rows_are),
    ]
    says = f"{len(shown)} {report.keys_are} with their {report.windows_are} in event time"
    return chart(marks, width, bottom + _BOTTOM, says)


def _lanes(windows: Sequence[WindowFacts], at_most: int) -> list[_Lane]:
    by_key: dict[str, list[WindowFacts]] = {}
    for each in windows:
        by_key.setdefault(each.key, []).append(each)
    lanes = [
        _Lane(key, found, max(found, key=lambda each: (each.length_us, -each.start_us)))
        for key, found in by_key.items()
    ]
    lanes.sort(key=lambda lane: (-lane.longest.length_us, lane.longest.start_us, lane.key))
    return lanes[:at_most]


def _time_scale(lanes: Sequence[_Lane], left: float, right: float) -> Scale:
    windows = [each for lane in lanes for each in lane.windows]
    low, high = min(w.start_us for w in windows), max(w.end_us for w in windows)
    return Scale(low, max(high, low + 1), left, right)


def _axis(x: Scale, bottom: float, ticks: int) -> Iterator[str]:
    for us, text in time_ticks(int(x.low), int(x.high), ticks):
        yield line(x(us), _TOP - 4, x(us), bottom, "grid")
        yield label(text, x(us), bottom + 17, "tick", text_anchor="middle")


def _restarts(report: Report, x: Scale, bottom: float) -> Iterator[str]:
    """Where the watermark stood when a process ended."""
    for each in report.restarts:
        if each.watermark_us is None or not x.low <= each.watermark_us <= x.high:
            continue
        at = x(each.watermark_us)
        yield line(at, _TOP - 8, at, bottom, "restart")
        yield label(report.restarts_are, at, _TOP - 13, "note strong", text_anchor="middle")


def _lane(lane: _Lane, x: Scale, top: float, height: float, report: Report) -> Iterator[str]:
    middle = top + height / 2
    yield label(_short(lane.key), x.begin - 8, middle + 4, "key", text_anchor="end")
    yield line(x.begin, middle, x.end, middle, "lane")
    for each in lane.windows:
        yield _bar(each, x, middle, each is lane.longest, report)


def _bar(window: WindowFacts, x: Scale, middle: float, marked: bool, report: Report) -> str:
    """First event to last; the thin rest is the gap in which more could have come."""
    last_us = window.end_us if window.last_us is None else window.last_us
    begin, last, end = x(window.start_us), x(last_us), x(window.end_us)
    kind = "bar main" if marked else "bar"
    bar = element(
        "rect",
        x=begin,
        y=middle - 5,
        width=max(2.0, last - begin),
        height=10,
        rx=1.5,
        class_=f"{kind} open" if window.open else kind,
    )
    tail = line(last, middle, end, middle, "tail main" if marked else "tail")
    return element("g", hint(_told(window, report)), tail, bar)


def _told(window: WindowFacts, report: Report) -> str:
    lines = [
        f"{window.key}: {moment(window.start_us)} to {clock(window.end_us)} UTC",
        f"{duration(window.length_us)}, {count(window.rows, report.rows_are)}",
        *(f"{name}: {value}" for name, value in window.details.items()),
        *(["still open"] if window.open else []),
    ]
    return "\n".join(lines)


def _lengths(
    lanes: Sequence[_Lane], width: int, lane_height: float, rows_are: str
) -> Iterator[str]:
    for nth, lane in enumerate(lanes):
        y = _TOP + lane_height * (nth + 0.5) + 4
        length = duration(lane.longest.length_us)
        yield label(length, width - (86 if rows_are else 0), y, "value", text_anchor="end")
        if rows_are:
            yield label(count(lane.longest.rows, rows_are), width, y, "tick", text_anchor="end")


def _short(key: str) -> str:
    return key if len(key) <= _LONGEST_KEY else f"{key[: _LONGEST_KEY - 1]}…"
