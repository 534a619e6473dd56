"""Which rows come next: ranges of files for an epoch, shared out to slices.

    files behind an offset -> [take] -> ranges -> [share] -> one tuple of ranges per slice

Nothing here reads a file; where one may be cut is asked of its format.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from tidegate.sources.file_format import FileRange, Measure


class Position(NamedTuple):
    """A place in the log and a position in that file; positions are in the order of rows."""

    file: int
    at: int


class Ruler(Protocol):
    """Measures and cuts files by their place in the log."""

    def measure(self, part: FileRange) -> Measure:
        """How much is in the file of `part`."""
        ...

    def cut(self, part: FileRange, position: int) -> int:
        """The first position at or behind `position` where a row begins, or the end."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """The rows of an epoch: ranges that have rows, and where they end."""

    ranges: tuple[FileRange, ...]
    until: Position


def take(rest: Iterable[FileRange], since: Position, max_rows: int, ruler: Ruler) -> Taken:
    """Take about `max_rows` rows from the begin of `rest`: what there is from `since` on.

    Ranges without rows are passed over. `rest` is asked for a range only if it is needed.
    """
    ranges: list[FileRange] = []
    until, room = since, float(max_rows)
    for part in rest:
        rows = ruler.measure(part).rows(part.begin, part.end)
        if rows > room:
            head, _ = _parted(part, room, ruler)
            ranges.append(head)
            until = _behind(head, part)
            break
        if rows > 0:
            ranges.append(part)
        until, room = Position(part.place + 1, 0), room - rows
        if room < 1:
            break
    return Taken(ranges=tuple(ranges), until=until)


def share(
    ranges: Sequence[FileRange], slices: int, ruler: Ruler
) -> Iterator[tuple[FileRange, ...]]:
    """Share ranges out to at most `slices` slices with similar numbers of rows, in order."""
    total = sum(_rows(part, ruler) for part in ranges)
    fair = max(1.0, total / slices)
    group: list[FileRange] = []
    room, left = fair, slices
    queue = [*reversed(ranges)]
    while queue:
        part = queue.pop()
        rows = _rows(part, ruler)
        if rows > room + 0.5 and left > 1:
            part, tail = _parted(part, room, ruler)
            queue += [tail] if tail.begin < tail.end else []
            rows = _rows(part, ruler)
        group.append(part)
        room -= rows
        if room < 0.5 and left > 1:
            yield tuple(group)
            group, room, left = [], room + fair, left - 1
    if group:
        yield tuple(group)


def _rows(part: FileRange, ruler: Ruler) -> float:
    return ruler.measure(part).rows(part.begin, part.end)


def _parted(part: FileRange, rows: float, ruler: Ruler) -> tuple[FileRange, FileRange]:
    """The first `rows` rows of a range, at least one, and the others."""
    wanted = ruler.measure(part).position_after(part.begin, rows)
    at = min(part.end, ruler.cut(part, wanted))
    return replace(part, end=at), replace(part, begin=at)


def _behind(head: FileRange, whole: FileRange) -> Position:
    if head.end >= whole.end:
        return Position(whole.place + 1, 0)
    return Position(head.place, head.end)
