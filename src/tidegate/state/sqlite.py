"""The embedded store: one machine, durable, one database file that people can open.

    tasks -> [parts: files] -> commit -> [tidegate.db: manifests, offsets, logs, readable state]

Only the driver writes the database. Each write is one transaction that first looks whether the
token is still ours, so a driver that was paused and woke behind a takeover changes nothing.
"""

from __future__ import annotations

import sqlite3
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tidegate import faults
from tidegate.errors import EpochTaken, LostLease, PipelineInUse, StateFormatError
from tidegate.state.filelock import FileLock, holder_of
from tidegate.state.folding import rows_of
from tidegate.state.layout import Layout
from tidegate.state.library import library_version
from tidegate.state.manifest_format import (
    MIN_READER_VERSION,
    STATE_VERSION,
    decode,
    decode_manifest,
    encode,
)
from tidegate.state.parts import SqliteDepot
from tidegate.state.protocol import Entry, Folded, Manifest, Part, Recovered
from tidegate.state.sqlite_schema import connect, queries, transaction

_FOLDED_AT_ONCE: Final = 2_000
"""Keys per transaction of a fold: a commit never waits for more than these."""
_PAUSE_S: Final = 0.001

_VERSIONS: Final = {
    "state_version": STATE_VERSION,
    "min_reader_version": MIN_READER_VERSION,
    "library_version": library_version(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Standing:
    """Where a pipeline stands."""

    token: int
    epoch: int
    incarnation: str
    min_reader_version: int
    plan: str | None
    published_epoch: int
    folded_epoch: int
    folded_us: int


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
        self._plan: Mapping[str, Any] | None = None

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
                    return self._recovered(self._taken_over())
            except BaseException:
                self.close()
                raise

    def adopt(self, token: int, plan: Mapping[str, Any]) -> None:
        """Keep the plan for the next commit under this token; a crash before it forgets it."""
        with self._held(token):
            self._plan = dict(plan)

    def commit(self, token: int, manifest: Manifest) -> None:
        """One transaction: all of the manifest, or nothing.

        That parts were staged is seen from the names and sizes of their files.
        """
        with self._held(token) as standing:
            if manifest.epoch != standing.epoch + 1:
                raise EpochTaken(
                    f"pipeline {self._layout.pipeline!r}: epoch {manifest.epoch} does not follow "
                    f"the last one committed, {standing.epoch}; open the store again"
                )
            for output in manifest.outputs:
                if not output.in_target:
                    self._depot.check(output.part)
            self._write_journal(manifest)
            self._write_offsets(manifest)
            self._write_logs(manifest)
            plan = None if self._plan is None else encode(self._plan).decode()
            self._run("add_manifest", epoch=manifest.epoch, manifest=encode(manifest).decode())
            self._run("advance_pipeline", epoch=manifest.epoch, plan=plan, **_VERSIONS)
            faults.reached("committing")
        self._plan = None

    def published(self, token: int, epoch: int) -> None:
        """Forget manifests that are out, but the last."""
        with self._held(token):
            self._run("mark_published", epoch=epoch)
            self._run("forget_published_manifests")

    def fold(self, token: int, tables: Sequence[Folded]) -> None:
        """Some keys at a time: commits in between wait for a few milliseconds at most.

        A key of which a later epoch has been folded stays as it is.
        """
        for table in tables:
            for gone, there in rows_of(table, self._layout.pipeline, _FOLDED_AT_ONCE):
                with self._held(token):
                    self._run_many("drop_key", gone)
                    self._run_many("put_key", there)
                time.sleep(_PAUSE_S)  # a lock is not fair: whoever waits for it must see it free
            self._drop_forgotten(token, table)
        with self._held(token):
            self._run("mark_folded", epoch=max((each.as_of_epoch for each in tables), default=0))

    def collect_garbage(self, token: int) -> int:
        """First the journal forgets, then files go: a crash in between leaves garbage, no hole."""
        with self._held(token) as standing:
            self._run("forget_replaced_parts", epoch=standing.epoch)
            needed = [*self._journal(), *self._unpublished_parts(standing)]
        faults.reached("garbage")
        return self._depot.remove_garbage(needed, token, standing.epoch)

    def reset(self, token: int) -> None:
        """Forget all, with the plan and what is still to publish; parts become garbage."""
        with self._held(token):
            for table in ("manifests", "journal", "offsets", "logs", "state"):
                self._run(f"clear_{table}")
            self._run("begin_incarnation", incarnation=str(uuid.uuid4()))

    def close(self) -> None:
        """Close the database and release the lock; what is committed stays."""
        with self._one_at_a_time:
            connection, self._connection = self._connection, None
            lock, self._lock = self._lock, None
            self._plan = None
            try:
                if connection is not None:
                    connection.close()
            finally:
                if lock is not None:
                    lock.release()

    # --- taking over ---

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

    def _taken_over(self) -> _Standing:
        if self._find() is None:
            self._run("create_pipeline", incarnation=str(uuid.uuid4()), **_VERSIONS)
        self._run("raise_token")
        taken = self._standing()
        if taken.min_reader_version > STATE_VERSION:
            raise StateFormatError(
                f"the state of pipeline {self._layout.pipeline!r} needs a Tidegate that reads "
                f"state version {taken.min_reader_version}, this one reads {STATE_VERSION}: "
                "use the version that wrote it, or a later one"
            )
        return taken

    def _recovered(self, standing: _Standing) -> Recovered:
        manifests = self._manifests()
        logs: dict[str, list[Mapping[str, Any]]] = {}
        for source, entry in self._run("find_logs"):
            logs.setdefault(source, []).append(decode(entry))
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
            logs={source: tuple(entries) for source, entries in logs.items()},
            folded_epoch=standing.folded_epoch,
            folded_us=standing.folded_us,
        )

    # --- committing ---

    def _write_journal(self, manifest: Manifest) -> None:
        known = {part.name: part for part in self._journal(live_only=True)}
        named = dict(_parts_of(manifest))
        fresh = [part for part in named if not _same_bytes(known.get(part.name), part)]
        for part in fresh:
            self._depot.check(part)
        common = {"pipeline": self._layout.pipeline, "epoch": manifest.epoch}
        self._run_many("add_part", (common | named[part] for part in fresh))
        replaced = known.keys() - {part.name for part in named}
        self._run_many("replace_part", (common | {"part": name} for name in replaced))

    def _write_offsets(self, manifest: Manifest) -> None:
        for (source,) in self._run("find_sources").fetchall():
            if source not in manifest.offsets:
                self._run("drop_offset", source=source)
        for source, offset in manifest.offsets.items():
            written = encode(offset)
            self._run("put_offset", source=source, offset=written, state_version=STATE_VERSION)

    def _write_logs(self, manifest: Manifest) -> None:
        for source, entries in manifest.discovered.items():
            (first,) = self._run("next_place", source=source).fetchone()
            common = {"pipeline": self._layout.pipeline, "source": source}
            self._run_many(
                "add_log_entry",
                (
                    common | {"place": place, "entry": encode(entry).decode()}
                    for place, entry in enumerate(entries, first)
                ),
            )

    # --- folding and garbage ---

    def _drop_forgotten(self, token: int, table: Folded) -> None:
        dropped = _FOLDED_AT_ONCE
        while dropped == _FOLDED_AT_ONCE:
            with self._held(token):
                dropped = self._run(
                    "drop_forgotten_keys",
                    operator=table.operator,
                    watermark_us=table.watermark_us,
                    at_most=_FOLDED_AT_ONCE,
                ).rowcount
            time.sleep(_PAUSE_S)

    def _unpublished_parts(self, standing: _Standing) -> list[Part]:
        return [
            output.part
            for epoch, manifest in self._manifests().items()
            for output in manifest.outputs
            if epoch > standing.published_epoch and not output.in_target
        ]

    # --- the database ---

    @contextmanager
    def _held(self, token: int) -> Iterator[_Standing]:
        """A transaction of whoever holds the token; raises `LostLease` for anybody else."""
        with self._one_at_a_time, transaction(self._database()):
            standing = self._standing()
            if standing.token != token:
                raise LostLease(
                    f"another driver has taken pipeline {self._layout.pipeline!r} over: "
                    f"token {token} is not current any more, {standing.token} is; "
                    "this driver must stop, or open the store again"
                )
            yield standing

    def _database(self) -> sqlite3.Connection:
        if self._connection is None:
            raise LostLease(f"the store of pipeline {self._layout.pipeline!r} is not open")
        return self._connection

    def _standing(self) -> _Standing:
        standing = self._find()
        if standing is None:
            raise LostLease(f"pipeline {self._layout.pipeline!r} was deleted from the database")
        return standing

    def _find(self) -> _Standing | None:
        cursor = self._run("find_pipeline")
        row = cursor.fetchone()
        if row is None:
            return None
        names = (column[0] for column in cursor.description)
        return _Standing(**dict(zip(names, row, strict=True)))

    def _manifests(self) -> dict[int, Manifest]:
        """What is still to publish and the last one, by epoch, in order."""
        return {epoch: decode_manifest(text) for epoch, text in self._run("find_manifests")}

    def _journal(self, *, live_only: bool = False) -> Iterator[Part]:
        for name, size, rows, checksum, replaced in self._run("find_parts").fetchall():
            if replaced is None or not live_only:
                yield Part(name=name, bytes=size, rows=rows, checksum=checksum)

    def _run(self, query: str, **values: Any) -> sqlite3.Cursor:
        values["pipeline"] = self._layout.pipeline
        return self._database().execute(queries()[query], values)

    def _run_many(self, query: str, values: Iterable[Mapping[str, Any]]) -> None:
        self._database().executemany(queries()[query], values)


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
