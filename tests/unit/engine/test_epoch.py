"""What an engine reports, and what it makes of a target that refuses it."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tidegate.core.watermark import PipelineWatermark
from tidegate.engine.epoch import Engine, EpochPlan, Stepped, _report
from tidegate.engine.head import Head, OperatorHead
from tidegate.engine.limits import KeyBound
from tidegate.errors import LostLease, StateLost, TargetClaimed, TidegateError
from tidegate.state.protocol import Entry, Manifest, Part, Stacks
from tidegate.tasks.orders import Saw, ShardReport

PART = Part(name="1-1-a-segment", bytes=70, checksum=0, rows=7)
STACKS = ((Entry(part=PART, first_group=0, end_group=256),),)


def test_the_report_of_an_epoch_has_numbers_and_no_segments() -> None:
    saw = Saw(seen_digest="", watermarks_digest="")
    reports = [
        ShardReport(shard=0, attempt="a", saw=saw, worker_cache_bytes=size) for size in (5, 9)
    ]
    state = {"window": Stacks(shards=STACKS)}
    manifest = Manifest(epoch=1, offsets={}, watermarks={}, state=state, counts={"rows": 3})
    window = OperatorHead(stacks=STACKS, keys=KeyBound(allowed=None, at_most=7))
    head = Head(
        epoch=1,
        offsets={},
        watermark=PipelineWatermark(),
        operators={"window": window},
        manifest=manifest,
    )
    stepped = Stepped(
        plan=EpochPlan(number=1, now_us=0), reports=tuple(reports), head=head, seconds={}
    )
    seconds = {"commit": 0.5, "plan": 0.25, "job": 1.0}
    report = _report(stepped, seconds)
    assert (report.rows, report.state_rows, report.state_bytes) == (3, 7, 70)
    assert report.worker_cache_bytes == 9
    assert list(report.parts) == ["plan", "job", "shuffle", "commit"]
    assert b"segment" not in pickle.dumps(report)


def engine(*, ours: bool) -> Engine:
    """One whose token is current, or is not."""

    def check(token: int) -> None:
        if not ours:
            raise LostLease(f"token {token} is not current")

    found = cast("Any", object.__new__(Engine))
    found.store, found.recovered = SimpleNamespace(check_token=check), SimpleNamespace(token=3)
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
