"""What an engine makes of a target that refuses it: whether somebody else has the pipeline."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tidegate.errors import LostLease, StateLost, TargetClaimed, TidegateError
from tidegate.spark.engine import Engine


def engine(*, ours: bool) -> Engine:
    """One whose token is current, or is not."""

    def check(token: int) -> None:
        if not ours:
            raise LostLease(f"token {token} is not current")

    found = cast("Any", object.__new__(Engine))
    found.store, found.recovered = SimpleNamespace(check=check), SimpleNamespace(token=3)
    return cast("Engine", found)


@pytest.mark.parametrize("refusal", [StateLost("a part is gone"), LostLease("fenced")])
def test_whoever_was_taken_over_hears_of_that(refusal: TidegateError) -> None:
    with (
        pytest.raises(LostLease, match="token 3") as caught,
        engine(ours=False).unless_taken_over(),
    ):
        raise refusal
    assert type(caught.value) is LostLease


def test_whoever_has_the_pipeline_is_told_that_its_target_was_claimed() -> None:
    said = "fenced; this driver still holds the pipeline"
    with pytest.raises(TargetClaimed, match=said), engine(ours=True).unless_taken_over():
        raise LostLease("fenced")


def test_what_is_lost_is_lost_where_nobody_else_has_the_pipeline() -> None:
    with pytest.raises(StateLost, match="gone"), engine(ours=True).unless_taken_over():
        raise StateLost("a part is gone")
