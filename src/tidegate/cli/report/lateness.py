"""How late late rows are: the watermark that judged them, less their event time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tidegate.cli.report.facts import Report
from tidegate.cli.report.marks import (
    Scale,
    chart,
    duration_ticks,
    element,
    hint,
    label,
    line,
    ticks,
)
from tidegate.cli.report.words import US, count, duration, number

_TOP: Final = 36
_LEFT: Final = 38
_BOTTOM: Final = 40
_ABOUT: Final = 16

_Bin = tuple[int, int, int]
"""From, to, how many."""


def lateness(report: Report, *, width: int, height: int) -> str:
    """A bar for each span of lateness, from nought: where the watermark is."""
    behind = [max(0, each.watermark_us - each.event_us) for each in report.late_rows]
    if not behind:
        return ""
    bins = _bins(behind)
    y = Scale(0, max(many for _, _, many in bins), height - _BOTTOM, _TOP)
    x = Scale(0, bins[-1][1], _LEFT, width - 10)
    marks = [*_axes(report, x, y), *(_bar(each, x, y, report) for each in bins)]
    return chart(marks, width, height, f"how late {len(behind)} {report.rows_are} were")


def _bins(behind: Sequence[int]) -> list[_Bin]:
    """Spans of round length up to the latest; those below the earliest are left out."""
    span = max(behind) - min(behind)
    steps = duration_ticks(0, max(span, _ABOUT * US), _ABOUT)
    step = steps[1] - steps[0] if len(steps) > 1 else US
    counts: dict[int, int] = {}
    for each in behind:
        counts[each // step] = counts.get(each // step, 0) + 1
    return [(nth * step, (nth + 1) * step, counts[nth]) for nth in sorted(counts)]


def _axes(report: Report, x: Scale, y: Scale) -> Iterator[str]:
    for many in ticks(0, y.high, 4):
        yield line(x.begin, y(many), x.end, y(many), "grid")
        yield label(number(many), x.begin - 6, y(many) + 4, "tick", text_anchor="end")
    for us in duration_ticks(0, int(x.high), 4):
        yield line(x(us), y.begin, x(us), y.begin + 4, "axis")
        anchor = "end" if x(us) > x.end - 16 else "middle"
        yield label(duration(us), x(us), y.begin + 18, "tick", text_anchor=anchor)
    yield line(x.begin, y.begin, x.end, y.begin, "axis")
    yield label("behind the watermark", x.end, y.begin + 35, "note", text_anchor="end")
    yield label(report.rows_are, 0, 11, "note")


def _bar(each: _Bin, x: Scale, y: Scale, report: Report) -> str:
    low, high, many = each
    told = f"{duration(low)} to {duration(high)}: {count(many, report.rows_are)}"
    return element(
        "rect",
        hint(told),
        x=x(low) + 0.5,
        y=y(many),
        width=max(1.5, x(high) - x(low) - 1),
        height=y.begin - y(many),
        class_="late-bar",
    )
