"""The watermark of an epoch, from what all its slices say: the same on driver and in tasks."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.core.watermark import Observation, PipelineWatermark
from tidegate.spark.orders import Seen, Standing, StepOrder


def watermark_after(plan: StepOrder, standing: Standing, seen: Sequence[Seen]) -> PipelineWatermark:
    """The watermark behind the epoch; a flush says itself where it goes."""
    if plan.flush_us is not None:
        return plan.watermark.flushed(plan.flush_us)
    heard: dict[str, Observation] = {}
    for said in seen:
        source = standing.sources[said.source]
        if said.highest_us is not None and source.name not in plan.stated_us:
            key = source.watermark_key(said.partition)
            heard[key] = _also(heard.get(key), said.rows, said.highest_us)
    taken_in = plan.watermark.observed(heard).advanced(plan.stated_us)
    return taken_in.aligned(now_us=plan.now_us, arrival_us=plan.arrival_us)


def _also(before: Observation | None, rows: int, highest_us: int) -> Observation:
    if before is None or before.highest_us is None:
        return Observation(rows=rows, highest_us=highest_us)
    return Observation(rows=before.rows + rows, highest_us=max(before.highest_us, highest_us))
