"""Types inferred from a case, and values that come back as they were."""

import pytest

from tidegate.errors import ScenarioError
from tidegate.testing.columns import Column, key_column, value_column


@pytest.mark.parametrize(
    ("values", "type_name"),
    [
        ([1, None, 3], "long"),
        ([1, 2.5], "double"),
        (["a", None], "string"),
        ([True, False], "boolean"),
        ([None], "long"),
        ([], "long"),
    ],
)
def test_an_input_column_has_the_type_of_its_values(values: list[object], type_name: str) -> None:
    assert value_column("v", values) == Column(name="v", type_name=type_name)


def test_a_key_column_without_a_value_is_a_string() -> None:
    assert key_column("key", [None]) == Column(name="key", type_name="string")


@pytest.mark.parametrize("values", [[1, "1"], [True, 1], [1.5, 2], [None, "a", 7]])
def test_keys_of_several_kinds_stay_apart_and_come_back(values: list[object]) -> None:
    column = key_column("key", values)
    encoded = [column.encoded(value) for value in values]
    assert column.type_name == "string"
    assert len(set(encoded)) == len(values)
    assert [repr(column.decoded(each)) for each in encoded] == [repr(each) for each in values]


def test_a_list_of_values_comes_back_too() -> None:
    column = value_column("v", [1, "a"])
    assert column.decoded([column.encoded(1), column.encoded("a")]) == [1, "a"]


def test_integers_among_floats_become_floats() -> None:
    assert repr(value_column("v", [1, 2.5]).encoded(1)) == "1.0"


@pytest.mark.parametrize("value", [[1], {"a": 1}, 2**63])
def test_what_no_row_can_hold_is_refused(value: object) -> None:
    with pytest.raises(ScenarioError, match="column v"):
        value_column("v", [value])
