"""Segments and stacks of them, made by hand; and keys that share a hash."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.samples import Row, table, window
from tidegate.core import local
from tidegate.core.arrays import Bools, Int64s
from tidegate.core.hashing import place, xxhash64
from tidegate.core.local import LocalRun
from tidegate.core.segment_format import from_bytes, to_bytes
from tidegate.core.segments import Segment, Units, time_order
from tidegate.core.stacks import Stack, Tables, compacted, merged
from tidegate.errors import StateFormatError
from tidegate.eventtime import BEGINNING
from tidegate.pipeline import Window

# A unit in these tests: (hash, key), or with a time (hash, key, time).  Hashes below 256 are key
# groups, and small ones stand in their own order.
Unit = tuple[int, str | None] | tuple[int, str | None, int]


def segment(*rows: tuple[Any, ...], timed: bool = False) -> Segment:
    """Rows of (hash, key, [time,] forget_us, note), in the order of their places."""
    names = ["key_hash", "key.k", *(["start_us"] if timed else []), "forget_us", "note"]
    types = {"key_hash": pl.Int64, "key.k": pl.String, "start_us": pl.Int64}
    schema = {name: types.get(name, pl.String if name == "note" else pl.Int64) for name in names}
    return Segment(
        pl.DataFrame(list(rows), schema=schema, orient="row"), "start_us" if timed else None
    )


def units(*wanted: Unit) -> Units:
    times = [unit[2] for unit in wanted if len(unit) == 3]
    return Units(
        key_hash=np.array([unit[0] for unit in wanted], dtype=np.int64),
        keys=pl.DataFrame({"key.k": pl.Series([unit[1] for unit in wanted], dtype=pl.String)}),
        time_us=np.array(times, dtype=np.int64) if times else None,
    )


def pairs(found: tuple[Int64s, Int64s]) -> list[tuple[int, int]]:
    return sorted(zip(*(side.tolist() for side in found), strict=True))


def notes(rows: pl.DataFrame | None) -> list[str]:
    assert rows is not None
    return rows["note"].to_list()


# --- one segment ------------------------------------------------------------------------------

KEYED = segment(
    (1, "a", 50, "a, first"),
    (1, "a", 90, "a, second"),
    (2, None, 60, "null"),
    (5, "b", 70, "b"),
    (5, "collides", 70, "collides"),
    (5, "b", 80, "b, again"),
)

TIMED = segment(
    (1, "a", 0, 50, "a 0"),
    (1, "a", 10, 60, "a 10"),
    (5, "b", 0, 50, "b 0"),
    (5, "collides", 0, 50, "collides 0"),
    (5, "b", 20, 70, "b 20"),
    timed=True,
)


def test_find_gives_every_row_of_each_key() -> None:
    wanted = units((5, "b"), (1, "a"), (2, None))
    assert pairs(KEYED.find(wanted)) == [(0, 3), (0, 5), (1, 0), (1, 1), (2, 2)]


def test_find_gives_nothing_for_a_key_that_only_shares_the_hash() -> None:
    assert pairs(KEYED.find(units((1, "b"), (1, None), (2, "null"), (5, "other")))) == []


def test_find_gives_nothing_for_hashes_before_between_and_behind_those_held() -> None:
    assert pairs(KEYED.find(units((0, "a"), (3, "a"), (6, "b"), (-1, "b")))) == []


def test_find_gives_the_row_of_each_key_and_time() -> None:
    wanted = units((5, "b", 20), (5, "collides", 0), (1, "a", 10))
    assert pairs(TIMED.find(wanted)) == [(0, 4), (1, 3), (2, 1)]


def test_find_gives_nothing_for_a_known_key_at_another_time() -> None:
    wanted = units((1, "a", 5), (1, "a", -5), (1, "a", 20), (5, "collides", 20), (5, "b", 10))
    assert pairs(TIMED.find(wanted)) == []


def test_find_in_an_empty_segment_gives_nothing() -> None:
    assert pairs(segment().find(units((1, "a")))) == []
    assert pairs(segment(timed=True).find(units((1, "a", 0)))) == []


def test_find_of_no_units_gives_nothing() -> None:
    assert pairs(KEYED.find(units())) == []


def test_knows_says_for_each_unit_whether_there_is_a_row() -> None:
    wanted = units((5, "b"), (5, "other"), (2, None), (1, None))
    assert KEYED.knows(wanted).tolist() == [True, False, True, False]


def test_a_segment_of_keys_and_times_knows_a_key_only_at_its_times() -> None:
    wanted = units((5, "b", 0), (5, "b", 10), (5, "b", 20), (5, "collides", 20))
    assert TIMED.knows(wanted).tolist() == [True, False, True, False]


def in_place_order(*hashes: int) -> list[int]:
    return sorted(hashes, key=lambda each: int(place(np.array([each]))[0]))


@pytest.mark.parametrize(
    ("owned", "groups"),
    [
        (range(256), [0, 1, 127, 128, 254, 255]),
        (range(1), [0]),
        (range(1, 128), [1, 127]),
        (range(128, 256), [128, 254, 255]),
        (range(255, 256), [255]),
        (range(2, 127), []),
    ],
)
def test_within_keeps_the_rows_of_the_key_groups_and_both_bounds(
    owned: range, groups: list[int]
) -> None:
    hashes = [group + 256 * high for group in (0, 1, 127, 128, 254, 255) for high in (0, 9, -1)]
    whole = segment(*((each, "k", 9, str(each % 256)) for each in in_place_order(*hashes)))
    expected = [str(group) for group in groups for _ in range(3)]
    assert notes(whole.within(owned).rows) == expected


def test_within_keeps_the_unit_of_a_segment() -> None:
    assert TIMED.within(range(1, 2)).unit_time == "start_us"


# --- stacks -----------------------------------------------------------------------------------

STACK = Stack(
    (
        segment(
            (1, "a", 50, "a, old"),
            (1, "a", 60, "a, old too"),
            (2, "b", 50, "b, old"),
            (2, "collides", 50, "collides"),
            (3, "c", 50, "c"),
        ),
        segment((1, "a", 70, "a, newer"), (2, "b", 70, "b")),
        segment((1, "a", 90, "a"), (4, "d", 90, "d")),
    )
)


def everywhere(stack: Stack) -> list[Bools]:
    return [np.ones(len(each), np.bool_) for each in stack.segments]


def test_the_newest_segment_that_knows_a_unit_is_right_about_it() -> None:
    found = STACK.find(units((1, "a"), (2, "b"), (2, "collides"), (3, "c"), (9, "nobody")))
    rows = found.rows()
    assert dict(zip(notes(rows), found.unit.tolist(), strict=True)) == {
        "a": 0,
        "b": 1,
        "collides": 2,
        "c": 3,
    }


def test_an_empty_stack_finds_nothing() -> None:
    found = Stack().find(units((1, "a")))
    assert (found.unit.tolist(), found.rows()) == ([], None)


def test_rows_where_gives_the_chosen_rows_that_no_newer_segment_knows() -> None:
    assert notes(STACK.rows_where(everywhere(STACK))) == ["collides", "c", "b", "a", "d"]


def test_rows_where_gives_none_of_what_was_not_chosen() -> None:
    masks = [each.forget_us == 50 for each in STACK.segments]
    assert notes(STACK.rows_where(masks)) == ["collides", "c"]


def test_rows_found_can_be_left_out() -> None:
    found = STACK.find(units((1, "a"), (3, "c")))
    masks = found.without(everywhere(STACK))
    assert notes(STACK.rows_where(masks)) == ["collides", "b", "d"]


def test_a_time_that_a_newer_segment_does_not_know_still_counts() -> None:
    newer = segment((1, "a", 10, 90, "a 10, newer"), (5, "collides", 20, 90, "new"), timed=True)
    stack = Stack((TIMED, newer))
    assert notes(stack.rows_where(everywhere(stack))) == [
        *("a 0", "b 0", "collides 0", "b 20", "a 10, newer", "new")
    ]


def test_alive_is_what_counts_and_is_not_forgotten() -> None:
    assert notes(STACK.alive(49)) == ["collides", "c", "b", "a", "d"]
    assert notes(STACK.alive(50)) == ["b", "a", "d"]
    assert notes(STACK.alive(90)) == []


def test_keys_that_share_a_hash_are_counted_apart() -> None:
    assert STACK.count_keys(BEGINNING) == 5


def test_put_keeps_the_segments_it_is_told_to_and_puts_one_on_top() -> None:
    top = segment((7, "e", 90, "e"))
    assert STACK.put(top, [0, 2]).segments == (STACK.segments[0], STACK.segments[2], top)
    assert STACK.put(None, [0, 1, 2]).segments == STACK.segments
    assert STACK.put(None, []).segments == ()


def test_a_segment_is_over_when_its_last_row_is_forgotten() -> None:
    assert [each.over_us for each in (*STACK.segments, segment())] == [60, 70, 90, BEGINNING]


# --- merging ----------------------------------------------------------------------------------


def test_merged_keeps_the_newer_version_of_a_unit_and_the_order_of_places() -> None:
    older, newer = (
        STACK.segments[0],
        segment((1, "a", 90, "a"), (2, "b", 90, "b"), (4, "d", 90, "d")),
    )
    both = merged(older, newer, watermark_us=BEGINNING)
    assert notes(both.rows) == ["a", "collides", "b", "c", "d"]
    assert both.places.tolist() == sorted(both.places.tolist())


def test_merged_leaves_out_what_is_forgotten_at_the_watermark() -> None:
    older = segment((1, "a", 50, "a"), (2, "b", 51, "b"))
    newer = segment((3, "c", 50, "c"), (4, "d", 51, "d"))
    assert notes(merged(older, newer, watermark_us=50).rows) == ["b", "d"]


def test_a_version_that_is_superseded_does_not_come_back_when_the_newer_one_is_forgotten() -> None:
    older = segment((1, "a", 40, "old"), (2, "b", 90, "b"))
    newer = segment((1, "a", 50, "new"))
    assert notes(merged(older, newer, watermark_us=50).rows) == ["b"]


def test_merged_supersedes_all_rows_of_a_key_however_many_the_newer_has() -> None:
    older = segment((1, "a", 50, "one"), (1, "a", 60, "two"), (1, "collides", 60, "collides"))
    newer = segment((1, "a", 90, "both"))
    assert notes(merged(older, newer, watermark_us=BEGINNING).rows) == ["collides", "both"]


def test_merged_orders_by_time_within_a_place() -> None:
    newer = segment(
        (1, "a", 5, 90, "a 5"),
        (5, "b", 0, 90, "b 0, newer"),
        (5, "b", 10, 90, "b 10"),
        timed=True,
    )
    both = merged(TIMED, newer, watermark_us=BEGINNING)
    assert notes(both.rows) == [
        *("a 0", "a 5", "a 10", "collides 0", "b 0, newer", "b 10", "b 20"),
    ]
    assert both.unit_time == "start_us"


def test_merged_with_nothing_is_the_same() -> None:
    assert merged(segment(), KEYED, watermark_us=BEGINNING).rows.equals(KEYED.rows)
    assert merged(KEYED, segment(), watermark_us=BEGINNING).rows.equals(KEYED.rows)


def test_merging_neighbours_changes_nothing_that_counts() -> None:
    first, second, third = STACK.segments
    for stack in (
        Stack((merged(first, second, watermark_us=49), third)),
        Stack((first, merged(second, third, watermark_us=49))),
        Stack((merged(merged(first, second, watermark_us=49), third, watermark_us=BEGINNING),)),
        Stack((merged(first, merged(second, third, watermark_us=BEGINNING), watermark_us=49),)),
    ):
        assert sorted(notes(stack.alive(49))) == ["a", "b", "c", "collides", "d"]


def sized(first_hash: int, count: int) -> Segment:
    return segment(*((first_hash + n, "k", 90, f"{first_hash + n}") for n in range(count)))


def test_compacted_merges_neighbours_of_its_size_class_as_it_grows() -> None:
    stack = Stack((sized(100, 15), sized(50, 2), sized(20, 1)))
    top, replaces = compacted(stack, sized(10, 1), watermark_us=BEGINNING)
    assert (len(top), replaces) == (4, 2)


def test_compacted_does_not_reach_a_class_that_it_has_not_grown_into() -> None:
    stack = Stack((sized(100, 8), sized(50, 3)))
    top, replaces = compacted(stack, sized(10, 3), watermark_us=BEGINNING)
    assert (len(top), replaces) == (6, 1)


@given(sizes=st.lists(st.integers(1, 40), max_size=60))
def test_a_stack_stays_logarithmically_deep_whatever_comes(sizes: list[int]) -> None:
    stack = Stack()
    for nth, size in enumerate(sizes):
        top, replaces = compacted(stack, sized(1000 * nth, size), watermark_us=BEGINNING)
        stack = Stack((*stack.segments[: len(stack.segments) - replaces], top))
    classes = [len(segment).bit_length() for segment in stack.segments]
    assert classes == sorted(set(classes), reverse=True)
    assert len(stack) == sum(sizes)


def test_compacted_leaves_larger_segments_alone() -> None:
    stack = Stack((sized(100, 13), sized(50, 3)))
    top, replaces = compacted(stack, sized(10, 1), watermark_us=BEGINNING)
    assert (len(top), replaces) == (1, 0)


# --- rows that are only ever added ------------------------------------------------------------


def appended(*rows: tuple[Any, ...]) -> Segment:
    """Rows of (hash, key, time, forget_us, note) in any order, each a unit of its own."""
    return Segment.of_rows(segment(*rows, timed=True).rows, "start_us")


def test_rows_in_any_order_are_put_in_that_of_place_and_time() -> None:
    one = appended((5, "b", 9, 50, "b 9"), (1, "a", 7, 50, "a 7"), (5, "b", 2, 50, "b 2"))
    assert notes(one.rows) == ["a 7", "b 2", "b 9"]
    assert (one.unit_time, one.appends) == ("start_us", True)


def test_rows_of_one_place_and_time_stay_in_their_order() -> None:
    hashes, times = np.array([2, 1, 2, 1]), np.array([5, 5, 5, 4])
    assert time_order(hashes, times).tolist() == [3, 1, 0, 2]


def test_added_rows_never_take_the_place_of_others() -> None:
    older = appended((1, "a", 0, 50, "one"), (1, "a", 5, 50, "two"))
    newer = appended((1, "a", 0, 60, "three"))
    stack = Stack((older, newer))
    assert notes(stack.rows_where(everywhere(stack))) == ["one", "two", "three"]
    both = merged(older, newer, watermark_us=BEGINNING)
    assert notes(both.rows) == ["one", "three", "two"]
    assert both.appends


def test_added_rows_are_left_out_once_forgotten() -> None:
    older = appended((1, "a", 0, 50, "one"), (1, "a", 5, 70, "two"))
    newer = appended((1, "a", 0, 60, "three"))
    assert notes(merged(older, newer, watermark_us=50).rows) == ["three", "two"]
    assert notes(merged(older, newer, watermark_us=60).rows) == ["two"]
    last = merged(older, newer, watermark_us=70)
    assert (len(last), last.appends) == (0, True)


def test_what_is_within_key_groups_is_still_only_added_to() -> None:
    assert appended((1, "a", 0, 50, "one")).within(range(1, 2)).appends


# --- rows of a key between two times ----------------------------------------------------------


def between(one: Segment, *wanted: tuple[int, str | None, int, int]) -> list[tuple[int, int]]:
    until_us = np.array([last for *_, last in wanted], dtype=np.int64)
    return pairs(one.between(units(*((h, k, first) for h, k, first, _ in wanted)), until_us))


def test_between_has_both_bounds_in() -> None:
    one = appended(*((1, "a", at, 90, "") for at in (0, 5, 5, 10)))
    assert between(one, (1, "a", 5, 10)) == [(0, 1), (0, 2), (0, 3)]
    assert between(one, (1, "a", 1, 4), (1, "a", 6, 9)) == []
    assert between(one, (1, "a", 7, 3)) == []


def test_between_gives_nothing_of_keys_that_only_share_the_hash() -> None:
    one = appended((1, "a", 0, 90, ""), (1, "b", 0, 90, ""), (1, None, 0, 90, ""))
    assert between(one, (1, "b", -9, 9), (1, "c", -9, 9), (1, None, -9, 9)) == [(0, 1), (2, 2)]


def test_between_finds_nothing_where_there_is_nothing() -> None:
    assert between(appended(), (1, "a", 0, 9)) == []
    assert between(appended((1, "a", 0, 90, ""))) == []


def test_a_segment_without_times_has_no_rows_between_two() -> None:
    with pytest.raises(ValueError, match="without times"):
        KEYED.between(units((1, "a", 0)), np.array([9]))


few_hashes = st.sampled_from([-1, 0, 1, 255, 256])
few_keys = st.sampled_from(["a", "b", None])
timed_rows = st.lists(st.tuples(few_hashes, few_keys, st.integers(-5, 5)), max_size=25)
ranges = st.lists(
    st.tuples(few_hashes, few_keys, st.integers(-7, 7), st.integers(-7, 7)), max_size=8
)


@given(rows=timed_rows, wanted=ranges)
def test_between_finds_what_looking_at_every_row_finds(
    rows: list[tuple[int, str | None, int]], wanted: list[tuple[int, str | None, int, int]]
) -> None:
    one = appended(*((*row, 90, "") for row in rows))
    held = one.rows.select("key_hash", "key.k", "start_us").rows()
    assert between(one, *wanted) == [
        (unit, row)
        for unit, (hash_, key, first, last) in enumerate(wanted)
        for row, (held_hash, held_key, at) in enumerate(held)
        if (hash_, key) == (held_hash, held_key) and first <= at <= last
    ]


@given(rows=timed_rows, later=timed_rows)
def test_merged_rows_that_are_only_added_are_all_there_in_order(
    rows: list[tuple[int, str | None, int]], later: list[tuple[int, str | None, int]]
) -> None:
    older = appended(*((*row, 90, f"old {nth}") for nth, row in enumerate(rows)))
    newer = appended(*((*row, 90, f"new {nth}") for nth, row in enumerate(later)))
    both = merged(older, newer, watermark_us=0)
    assert sorted(notes(both.rows)) == sorted([*notes(older.rows), *notes(newer.rows)])
    places, times = both.places.tolist(), both.rows["start_us"].to_list()
    assert [*zip(places, times, strict=True)] == sorted(zip(places, times, strict=True))


# --- tables side by side ----------------------------------------------------------------------

SIDE_BY_SIDE = Tables(
    {
        "left": appended((1, "a", 0, 50, "left a"), (200, "b", 0, 60, "left b")),
        "right": segment((1, "a", 70, "right a")),
        "none": segment(),
    }
)


def all_notes(tables: Tables) -> dict[str, list[str]]:
    return {name: notes(table.rows) for name, table in tables.tables.items()}


def test_tables_are_as_long_as_all_of_them_and_over_when_the_last_is() -> None:
    assert (len(SIDE_BY_SIDE), SIDE_BY_SIDE.over_us) == (3, 70)
    assert (len(Tables({})), Tables({}).over_us) == (0, BEGINNING)
    assert SIDE_BY_SIDE.hashes.tolist() == [1, 200, 1]


def test_tables_are_cut_by_key_groups_together() -> None:
    assert all_notes(SIDE_BY_SIDE.within(range(128))) == {
        "left": ["left a"],
        "right": ["right a"],
        "none": [],
    }
    assert all_notes(SIDE_BY_SIDE.within(range(128, 256)))["left"] == ["left b"]
    assert SIDE_BY_SIDE.within(range(128)).tables["left"].appends


def test_tables_lie_within_key_groups_if_all_of_them_do() -> None:
    assert SIDE_BY_SIDE.is_within(range(1, 201))
    assert not SIDE_BY_SIDE.is_within(range(1, 200))
    assert not SIDE_BY_SIDE.is_within(range(2, 256))
    assert Tables({"none": segment()}).is_within(range(1))


def test_tables_of_one_name_are_merged_and_others_stand_beside_them() -> None:
    newer = Tables(
        {
            "left": appended((1, "a", 0, 90, "left a again")),
            "right": segment((1, "a", 90, "right a, newer")),
            "marks": appended((1, "a", 0, 90, "mark")),
        }
    )
    both = merged(SIDE_BY_SIDE, newer, watermark_us=50)
    assert all_notes(both) == {
        "left": ["left a again", "left b"],
        "right": ["right a, newer"],
        "none": [],
        "marks": ["mark"],
    }
    assert both.tables["left"].appends
    assert not both.tables["right"].appends


def test_tables_and_a_segment_do_not_merge() -> None:
    with pytest.raises(TypeError, match="Tables and Segment do not merge"):
        merged(SIDE_BY_SIDE, KEYED, watermark_us=0)


def test_a_stack_of_tables_is_a_stack_for_each() -> None:
    newer = Tables({"right": segment((9, "c", 90, "right c"))})
    stack = Stack((SIDE_BY_SIDE, newer))
    assert [notes(each.rows) for each in stack.table("left").segments] == [["left a", "left b"]]
    assert len(stack.table("right").segments) == 2
    assert stack.table("none").segments == ()
    assert stack.table("nobody").segments == ()
    assert len(stack) == 4
    assert len(stack.within(range(200, 256)).segments) == 1


def same(one: Tables, other: Tables) -> bool:
    return one.tables.keys() == other.tables.keys() and all(
        table.rows.equals(other.tables[name].rows)
        and (table.unit_time, table.appends)
        == (other.tables[name].unit_time, other.tables[name].appends)
        for name, table in one.tables.items()
    )


LISTS = Tables(
    {
        "lists": Segment(
            KEYED.rows.with_columns(
                pl.Series("some", [[1], [], None, [2, 3], [], []], dtype=pl.List(pl.Int64)),
                pl.Series("hollow", [[]] * 6, dtype=pl.List(pl.String)),
            )
        )
    }
)


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("tables", [SIDE_BY_SIDE, LISTS, Tables({}), Tables({"none": segment()})])
def test_tables_are_the_same_after_a_trip_through_bytes(tables: Tables, trusted: bool) -> None:
    found = from_bytes(to_bytes(tables), trusted=trusted)
    assert isinstance(found, Tables)
    assert same(found, tables)
    assert to_bytes(found) == to_bytes(tables)


def test_a_segment_that_is_only_added_to_is_so_after_a_trip_through_bytes() -> None:
    found = from_bytes(to_bytes(appended((1, "a", 0, 50, "one"))))
    assert (found.unit_time, found.appends) == ("start_us", True)
    assert not from_bytes(to_bytes(KEYED)).appends


@pytest.mark.parametrize("cut", [0, 1, 7, 100, -1, -9, -200])
def test_tables_cut_short_are_refused(cut: int) -> None:
    with pytest.raises(StateFormatError, match="not readable"):
        from_bytes(to_bytes(SIDE_BY_SIDE)[:cut])


@given(nth=st.integers(0, 10**6), flip=st.integers(1, 255))
def test_tables_with_a_broken_byte_are_refused_or_read_but_never_end_otherwise(
    nth: int, flip: int
) -> None:
    data = bytearray(to_bytes(SIDE_BY_SIDE))
    data[nth % len(data)] ^= flip
    with contextlib.suppress(StateFormatError):
        from_bytes(bytes(data))


def test_tables_within_tables_are_refused() -> None:
    inner = pa.array([to_bytes(SIDE_BY_SIDE)], pa.large_binary())
    with pytest.raises(StateFormatError, match="the table 'left' holds tables"):
        from_bytes(file_of({"table": pa.array(["left"]), "bytes": inner}))


@pytest.mark.parametrize(
    "columns",
    [
        {"bytes": pa.array([b""], pa.large_binary())},
        {"table": pa.array(["left"])},
        {"table": pa.array(["left"]), "bytes": pa.array([None], pa.large_binary())},
        {"table": pa.array(["left"]), "bytes": pa.array([7])},
        {"table": pa.array(["left"]), "bytes": pa.array([b"no"], pa.large_binary())},
    ],
)
def test_what_is_marked_as_tables_and_holds_none_is_refused(columns: dict[str, pa.Array]) -> None:
    with pytest.raises(StateFormatError, match="not readable"):
        from_bytes(file_of(columns))


def file_of(columns: dict[str, pa.Array]) -> bytes:
    """An Arrow file that says that it holds tables."""
    metadata = pa.ipc.open_file(pa.py_buffer(to_bytes(SIDE_BY_SIDE))).schema.metadata
    table = pa.table(columns).replace_schema_metadata(metadata)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


# --- keys that share a hash -------------------------------------------------------------------

COLUMNS = {"left": "string", "right": "string", "value": "long"}


def colliding(kind: str, **changes: Any) -> Window:
    shape: Row = {"gap_ms": 2, "max_session_duration_ms": 20}
    if kind != "session":
        shape = {"width_ms": 4} | ({"hop_ms": 2} if kind == "hopping" else {})
    defaults = shape | {"group_by": ("left", "right"), "emit": "on_update"}
    return window(kind, ["count", "sum", "first", "last", "collect"], **defaults | changes)


TWINS = ((None, "x"), ("x", None))


def test_a_null_on_either_side_gives_the_same_hash() -> None:
    left, right = (pl.Series(side, dtype=pl.String) for side in zip(*TWINS, strict=True))
    hashes = xxhash64([left, right])
    assert hashes[0] == hashes[1]


def plain_rows(rows: list[Row]) -> list[str]:
    """As sorted text, since NULLs do not sort; without the id, which the oracle does not know."""
    return sorted(
        repr(sorted((name, value) for name, value in row.items() if name != "session_id"))
        for row in rows
    )


def sent(epoch: local.Epoch) -> list[Row]:
    starts = [pl.col(name).cast(pl.Int64) for name in ("window_start", "window_end")]
    return epoch.rows.with_columns(starts).to_dicts()


def random_epochs(seed: int) -> list[tuple[pl.DataFrame, int]]:
    """Many keys, their rows in several windows, a few of them late."""
    chance, epochs = random.Random(seed), []
    for nth in range(5):
        rows = [
            {
                "event_us": 1000 * (6 * nth + chance.randrange(-8, 12)),
                "left": chance.choice(["a", "b", "c", None]),
                "right": chance.choice(["a", "x", None]),
                "value": chance.randrange(100),
            }
            for _ in range(25)
        ]
        epochs.append((table(COLUMNS, rows), 6000 * nth))
    return epochs


def all_sent(spec: Window, seed: int) -> list[list[str]]:
    run = LocalRun(spec, COLUMNS)
    epochs = [run.epoch(rows, watermark_us) for rows, watermark_us in random_epochs(seed)]
    return [plain_rows(sent(epoch)) for epoch in [*epochs, run.flush()]]


def one_hash_for_all(columns: Sequence[pl.Series]) -> Int64s:
    return np.full(len(columns[0]), 0x1234_5678)


@pytest.mark.parametrize("kind", ["session", "tumbling", "hopping"])
def test_results_are_the_same_if_all_keys_share_one_hash(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    emits = ("on_update", "changelog", "on_watermark")
    specs = [colliding(kind, emit=emit, allowed_lateness_ms=3) for emit in emits]
    with_hashes = [all_sent(spec, seed) for spec in specs for seed in range(3)]
    monkeypatch.setattr(local, "xxhash64", one_hash_for_all)
    assert [all_sent(spec, seed) for spec in specs for seed in range(3)] == with_hashes
