"""Event time against arrival: how rows come, and how the watermark follows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tidegate.cli.report.facts import Report
from tidegate.cli.report.marks import (
    Scale,
    chart,
    decimal,
    dots,
    element,
    label,
    line,
    ticks,
    time_ticks,
)
from tidegate.cli.report.words import number

_TOP: Final = 36
_LEFT: Final = 50
_BOTTOM: Final = 40
_RIGHT: Final = 10

_Step = tuple[int, int, int]
"""The watermark that judges the rows [begin, end)."""


def arrivals(report: Report, *, width: int, height: int) -> str:
    """A dot for each row of the sample, and the watermark as steps."""
    if not report.arrivals:
        return ""
    steps = [*_steps(report)]
    x, y = _scales(report, steps, width, height)
    points = {
        late: [(x(each.place), y(each.event_us)) for each in report.arrivals if each.late is late]
        for late in (False, True)
    }
    marks = [
        *_axes(report, x, y, about=3 if width < 500 else 6),
        dots(points[False], "on-time"),
        dots(points[True], "late"),
        _watermark(steps, x, y),
        *_restarts(report, x, height),
        *_names(report, steps, x, y),
    ]
    return chart(marks, width, height, f"event time of {report.rows_are} as they arrive")


def _steps(report: Report) -> Iterator[_Step]:
    """Rows are judged by the watermark behind the epoch before."""
    begin, before = 0, None
    for each in report.epochs:
        if before is not None and each.rows:
            yield begin, begin + each.rows, before
        begin, before = begin + each.rows, each.watermark_us


def _scales(report: Report, steps: list[_Step], width: int, height: int) -> tuple[Scale, Scale]:
    times = [each.event_us for each in report.arrivals] + [us for _, _, us in steps]
    places = [each.place + 1 for each in report.arrivals] + [end for _, end, _ in steps]
    low, high = min(times), max(times)
    x = Scale(0, max(places), _LEFT, width - _RIGHT)
    return x, Scale(low, max(high, low + 1), height - _BOTTOM, _TOP)


def _axes(report: Report, x: Scale, y: Scale, about: int) -> Iterator[str]:
    for us, text in time_ticks(int(y.low), int(y.high), 6):
        yield line(x.begin, y(us), x.end, y(us), "grid")
        yield label(text, x.begin - 8, y(us) + 4, "tick", text_anchor="end")
    for place in ticks(0, x.high, about):
        yield line(x(place), y.begin, x(place), y.begin + 4, "axis")
        anchor = "end" if x(place) > x.end - 16 else "middle"
        yield label(number(place), x(place), y.begin + 18, "tick", text_anchor=anchor)
    yield line(x.begin, y.begin, x.end, y.begin, "axis")
    yield label(
        f"{report.rows_are} in order of arrival", x.end, y.begin + 35, "note", text_anchor="end"
    )
    yield label("event time, UTC", 0, 11, "note")


def _watermark(steps: list[_Step], x: Scale, y: Scale) -> str:
    if not steps:
        return ""
    path = "".join(
        f"{'M' if nth == 0 else 'L'}{decimal(x(begin))} {decimal(y(us))}H{decimal(x(end))}"
        for nth, (begin, end, us) in enumerate(steps)
    )
    return element("path", d=path, class_="watermark")


def _restarts(report: Report, x: Scale, height: int) -> Iterator[str]:
    for each in report.restarts:
        at = x(each.rows)
        yield line(at, _TOP, at, height - _BOTTOM, "restart")
        yield label(report.restarts_are, at, _TOP - 7, "note strong", text_anchor="middle")


def _names(report: Report, steps: list[_Step], x: Scale, y: Scale) -> Iterator[str]:
    """Marks are named where they are."""
    if steps:
        begin, _, us = steps[_named(len(steps))]
        yield label("watermark", x(begin) + 10, y(us) + 17, "name")
    late = sorted((each.place, each.event_us) for each in report.arrivals if each.late)
    if late:
        place, us = late[_named(len(late))]
        yield label(f"late {report.rows_are}", x(place) + 4, y(us) + 30, "name late")


def _named(many: int) -> int:
    """Far enough from the end for a name to stand beside it."""
    return many * 6 // 10
