"""Rows that suggest a mistake in the pipeline: warnings, and the end of a first run."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.unit.pipeline.examples import pipeline, source
from tidegate.core.watermark import PipelineWatermark, SourceWatermark
from tidegate.engine.plausibility import SourceRows, check_rows
from tidegate.errors import ConfigError
from tidegate.eventtime import US_PER_SECOND
from tidegate.pipeline import Pipeline
from tidegate.tasks.orders import Seen

NOW_US = 1_767_225_600 * US_PER_SECOND
FRESH = PipelineWatermark(sources={"clicks": SourceWatermark()})
BEGUN = PipelineWatermark(sources={"clicks": SourceWatermark(highest_us=5)})


def seen(rows: int = 0, rejected: dict[str, int] | None = None, **parts: Any) -> Seen:
    """What a slice saw; its times are plausible."""
    times = {"highest_us": NOW_US, "lowest_us": NOW_US} if rows else {"highest_us": None}
    usual = {"slice": 0, "source": 0, "partition": 0, "rows": rows}
    return Seen(**{**usual, **times, "rejected": rejected or {}, **parts})


def unparsable(count: int, value: str = "'05.01.2026'", column: str = "ts") -> dict[str, Any]:
    return {"rejected": {"unparsable": count}, "examples": {"unparsable": (column, value)}}


def made(**parts: Any) -> Pipeline:
    return Pipeline.from_dict(pipeline(sources=source(**parts)))


def stopped(*seen: Seen, **parts: Any) -> str:
    with pytest.raises(ConfigError) as error:
        check_rows(made(**parts), seen, FRESH, frozenset())
    return str(error.value)


def warnings_of(
    caplog: pytest.LogCaptureFixture,
    *seen: Seen,
    before: PipelineWatermark = BEGUN,
    **parts: Any,
) -> list[str]:
    check_rows(made(max_rejected_share="unbounded", **parts), seen, before, frozenset())
    return [record.getMessage() for record in caplog.records]


@pytest.fixture(autouse=True)
def _warnings(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "tidegate")


# --- stopped ---


def test_a_first_epoch_of_which_most_rows_have_no_usable_time_is_stopped() -> None:
    assert stopped(seen(1), seen(**unparsable(2))) == (
        "sources.event_time: found 2 of 3 rows rejected: unparsable event time, "
        "e.g. ts = '05.01.2026', expected at most 50% of the first rows, by max_rejected_share\n"
        "  hint: times are ISO 8601: make one in the transform, such as "
        "to_timestamp(ts, 'dd.MM.yyyy HH:mm:ss'); max_rejected_share='unbounded' goes on without "
        "these rows. Nothing is committed"
    )


@pytest.mark.parametrize(
    ("share", "rows", "rejected", "goes_on"),
    [
        (0.5, 2, 2, True),
        (0.5, 2, 3, False),
        (0, 1_000, 0, True),
        (0, 1_000, 1, False),
        (1, 0, 5, True),
        ("unbounded", 0, 5, True),
    ],
)
def test_the_share_itself_is_allowed(
    share: Any, rows: int, rejected: int, *, goes_on: bool
) -> None:
    slices = [seen(rows, **unparsable(rejected))]
    if goes_on:
        check_rows(made(max_rejected_share=share), slices, FRESH, frozenset())
    else:
        assert "max_rejected_share" in stopped(*slices, max_rejected_share=share)


def test_only_reasons_of_the_event_time_count_for_the_share() -> None:
    check_rows(made(), [seen(1, {"rate": 9})], FRESH, frozenset())


def test_a_pipeline_that_has_begun_is_not_stopped(caplog: pytest.LogCaptureFixture) -> None:
    check_rows(made(), [seen(**unparsable(3))], BEGUN, frozenset())
    assert [record.getMessage() for record in caplog.records] == [
        "source clicks: all 3 rows rejected: unparsable event time, e.g. ts = '05.01.2026'; "
        "hint: times are ISO 8601: make one in the transform, such as "
        "to_timestamp(ts, 'dd.MM.yyyy HH:mm:ss')"
    ]


def test_each_source_is_judged_by_its_own_rows() -> None:
    two = [source(name="clicks"), source(name="views", max_rejected_share=0.9)]
    fresh = PipelineWatermark(sources=dict.fromkeys(["clicks", "views"], SourceWatermark()))
    slices = [seen(1_000, source=1), seen(1, **unparsable(2))]
    with pytest.raises(ConfigError) as error:
        check_rows(Pipeline.from_dict(pipeline(sources=two)), slices, fresh, frozenset())
    assert [each.at for each in error.value.problems] == ["sources[0].event_time"]


@pytest.mark.parametrize(
    ("rejected", "examples", "unit", "text", "hint"),
    [
        (
            {"no_event_time": 3},
            {},
            None,
            "no event time, column 'ts' is NULL or missing",
            "`tidegate check` names declared columns that no row has",
        ),
        (
            {"unparsable": 3},
            {"unparsable": ("kafka_value", "b'\\x00'")},
            None,
            "a record that does not decode, e.g. kafka_value = b'\\x00'",
            "compare value_format and the types in columns with what producers write",
        ),
        (
            {"future": 3},
            {"future": ("ts", "1767225600000")},
            "s",
            "event time in the future, e.g. ts = 1767225600000",
            "event_time_unit='ms' makes 2026-01-01T00:00:00.000Z of 1767225600000",
        ),
        (
            {"future": 3},
            {"future": ("ts", "1893456000")},
            "s",
            "event time in the future, e.g. ts = 1893456000",
            "correct the clocks of the producers, or raise max_future_skew_ms",
        ),
        (
            {"unparsable": 3},
            {"unparsable": ("ts", "1767225600000000")},
            "s",
            "unparsable event time, e.g. ts = 1767225600000000",
            "event_time_unit='us' makes 2026-01-01T00:00:00.000Z of 1767225600000000",
        ),
        (
            {"future": 3},
            {"future": ("ts", "2126-01-05T12:00:00.000Z")},
            None,
            "event time in the future, e.g. ts = 2126-01-05T12:00:00.000Z",
            "correct the clocks of the producers, or raise max_future_skew_ms",
        ),
        (
            {"future": 1, "no_event_time": 2},
            {"future": ("ts", "2126-01-05T12:00:00.000Z")},
            None,
            "2 no event time, column 'ts' is NULL or missing; 1 event time in the future, "
            "e.g. ts = 2126-01-05T12:00:00.000Z",
            "`tidegate check` names declared columns that no row has",
        ),
    ],
)
def test_each_reason_has_its_words_and_what_to_do(
    rejected: dict[str, int],
    examples: dict[str, tuple[str, str]],
    unit: str | None,
    text: str,
    hint: str,
) -> None:
    error = stopped(seen(rejected=rejected, examples=examples), event_time_unit=unit)
    assert error.startswith(f"sources.event_time: found all 3 rows rejected: {text}, expected ")
    assert f"\n  hint: {hint}; max_rejected_share='unbounded' goes on" in error


# --- warned ---


def test_a_key_that_is_null_in_all_first_rows_is_named(caplog: pytest.LogCaptureFixture) -> None:
    slices = [seen(2, null_keys=("page", "user")), seen(), seen(3, null_keys=("user",))]
    assert warnings_of(caplog, *slices, before=FRESH) == [
        "source clicks: key column 'user' is NULL or missing in all of the first 5 rows; "
        "hint: `tidegate check` names declared columns that no row has"
    ]


def test_later_rows_may_have_no_key(caplog: pytest.LogCaptureFixture) -> None:
    assert warnings_of(caplog, seen(2, null_keys=("user",))) == []


@pytest.mark.parametrize(
    ("lowest", "highest", "unit", "text"),
    [
        (
            1_767_139_200,
            1_767_225_600,
            "us",
            "all 2 event times are before 1971, e.g. 1970-01-01T00:29:27.225Z; hint: "
            "event_time_unit='s' makes 2026-01-01T00:00:00.000Z of 1767225600",
        ),
        (
            4_102_444_800_000_000,
            4_102_444_800_000_001,
            None,
            "all 2 event times are after 2099, e.g. 2100-01-01T00:00:00.000Z; hint: "
            "is a count of another unit taken for seconds?",
        ),
        (
            5,
            5,
            "us",
            "all 2 event times are before 1971, e.g. 1970-01-01T00:00:00.000Z; hint: "
            "is 'us' the right event_time_unit?",
        ),
    ],
)
def test_times_before_1971_and_after_2099_are_a_warning_about_the_unit(
    lowest: int, highest: int, unit: str | None, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    slices = [
        seen(1, lowest_us=lowest, highest_us=lowest),
        seen(1, highest_us=highest, lowest_us=highest),
    ]
    assert warnings_of(caplog, *slices, event_time_unit=unit) == [f"source clicks: {text}"]


def test_one_plausible_time_is_enough(caplog: pytest.LogCaptureFixture) -> None:
    assert warnings_of(caplog, seen(1, lowest_us=5, highest_us=5), seen(1)) == []


def test_a_warning_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    warned = check_rows(made(), [seen(**unparsable(3))], BEGUN, frozenset())
    assert check_rows(made(), [seen(**unparsable(9))], BEGUN, warned) == warned
    assert len(caplog.records) == 1


def test_a_value_is_no_format_string(caplog: pytest.LogCaptureFixture) -> None:
    (text,) = warnings_of(caplog, seen(**unparsable(1, "'%s %n {0}'")))
    assert "e.g. ts = '%s %n {0}'" in text


def test_the_first_slice_gives_the_example() -> None:
    first, second = (seen(**unparsable(1, value)) for value in ("'a'", "'b'"))
    assert SourceRows.of([seen(1), first, second]).examples == {"unparsable": ("ts", "'a'")}
