"""The report of the demo: whole, on its own, and harmless, whatever the data is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from typing import Final
from xml.etree import ElementTree

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.cli.report import Report, report_html
from tidegate.core.watermark import PipelineWatermark
from tidegate.engine.status import EpochReport

S = 1_000_000
NINE = 1_772_442_000 * S
TIME = pl.Datetime("us", "UTC")
SESSION: Final = pl.Schema(
    {
        "user_id": pl.String(),  # of the demo they are numbers: here they are hostile too
        "window_start": TIME,
        "window_end": TIME,
        "length_us": pl.Int64(),
        "clicks": pl.Int64(),
        "entry": pl.String(),
        "exit": pl.String(),
        "open": pl.Boolean(),
    }
)
CLICK: Final = pl.Schema(
    {"row": pl.Int64(), "event_time": TIME, "watermark": TIME, "late": pl.Boolean()}
)
HOSTILE = "\"><img src=x onerror='alert(1)'></svg><script>alert(2)</script>\x00&"


def _epoch(epoch: int, seconds: float = 0.2, rows: int = 100) -> EpochReport:
    watermark_us = NINE + epoch * 10 * S
    return EpochReport(
        epoch=epoch,
        rows=rows,
        counts={"late": 1},
        watermark_us=watermark_us,
        watermarks=PipelineWatermark(sources={}, watermark_us=watermark_us),
        state_rows=0,
        state_bytes=0,
        open=None,
        worker_cache_bytes=0,
        seconds=seconds,
        parts={"plan": 0.02, "job": 0.16, "kernel": 0.06, "shuffle": 0.1, "commit": 0.02},
    )


Session = tuple[str, int, int, bool]
"""The user, the first click and the length in seconds, whether it is open."""


def _sessions(*rows: Session, page: str = "/a") -> pl.DataFrame:
    made = [
        (user, NINE + at * S, NINE + (at + length + 30) * S, length * S, 5, page, page, is_open)
        for user, at, length, is_open in rows
    ]
    return pl.DataFrame(made, schema=SESSION, orient="row").sort("length_us", descending=True)


Click = tuple[int, int | None, bool]
"""The event time and the watermark in seconds, whether it is late."""


def _clicks(*rows: Click) -> pl.DataFrame:
    made = [
        (nth, NINE + at * S, None if watermark is None else NINE + watermark * S, late)
        for nth, (at, watermark, late) in enumerate(rows)
    ]
    return pl.DataFrame(made, schema=CLICK, orient="row")


REPORT = Report(
    pipeline="clicks",
    checked="It was compared.",
    seconds=12.5,
    attempts=[[_epoch(1, seconds=9.0), _epoch(2)], [_epoch(3, seconds=8.0), _epoch(4)]],
    sessions=_sessions(("ann", 0, 5, False), ("bob", 10, 323, False), ("ann", 60, 42, True)),
    clicks=_clicks(
        *((at, None, False) for at in range(100)),
        *((at, 10, False) for at in range(100, 200)),
        (-50, 20, True),
        (-80, 20, True),
        *((at, 20, False) for at in range(202, 300)),
        *((at, 30, False) for at in range(300, 400)),
    ),
)


class _Page(HTMLParser):
    """The tags of a page with their attributes, and its texts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data + "\n"


def _charts(page: str) -> dict[str, ElementTree.Element]:
    """The charts by their class; parsing fails where one is not well formed."""
    found = {}
    for text in re.findall(r'<svg class="chart.*?</svg>(?=</div>|</section>)', page, re.DOTALL):
        chart = ElementTree.fromstring(text)
        for each in chart.iter():
            for name, value in each.attrib.items():
                assert not re.search(r"\b(nan|inf)\b", value), (each.tag, name, value)
                if name in ("width", "height"):
                    assert float(value.removesuffix("%")) >= 0, (each.tag, name, value)
        found[chart.get("class", "").removeprefix("chart ")] = chart
    return found


def _charts_of(report: Report) -> dict[str, ElementTree.Element]:
    return _charts(report_html(report))


