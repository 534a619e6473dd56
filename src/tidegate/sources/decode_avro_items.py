"""Items of Avro's arrays and maps, which come in runs, each behind their number.

    rows -> the nth items of all rows at once -> [few rows are left] -> one row after the other

Rounds over all rows cost the same however few have items left: the last ones are walked through
by themselves, so that a long array, or a number of items that is none, costs what its bytes do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from tidegate.core.arrays import Int64s
from tidegate.sources.decode_avro_bytes import (
    UNREADABLE,
    Block,
    Rows,
    jumped,
    long_at,
    longs,
    moved,
    refused,
)

Places = npt.NDArray[np.intp]
Step = Callable[[Rows, Places], Int64s]
"""Takes an item of each of some rows, which have these places; gives the positions behind."""

_FEW: Final = 128
"""Rounds pay for more rows than this."""
_MOST: Final = 2**31 - 1
"""So many items may a run have whose items have no bytes."""


class Item(Protocol):
    """What can be passed over."""

    @property
    def width(self) -> int | None:
        """How many bytes every value has; None: they differ."""
        ...

    def skip(self, block: Block, rows: Rows) -> Int64s:
        """The positions behind the values."""
        ...

    def past(self, data: bytes, at: int) -> int:
        """The position behind one value; raises one of `UNREADABLE`."""
        ...


def skip_items(block: Block, rows: Rows, item: Item) -> Int64s:
    """The positions behind all items; runs whose bytes are known are jumped over."""
    walk = _Walk(block, rows)
    while len(walk.open) > _FEW:
        walk.begin_runs(item)
        walk.take(lambda some, _: item.skip(block, some))
    for row in walk.open.tolist():
        data, left = walk.rest(row)
        try:
            walk.at[row] += past_items(item, data, 0, left)
        except UNREADABLE:
            walk.at[row] = block.nowhere
    return walk.at


def read_items(block: Block, rows: Rows, item: Item, step: Step) -> Int64s:
    """The positions behind all items, of which `step` takes some at a time; those of a row in
    their order.
    """
    walk = _Walk(block, rows)
    while len(walk.open) > _FEW:
        walk.begin_runs(None)
        walk.take(step)
    for row in walk.open.tolist():
        data, left = walk.rest(row)
        try:
            spans, size = _spans(item, data, left)
        except UNREADABLE:
            walk.at[row] = block.nowhere
            continue
        begin, end = (np.array(spans, np.int64).reshape(-1, 2) + walk.at[row]).T
        taken = step(Rows(begin.copy(), end.copy()), np.full(len(begin), row))
        walk.at[row] = walk.at[row] + size if (taken == end).all() else block.nowhere
    return walk.at


def past_items(item: Item, data: bytes, at: int, left: int = 0) -> int:
    """The position behind all items of one row, of whose first run so many are left."""
    while True:
        for _ in range(left):
            at = item.past(data, at)
        run = _run_at(data, at, item.width)
        at, left = run.at, run.items
        if not left:
            return at
        size = left * item.width if item.width is not None else run.size
        if size is not None:
            at, left = jumped(data, at, size), 0


def _spans(item: Item, data: bytes, left: int) -> tuple[list[tuple[int, int]], int]:
    """Where each item of one row begins and ends, and where all of them do."""
    spans: list[tuple[int, int]] = []
    at = 0
    while True:
        for _ in range(left):
            begin, at = at, item.past(data, at)
            spans.append((begin, at))
        run = _run_at(data, at, None)
        at, left = run.at, run.items
        if not left:
            return spans, at


class _Run(NamedTuple):
    """Items to come: how many, their bytes where they are known, and where they begin."""

    items: int
    size: int | None
    at: int


def _run_at(data: bytes, at: int, width: int | None) -> _Run:
    """The run at a position; raises `ValueError` for more items than bytes."""
    count, at = long_at(data, at)
    size = None
    if count < 0:  # then the bytes of the run come next
        size, at = long_at(data, at)
        count = -count
    most = len(data) - at
    if not 0 <= (size or 0) <= most or count > (_MOST if width == 0 else most):
        raise ValueError("a run of more than there is")
    return _Run(count, size, at)


def _runs(block: Block, rows: Rows, width: int | None) -> tuple[Int64s, Int64s, Int64s]:
    """The run at each position: its items, its bytes or -1, and where they begin.

    A row with fewer bytes than items has none, and goes nowhere.
    """
    count, at = longs(block, rows)
    size = np.full(len(count), -1)
    sized = np.flatnonzero(count < 0)
    size[sized], at[sized] = longs(block, Rows(at[sized], rows.end[sized]))
    wrong = size > rows.end - at
    wrong[sized] |= size[sized] < 0
    count = np.abs(count)
    wrong |= (count < 0) | (count > (_MOST if width == 0 else rows.end - at))
    at = refused(block, at, wrong)
    count[at == block.nowhere] = 0
    return count, size, at


class _Walk:
    """Rows on their way through their items; those that are not through are open."""

    def __init__(self, block: Block, rows: Rows) -> None:
        self._block, self._end = block, rows.end
        self.at = rows.at.copy()
        self.open: Places = np.flatnonzero(self.at != block.nowhere)
        self._left = np.zeros(len(rows.at), np.int64)

    def begin_runs(self, passed: Item | None) -> None:
        """Begin the next run of rows whose last one is over; one of none is the last.

        Items that are only to be passed are jumped over, where their bytes are known.
        """
        due = self.open[self._left[self.open] == 0]
        width = None if passed is None else passed.width
        count, size, at = _runs(self._block, Rows(self.at[due], self._end[due]), width)
        self._left[due], self.at[due] = count, at
        self.open = self.open[self._left[self.open] > 0]
        if passed is not None:
            size = size if width is None else count * width
            known = np.flatnonzero((count > 0) & (size >= 0))
            jumping = due[known]
            here = Rows(at[known], self._end[jumping])
            self.at[jumping] = moved(self._block, here, size[known])
            self._left[jumping] = 0
            self.open = self.open[self.at[self.open] != self._block.nowhere]

    def take(self, step: Step) -> None:
        """Take an item of every row that has some left in its run."""
        some = self.open[self._left[self.open] > 0]
        if len(some):
            self.at[some] = step(Rows(self.at[some], self._end[some]), some)
            self._left[some] -= 1
            self.open = self.open[self.at[self.open] != self._block.nowhere]

    def rest(self, row: int) -> tuple[bytes, int]:
        """The bytes of a row that are left, and how many items are left in its run."""
        return self._block.data[self.at[row] : self._end[row]].tobytes(), int(self._left[row])
