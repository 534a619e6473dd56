from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from tests.unit.sources.reading import (
    batches,
    drained,
    everything,
    fewer_examples,
    frame_of,
    log_of,
    opened,
    poll,
    slices_of,
)
from tidegate.errors import ConfigError, Problem

START = datetime(2026, 1, 1, tzinfo=UTC)
COLUMNS = {
    "user_id": "long",
    "event_time": "timestamp",
    "page": "string",
    "amount": "double",
    "duration_ms": "int",
}


def rows_of(**options: Any) -> pl.DataFrame:
    return everything(opened("generator", **options), max_rows=10_000_000)


def problems_of(*declared: Any, **options: Any) -> list[Problem]:
    with pytest.raises(ConfigError) as caught:
        opened("generator", *declared, **options)
    return list(caught.value.problems)


@fewer_examples
@given(
    rows=st.integers(0, 200),
    max_rows=st.integers(1, 100),
    slices=st.integers(1, 5),
    seed=st.integers(0, 3),
)
def test_rows_do_not_depend_on_how_they_are_cut(
    rows: int, max_rows: int, slices: int, seed: int
) -> None:
    options: dict[str, Any] = {"rows": rows, "seed": seed, "null_share": 0.2, "late_share": 0.2}
    polls = drained(opened("generator", **options), max_rows=max_rows, slices=slices)
    whole = frame_of(slices_of(drained(opened("generator", **options), max_rows=10_000)))
    assert_frame_equal(frame_of(slices_of(polls)), whole)
    assert whole.height == rows
    assert all(len(each.slices) <= slices for each in polls)


def test_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = rows_of(rows=1_000)
    monkeypatch.setattr("tidegate.sources.generator._BLOCK_ROWS", 7)
    assert_frame_equal(rows_of(rows=1_000), whole)


def test_the_rows_stay_what_they_are() -> None:
    """Stored offsets and published benchmarks refer to them."""
    found = rows_of(rows=3).with_columns(pl.col("event_time").to_physical())
    assert found.rows() == [
        (6732, 1767225599907842, "/page/02", 189.6, 11848),
        (4578, 1767225596571085, "/page/02", 178.85, 27360),
        (3378, 1767225598214449, "/page/04", 118.47, 33458),
    ]


def test_another_seed_makes_other_rows() -> None:
    first, second = rows_of(rows=100, seed=1), rows_of(rows=100, seed=2)
    for name in COLUMNS:
        assert first[name].to_list() != second[name].to_list()


def test_columns_have_their_types() -> None:
    reader = opened("generator", rows=10)
    assert reader.columns() == COLUMNS
    (batch,) = batches(poll(reader))
    assert [str(kind) for kind in batch.schema.types] == [
        "int64",
        "timestamp[us, tz=UTC]",
        "string_view",
        "double",
        "int32",
    ]


def test_there_are_a_million_rows_unless_said_otherwise() -> None:
    polled = poll(opened("generator"), max_rows=10**7, slices=2)
    assert (polled.until, polled.unread, len(polled.slices)) == ({"row": 1_000_000}, False, 2)


def test_only_the_columns_asked_for_are_made() -> None:
    (part,) = poll(opened("generator", rows=10)).slices
    whole = frame_of([part])
    assert_frame_equal(frame_of([part], ["page", "user_id"]), whole.select("page", "user_id"))
    assert [(b.num_rows, b.num_columns) for b in part.read([])] == [(10, 0)]


def test_the_clock_of_events_ticks_evenly_without_disorder() -> None:
    found = rows_of(rows=8, events_per_second=4, disorder_ms=0)["event_time"].to_list()
    assert found == [START + timedelta(milliseconds=250 * n) for n in range(8)]


@pytest.mark.parametrize("start", ["1970-01-01T00:00:05Z", "1970-01-01 00:00:05", 5_000_000])
def test_the_start_is_an_instant(start: str | int) -> None:
    found = rows_of(rows=1, disorder_ms=0, start=start)["event_time"].to_list()
    assert found == [datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)]


def test_disorder_is_bounded_and_used() -> None:
    ordered = rows_of(rows=5_000, disorder_ms=0)["event_time"]
    early = ordered - rows_of(rows=5_000, disorder_ms=2_000)["event_time"]
    assert timedelta(0) <= early.min() < timedelta(milliseconds=10)  # type: ignore[operator]  # a duration
    assert timedelta(seconds=1.99) < early.max() <= timedelta(seconds=2)  # type: ignore[operator]  # a duration


