from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tidegate.engine import loop
from tidegate.engine.loop import Run
from tidegate.errors import LostLease, TargetClaimed, TidegateError
from tidegate.pipeline import RunSettings


def run_that_meets(monkeypatch: pytest.MonkeyPatch, *errors: TidegateError) -> list[str]:
    """Take over as often as a run does that meets these errors; the words of those that it met."""
    left, met = [*errors], list[str]()

    def once(_: Run) -> None:
        if left:
            met.append(str(left[0]))
            raise left.pop(0)

    monkeypatch.setattr(Run, "_once", once)
    monkeypatch.setattr(loop, "_PAUSE_S", 0)
    unused: Any = SimpleNamespace(name="orders")
    Run(pipeline=unused, settings=RunSettings(), backend=unused).execute()
    return met


def test_a_run_whose_target_was_claimed_takes_its_pipeline_over_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also if it happens while the pipeline is opened for the first time."""
    assert run_that_meets(monkeypatch, TargetClaimed("a"), TargetClaimed("b")) == ["a", "b"]


def test_a_run_whose_pipeline_was_taken_over_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LostLease, match="gone"):
        run_that_meets(monkeypatch, TargetClaimed("a"), LostLease("gone"))


def test_a_target_that_is_claimed_again_and_again_ends_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(TargetClaimed):
        run_that_meets(monkeypatch, *(TargetClaimed("a") for _ in range(4)))
