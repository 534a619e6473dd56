"""The store of a pipeline, whatever database keeps its tables.

    commit | published | fold | reset -> [DatabaseStore] -> statements by name -> Database
                                                         -> staged parts       -> Parts

Each transaction first looks whether the token is still ours and holds the row of the pipeline
until its end, so a driver that was paused and woke behind a takeover changes nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, Protocol

from tidegate import faults
from tidegate.errors import EpochTaken, LostLease, StoreUnavailable
from tidegate.incarnation import after_reset, new_incarnation
from tidegate.state.filelock import this_process
from tidegate.state.library import library_version
from tidegate.state.manifest_format import (
    MIN_READER_VERSION,
    STATE_VERSION,
    decode,
    decode_manifest,
    encode,
    refuse_later_state,
)
from tidegate.state.protocol import Depot, Entry, Folded, Manifest, Part, Recovered
from tidegate.state.source_log import SourceLog
from tidegate.transaction import Transaction

_FOLDED_AT_ONCE: Final = 2_000
"""Keys per transaction of a fold: a commit never waits for more than these."""
_PAUSE_S: Final = 0.001
_KEY_COLUMNS: Final = ("group_key", "key_group", "state_blob", "forget_at")

_VERSIONS: Final = {
    "state_version": STATE_VERSION,
    "min_reader_version": MIN_READER_VERSION,
    "library_version": library_version(),
}

Holding = Literal["hold_pipeline", "take_pipeline", "share_pipeline"]
"""How the row of the pipeline is held: against other commits; against everybody; or, by a fold,
against takeovers only. A statement each; where one writer has the database, all are the same."""


class Cursor(Protocol):
    """What a statement brought."""

    @property
    def description(self) -> Any:
        """The columns; the first item of each is its name."""
        ...

    @property
    def rowcount(self) -> int:
        """The rows that were changed."""
        ...

    def fetchone(self) -> Any:
        """The next row."""
        ...

    def fetchall(self) -> list[Any]:
        """All rows that are left."""
        ...


class Database(Protocol):
    """The tables of a store behind statements, which have the same names in every database."""

    def open(self, session: str) -> None:
        """Connect; `session` is the name of the connection, where it has one."""
        ...

    def close(self) -> None:
        """Close the connection; a transaction that is not over has not happened."""
        ...

    def transaction(self) -> AbstractContextManager[object]:
        """All or nothing, one at a time; raises `LostLease` where the store is not open."""
        ...

    def run(self, query: str, values: Mapping[str, Any]) -> Cursor:
        """Run a statement."""
        ...

    def run_many(self, query: str, values: Sequence[Mapping[str, Any]]) -> None:
        """Run a statement for each of the rows."""
        ...

    def open_transaction(self) -> Transaction:
        """The transaction that is open, for a target in the same database.

        Raises `TypeError` where no target can be in the database.
        """
        ...


class Lease(Protocol):
    """The right to run a pipeline: one driver has it at a time, and it goes with its process."""

    @property
    def session(self) -> str:
        """The name of the driver's connections; "" where it has none."""
        ...

    @property
    def lost(self) -> bool:
        """Whether it ended by itself: others may have the pipeline by now."""
        ...

    def release(self) -> None:
        """Let others have it."""
        ...


class Parts(Protocol):
    """What tasks have staged, on the side of the driver."""

    @property
    def depot(self) -> Depot:
        """For tasks."""
        ...

    def check_staged(self, parts: Sequence[Part]) -> None:
        """Raise `StateLost` unless all were staged, with these sizes and checksums."""
        ...

    def remove_garbage(self, needed: Collection[Part], token: int, epoch: int) -> int:
        """Delete what is not needed and was staged under an older token or up to this epoch."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a pipeline stands."""

    token: int
    epoch: int
    incarnation: str
    min_reader_version: int
    plan: str | None
    published_epoch: int
    folded_epoch: int
    folded_us: int


