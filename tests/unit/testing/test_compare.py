"""Expected against found."""

import math

import pytest

from tidegate.testing.compare import row_mismatches, same_value, unmatched


@pytest.mark.parametrize(
    ("expected", "found", "same"),
    [
        (1, 1.0, True),
        (0.1 + 0.2, 0.3, True),
        (1, 1.00001, False),
        (2**62, 2**62 + 1, False),
        (math.nan, math.nan, True),
        (1, math.nan, False),
        (1, True, False),
        (True, True, True),
        (None, None, True),
        (None, 0, False),
        ("1", 1, False),
        ([1, 2, 2], [2, 1, 2], True),
        ([1, 2], [1, 2, 2], False),
        ([None, "a"], ["a", None], True),
        ([], None, False),
    ],
)
def test_values_count_as_equal(expected: object, found: object, same: bool) -> None:
    assert same_value(expected, found) is same


def test_only_the_columns_that_the_expected_row_names_are_compared() -> None:
    assert row_mismatches("step 0", [{"key": "a"}], [{"key": "a", "count": 3}]) == []


def test_a_column_that_was_not_sent_is_a_mismatch_even_when_null_is_expected() -> None:
    assert row_mismatches("step 0", [{"sum": None}], [{"count": 3}]) == [
        "step 0: expected and not sent: {sum: null}; sent and not expected: {count: 3}"
    ]


def test_order_is_free_but_number_is_not() -> None:
    rows = [{"key": "a"}, {"key": "b"}, {"key": "a"}]
    assert row_mismatches("step 1", rows, rows[::-1]) == []
    assert row_mismatches("step 1", rows, rows[:2]) == ["step 1: expected and not sent: {key: 'a'}"]
    assert row_mismatches("step 1", rows[:2], rows) == ["step 1: sent and not expected: {key: 'a'}"]


def test_a_vague_row_gives_way_to_an_exact_one() -> None:
    vague, exact = {"key": "a"}, {"key": "a", "count": 1}
    found = [{"key": "a", "count": 1}, {"key": "a", "count": 2}]
    assert row_mismatches("step 0", [vague, exact], found) == []


def test_many_equal_values_are_no_trouble() -> None:
    missing, surplus = unmatched([1] * 1501, [1] * 1500, same_value)
    assert (missing, surplus) == ([1], [])
