"""The page of a run: whole, on its own, and harmless, whatever the data is."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import accumulate
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.cli.report import Arrival, EpochFacts, LateRow, Report, WindowFacts, report_html
from tidegate.eventtime import EARLIEST_EVENT_US, LATEST_EVENT_US

S = 1_000_000
NINE = 1_772_442_000 * S
HOSTILE = "\"><img src=x onerror='alert(1)'></svg><script>alert(2)</script>\x00&"


def _epoch(epoch: int, run: int = 1, seconds: float = 0.2) -> EpochFacts:
    return EpochFacts(
        epoch=epoch,
        rows=100,
        seconds=seconds,
        late=1,
        parts={"plan": 0.02, "job": 0.16, "kernel": 0.06, "shuffle": 0.1, "commit": 0.02},
        watermark_us=NINE + epoch * 10 * S,
        run=run,
    )


def _session(key: str, start_s: int, length_s: int, **more: bool) -> WindowFacts:
    start_us = NINE + start_s * S
    return WindowFacts(
        key=key,
        start_us=start_us,
        last_us=start_us + length_s * S,
        end_us=start_us + (length_s + 30) * S,
        rows=length_s + 1,
        details={"exit": f"/{key}"},
        **more,
    )


REPORT = Report(
    pipeline="clicks",
    rows=400,
    windows=2,
    open_windows=1,
    late=2,
    rejected=3,
    seconds=12.5,
    rows_are="clicks",
    windows_are="sessions",
    keys_are="users",
    checked="It was compared.",
    epochs=(_epoch(1, seconds=9.0), _epoch(2), _epoch(3, run=2, seconds=8.0), _epoch(4, run=2)),
    shown_windows=(
        _session("ann", 0, 5),
        _session("bob", 10, 323),
        _session("ann", 60, 42, open=True),
    ),
    late_rows=(
        LateRow(event_us=NINE, watermark_us=NINE + 60 * S),
        LateRow(event_us=NINE, watermark_us=NINE + 90 * S),
    ),
    arrivals=tuple(
        Arrival(place=place, event_us=NINE + place * S, late=place % 50 == 0)
        for place in range(0, 400, 5)
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


def _drawings(page: str) -> list[ElementTree.Element]:
    """The charts; parsing fails where one is not well formed."""
    found = [ElementTree.fromstring(each) for each in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]
    for drawing in found:
        for each in drawing.iter():
            for name, value in each.attrib.items():
                assert not re.search(r"\b(nan|inf)\b", value), (each.tag, name, value)
                if name in ("width", "height"):
                    assert float(value) >= 0, (each.tag, name, value)
    return found


def _marks(drawing: ElementTree.Element, class_: str) -> list[ElementTree.Element]:
    return [each for each in drawing.iter() if class_ in each.get("class", "").split()]


def test_a_page_has_every_chart_in_a_wide_and_a_narrow_form() -> None:
    drawings = _drawings(report_html(REPORT))
    widths = [int(each.get("viewBox", "").split()[2]) for each in drawings]
    assert widths == [1080, 360, 640, 360, 400, 360, 1080, 360]
    assert all(each.get("aria-label") for each in drawings)


def test_a_page_says_the_facts_and_what_was_checked() -> None:
    text = _Page(report_html(REPORT)).text
    for fact in ("400 clicks became 2 sessions, 1 more are still open", "It was compared.", "12.5"):
        assert fact in text
    assert "✓" in text


def test_a_page_claims_nothing_that_was_not_checked() -> None:
    assert "✓" not in report_html(replace(REPORT, checked=""))


def test_a_page_loads_nothing() -> None:
    page = report_html(REPORT)
    assert not re.search(r"https?:|//|url\(|@import", page.replace("</", "").replace("/>", ""))
    loading = {"src", "href", "srcset", "data", "action", "xlink:href"}
    assert not [tag for tag, attributes in _Page(page).tags if loading & attributes.keys()]
    assert {tag for tag, _ in _Page(page).tags}.isdisjoint({"script", "link", "img", "iframe"})
    assert "default-src 'none'" in page


def test_names_from_data_stay_text() -> None:
    hostile = WindowFacts(
        key=HOSTILE, start_us=0, end_us=S, rows=1, details={HOSTILE: HOSTILE, "b": HOSTILE}
    )
    report = replace(
        REPORT,
        pipeline=HOSTILE,
        rows_are=HOSTILE,
        windows_are=HOSTILE,
        keys_are=HOSTILE,
        restarts_are=HOSTILE,
        checked=HOSTILE,
        shown_windows=(hostile,),
    )
    page = report_html(report)
    plain = {tag for tag, _ in _Page(report_html(REPORT)).tags}
    assert {tag for tag, _ in _Page(page).tags} <= plain
    assert not [name for _, found in _Page(page).tags for name in found if name.startswith("on")]
    assert "\x00" not in page
    assert "<script>alert(2)</script>" in _Page(page).text  # as a text, for people to read
    assert len(_drawings(page)) == 8


def test_a_report_of_nothing_is_a_page_that_says_so() -> None:
    page = report_html(Report(pipeline="nothing", rows=0, windows=0))
    assert _drawings(page) == []
    text = _Page(page).text
    for words in ("There are no windows.", "No rows came too late.", "No epoch was run."):
        assert words in text


def test_one_window_alone_fills_its_time() -> None:
    drawing = _drawings(report_html(replace(REPORT, shown_windows=(_session("ann", 0, 60),))))[0]
    (bar,) = _marks(drawing, "bar")
    (tail,) = _marks(drawing, "tail")
    begin, last, end = (
        float(each.get(name, "")) for each, name in ((bar, "x"), (tail, "x1"), (tail, "x2"))
    )
    assert float(bar.get("width", "")) == pytest.approx(last - begin, abs=0.2)
    assert (last - begin) / (end - begin) == pytest.approx(60 / 90, abs=0.01)


def test_an_instant_is_a_mark_that_can_be_seen() -> None:
    moment = WindowFacts(key="ann", start_us=NINE, last_us=NINE, end_us=NINE, rows=1)
    (bar,) = _marks(_drawings(report_html(replace(REPORT, shown_windows=(moment,))))[0], "bar")
    assert float(bar.get("width", "")) >= 2


def test_lines_are_keys_and_the_longest_window_of_each_is_marked() -> None:
    drawing = _drawings(report_html(REPORT))[0]
    assert [each.text for each in _marks(drawing, "key")] == ["bob", "ann"]
    told = [
        group.findtext("title", "").split("\n")[0]
        for group in drawing.iter("g")
        if _marks(group, "main")
    ]
    assert told == [
        "bob: 2026-03-02 09:00:10 to 09:06:03 UTC",
        "ann: 2026-03-02 09:01:00 to 09:02:12 UTC",
    ]
    assert [each.get("class") for each in _marks(drawing, "open")] == ["bar main open"]


def test_without_late_rows_there_is_no_chart_of_them() -> None:
    page = report_html(replace(REPORT, late=0, late_rows=()))
    assert "No clicks came too late." in page
    assert len(_drawings(page)) == 6


def test_late_rows_that_were_not_kept_are_counted() -> None:
    page = report_html(replace(REPORT, late_rows=()))
    assert "2 clicks came too late; they were not kept." in page


def test_bars_of_lateness_count_every_late_row() -> None:
    drawing = _drawings(report_html(REPORT))[4]
    told = [
        each.findtext("title", "").replace("\u00a0", " ") for each in _marks(drawing, "late-bar")
    ]
    assert told == ["1 min to 1 min 2 s: 1 click", "1 min 30 s to 1 min 32 s: 1 click"]


def test_rows_are_judged_by_the_watermark_behind_the_epoch_before() -> None:
    (watermark,) = _marks(_drawings(report_html(REPORT))[2], "watermark")
    steps = re.findall(r"([\d.]+) ([\d.]+)H([\d.]+)", watermark.get("d", ""))
    assert len(steps) == 3  # nothing judges the first epoch
    heights = [float(y) for _, y, _ in steps]
    assert heights == sorted(heights, reverse=True)
    ends = [float(end) for _, _, end in steps]
    assert [float(begin) for begin, _, _ in steps][1:] == ends[:-1]


def test_a_restart_is_drawn_where_one_process_went_on_for_another() -> None:
    (restart,) = REPORT.restarts
    assert (restart.after_epoch, restart.rows, restart.watermark_us) == (2, 200, NINE + 20 * S)
    drawings = _drawings(report_html(REPORT))
    assert [len(_marks(each, "restart")) for each in drawings] == [1, 1, 1, 1, 0, 0, 1, 1]


def test_the_parts_of_a_bar_add_up_to_the_time_of_the_epoch() -> None:
    drawing = _drawings(report_html(replace(REPORT, epochs=(_epoch(1),))))[6]
    ticks = {each.text: float(each.get("y", "")) for each in _marks(drawing, "tick")}
    unit = (ticks["0"] - ticks["200\u00a0ms"]) / 0.2
    parts = [each for each in drawing.iter("rect") if each.get("class", "").startswith("part-")]
    heights = [float(each.get("height", "")) for each in parts]
    assert [*accumulate(heights)][-1] == pytest.approx(0.2 * unit, abs=0.6)


def test_an_epoch_that_warms_up_leaves_the_scale_and_says_so() -> None:
    drawing = _drawings(report_html(REPORT))[6]
    assert len(_marks(drawing, "cut")) == 2
    said = [each.text for each in _marks(drawing, "value")]
    assert said == ["9.0\u00a0s", "8.0\u00a0s"]


def test_the_rate_is_that_of_warm_epochs() -> None:
    assert REPORT.rows_per_second == pytest.approx(200 / 0.4)
    assert replace(REPORT, epochs=(_epoch(1, seconds=2.0),)).rows_per_second == 50


INSTANTS = st.integers(EARLIEST_EVENT_US, LATEST_EVENT_US - 1)
WINDOWS = st.builds(
    lambda key, start_us, length_us, rest_us, rows: WindowFacts(
        key=key,
        start_us=start_us,
        last_us=start_us + length_us,
        end_us=start_us + length_us + rest_us,
        rows=rows,
    ),
    st.text(max_size=20),
    INSTANTS,
    st.integers(0, 10**13),
    st.integers(0, 10**10),
    st.integers(0, 10**9),
)
EPOCHS = st.builds(
    EpochFacts,
    epoch=st.integers(1, 10**6),
    rows=st.integers(0, 10**9),
    seconds=st.just(0.0) | st.floats(1e-6, 10**6),
    parts=st.dictionaries(st.sampled_from(["plan", "job", "kernel", "x"]), st.floats(0, 10)),
    watermark_us=st.none() | INSTANTS,
    run=st.integers(1, 3),
)


@settings(max_examples=30)
@given(
    windows=st.lists(WINDOWS, max_size=5),
    epochs=st.lists(EPOCHS, max_size=5),
    late=st.lists(st.builds(LateRow, event_us=INSTANTS, watermark_us=INSTANTS), max_size=5),
    arrivals=st.lists(
        st.builds(Arrival, place=st.integers(0, 10**9), event_us=INSTANTS, late=st.booleans()),
        max_size=5,
    ),
)
def test_whatever_the_facts_are_the_charts_are_well_formed(
    windows: list[WindowFacts],
    epochs: list[EpochFacts],
    late: list[LateRow],
    arrivals: list[Arrival],
) -> None:
    report = replace(
        REPORT,
        shown_windows=tuple(windows),
        epochs=tuple(epochs),
        late_rows=tuple(late),
        arrivals=tuple(arrivals),
    )
    _drawings(report_html(report))
