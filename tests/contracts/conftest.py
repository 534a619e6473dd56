"""Failing assertions of a public contract say what they compared, as those of tests do."""

import pytest

pytest.register_assert_rewrite(
    "tidegate.testing.contracts",
    "tidegate.testing.depot_contract",
    "tidegate.testing.reset_contract",
)
