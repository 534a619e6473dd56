"""The charts of the report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, cycle
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tidegate.cli.report.svg import (
    TIMES_US,
    Scale,
    chart,
    dots,
    element,
    label,
    line,
    rect,
    restart,
    steps,
    ticks,
    title,
)
from tidegate.text import clock_text, count_text, elapsed_text, number_text

if TYPE_CHECKING:
    from tidegate.engine.status import EpochReport

Attempts = Sequence[Sequence["EpochReport"]]
"""The epochs of each process."""

_LANES: Final = 24
_LANE: Final = 19
_ON_TIME_DOTS: Final = 2_000
_LATE_DOTS: Final = 700
"""About so many rows are drawn; late ones in a larger share, or they would hardly be seen."""


def timeline(sessions: pl.DataFrame, attempts: Attempts) -> str:
    """Sessions in event time: a line for each user, its longest session marked.

    `sessions` are those of the page, longest first.
    """
    users = sessions["user_id"].unique(maintain_order=True).head(_LANES)
    shown = sessions.filter(pl.col("user_id").is_in(users.implode())).with_columns(
        pl.col("window_start", "window_end").dt.epoch("us")
    )
    if shown.is_empty():
        return ""
    top, bottom = 26, 26 + _LANE * len(users)
    x = Scale(*_ends(shown["window_start"], shown["window_end"]), 0, 100)
    marks = [
        *(
            line(x(us), top, x(us), bottom, "grid")
            + label(clock_text(int(us))[:5], x(us), bottom + 17, "tick", text_anchor="middle")
            for us in ticks(x, 5, TIMES_US)
        ),
        *(
            restart(x(us), top - 4, bottom)
            for before in attempts[:-1]
            if before and x.low <= (us := before[-1].watermark_us) <= x.high
        ),
        *(
            mark
            for nth, user in enumerate(users)
            for mark in _lane(shown.filter(user_id=user), x, top + _LANE * (nth + 0.5))
        ),
    ]
    says = f"{len(users)} users with their sessions in event time"
    return chart("timeline", says, bottom + 26, *marks)


def _lane(sessions: pl.DataFrame, x: Scale, y: float) -> Iterator[str]:
    longest = sessions.row(0, named=True)
    yield label(f"user {longest['user_id']}", 0, y + 4, "key", dx=-8, text_anchor="end")
    yield line(0, y, 100, y, "grid")
    for session in sessions.iter_rows(named=True):
        yield _session(session, x, y, marked=session == longest)
    length = elapsed_text(longest["length_us"])
    yield label(length, 100, y + 4, "key", dx=86, text_anchor="end")
    many = count_text(longest["clicks"], "clicks")
    yield label(many, 100, y + 4, "tick wide", dx=166, text_anchor="end")


def _session(session: Mapping[str, Any], x: Scale, y: float, *, marked: bool) -> str:
    """First click to last; the thin rest is the gap in which more could have come."""
    begin_us, end_us = session["window_start"], session["window_end"]
    begin, last = x(begin_us), x(begin_us + session["length_us"])
    kind = f"bar{' main' if marked else ''}{' open' if session['open'] else ''}"
    lines = [
        f"user {session['user_id']}: {clock_text(begin_us)} to {clock_text(end_us)} UTC",
        f"{elapsed_text(session['length_us'])}, {count_text(session['clicks'], 'clicks')}",
        f"entry: {session['entry']}",
        f"exit: {session['exit']}",
        *(["still open"] if session["open"] else []),
    ]
    return element(
        "g",
        title("\n".join(lines)),
        line(last, y, x(end_us), y, "tail main" if marked else "tail"),
        rect(begin, y - 5, max(0.1, last - begin), 10, kind),
    )


def arrivals(clicks: pl.DataFrame, attempts: Attempts) -> str:
    """Event time against arrival: a dot for each click of a sample, the watermark as steps."""
    if clicks.is_empty():
        return ""
    top, bottom = 36, 300
    clicks = clicks.with_columns(pl.col("event_time", "watermark").dt.epoch("us"))
    epochs = clicks.group_by("watermark", maintain_order=True).agg(
        begin=pl.col("row").min(), end=pl.col("row").max() + 1
    )
    judged = epochs.drop_nulls("watermark")
    x = Scale(0, clicks.height, 0, 100)
    y = Scale(*_ends(clicks["event_time"], clicks["watermark"].drop_nulls()), bottom, top)
    watermarks = [(x(begin), x(end), y(us)) for us, begin, end in judged.iter_rows()]
    late = _sample(clicks.filter("late"), _LATE_DOTS, x, y)
    done = [*accumulate(sum(each.rows for each in epochs) for epochs in attempts)]
    marks = [
        *(
            line(0, y(us), 100, y(us), "grid")
            + label(clock_text(int(us))[:5], 0, y(us) + 4, "tick", dx=-8, text_anchor="end")
            for us in ticks(y, 6, TIMES_US)
        ),
        *(
            line(x(row), bottom, x(row), bottom + 4, "axis")
            + label(number_text(row), x(row), bottom + 18, kind, text_anchor=_anchor(x(row)))
            for row, kind in zip(ticks(x, 4), cycle(("tick", "tick wide")), strict=False)
        ),
        line(0, bottom, 100, bottom, "axis"),
        label("event time, UTC", 0, 11, "note", dx=-50),
        label("clicks in order of arrival", 100, bottom + 35, "note", text_anchor="end"),
        dots(_sample(clicks.filter(~pl.col("late")), _ON_TIME_DOTS, x, y), "on-time"),
        dots(late, "late"),
        steps(watermarks, "watermark"),
        *(restart(x(rows), top, bottom) for rows in done[:-1]),
        *(
            label("watermark", begin, height + 17, "name", dx=10)
            for begin, _, height in watermarks[_named(watermarks)]
        ),
        *(
            label("late clicks", place, height + 30, "name late", dx=4)
            for place, height in late[_named(late)]
        ),
    ]
    return chart("arrivals", "event time of clicks as they arrive", bottom + 40, *marks)


def _sample(clicks: pl.DataFrame, about: int, x: Scale, y: Scale) -> list[tuple[float, float]]:
    thinned = clicks.gather_every(max(1, clicks.height // about))
    return [(x(row), y(us)) for row, us in thinned.select("row", "event_time").iter_rows()]


def _named(marks: Sequence[Any]) -> slice:
    """The mark that a name stands beside: far enough from the end to have room."""
    nth = len(marks) * 6 // 10
    return slice(nth, nth + 1)


def lateness(clicks: pl.DataFrame) -> str:
    """How far behind the watermark late clicks were: a bar for each span."""
    late = clicks.filter("late")
    if late.is_empty():
        return ""
    top, bottom = 36, 300
    behind = (late["watermark"] - late["event_time"]).dt.total_microseconds().clip(0)
    low, high = _ends(behind, behind)
    span = next((each for each in TIMES_US if each >= (high - low) / 16), TIMES_US[-1])
    bars = (behind // span).value_counts(sort=False).sort(behind.name)
    x = Scale(0, (high // span + 1) * span, 0, 100)
    y = Scale(0, _ends(bars["count"], bars["count"])[1], bottom, top)
    marks = [
        *(
            line(0, y(many), 100, y(many), "grid")
            + label(number_text(many), 0, y(many) + 4, "tick", dx=-6, text_anchor="end")
            for many in ticks(y, 4)
        ),
        *(
            line(x(us), bottom, x(us), bottom + 4, "axis")
            + label(elapsed_text(us), x(us), bottom + 18, "tick", text_anchor=_anchor(x(us)))
            for us in ticks(x, 4, TIMES_US)
        ),
        line(0, bottom, 100, bottom, "axis"),
        label("clicks", 0, 11, "note", dx=-38),
        label("behind the watermark", 100, bottom + 35, "note", text_anchor="end"),
        *(
            rect(
                *(x(nth * span), y(many), 0.94 * x(span), bottom - y(many), "late-bar"),
                title(
                    f"{elapsed_text(nth * span)} to {elapsed_text((nth + 1) * span)}: "
                    f"{count_text(many, 'clicks')}"
                ),
            )
            for nth, many in bars.iter_rows()
        ),
    ]
    return chart("lateness", f"how late {late.height} clicks were", bottom + 40, *marks)


def _anchor(x: float) -> str:
    return "end" if x > 96 else "middle"


def _ends(lows: pl.Series, highs: pl.Series) -> tuple[int, int]:
    """The lowest of all values, and the highest."""
    values = pl.concat([lows.rename("_"), highs.rename("_")])
    low, high = values.min(), values.max()
    assert isinstance(low, int)
    assert isinstance(high, int)
    return low, high


# --- epochs -----------------------------------------------------------------------------------

GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "step": ("receive", "load", "kernel", "count"),
    "read": ("read", "split"),
    "make durable": ("stage", "commit", "publish"),
    "plan": ("plan",),
    "Spark: scheduling, shuffle": ("shuffle",),
    "other": (),
}
"""Parts of an epoch as people think of them, from the bottom of a bar to its top."""


def grouped(epoch: EpochReport) -> dict[str, float]:
    """The seconds of an epoch by group; what no part tells is `other`."""
    known = {name: sum(epoch.parts.get(each, 0.0) for each in GROUPS[name]) for name in GROUPS}
    rest = epoch.seconds - sum(known.values())
    return {**known, "other": rest if rest > 0.02 * epoch.seconds else 0.0}


def warm(attempts: Attempts) -> list[EpochReport]:
    """Without the first of each process, which waits for Spark, unless there are no others."""
    found = [each for epochs in attempts for each in epochs[1:]]
    return found or [each for epochs in attempts for each in epochs]


def epochs(attempts: Attempts) -> str:
    """Clicks a second above, time by group below; the scale is that of warm epochs."""
    every = [each for epochs in attempts for each in epochs]
    if not any(each.seconds for each in every):
        return ""
    top, middle, bottom = 38, 128, 312
    slot = 100 / len(every)
    longest = max(each.seconds for each in warm(attempts)) or max(each.seconds for each in every)
    rate = Scale(0, max(1.0, *map(_rate, every)), middle, top)
    time = Scale(0, 1.1 * longest, bottom, middle + 34)
    first_of_each = [*accumulate(len(epochs) for epochs in attempts)]
    marks = [
        *_axis(rate, "clicks per second", [number_text(each) for each in ticks(rate, 3)], 3),
        *_axis(time, "time", [elapsed_text(1e6 * each) for each in ticks(time, 4)], 4),
        *(
            mark
            for nth, each in enumerate(every)
            for mark in _epoch(each, slot * (nth + 0.06), 0.88 * slot, rate, time)
        ),
        *(
            label(str(each.epoch), slot * (nth + 0.5), bottom + 16, kind, text_anchor="middle")
            for nth, each in enumerate(every)
            if (kind := _tick_class(nth, len(every)))
        ),
        label("epoch", 100, bottom + 33, "note", text_anchor="end"),
        *(restart(slot * nth, top - 18, bottom) for nth in first_of_each[:-1]),
    ]
    return chart("epochs", "throughput and time of each epoch", bottom + 38, *marks)


def _rate(epoch: EpochReport) -> float:
    return epoch.rows / epoch.seconds if epoch.seconds else 0.0


def _tick_class(nth: int, many: int) -> str:
    """About 10 epochs are numbered on small screens, and 30 on wide ones."""
    if nth % -(-many // 10) == 0:
        return "tick"
    return "tick wide" if nth % -(-many // 30) == 0 else ""


def _axis(scale: Scale, name: str, texts: Sequence[str], about: int) -> Iterator[str]:
    for value, text in zip(ticks(scale, about), texts, strict=True):
        yield line(0, scale(value), 100, scale(value), "grid")
        shown = text if value else "0"
        yield label(shown, 0, scale(value) + 4, "tick", dx=-6, text_anchor="end")
    yield label(name, 0, scale.end - 11, "note", dx=-50)
    yield line(0, scale.begin, 100, scale.begin, "axis")


def _epoch(epoch: EpochReport, x: float, width: float, rate: Scale, time: Scale) -> Iterator[str]:
    spent = {name: seconds for name, seconds in grouped(epoch).items() if seconds}
    lines = [
        f"epoch {epoch.epoch}: {count_text(epoch.rows, 'clicks')} in "
        + elapsed_text(1e6 * epoch.seconds),
        *(f"{name}: {elapsed_text(1e6 * seconds)}" for name, seconds in spent.items()),
        *([f"late: {late}"] if (late := epoch.counts.get("late")) else []),
    ]
    told = title("\n".join(lines))
    height = rate(_rate(epoch))
    yield rect(x, height, width, rate.begin - height, "rate", told)
    begin = 0.0
    bars = []
    for name, seconds in spent.items():
        low, high = time(min(begin, time.high)), time(min(begin + seconds, time.high))
        bars.append(rect(x, high, width, low - high, part_class(name)))
        begin += seconds
    yield element("g", told, *bars)
    if epoch.seconds > time.high:  # it is cut, and says how long it is
        yield rect(x, time.end + 6, width, 4, "cut")
        yield label(elapsed_text(1e6 * epoch.seconds), x, time.end - 4, "value")


def part_class(group: str) -> str:
    """The class that gives a group its colour."""
    return f"part-{[*GROUPS].index(group)}"
