"""The page: numbers, charts, and a table, in one file."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import Final

import polars as pl

from tidegate.cli.report.charts import (
    Attempts,
    arrivals,
    epochs,
    grouped,
    lateness,
    part_class,
    timeline,
    warm,
)
from tidegate.cli.report.svg import element, escaped
from tidegate.text import clock_text, count_text, elapsed_text, number_text, share_text

_LONGEST: Final = 12
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What the runs of the demo came to."""

    pipeline: str
    checked: str
    """What was proven of the result, in a sentence."""
    seconds: float
    """From the first start to the end."""
    attempts: Attempts
    sessions: pl.DataFrame
    """`user_id`, `window_start`, `window_end`, `length_us`, `clicks`, `entry`, `exit`, `open`;
    longest first."""
    clicks: pl.DataFrame
    """`row`, `event_time`, the `watermark` that judged it, `late`; in order of arrival."""


def report_html(report: Report) -> str:
    """The whole page."""
    head = [
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        element("title", escaped(f"{report.pipeline} - Tidegate")),
        element("style", files(__package__).joinpath("style.css").read_text(encoding="utf-8")),
    ]
    page = [element("head", *head), element("body", element("main", *_sections(report)))]
    return f'<!doctype html>\n<html lang="en">{"".join(page)}</html>\n'


def _sections(report: Report) -> list[str]:
    clicks, attempts = report.clicks, report.attempts
    late = clicks.filter("late").height
    over = report.sessions.filter(~pl.col("open")).height
    warm_epochs = warm(attempts)
    warm_s = sum(each.seconds for each in warm_epochs)
    rate = sum(each.rows for each in warm_epochs) / warm_s if warm_s else 0.0
    numbers = {
        "clicks": number_text(clicks.height),
        "sessions": number_text(over),
        "still open": number_text(report.sessions.height - over),
        "late clicks": number_text(late),
        "epochs": number_text(sum(map(len, attempts))),
        "restarts": f"{len(attempts) - 1}",
        "time in all": elapsed_text(1e6 * report.seconds),
        "clicks per second": number_text(rate),
    }
    day = clicks.select(pl.col("event_time").dt.date().min()).item()
    return [
        _header(report),
        element("dl", *(_number(name, text) for name, text in numbers.items()), class_="facts"),
        _section(
            f"The longest sessions, in event time, {day} UTC",
            "A line is one of the users: the longest session stands out, the others are pale. "
            "A bar goes from the first click to the last, the thin line behind it on to the end of "
            "the gap in which more could have come. Hollow sessions are still open.",
            timeline(report.sessions, attempts),
        ),
        element(
            "div",
            _section(
                "Event time against arrival",
                "A dot is one of the clicks. The watermark known before an epoch judges its "
                "clicks: what is so far below it that its session is gone, is late.",
                arrivals(clicks, attempts),
            ),
            _section(
                "How late the late clicks are",
                f"{count_text(late, 'clicks')} came when their session was gone.",
                lateness(clicks),
            ),
            class_="two",
        ),
        _section(
            "Throughput of each epoch, and where its time went",
            "An epoch is read, stepped and committed as one. The first one of a process also waits "
            "for Spark to warm up, and is left out of the shares and of the "
            f"{number_text(rate)} clicks per second.",
            _legend(attempts),
            epochs(attempts),
        ),
        _section("The longest sessions, in numbers", "Times are UTC.", _table(report.sessions)),
    ]


def _header(report: Report) -> str:
    mark = element("span", "✓", class_="mark", aria_hidden="true")
    return element(
        "header",
        element("p", "Tidegate, report of a run that was killed", class_="over"),
        element("h1", escaped(report.pipeline)),
        element("p", mark, escaped(report.checked), class_="checked"),
    )


def _number(name: str, text: str) -> str:
    kind = {"class_": "late"} if name.startswith("late") else {}
    return element("div", element("dt", escaped(name)), element("dd", escaped(text), **kind))


def _section(title: str, says: str, *inside: str) -> str:
    heading = element("h2", escaped(title))
    return element("section", heading, element("p", escaped(says), class_="says"), *inside)


def _legend(attempts: Attempts) -> str:
    """The share of each group in the time of warm epochs; those without any are left out."""
    total: dict[str, float] = {}
    for each in warm(attempts):
        for name, spent in grouped(each).items():
            total[name] = total.get(name, 0.0) + spent
    whole = sum(total.values())
    items = [
        element(
            "li",
            element("span", " ", class_=f"swatch {part_class(name)}"),
            escaped(f"{name} {share_text(spent / whole)}"),
        )
        for name, spent in total.items()
        if spent
    ]
    return element("ul", *items, class_="legend")


def _table(sessions: pl.DataFrame) -> str:
    columns = ("user", "start", "end", "length", "clicks", "entry", "exit")
    instants = pl.col("window_start", "window_end").dt.epoch("us")
    rows = [
        (
            str(row["user_id"]),
            clock_text(row["window_start"]),
            "still open" if row["open"] else clock_text(row["window_start"] + row["length_us"]),
            elapsed_text(row["length_us"]),
            number_text(row["clicks"]),
            row["entry"],
            row["exit"],
        )
        for row in sessions.head(_LONGEST).with_columns(instants).iter_rows(named=True)
    ]
    head = element("tr", *(element("th", name, scope="col") for name in columns))
    body = [element("tr", *(element("td", escaped(cell)) for cell in row)) for row in rows]
    table = element("table", element("thead", head), element("tbody", *body))
    return element("div", table, class_="scroll")
