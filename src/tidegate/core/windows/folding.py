"""Folding: how held sessions and new rows of a key become sessions.

Per key, sessions (by first event) and rows (by time, then position; at equal times sessions
first) are one sequence, folded from left to right. The next item joins the current session
if it touches it and the session stays shorter than the cap. If it touches but would reach
the cap, the current session is *sealed* and the item becomes current; if it does not touch,
it becomes current and nothing is sealed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidegate.core.arrays import Bools, Int64s, order_within, pack


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """What is folded: first and last event of each item, and `close_us`, where it ends.

    An item is `[first_us, close_us)`, and close_us is one microsecond past last + gap: two items
    touch, a distance of exactly the gap included, if they overlap. Items are given in the order
    that decides ties: held sessions, then rows by position.
    """

    key: Int64s
    first_us: Int64s
    last_us: Int64s
    close_us: Int64s

    def take(self, index: Int64s) -> Items:
        """The items at `index`."""
        return Items(
            key=self.key[index],
            first_us=self.first_us[index],
            last_us=self.last_us[index],
            close_us=self.close_us[index],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """Sessions, ascending by key and first event, and the items of each.

    `item` lists all items session by session, in the order they were folded; `session` is
    the session of each of these.
    """

    key: Int64s
    first_us: Int64s
    last_us: Int64s
    close_us: Int64s
    sealed: Bools
    item: Int64s
    session: Int64s

    def __len__(self) -> int:
        return len(self.key)


def fold(items: Items, cap_us: int) -> Folded:
    """Sessions of the items, by the rule above."""
    order = order_within(items.key, items.first_us)
    items = items.take(order)
    begins, sealed = _cut_at_cap(items, _runs(items), cap_us)
    session = np.cumsum(begins) - 1
    starts = np.flatnonzero(begins)
    return Folded(
        key=items.key[starts],
        first_us=items.first_us[starts],
        last_us=_highest(items.last_us, starts),
        close_us=_highest(items.close_us, starts),
        sealed=sealed[starts],
        item=order,
        session=session,
    )


def _runs(items: Items) -> Bools:
    """True where an item touches nothing before it: chains of touching items begin there."""
    first, close = pack(items.key, items.first_us, items.close_us)
    begins = np.ones(len(first), np.bool_)
    np.greater_equal(first[1:], np.maximum.accumulate(close)[:-1], out=begins[1:])
    return begins


def _highest(values: Int64s, starts: Int64s) -> Int64s:
    return np.maximum.reduceat(values, starts) if len(starts) else values


def _cut_at_cap(items: Items, begins: Bools, cap_us: int) -> tuple[Bools, Bools]:
    """Where sessions begin, and which of them are sealed.

    Only a chain as long as the cap can be cut; such chains are rare, and looped over.
    """
    sealed = np.zeros(len(begins), np.bool_)
    starts = np.flatnonzero(begins)
    length_us = _highest(items.last_us, starts) - items.first_us[starts]
    ends = np.append(starts[1:], len(begins))
    for nth in np.flatnonzero(length_us >= cap_us):
        chain = slice(int(starts[nth]), int(ends[nth]))
        for begin, seals in _cuts(items, chain, cap_us):
            begins[begin] = True
            sealed[begin] = seals
    return begins, sealed


def _cuts(items: Items, chain: slice, cap_us: int) -> list[tuple[int, bool]]:
    """The sessions of one chain: where each begins, and whether it is sealed."""
    cuts = []
    begin, (first, last, close) = chain.start, _bounds(items, chain.start)
    for nth in range(chain.start + 1, chain.stop):
        next_first, next_last, next_close = _bounds(items, nth)
        touches = next_first < close
        if touches and max(last, next_last) - first < cap_us:
            last, close = max(last, next_last), max(close, next_close)
        else:
            cuts.append((begin, touches))
            begin, first, last, close = nth, next_first, next_last, next_close
    return [*cuts, (begin, False)]


def _bounds(items: Items, nth: int) -> tuple[int, int, int]:
    return int(items.first_us[nth]), int(items.last_us[nth]), int(items.close_us[nth])
