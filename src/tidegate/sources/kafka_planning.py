"""Which records come next: ranges of partitions for an epoch, shared out to tasks.

    begin and end of each partition -> [taken] -> ranges -> [grouped] -> the ranges of each task

Offsets stand for rows here: where transactions or compaction left holes, there are fewer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapreplace
from typing import Final

_WORTH_A_TASK: Final = 5_000
"""Fewer rows than this are read faster than another task is begun."""
_UNEVEN: Final = 0.1
"""By so much the largest task may be over the mean before partitions are cut."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Range:
    """The records [begin, end) of a partition, which is named by its place in the log."""

    place: int
    begin: int
    end: int

    @property
    def size(self) -> int:
        """How many offsets there are."""
        return self.end - self.begin


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouped:
    """Ranges in the order of partitions and offsets, and which of them a task reads.

    No task reads two ranges of one partition.
    """

    ranges: tuple[Range, ...]
    tasks: tuple[tuple[int, ...], ...]

    @property
    def task_sizes(self) -> tuple[int, ...]:
        """Beside `ranges`: how many offsets the task of each reads in all."""
        sizes = {}
        for task in self.tasks:
            size = _size([self.ranges[place] for place in task])
            sizes.update(dict.fromkeys(task, size))
        return tuple(sizes[place] for place, _ in enumerate(self.ranges))


def taken(begin: Mapping[int, int], end: Mapping[int, int], max_rows: int) -> tuple[Range, ...]:
    """What an epoch takes of the partitions that have a backlog: `max_rows` in all.

    Each gets a share by its backlog, so that all come to their end together, and at least one
    record, even if that makes more than `max_rows`.

    >>> [part.size for part in taken({0: 0, 1: 500}, {0: 100, 1: 1400}, 100)]
    [11, 89]
    """
    backlog = {place: end[place] - first for place, first in begin.items() if end[place] > first}
    shares = _shared(backlog, max_rows)
    return tuple(
        Range(place=place, begin=begin[place], end=begin[place] + share)
        for place, share in sorted(shares.items())
    )


def _shared(backlog: Mapping[int, int], room: int) -> dict[int, int]:
    """One for each, and the rest in proportion; fractions go to those that miss most."""
    total = sum(backlog.values())
    if total <= room:
        return dict(backlog)
    shares = dict.fromkeys(backlog, 1)
    rest, waiting = room - len(backlog), total - len(backlog)
    if rest <= 0:
        return shares
    fractions = {}
    for place, lag in backlog.items():
        share, fractions[place] = divmod((lag - 1) * rest, waiting)
        shares[place] += share
    missing = room - sum(shares.values())
    for place in sorted(fractions, key=lambda each: -fractions[each])[:missing]:
        shares[place] += 1
    return shares


def grouped(ranges: Sequence[Range], tasks: int, *, worth_a_task: int = _WORTH_A_TASK) -> Grouped:
    """Share ranges out to at most `tasks` tasks of similar size.

    Partitions stay whole where that comes out even. Tasks that are not worth it are not made.
    """
    total = sum(part.size for part in ranges)
    wanted = max(1, min(tasks, total // worth_a_task))
    groups = _packed(ranges, wanted)
    if max((_size(group) for group in groups), default=0) > (1 + _UNEVEN) * total / wanted:
        groups = _cut(ranges, wanted)
    return _in_order([group for group in groups if group])


def _size(group: Sequence[Range]) -> int:
    return sum(part.size for part in group)


def _packed(ranges: Sequence[Range], tasks: int) -> list[list[Range]]:
    """Whole ranges, the largest first, each to the task that has least: of several the first."""
    groups: list[list[Range]] = [[] for _ in range(tasks)]
    least = [(0, nth) for nth in range(tasks)]
    for part in sorted(ranges, key=lambda each: (-each.size, each)):
        size, nth = least[0]
        groups[nth].append(part)
        heapreplace(least, (size + part.size, nth))
    return groups


def _cut(ranges: Sequence[Range], tasks: int) -> list[list[Range]]:
    """All ranges one behind the other, cut where a task has its share."""
    total, taken_so_far = _size(ranges), 0
    groups: list[list[Range]] = []
    rest = sorted(ranges, reverse=True)
    for nth in range(1, tasks + 1):
        group: list[Range] = []
        while rest and taken_so_far < total * nth // tasks:
            part = rest.pop()
            room = total * nth // tasks - taken_so_far
            if part.size > room:
                rest.append(replace(part, begin=part.begin + room))
                part = replace(part, end=part.begin + room)
            group.append(part)
            taken_so_far += part.size
        groups.append(group)
    return groups


def _in_order(groups: Sequence[Sequence[Range]]) -> Grouped:
    ranges = tuple(sorted(part for group in groups for part in group))
    places = {part: place for place, part in enumerate(ranges)}
    tasks = tuple(tuple(sorted(places[part] for part in group)) for group in groups)
    return Grouped(ranges=ranges, tasks=tasks)
