"""Incarnations: which state rows belong to, and which state it came from.

    <drawn with the state>  -> reset ->  <drawn with the state>.1.<drawn by the reset>  -> ...

A state keeps the first part for ever, and every reset counts one more. State that was made
anew, as after its folder was deleted, shares neither with the one that was there before.
"""

from __future__ import annotations

import re
import uuid
from typing import Final, NamedTuple

_RESET: Final = re.compile(r"(?P<state>.*)\.(?P<resets>\d+)\.[0-9a-f]{8}", re.DOTALL)


def new_incarnation() -> str:
    """The first one of a state."""
    return str(uuid.uuid4())


def after_reset(incarnation: str) -> str:
    """One that no other reset has, not even of a copy of the same state."""
    state, resets = _parts(incarnation)
    return f"{state}.{resets + 1}.{uuid.uuid4().hex[:8]}"


def continues(incarnation: str, earlier: str) -> bool:
    """Whether state of `earlier` may have become state of `incarnation`, by resets alone.

    Two resets of copies of one state have the same count: neither continues the other.

    >>> continues("a", "a"), continues("a.2.0123abcd", "a"), continues("a", "a.1.0123abcd")
    (True, True, False)
    """
    mine, other = _parts(incarnation), _parts(earlier)
    return incarnation == earlier or (mine.state == other.state and mine.resets > other.resets)


class _Parts(NamedTuple):
    state: str
    resets: int


def _parts(incarnation: str) -> _Parts:
    found = _RESET.fullmatch(incarnation)
    return _Parts(found["state"], int(found["resets"])) if found else _Parts(incarnation, 0)
