"""Partitions that have rows and yet hold the watermark: all that they bring is rejected.

    what slices saw, the watermark -> [Holdups] -> a warning that names the partition

Rejected rows never move a watermark, and who brings rows is not idle. So where somebody writes what
nobody can read, or without a time, all windows wait for that partition, as long as it goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from tidegate.core.watermark import PipelineWatermark
from tidegate.engine.inputs import Input
from tidegate.tasks.orders import JobContext, Seen
from tidegate.text import elapsed_text

logger = logging.getLogger("tidegate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Brought:
    """What a source, or a partition of one, brought into an epoch."""

    source: str
    partition: int
    """0 where the source is one."""
    rows: int
    """Admitted ones."""
    rejected: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdup:
    """A partition that holds the watermark, and of which no row was admitted meanwhile."""

    source: str
    partition: int
    since_us: int
    rejected: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdups:
    """Those of a run, by what they are called in the watermark."""

    by_key: Mapping[str, Holdup] = field(default_factory=dict)
    told: frozenset[str] = frozenset()
    """Those that people know of; an admitted row ends that."""

    def after(
        self, brought: Mapping[str, Brought], watermark: PipelineWatermark, *, now_us: int
    ) -> Holdups:
        """Those behind an epoch."""
        healed = {key for key, each in brought.items() if each.rows}
        holding = _holding(watermark) - healed
        held = {key: each for key, each in self.by_key.items() if key in holding}
        for key, each in brought.items():
            if key in holding and each.rejected:
                new = Holdup(source=each.source, partition=each.partition, since_us=now_us)
                before = held.get(key, new)
                held[key] = replace(before, rejected=before.rejected + each.rejected)
        return Holdups(by_key=held, told=self.told - healed)

    def due(self, watermark: PipelineWatermark, *, now_us: int) -> dict[str, Holdup]:
        """Those that have lasted for longer than silence would, and were not told."""
        return {
            key: each
            for key, each in self.by_key.items()
            if key not in self.told and now_us - each.since_us > watermark.idleness_us(key)
        }


def brought_by(context: JobContext, seen: Iterable[Seen]) -> dict[str, Brought]:
    """What all slices of an epoch have brought, by what is called so in the watermark."""
    brought: dict[str, Brought] = {}
    for said in seen:
        source = context.sources[said.source]
        key = source.watermark_key(said.partition)
        before = brought.get(key)
        brought[key] = Brought(
            source=source.name,
            partition=said.partition,
            rows=said.rows + (before.rows if before else 0),
            rejected=sum(said.rejected.values()) + (before.rejected if before else 0),
        )
    return brought


def warn_of_holdups(
    holdups: Holdups,
    context: JobContext,
    inputs: Mapping[str, Input],
    seen: Iterable[Seen],
    watermark: PipelineWatermark,
    now_us: int,
) -> Holdups:
    """Those behind an epoch; who holds the watermark for too long is named, once."""
    holdups = holdups.after(brought_by(context, seen), watermark, now_us=now_us)
    due = holdups.due(watermark, now_us=now_us)
    for each in due.values():
        name = inputs[each.source].partition_name(each.partition)
        words = {
            "pipeline": context.pipeline,
            "source": each.source,
            "partition": name,
            "rejected": each.rejected,
        }
        logger.warning(
            "%s holds the watermark back: all %d rows that it brought in %s were rejected",
            f"partition {name} of source {each.source}" if name else f"source {each.source}",
            each.rejected,
            elapsed_text(now_us - each.since_us),
            extra=words,
        )
    return replace(holdups, told=holdups.told | due.keys())


def _holding(watermark: PipelineWatermark) -> frozenset[str]:
    """Those that count and are behind others that do."""
    reached_us = {
        key: each.watermark_us
        for key, each in watermark.sources.items()
        if key not in watermark.left_out
    }
    furthest_us = max(reached_us.values(), default=0)
    least_us = min(reached_us.values(), default=0)
    return frozenset(key for key, us in reached_us.items() if us == least_us and us < furthest_us)
