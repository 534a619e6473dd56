"""The lease of a pipeline: a lock of the server that lives as long as a connection.

A driver that dies loses its connection and with it the lease, at once. One that is paused keeps
both, but falls silent: the connection says something every few seconds, and the server notes
when it last did. Who has been silent for long may be taken over: its connections are cut. That
only lets another one in; what keeps the older one from committing is the token.
"""

from __future__ import annotations

import os
import re
import socket
import threading
import time
import uuid
from dataclasses import dataclass, field
from typing import Final

import psycopg
from psycopg import errors

from tidegate.errors import PipelineInUse
from tidegate.postgres.address import LONGEST_NAME, Address
from tidegate.postgres.connecting import Connection, connect
from tidegate.postgres.pooler import refuse_shared_sessions
from tidegate.postgres.refusals import told
from tidegate.state.postgres_schema import lock_number, prepare, queries
from tidegate.text import elapsed_text

BEAT_S: Final = 5.0
SILENT_S: Final = 30.0
"""A driver that has said nothing for so long, by the clock of the server, may be taken over."""
_PATIENCE_S: Final = 5.0
"""So long it may take the server to end a connection."""
_GRACE_S: Final = 0.3
"""So long it may take the server to notice that a driver has died."""
_GIVEN_UP: Final[set[str]] = set()
"""Sessions of this process that are over, although the server may not have noticed."""


def new_session() -> str:
    """The name of a driver's connections, which no other driver has."""
    host = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())
    begin = f"tidegate driver {uuid.uuid4().hex[:12]} {os.getpid()}@"
    return begin + host[: LONGEST_NAME - len(begin)]


@dataclass(frozen=True, slots=True)
class Holder:
    """Whose connection has the lease."""

    backend: int
    session: str
    silent_s: float | None


@dataclass
class Lease:
    """A pipeline that is ours, as long as the connection lives."""

    connection: Connection
    lock: int
    session: str
    lost: bool = False
    """Whether the connection ended by itself: others may have the pipeline by now."""
    _over: threading.Event = field(default_factory=threading.Event)
    _beating: threading.Thread | None = None

    @staticmethod
    def take(address: Address, pipeline: str) -> Lease:
        """Take the lease, and make what tables are missing on the way.

        Where a session of ours had it last, and the server has not noticed yet that it is over, it
        is now. Transactions in which a driver sleeps that has lost the lease are ended. Raises
        `PipelineInUse`, saying by whom.
        """
        session = new_session()
        connection = connect(address, session)
        try:
            with told(address):
                refuse_shared_sessions(connection, address, session)
                schema = prepare(connection, address)
                lock = lock_number(schema, pipeline)
                _acquire(connection, pipeline, lock)
                _end_transactions(connection, pipeline)
        except BaseException:
            connection.close()
            raise
        lease = Lease(connection, lock, session)
        lease._begin(pipeline)
        return lease

    def release(self) -> None:
        """Let others have it; at once, unless the server does not answer."""
        self._over.set()
        if self._beating is not None:
            self._beating.join(_PATIENCE_S)
            if self.lost or self._beating.is_alive():
                _GIVEN_UP.add(self.session)

    def _begin(self, pipeline: str) -> None:
        name = f"tidegate-lease-{pipeline}"
        self._beating = threading.Thread(target=self._beat, name=name, daemon=True)
        self._beating.start()

    def _beat(self) -> None:
        """Say something now and then; whoever does that also ends the connection."""
        try:
            while not self._over.wait(BEAT_S):
                self.connection.execute("SELECT 1")
            self.connection.execute(queries()["end_lease"], {"lock": self.lock})
        except psycopg.Error:
            self.lost = True
        finally:
            self.connection.close()


def _acquire(connection: Connection, pipeline: str, lock: int) -> None:
    began = time.monotonic()
    while not _tried(connection, lock):
        holder = find_holder(connection, lock)
        if holder is None:  # gone in this moment
            continue
        silent = holder.silent_s is not None and holder.silent_s >= SILENT_S
        over = (silent or holder.session in _GIVEN_UP) and _cut(connection, holder)
        if time.monotonic() - began > (_PATIENCE_S if over else _GRACE_S):
            raise PipelineInUse(_in_use(connection, pipeline, holder))
        time.sleep(0.02)


def _end_transactions(connection: Connection, pipeline: str) -> None:
    """End those of whoever had the lease last: they may hold the row of the pipeline."""
    row = connection.execute(queries()["find_holder"], {"pipeline": pipeline}).fetchone()
    if row is not None:
        connection.execute(queries()["end_transactions"], {"session": row[1]})


def _cut(connection: Connection, holder: Holder) -> bool:
    """End the connection of a holder; False: the server lets us end none of that role."""
    try:
        connection.execute(queries()["cut_connection"], {"backend": holder.backend})
    except errors.InsufficientPrivilege:
        return False
    return True


def find_holder(connection: Connection, lock: int) -> Holder | None:
    """Whose connection has the lease; None: nobody's."""
    row = connection.execute(queries()["find_lease"], {"lock": lock}).fetchone()
    return None if row is None else Holder(*row)


def holder_words(connection: Connection, pipeline: str, holder: Holder) -> str:
    """Who has the lease, for people: by their own note, if it is theirs."""
    row = connection.execute(queries()["find_holder"], {"pipeline": pipeline}).fetchone()
    backend = f"server process {holder.backend}"
    if row is None or row[1] != holder.session:  # it has only just begun
        return f"{holder.session!r} ({backend})"
    return f"{row[0]} since {row[2]} ({backend})"


def _in_use(connection: Connection, pipeline: str, holder: Holder) -> str:
    words = holder_words(connection, pipeline, holder)
    silent = holder.silent_s or 0.0
    hint = f"it can be taken over when it has been silent for {elapsed_text(1e6 * SILENT_S)}"
    if silent >= SILENT_S:
        hint = "only its own role can take it over"
    told_silence = (
        f"; silent for {elapsed_text(1e6 * silent)}, {hint}" if silent > 2 * BEAT_S else ""
    )
    return f"pipeline {pipeline!r} is run by {words}{told_silence}; stop that one first"


def _tried(connection: Connection, lock: int) -> bool:
    row = connection.execute(queries()["try_lease"], {"lock": lock}).fetchone()
    return row is not None and bool(row[0])