@dataclass(frozen=True, slots=True)
class Tables:
    """The rows of one pipeline in a database."""

    pipeline: str
    database: Database

    def run(self, query: str, **values: Any) -> Cursor:
        """Run a statement."""
        return self.database.run(query, {"pipeline": self.pipeline, **values})

    def run_many(self, query: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Run a statement for each of the rows."""
        self.database.run_many(query, [{"pipeline": self.pipeline, **row} for row in rows])

    def find(self, query: Holding | Literal["find_pipeline"]) -> Standing | None:
        """Where the pipeline stands; None if it is not there."""
        cursor = self.run(query)
        row = cursor.fetchone()
        if row is None:
            return None
        names = (column[0] for column in cursor.description)
        return Standing(**dict(zip(names, row, strict=True)))

    @contextmanager
    def held(self, token: int, holding: Holding = "hold_pipeline") -> Iterator[Standing]:
        """A transaction of whoever holds the token; raises `LostLease` for anybody else."""
        with self.database.transaction():
            standing = self.find(holding)
            if standing is None:
                raise LostLease(f"pipeline {self.pipeline!r} was deleted from the database")
            if standing.token != token:
                raise LostLease(
                    f"another driver has taken pipeline {self.pipeline!r} over: "
                    f"token {token} is not current any more, {standing.token} is; "
                    "this driver must stop, or open the store again"
                )
            yield standing


class DatabaseStore:
    """State of one pipeline in a database, which many pipelines may share. A `Store`.

    It may be opened again, as after a failure: then it forgets everything and recovers. Its
    methods may be called from several threads.
    """

    def __init__(
        self,
        pipeline: str,
        database: Database,
        parts: Parts,
        take_lease: Callable[[], Lease],
        *,
        folds: Database | None = None,
    ) -> None:
        """`folds` is another connection, where one is needed for commits to go on beside folds.

        `take_lease` raises `PipelineInUse` while another driver has the pipeline.
        """
        self._pipeline = pipeline
        self._parts = parts
        self._take_lease = take_lease
        self._tables = Tables(pipeline, database)
        self._folds = Tables(pipeline, folds or database)
        self._databases = [database] if folds is None else [database, folds]
        self._one_at_a_time = threading.RLock()
        self._lease: Lease | None = None
        self._plan: Mapping[str, Any] | None = None

    @property
    def depot(self) -> Depot:
        """See `Store`."""
        return self._parts.depot

    def open(self) -> Recovered:
        """See `Store`; what is missing is made, and tables are brought up to date.

        Raises `StateFormatError` where a later version has written what this one cannot read,
        `ConfigError` for a place that cannot keep state, `StoreUnavailable` for one out of reach.
        """
        with self._connected() as session, self._tables.database.transaction():
            return self._recovered(self._take_over(session))

    def resume(self, token: int) -> None:
        """See `Store`; a plan that was adopted before and not committed is forgotten."""
        with self._connected() as session, self._tables.held(token):
            self._tables.run("note_holder", holder=this_process(), session=session)

    @contextmanager
    def _connected(self) -> Iterator[str]:
        """Take the lease, and the name of its session; let go of it if the block fails."""
        with self._one_at_a_time:
            self.close()
            try:
                self._lease = self._take_lease()
                for database in self._databases:
                    database.open(self._lease.session)
                yield self._lease.session
            except BaseException:
                self.close()
                raise

    def _take_over(self, session: str) -> Standing:
        """Raise the token; a pipeline that is not there yet is made."""
        if self._tables.find("take_pipeline") is None:
            self._tables.run("create_pipeline", incarnation=new_incarnation(), **_VERSIONS)
        self._tables.run("raise_token", holder=this_process(), session=session)
        taken = self._tables.find("find_pipeline")
        if taken is None:
            raise LostLease(f"pipeline {self._pipeline!r} was deleted from the database")
        refuse_later_state(self._pipeline, taken.min_reader_version)
        return taken

    def _recovered(self, standing: Standing) -> Recovered:
        manifests = self._manifests()
        return Recovered(
            token=standing.token,
            incarnation=standing.incarnation,
            epoch=standing.epoch,
            plan=None if standing.plan is None else decode(standing.plan),
            last=manifests.get(standing.epoch),
            to_publish=tuple(
                manifest
                for epoch, manifest in manifests.items()
                if epoch > standing.published_epoch
            ),
            logs=self._logs(),
            folded_epoch=standing.folded_epoch,
            folded_us=standing.folded_us,
        )

    def close(self) -> None:
        """See `Store`; what is committed stays."""
        with self._one_at_a_time:
            lease, self._lease = self._lease, None
            self._plan = None
            try:
                for database in self._databases:
                    database.close()
            finally:
                if lease is not None:
                    lease.release()

    def adopt(self, token: int, plan: Mapping[str, Any]) -> None:
        """See `Store`; a crash before the next commit forgets the plan."""
        with self._tables.held(token):
            self._plan = dict(plan)

    def check_token(self, token: int) -> None:
        """See `Store`."""
        with self._tables.held(token):
            pass

    def commit(
        self, token: int, manifest: Manifest, also: Callable[[Transaction], object] | None = None
    ) -> None:
        """See `Store`.

        Raises `StoreUnavailable` where the connection is lost: it may be committed, or not, and
        `open` says which. The same where the lease is: others could begin, so take the pipeline
        over again first. The token would keep two drivers apart all the same.
        """
        if self._lease is not None and self._lease.lost:
            self.check_token(token)
            raise StoreUnavailable(
                f"the connection that holds pipeline {self._pipeline!r} was lost"
            )
        with self._tables.held(token) as standing:
            self._write(manifest, standing)
            if also is not None:
                also(self._tables.database.open_transaction())
            faults.reached("committing")
        self._plan = None

    def published(self, token: int, epoch: int) -> None:
        """See `Store`; manifests that are out are forgotten, but for the last."""
        with self._tables.held(token):
            self._tables.run("mark_published", epoch=epoch)
            self._tables.run("forget_published_manifests")

    def fold(self, token: int, tables: Sequence[Folded]) -> None:
        """See `Store`. Some keys at a time: commits in between wait for a few milliseconds at most.

        A key of which a later epoch has been folded stays as it is.
        """
        for table in tables:
            self._fold_keys(token, table)
            self._drop_forgotten(token, table)
        with self._folds.held(token):
            self._folds.run(
                "mark_folded", epoch=max((each.as_of_epoch for each in tables), default=0)
            )

    def _fold_keys(self, token: int, table: Folded) -> None:
        common = {
            "operator": table.operator,
            "as_of_epoch": table.as_of_epoch,
            "state_version": STATE_VERSION,
        }
        for batch in table.keys.select(_KEY_COLUMNS).to_batches(max_chunksize=_FOLDED_AT_ONCE):
            rows = [common | row for row in batch.to_pylist()]
            with self._folds.held(token, "share_pipeline"):
                self._folds.run_many("drop_key", [row for row in rows if not row["state_blob"]])
                self._folds.run_many("put_key", [row for row in rows if row["state_blob"]])
            time.sleep(_PAUSE_S)  # a lock is not fair: whoever waits for it must see it free

    def _drop_forgotten(self, token: int, table: Folded) -> None:
        dropped = _FOLDED_AT_ONCE
        while dropped == _FOLDED_AT_ONCE:
            with self._folds.held(token, "share_pipeline"):
                dropped = self._folds.run(
                    "drop_forgotten_keys",
                    operator=table.operator,
                    watermark_us=table.watermark_us,
                    at_most=_FOLDED_AT_ONCE,
                ).rowcount
            time.sleep(_PAUSE_S)

    def collect_garbage(self, token: int) -> int:
        """See `Store`. What was replaced before the last commit is forgotten by the journal first,
        then parts go: a crash in between leaves garbage, no hole.
        """
        with self._tables.held(token) as standing:
            self._tables.run("forget_replaced_parts", epoch=standing.epoch)
            needed = [*self._journal(), *self._unpublished_parts(standing)]
        faults.reached("garbage")
        return self._parts.remove_garbage(needed, token, standing.epoch)

    def reset(self, token: int, then: Manifest | None = None) -> None:
        """See `Store`; parts become garbage."""
        with self._tables.held(token, "take_pipeline") as standing:
            for table in ("manifests", "journal", "offsets", "logs", "state"):
                self._tables.run(f"clear_{table}")
            incarnation = after_reset(standing.incarnation)
            self._tables.run("begin_incarnation", incarnation=incarnation)
            if then is not None:
                self._write(then, standing)
            faults.reached("committing")
        self._plan = None

    # --- committing ---

    def _write(self, manifest: Manifest, standing: Standing) -> None:
        if manifest.epoch != standing.epoch + 1:
            raise EpochTaken(
                f"pipeline {self._pipeline!r}: epoch {manifest.epoch} does not follow "
                f"the last one committed, {standing.epoch}; open the store again"
            )
        self._write_journal(manifest)
        self._write_offsets(manifest)
        self._write_logs(manifest)
        plan = None if self._plan is None else encode(self._plan).decode()
        self._tables.run("add_manifest", epoch=manifest.epoch, manifest=encode(manifest).decode())
        self._tables.run("advance_pipeline", epoch=manifest.epoch, plan=plan, **_VERSIONS)

    def _write_journal(self, manifest: Manifest) -> None:
        known = {part.name: part for part in self._journal(live_only=True)}
        named = dict(_parts_of(manifest))
        fresh = [part for part in named if not _same_bytes(known.get(part.name), part)]
        sent = [output.part for output in manifest.outputs if not output.in_target]
        self._parts.check_staged([*sent, *fresh])
        self._tables.run_many(
            "add_part", [{"epoch": manifest.epoch} | named[part] for part in fresh]
        )
        replaced = known.keys() - {part.name for part in named}
        self._tables.run_many(
            "replace_part", [{"epoch": manifest.epoch, "part": name} for name in sorted(replaced)]
        )

    def _write_offsets(self, manifest: Manifest) -> None:
        known = [source for (source,) in self._tables.run("find_sources").fetchall()]
        self._tables.run_many(
            "drop_offset",
            [{"source": source} for source in known if source not in manifest.offsets],
        )
        self._tables.run_many(
            "put_offset",
            [
                {"source": source, "offset": encode(offset), "state_version": STATE_VERSION}
                for source, offset in manifest.offsets.items()
            ],
        )

    def _write_logs(self, manifest: Manifest) -> None:
        for source, entries in manifest.discovered.items():
            (first,) = self._tables.run("next_place", source=source).fetchone()
            self._tables.run_many(
                "add_log_entry",
                [
                    {"source": source, "place": place, "entry": encode(entry).decode()}
                    for place, entry in enumerate(entries, first)
                ],
            )

    # --- reading ---

    def _unpublished_parts(self, standing: Standing) -> list[Part]:
        return [
            output.part
            for epoch, manifest in self._manifests().items()
            for output in manifest.outputs
            if epoch > standing.published_epoch and not output.in_target
        ]

    def _manifests(self) -> dict[int, Manifest]:
        """What is still to publish and the last one, by epoch, in order."""
        rows = self._tables.run("find_manifests").fetchall()
        return {epoch: decode_manifest(text) for epoch, text in rows}

    def _logs(self) -> dict[str, SourceLog]:
        counted = self._tables.run("find_logs").fetchall()
        return {
            source: SourceLog(entries, partial(self._log_entries, source))
            for source, entries in counted
        }

    def _log_entries(self, source: str, first: int, end: int) -> list[str]:
        with self._tables.database.transaction():
            rows = self._tables.run("read_log", source=source, first=first, end=end).fetchall()
        return [entry for (entry,) in rows]

    def _journal(self, *, live_only: bool = False) -> Iterator[Part]:
        for name, size, rows, checksum, replaced in self._tables.run("find_parts").fetchall():
            if replaced is None or not live_only:
                yield Part(name=name, bytes=size, rows=rows, checksum=checksum)


def _same_bytes(one: Part | None, other: Part) -> bool:
    return one is not None and (one.bytes, one.checksum) == (other.bytes, other.checksum)


def _parts_of(manifest: Manifest) -> Iterator[tuple[Part, dict[str, Any]]]:
    """The segments that a manifest names, each with its row of the journal.

    A part may be in several stacks, for some of its key groups each; its row spans them all.
    """
    for operator, stacks in manifest.state.items():
        entries: dict[Part, list[Entry]] = {}
        for stack in stacks.shards:
            for entry in stack:
                entries.setdefault(entry.part, []).append(entry)
        for part, uses in entries.items():
            yield (
                part,
                {
                    "operator": operator,
                    "part": part.name,
                    "bytes": part.bytes,
                    "rows": part.rows,
                    "checksum": part.checksum,
                    "first_group": min(use.first_group for use in uses),
                    "end_group": max(use.end_group for use in uses),
                },
            )
