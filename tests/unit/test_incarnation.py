from __future__ import annotations

import pytest

from tidegate.incarnation import after_reset, continues, new_incarnation


def test_a_reset_keeps_the_state_and_counts() -> None:
    first = new_incarnation()
    second = after_reset(first)
    third = after_reset(second)
    assert second.startswith(f"{first}.1.")
    assert third.startswith(f"{first}.2.")
    assert continues(third, second)
    assert continues(third, first)
    assert not continues(first, third)


def test_no_two_resets_are_the_same() -> None:
    first = new_incarnation()
    one, other = after_reset(first), after_reset(first)
    assert one != other
    assert not continues(one, other)


@pytest.mark.parametrize("name", ["", "a.b", "a.1", "a.1.xyz", "a.1.0123abcd\n"])
def test_what_no_reset_has_drawn_is_a_state_of_its_own(name: str) -> None:
    assert continues(name, name)
    assert continues(after_reset(name), name)
    assert not continues(name, "a")
