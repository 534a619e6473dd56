"""The state of an operator laid out over shards: who holds which segments."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.core.hashing import key_groups_of
from tidegate.state.protocol import Entry, Stacks, entry_of
from tidegate.tasks.orders import OperatorReport


def laid_out(stacks: Stacks | None, shards: int) -> tuple[tuple[Entry, ...], ...]:
    """The segments for each of `shards`, whatever number of shards wrote them.

    A segment that belonged to several of the new shards is named by each, for its own key
    groups. Segments of different old shards share no key, so any order between them is right.
    """
    if stacks is None:
        return ((),) * shards
    if len(stacks.shards) == shards:
        return stacks.shards
    return tuple(_of_shard(stacks, key_groups_of(nth, shards)) for nth in range(shards))


def _of_shard(stacks: Stacks, owned: range) -> tuple[Entry, ...]:
    parts = []
    for entry in (entry for stack in stacks.shards for entry in stack):
        first, end = max(entry.first_group, owned.start), min(entry.end_group, owned.stop)
        if first < end:
            parts.append(Entry(part=entry.part, first_group=first, end_group=end))
    return tuple(parts)


def stepped(
    before: Sequence[Sequence[Entry]], reports: Sequence[OperatorReport]
) -> tuple[tuple[Entry, ...], ...]:
    """The segments of each shard after an epoch; `reports` are those of an operator, by shard."""
    after = []
    for shard, (report, held) in enumerate(zip(reports, before, strict=True)):
        stack = [held[nth] for nth in report.keeps]
        if report.segment is not None:
            stack.append(entry_of(report.segment, key_groups_of(shard, len(reports))))
        after.append(tuple(stack))
    return tuple(after)


def bytes_of(stacks: Sequence[Sequence[Entry]]) -> int:
    """How much state there is: every part once, however many shards name it."""
    return sum({entry.part.name: entry.part.bytes for held in stacks for entry in held}.values())


def rows_of(stacks: Sequence[Sequence[Entry]]) -> int:
    """How many rows state has, with those that newer ones supersede: never too few."""
    return sum({entry.part.name: entry.part.rows for held in stacks for entry in held}.values())
