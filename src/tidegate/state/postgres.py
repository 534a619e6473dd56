"""The store for production: everything of a pipeline in one schema of PostgreSQL.

    tasks -> [journal: COPY] -> commit: one transaction -> [manifest, offsets, logs] -> fold

Staged parts are the journal: a commit names them and copies no byte. The driver has three
connections: one that holds the lease, one that commits, one that folds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tidegate import faults
from tidegate.errors import ConfigError, Problem, StoreUnavailable
from tidegate.postgres.address import Address
from tidegate.postgres.connecting import Connection
from tidegate.state.ledger import Ledger, Standing
from tidegate.state.postgres_database import SNAPSHOT, PostgresDatabase
from tidegate.state.postgres_depot import PostgresDepot
from tidegate.state.postgres_lease import Lease, new_session, this_process
from tidegate.state.postgres_text import storable
from tidegate.state.protocol import Folded, Manifest, Recovered

_LONGEST_PIPELINE: Final = 1_000
"""Bytes of a name that an index can hold, beside others."""
_DROPPED_AT_ONCE: Final = 64
"""Parts per transaction of a garbage collection."""


class PostgresStore:
    """State of one pipeline in a schema, which many pipelines may share.

    A store may be opened again, as after a failure: then it forgets everything and recovers.
    Its methods may be called from several threads.
    """

    def __init__(self, address: Address, pipeline: str) -> None:
        if (size := len(storable(pipeline).encode())) > _LONGEST_PIPELINE:
            expected = f"at most {_LONGEST_PIPELINE} bytes with kind='postgres'"
            raise ConfigError([Problem("name", f"{size} bytes", expected)])
        self._address, self._pipeline = address, pipeline
        self._depot = PostgresDepot(address, pipeline)
        self._one_at_a_time = threading.RLock()
        self._lease: Lease | None = None
        self._session: str | None = None
        self._tables = PostgresDatabase(address, pipeline)
        self._folds = PostgresDatabase(address, pipeline, renews=True)
        self._ledger = Ledger(storable(pipeline), self._tables)
        self._fold_ledger = Ledger(storable(pipeline), self._folds)

    @property
    def depot(self) -> PostgresDepot:
        """For tasks, wherever they run."""
        return self._depot

    def open(self) -> Recovered:
        """Take the pipeline over, make what is missing, bring the tables up to date.

        Raises `ConfigError` for a server that cannot keep state, or a role that may not;
        `StoreUnavailable` where it cannot be reached.
        """
        with self._one_at_a_time:
            self.close()
            self._session = new_session()
            try:
                self._lease = Lease.take(self._address, self._pipeline, self._session)
                self._tables.open(self._session)
                self._folds.open(self._session)
                self._take_over()
                with self._tables.transaction(SNAPSHOT):
                    return self._ledger.recovered(self._ledger.standing())
            except BaseException:
                self.close()
                raise

    def _take_over(self) -> None:
        """Raise the token, whatever a driver that lost the lease may still hold in its sleep."""
        pipeline, session = {"pipeline": storable(self._pipeline)}, self._session
        row = self._tables.run("find_holder", pipeline).fetchone()
        if row is not None:
            self._tables.run("end_transactions", {"session": row[1]})
        with self._tables.transaction():
            self._ledger.take_over(holder=this_process(), session=session)

    def adopt(self, token: int, plan: Mapping[str, Any]) -> None:
        """Keep the plan for the next commit under this token; a crash before it forgets it."""
        self._ledger.adopt(token, plan)

    def check(self, token: int) -> None:
        """Raise `LostLease` unless the token is current."""
        self._ledger.check(token)

    def commit(
        self,
        token: int,
        manifest: Manifest,
        also: Callable[[Connection], object] | None = None,
    ) -> None:
        """One transaction: all of the manifest, and what `also` writes beside it, or nothing.

        Raises `StoreUnavailable` where the connection is lost: it may be committed, or not, and
        `open` says which.
        """
        self._check_lease(token)
        beside = None if also is None else lambda: also(self._tables.connection())
        self._ledger.commit(token, manifest, beside)

    def _check_lease(self, token: int) -> None:
        """Commit nothing more where others could begin: take the pipeline over again first.

        The token would keep two drivers apart all the same.
        """
        if self._lease is not None and self._lease.lost:
            self._ledger.check(token)
            raise StoreUnavailable(
                f"the connection that holds pipeline {self._pipeline!r} was lost: "
                f"{self._address.place}"
            )

    def published(self, token: int, epoch: int) -> None:
        """Forget manifests that are out, but the last."""
        self._ledger.published(token, epoch)

    def fold(self, token: int, tables: Sequence[Folded]) -> None:
        """Some keys at a time, on a connection of its own: commits go on meanwhile.

        A key of which a later epoch has been folded stays as it is.
        """
        self._fold_ledger.fold(token, tables)

    def collect_garbage(self, token: int) -> int:
        """Some parts at a time."""
        dropped, last = 0, _DROPPED_AT_ONCE
        while last == _DROPPED_AT_ONCE:
            with self._ledger.held(token) as standing:
                last = self._drop_garbage(token, standing)
            dropped += last
        return dropped

    def _drop_garbage(self, token: int, standing: Standing) -> int:
        needed = [part.name for part in self._ledger.needed_parts(standing)]
        faults.reached("garbage")
        values = {
            "pipeline": storable(self._pipeline),
            "token": token,
            "epoch": standing.epoch,
            "needed": needed,
            "at_most": _DROPPED_AT_ONCE,
        }
        (dropped,) = self._tables.run("drop_garbage", values).fetchone()
        return int(dropped)

    def reset(self, token: int, then: Manifest | None = None) -> None:
        """Forget all, with the plan and what is still to publish; parts become garbage.

        What `then` says is committed in the same transaction.
        """
        self._ledger.reset(token, then)

    def close(self) -> None:
        """Close connections and let others have the pipeline; what is committed stays."""
        with self._one_at_a_time:
            lease, self._lease = self._lease, None
            self._ledger.forget_plan()
            self._tables.close()
            self._folds.close()
            if lease is not None:
                lease.release()