def _marks(chart: ElementTree.Element, class_: str) -> list[ElementTree.Element]:
    return [each for each in chart.iter() if class_ in each.get("class", "").split()]


def _numbers(marks: Sequence[ElementTree.Element], name: str) -> list[float]:
    return [float(each.get(name, "").removesuffix("%")) for each in marks]


def test_a_page_has_every_chart_once_and_each_fits_any_width() -> None:
    page = report_html(REPORT)
    charts = _charts(page)
    assert [*charts] == ["timeline", "arrivals", "lateness", "epochs"]
    assert page.count('class="chart') == 4
    assert all(each.get("aria-label") for each in charts.values())
    for chart in charts.values():
        assert chart.get("viewBox") is None  # it would scale its text
        across = [
            each.get(name, "0%")
            for each in chart.iter()
            for name in ("x", "x1", "x2", "width")
            if each is not chart
        ]
        assert [each for each in across if not each.endswith("%")] == []


def test_a_page_says_the_numbers_and_what_was_checked() -> None:
    text = " ".join(_Page(report_html(REPORT)).text.split())
    for words in ("clicks 400", "sessions 2", "still open 1", "late clicks 2", "epochs 4"):
        assert words in text
    for words in ("restarts 1", "time in all 12.5 s", "✓ It was compared."):
        assert words in text


def test_the_rate_is_that_of_warm_epochs() -> None:
    def rate(report: Report) -> str:
        return " ".join(_Page(report_html(report)).text.split()).partition("per second ")[2][:4]

    assert rate(REPORT) == "500 "  # 200 in 0.4 s
    assert rate(replace(REPORT, attempts=[[_epoch(1, seconds=2.0)]])) == "50 T"


def test_a_page_loads_nothing() -> None:
    page = report_html(REPORT)
    assert not re.search(r"https?:|//|url\(|@import", page.replace("</", "").replace("/>", ""))
    loading = {"src", "href", "srcset", "data", "action", "xlink:href"}
    assert not [tag for tag, attributes in _Page(page).tags if loading & attributes.keys()]
    assert {tag for tag, _ in _Page(page).tags}.isdisjoint({"script", "link", "img", "iframe"})
    assert "default-src 'none'" in page


def test_names_from_data_stay_text() -> None:
    sessions = _sessions((HOSTILE, 0, 5, False), page=HOSTILE)
    page = report_html(replace(REPORT, pipeline=HOSTILE, checked=HOSTILE, sessions=sessions))
    plain = {tag for tag, _ in _Page(report_html(REPORT)).tags}
    assert {tag for tag, _ in _Page(page).tags} <= plain
    assert not [name for _, found in _Page(page).tags for name in found if name.startswith("on")]
    assert "\x00" not in page
    assert "<script>alert(2)</script>" in _Page(page).text  # as a text, for people to read
    assert len(_charts(page)) == 4


def test_one_session_alone_fills_its_time() -> None:
    chart = _charts_of(replace(REPORT, sessions=_sessions(("ann", 0, 60, False))))["timeline"]
    (begin,), (width,) = (_numbers(_marks(chart, "bar"), name) for name in ("x", "width"))
    (last,), (end,) = (_numbers(_marks(chart, "tail"), name) for name in ("x1", "x2"))
    assert (begin, end) == (0, 100)
    assert width == last == pytest.approx(100 * 60 / 90, abs=0.01)


def test_an_instant_is_a_mark_that_can_be_seen() -> None:
    chart = _charts_of(replace(REPORT, sessions=_sessions(("ann", 0, 0, False))))["timeline"]
    assert _numbers(_marks(chart, "bar"), "width") == [0.1]
    assert re.search(r"\.bar {[^}]*stroke-width: 1.5", report_html(REPORT))


