"""Connections that a process keeps, for work that comes again and again, as that of tasks.

A fork must not use those of its parent: each process has its own. One that saw an exception is
closed. There is one for each thread that needs one at the same time: in a task, one.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Final, TypeAlias

from tidegate.errors import StoreUnavailable
from tidegate.postgres.address import Address
from tidegate.postgres.connecting import Connection, connect
from tidegate.postgres.refusals import told

_Key: TypeAlias = tuple[int, Address]

_IDLE: Final[dict[_Key, list[Connection]]] = {}
_LOCK: Final = threading.Lock()


@contextmanager
def pooled(address: Address, name: str) -> Iterator[Connection]:
    """A connection that nobody else has meanwhile; errors of psycopg come out as ours."""
    connection = _taken(address) or connect(address, name)
    try:
        with told(address):
            yield connection
    except BaseException as error:
        connection.close()
        if isinstance(error, StoreUnavailable):  # what died with it is of no use either
            _close(key for key in _mine() if key[1] == address)
        raise
    _close_at_exit()
    with _LOCK:
        _IDLE.setdefault((os.getpid(), address), []).append(connection)


def close_idle() -> None:
    """Close what this process keeps."""
    _close(_mine())


@cache
def _close_at_exit() -> None:
    atexit.register(close_idle)


def _mine() -> list[_Key]:
    return [key for key in [*_IDLE] if key[0] == os.getpid()]


def _close(keys: Iterable[_Key]) -> None:
    with _LOCK:
        idle = [connection for key in keys for connection in _IDLE.pop(key, ())]
    for connection in idle:
        connection.close()


def _taken(address: Address) -> Connection | None:
    with _LOCK:
        idle = _IDLE.get((os.getpid(), address))
        return idle.pop() if idle else None
