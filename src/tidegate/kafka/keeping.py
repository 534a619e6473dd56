"""Clients that a process keeps between uses, for as long as they are used.

    take -> use -> give back, or close it if anything went wrong

A new client costs as much as reading a hundred thousand records. One that is of no more use has
threads all the same, and knocks for ever where a broker was: who was not used for a minute is
closed when the next one is given back. A fork uses none of its parent's, and ends none.
"""

from __future__ import annotations

import ctypes
import math
import os
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

_UNUSED_S: Final = 60.0
_KEEPERS: Final[list[Keeper[Any, Any]]] = []

_Client = TypeVar("_Client")
_Key = TypeVar("_Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class _Kept(Generic[_Client]):
    client: _Client
    since_s: float


class Keeper(Generic[_Key, _Client]):
    """Clients of one kind, by what makes them alike.

    Whatever is done here is one operation on a dictionary: a lock could be held while another
    thread forks, and for ever in that fork.
    """

    def __init__(
        self, close: Callable[[_Client], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`close` ends a client that nobody uses; it may take a moment."""
        self._close, self._clock = close, clock
        self._kept: dict[tuple[int, _Key], _Kept[_Client]] = {}
        _KEEPERS.append(self)

    def take(self, key: _Key) -> _Client | None:
        """The client that is kept, for the caller alone; None: there is none."""
        found = self._kept.pop((os.getpid(), key), None)
        return None if found is None else found.client

    def give(self, key: _Key, client: _Client) -> None:
        """Keep it; of those that were taken at the same time one."""
        place, now_s = (os.getpid(), key), self._clock()
        kept = _Kept(client, now_s)
        if self._kept.setdefault(place, kept) is not kept:
            self._close(client)
        self.close_unused(now_s - _UNUSED_S)

    def shared(self, key: _Key, make: Callable[[], _Client]) -> _Client:
        """The client that all use at once; it must end by itself when the last one lets it go."""
        place, now_s = (os.getpid(), key), self._clock()
        found = self._kept.get(place)
        client = make() if found is None else found.client
        self._kept[place] = _Kept(client, now_s)
        self.close_unused(now_s - _UNUSED_S)
        return client

    def close_unused(self, since_s: float) -> None:
        """Close those of this process that were not used behind that time."""
        for place, kept in [*self._kept.items()]:
            unused = place[0] == os.getpid() and kept.since_s <= since_s
            if unused and (found := self._kept.pop(place, None)) is not None:
                self._close(found.client)

    def hold_forever(self) -> None:
        """See to it that none that is here now is ever ended in this process."""
        for kept in self._kept.values():
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))


def close_idle() -> None:
    """Close what this process keeps, and nobody uses now."""
    for each in _KEEPERS:
        each.close_unused(math.inf)


def _leave_to_parent() -> None:
    """Librdkafka's threads stay behind in a fork, and who ends a client waits for them.

    Without it a fork that ends as Python does, hangs for ever.
    """
    for each in _KEEPERS:
        each.hold_forever()


os.register_at_fork(after_in_child=_leave_to_parent)