def test_shares_of_late_rows_and_of_rows_without_a_time_are_kept() -> None:
    usual = rows_of(rows=20_000)["event_time"]
    found = rows_of(rows=20_000, late_share=0.1, late_by_ms=60_000, null_share=0.05)["event_time"]
    assert found.null_count() == pytest.approx(1_000, rel=0.15)
    late = (usual - found).drop_nulls()
    assert set(late.unique()) == {timedelta(0), timedelta(minutes=1)}
    assert (late == timedelta(minutes=1)).sum() == pytest.approx(2_000, rel=0.15)


def test_visits_are_sessions_of_about_eight_clicks() -> None:
    rows = rows_of(rows=400_000, keys=20_000, events_per_second=1_000).sort("user_id", "event_time")
    pause = rows["event_time"].diff() > timedelta(seconds=30)
    new = pause | (rows["user_id"] != rows["user_id"].shift(1))
    assert 7 < rows.height / new.sum() < 9
    assert rows["user_id"].n_unique() == 20_000
    assert (rows["user_id"].min(), rows["user_id"].max()) == (0, 19_999)


@pytest.mark.parametrize("keys", [1, 2, 7, 10_000, 2**31])
def test_users_are_below_the_number_of_keys(keys: int) -> None:
    users = rows_of(rows=1_000, keys=keys)["user_id"]
    assert users.is_between(0, keys - 1).all()


def test_few_pages_have_most_clicks() -> None:
    counts = rows_of(rows=50_000)["page"].value_counts(sort=True)
    assert counts.height == 20
    assert counts["page"][0] == "/page/00"
    assert counts["count"][0] / 50_000 == pytest.approx(0.278, abs=0.01)


def test_amounts_have_two_decimals() -> None:
    amounts = rows_of(rows=1_000)["amount"]
    assert (amounts == amounts.round(2)).all()
    assert amounts.is_between(0, 200).all()


def test_with_a_rate_rows_come_as_time_passes() -> None:
    reader = opened("generator", rate=100, rows=250)
    first = poll(reader, now_us=5_000_000)
    assert (first.until, first.unread) == ({"row": 100}, False)  # it began a second ago
    assert first.discovered == ({"started_us": 4_000_000},)
    found = [poll(reader, first.until, now_us=now_us) for now_us in (5_009_999, 5_010_000)]
    assert [each.until for each in found] == [{"row": 100}, {"row": 101}]
    rest = poll(reader, {"row": 101}, now_us=100_000_000, max_rows=100)
    assert (rest.until, rest.unread, rest.discovered) == ({"row": 201}, True, ())
    assert poll(reader, {"row": 201}, now_us=100_000_000).until == {"row": 250}


def test_with_a_rate_and_no_number_there_is_no_end() -> None:
    reader = opened("generator", rate=1_000)
    poll(reader, now_us=0)
    polled = poll(reader, {"row": 10**9}, now_us=2 * 10**12)
    assert (polled.until, polled.unread) == ({"row": 10**9 + 1_000}, True)


def test_the_start_of_a_rate_is_remembered() -> None:
    polls = [poll(opened("generator", rate=100), now_us=1_000_000)]
    again = opened("generator", None, log_of(polls), rate=100)
    assert poll(again, polls[0].until, now_us=3_000_000).until == {"row": 300}


def test_a_clock_that_goes_back_takes_no_row_away() -> None:
    reader = opened("generator", rate=100)
    poll(reader, now_us=10_000_000)
    assert poll(reader, {"row": 50}, now_us=0).until == {"row": 50}


def test_some_of_the_columns_may_be_declared() -> None:
    reader = opened("generator", {"page": "string", "user_id": "long"}, rows=1)
    assert everything(reader).columns == ["page", "user_id"]


def test_other_columns_cannot_be_declared() -> None:
    problems = problems_of({"user": "long", "amount": "int"})
    assert {problem.at: problem.hint for problem in problems} == {
        "columns.user": "did you mean 'user_id'?",
        "columns.amount": "the generator decides its types",
    }


def test_all_wrong_options_are_named_at_once() -> None:
    problems = problems_of(row=5, keys=0, start="soon", late_share=0.6, null_share=0.6)
    assert [problem.at for problem in problems] == [
        "options.row",
        "options.keys",
        "options.start",
        "options.late_share",
    ]
    assert problems[0].hint == "did you mean 'rows'?"


def test_a_reader_that_is_told_to_end_gives_nothing_that_comes_later() -> None:
    reader = opened("generator", rate=100)
    reader.end_at(5_000_000)
    assert poll(reader, now_us=9_000_000).until == {"row": 100}
    assert not poll(reader, {"row": 100}, now_us=9_000_000).slices
