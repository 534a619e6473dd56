"""The embedded store: one machine, durable, one database file that people can open.

    tasks -> [parts: files] -> commit -> [tidegate.db: manifests, offsets, logs, readable state]

Only the driver writes the database. Each write is one transaction that first looks whether the
token is still ours, so a driver that was paused and woke behind a takeover changes nothing.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate import faults
from tidegate.errors import LostLease, PipelineInUse
from tidegate.state.filelock import FileLock, holder_of
from tidegate.state.layout import Layout
from tidegate.state.ledger import Ledger
from tidegate.state.parts import SqliteDepot
from tidegate.state.protocol import Folded, Manifest, Part, Recovered
from tidegate.state.sqlite_schema import connect, queries, transaction


class SqliteStore:
    """State of one pipeline in a folder of this machine, which many pipelines may share.

    A store may be opened again, as after a failure: then it forgets everything and recovers.
    Its methods may be called from several threads.
    """

    def __init__(self, folder: Path, pipeline: str, *, durable: bool = True) -> None:
        self._layout = Layout(folder.absolute(), pipeline)
        self._depot = SqliteDepot(self._layout.parts, durable)
        self._durable = durable
        self._one_at_a_time = threading.RLock()
        self._lock: FileLock | None = None
        self._connection: sqlite3.Connection | None = None
        self._ledger = Ledger(pipeline, _Tables(self._one_at_a_time, self._database, self._depot))

    @property
    def depot(self) -> SqliteDepot:
        """For tasks on this machine."""
        return self._depot

    def open(self) -> Recovered:
        """Take the pipeline over, make what is missing, bring the tables up to date.

        Raises `StateFormatError` where a later version has written what this one cannot read.
        """
        with self._one_at_a_time:
            self.close()
            try:
                self._layout.make()
                self._lock = self._locked()
                self._connection = self._connected()
                with transaction(self._connection):
                    return self._ledger.recovered(self._ledger.take_over())
            except BaseException:
                self.close()
                raise

    def adopt(self, token: int, plan: Mapping[str, Any]) -> None:
        """Keep the plan for the next commit under this token; a crash before it forgets it."""
        self._ledger.adopt(token, plan)

    def check(self, token: int) -> None:
        """Raise `LostLease` unless the token is current."""
        self._ledger.check(token)

    def commit(
        self, token: int, manifest: Manifest, also: Callable[[Any], object] | None = None
    ) -> None:
        """One transaction: all of the manifest, or nothing.

        That parts were staged is seen from the names and sizes of their files.
        """
        if also is not None:
            raise TypeError("rows of a target cannot be in the commit of a store in files")
        self._ledger.commit(token, manifest)

    def published(self, token: int, epoch: int) -> None:
        """Forget manifests that are out, but the last."""
        self._ledger.published(token, epoch)

    def fold(self, token: int, tables: Sequence[Folded]) -> None:
        """Some keys at a time: commits in between wait for a few milliseconds at most.

        A key of which a later epoch has been folded stays as it is.
        """
        self._ledger.fold(token, tables)

    def collect_garbage(self, token: int) -> int:
        """First the journal forgets, then files go: a crash in between leaves garbage, no hole."""
        with self._ledger.held(token) as standing:
            needed = self._ledger.needed_parts(standing)
        faults.reached("garbage")
        return self._depot.remove_garbage(needed, token, standing.epoch)

    def reset(self, token: int, then: Manifest | None = None) -> None:
        """Forget all, with the plan and what is still to publish; parts become garbage.

        What `then` says is committed in the same transaction.
        """
        self._ledger.reset(token, then)

    def close(self) -> None:
        """Close the database and release the lock; what is committed stays."""
        with self._one_at_a_time:
            connection, self._connection = self._connection, None
            lock, self._lock = self._lock, None
            self._ledger.forget_plan()
            try:
                if connection is not None:
                    connection.close()
            finally:
                if lock is not None:
                    lock.release()

    def _locked(self) -> FileLock:
        lock = FileLock.take(self._layout.lock)
        if lock is None:
            raise PipelineInUse(
                f"pipeline {self._layout.pipeline!r} is run by {holder_of(self._layout.lock)}; "
                f"stop that one first (lock: {self._layout.lock})"
            )
        return lock

    def _connected(self) -> sqlite3.Connection:
        # Two drivers that make the same database at once would find it locked.
        preparing = FileLock.take(self._layout.schema_lock, wait=True)
        try:
            return connect(self._layout.database, durable=self._durable)
        finally:
            if preparing is not None:
                preparing.release()

    def _database(self) -> sqlite3.Connection:
        if self._connection is None:
            raise LostLease(f"the store of pipeline {self._layout.pipeline!r} is not open")
        return self._connection


@dataclass(frozen=True, slots=True)
class _Tables:
    """The database of a store, for its ledger."""

    one_at_a_time: threading.RLock
    connection: Callable[[], sqlite3.Connection]
    depot: SqliteDepot

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """That of the only writer: no other driver can begin one."""
        with self.one_at_a_time, transaction(self.connection()):
            yield

    def run(self, query: str, values: Mapping[str, Any]) -> sqlite3.Cursor:
        """Run a statement."""
        return self.connection().execute(queries()[query], values)

    def run_many(self, query: str, values: Sequence[Mapping[str, Any]]) -> None:
        """Run a statement for each of the rows."""
        self.connection().executemany(queries()[query], values)

    def check_staged(self, parts: Iterable[Part]) -> None:
        """Look at the files."""
        for part in parts:
            self.depot.check(part)
