"""The page: facts, charts, and a table, in one file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.resources import files

from tidegate.cli.report.arrivals import arrivals
from tidegate.cli.report.epochs import epochs, part_class, shares
from tidegate.cli.report.facts import Report, WindowFacts
from tidegate.cli.report.lateness import lateness
from tidegate.cli.report.marks import element, escaped
from tidegate.cli.report.timeline import timeline
from tidegate.cli.report.words import clock, count, day, duration, number, rounded, seconds

_LONGEST = 12
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def report_html(report: Report) -> str:
    """The whole page."""
    body = [
        _header(report),
        _facts(report),
        _windows(report),
        element("div", _arrivals(report), _late(report), class_="two"),
        _epochs(report),
        _longest(report),
    ]
    head = [
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        element("title", escaped(f"{report.pipeline} - Tidegate")),
        element("style", _style()),
    ]
    page = [element("head", *head), element("body", element("main", *body))]
    return f'<!doctype html>\n<html lang="en">{"".join(page)}</html>\n'


def _style() -> str:
    return files(__package__).joinpath("style.css").read_text(encoding="utf-8")


def _header(report: Report) -> str:
    parts = [element("p", "Tidegate, report of a run", class_="over")]
    parts.append(element("h1", escaped(report.pipeline)))
    parts.append(element("p", escaped(_summary(report)), class_="summary"))
    if report.checked:
        mark = element("span", "✓", class_="mark", aria_hidden="true")
        parts.append(element("p", mark, escaped(report.checked), class_="checked"))
    return element("header", *parts)


def _summary(report: Report) -> str:
    words = [
        f"{count(report.rows, report.rows_are)} became {count(report.windows, report.windows_are)}"
    ]
    if report.open_windows:
        words.append(f", {number(report.open_windows)} more are still open")
    if report.restarts:
        times = "once" if len(report.restarts) == 1 else f"{len(report.restarts)} times"
        words.append(f". The run was started again {times} on the way")
    return f"{''.join(words)}."


def _facts(report: Report) -> str:
    facts = [
        (report.rows_are, number(report.rows), ""),
        (report.windows_are, number(report.windows), ""),
        (f"late {report.rows_are}", number(report.late), "late" if report.late else ""),
        ("rejected", number(report.rejected), ""),
        ("epochs", number(len(report.epochs)), ""),
        ("restarts", number(len(report.restarts)), ""),
        ("time in all", seconds(report.seconds), ""),
        (f"{report.rows_are} per second", rounded(report.rows_per_second), ""),
    ]
    items = [
        element("div", element("dt", escaped(name)), element("dd", escaped(value), class_=kind))
        for name, value, kind in facts
    ]
    return element("dl", *items, class_="facts")


def _section(title: str, says: str, *inside: str, kind: str = "") -> str:
    heading = element("h2", escaped(title))
    told = element("p", escaped(says), class_="says")
    return element("section", heading, told, *inside, **({"class_": kind} if kind else {}))


def _both(wide: Callable[[], str], narrow: Callable[[], str]) -> str:
    """A chart for large screens and one for phones: what fits one is unreadable on the other."""
    return element("div", wide(), class_="wide") + element("div", narrow(), class_="narrow")


def _windows(report: Report) -> str:
    title = f"The longest {report.windows_are}, in event time"
    if not report.shown_windows:
        return _section(title, f"There are no {report.windows_are}.")
    says = (
        f"A line is one of the {report.keys_are}: its longest stands out, its others are pale. "
        "A bar goes from the first event to the last, the thin line behind it on to the end of the "
        "gap in which more could have come."
    )
    if any(each.open for each in report.shown_windows):
        says += f" Hollow {report.windows_are} are still open."
    drawn = _both(
        lambda: timeline(report, width=1080, lanes=30),
        lambda: timeline(report, width=360, lanes=18, lane_height=20),
    )
    return _section(f"{title}, {_days(report)}", says, drawn)


def _days(report: Report) -> str:
    low = day(min(each.start_us for each in report.shown_windows))
    high = day(max(each.end_us for each in report.shown_windows))
    return f"{low} UTC" if low == high else f"{low} to {high} UTC"


def _arrivals(report: Report) -> str:
    title = "Event time against arrival"
    if not report.arrivals:
        return _section(title, "Nothing is known of single rows.")
    says = (
        f"A dot is one of the {report.rows_are}. The watermark known before an epoch judges its "
        "rows: what is so far below it that its window is gone, is late."
    )
    drawn = _both(
        lambda: arrivals(report, width=640, height=340),
        lambda: arrivals(report, width=360, height=320),
    )
    return _section(title, says, drawn)


def _late(report: Report) -> str:
    title = f"How late the late {report.rows_are} are"
    if not report.late:
        return _section(title, f"No {report.rows_are} came too late.")
    if not report.late_rows:
        return _section(
            title, f"{count(report.late, report.rows_are)} came too late; they were not kept."
        )
    says = f"{count(report.late, report.rows_are)} came when their window was gone."
    drawn = _both(
        lambda: lateness(report, width=400, height=340),
        lambda: lateness(report, width=360, height=240),
    )
    return _section(title, says, drawn)


def _epochs(report: Report) -> str:
    title = "Throughput of each epoch, and where its time went"
    if not any(each.seconds > 0 for each in report.epochs):
        return _section(title, "No epoch was run.")
    says = (
        "An epoch is read, stepped and committed as one. "
        "The first one of a process also waits for Spark to warm up, and is left out of the "
        f"shares and of the {rounded(report.rows_per_second)} {report.rows_are} per second."
    )
    drawn = _both(
        lambda: epochs(report, width=1080, heights=(90, 150)),
        lambda: epochs(report, width=360, heights=(80, 140)),
    )
    return _section(title, says, _legend(report), drawn)


def _legend(report: Report) -> str:
    items = [
        element(
            "li",
            element("span", " ", class_=f"swatch {part_class(name)}"),
            escaped(f"{name} {100 * share:.0f} %"),
        )
        for name, share in shares(report).items()
    ]
    return element("ul", *items, class_="legend")


def _longest(report: Report) -> str:
    longest = sorted(report.shown_windows, key=lambda each: (-each.length_us, each.start_us))
    if not longest:
        return ""
    details = [*dict.fromkeys(name for each in longest[:_LONGEST] for name in each.details)]
    head = element("tr", *_head(report, details))
    rows = [element("tr", *_cells(each, details)) for each in longest[:_LONGEST]]
    table = element("table", element("thead", head), element("tbody", *rows))
    return _section(
        f"The longest {report.windows_are}, in numbers",
        "Times are UTC.",
        element("div", table, class_="scroll"),
    )


def _head(report: Report, details: list[str]) -> Iterator[str]:
    key = report.keys_are.removesuffix("s")
    for name, kind in (
        (key, ""),
        ("start", ""),
        ("end", ""),
        ("length", "n"),
        (report.rows_are, "n"),
    ):
        yield element("th", escaped(name), scope="col", class_=kind)
    for name in details:
        yield element("th", escaped(name), scope="col", class_="more")


def _cells(window: WindowFacts, details: list[str]) -> Iterator[str]:
    last_us = window.end_us if window.last_us is None else window.last_us
    yield element("td", escaped(window.key))
    date = element("span", escaped(f"{day(window.start_us)} "), class_="date")
    yield element("td", date, escaped(clock(window.start_us)))
    yield element("td", escaped("still open" if window.open else clock(last_us)))
    yield element("td", escaped(duration(window.length_us)), class_="n")
    yield element("td", escaped(number(window.rows)), class_="n")
    for name in details:
        yield element("td", escaped(window.details.get(name, "")), class_="more")