def test_lines_are_users_and_the_longest_session_of_each_is_marked() -> None:
    chart = _charts_of(REPORT)["timeline"]
    keys = [each.text for each in _marks(chart, "key") if each.get("x") == "0.00%"]
    assert keys == ["user bob", "user ann"]
    told = [
        group.findtext("title", "").split("\n")[0]
        for group in chart.iter("g")
        if _marks(group, "main")
    ]
    assert told == ["user bob: 09:00:10 to 09:06:03 UTC", "user ann: 09:01:00 to 09:02:12 UTC"]
    assert [each.get("class") for each in _marks(chart, "open")] == ["bar main open"]


def test_without_late_clicks_there_is_no_chart_of_them() -> None:
    on_time = REPORT.clicks.with_columns(late=False)
    page = report_html(replace(REPORT, clicks=on_time))
    assert "0 clicks came when their session was gone." in page
    assert [*_charts(page)] == ["timeline", "arrivals", "epochs"]


def test_bars_of_lateness_count_every_late_click() -> None:
    bars = _marks(_charts_of(REPORT)["lateness"], "late-bar")
    told = [each.findtext("title", "") for each in bars]
    assert told == ["1 min 10 s to 1 min 12 s: 1 click", "1 min 40 s to 1 min 42 s: 1 click"]


def test_clicks_are_judged_by_the_watermark_behind_the_epoch_before() -> None:
    (watermark,) = _marks(_charts_of(REPORT)["arrivals"], "watermark")
    steps = re.findall(r"([\d.]+) ([\d.]+)H([\d.]+)", watermark.get("d", ""))
    assert [(float(begin), float(end)) for begin, _, end in steps] == [
        (250, 500),  # nothing judges the first epoch
        (500, 750),
        (750, 1000),
    ]
    heights = [float(y) for _, y, _ in steps]
    assert heights == sorted(heights, reverse=True)


def test_a_restart_is_drawn_where_one_process_went_on_for_another() -> None:
    charts = _charts_of(REPORT)
    places = {name: _numbers(_marks(each, "restart"), "x1") for name, each in charts.items()}
    at = 100 * 20 / 363  # the watermark behind epoch 2, in the time of all sessions
    assert places == {
        "timeline": [pytest.approx(at, abs=0.01)],
        "arrivals": [50],
        "lateness": [],
        "epochs": [50],
    }


def test_the_parts_of_a_bar_add_up_to_the_time_of_the_epoch() -> None:
    chart = _charts_of(replace(REPORT, attempts=[[_epoch(1)]]))["epochs"]
    ticks = {each.text: float(each.get("y", "")) for each in _marks(chart, "tick")}
    unit = (ticks["0"] - ticks["200 ms"]) / 0.2
    parts = [each for each in chart.iter("rect") if each.get("class", "").startswith("part-")]
    assert sum(_numbers(parts, "height")) == pytest.approx(0.2 * unit, abs=0.6)


def test_an_epoch_that_warms_up_leaves_the_scale_and_says_so() -> None:
    chart = _charts_of(REPORT)["epochs"]
    assert len(_marks(chart, "cut")) == 2
    assert [each.text for each in _marks(chart, "value")] == ["9 s", "8 s"]


SECONDS = st.integers(-(10**9), 10**9)
EPOCHS = st.builds(
    _epoch,
    st.integers(1, 10**6),
    seconds=st.just(0.0) | st.floats(1e-6, 10**6),
    rows=st.integers(0, 10**9),
)


@settings(max_examples=30)
@given(
    sessions=st.lists(
        st.tuples(st.text(max_size=20), SECONDS, st.integers(0, 10**7), st.booleans()), max_size=5
    ),
    attempts=st.lists(st.lists(EPOCHS, max_size=5), min_size=1, max_size=3),
    clicks=st.lists(st.tuples(SECONDS, SECONDS, st.booleans()), min_size=1, max_size=5),
)
def test_whatever_the_runs_came_to_the_charts_are_well_formed(
    sessions: list[Session], attempts: list[list[EpochReport]], clicks: list[Click]
) -> None:
    report = replace(
        REPORT, sessions=_sessions(*sessions), attempts=attempts, clicks=_clicks(*clicks)
    )
    _charts_of(report)
