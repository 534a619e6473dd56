"""The transactions of one pipeline, whatever database keeps its tables.

    Store.commit | published | fold | reset -> [Ledger] -> statements by name -> Database

Each transaction first looks whether the token is still ours and holds the row of the pipeline
until its end, so a driver that was paused and woke behind a takeover changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, Protocol

from tidegate import faults
from tidegate.errors import EpochTaken, LostLease, StateFormatError
from tidegate.incarnation import after_reset, new_incarnation
from tidegate.state.folding import rows_of
from tidegate.state.library import library_version
from tidegate.state.manifest_format import (
    MIN_READER_VERSION,
    STATE_VERSION,
    decode,
    decode_manifest,
    encode,
)
from tidegate.state.protocol import Entry, Folded, Manifest, Part, Recovered
from tidegate.state.source_log import SourceLog

_FOLDED_AT_ONCE: Final = 2_000
"""Keys per transaction of a fold: a commit never waits for more than these."""
_PAUSE_S: Final = 0.001

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

    def transaction(self) -> AbstractContextManager[object]:
        """All or nothing, one at a time; raises `LostLease` where the store is not open."""
        ...

    def run(self, query: str, values: Mapping[str, Any]) -> Cursor:
        """Run a statement."""
        ...

    def run_many(self, query: str, values: Sequence[Mapping[str, Any]]) -> None:
        """Run a statement for each of the rows."""
        ...

    def check_staged(self, parts: Iterable[Part]) -> None:
        """Raise `StateLost` unless all were staged, with these sizes and checksums."""
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


class Ledger:
    """What is committed of one pipeline."""

    def __init__(self, pipeline: str, database: Database) -> None:
        self._pipeline = pipeline
        self._database = database
        self._plan: Mapping[str, Any] | None = None

    # --- taking over: inside a transaction of the caller's ---

    def take_over(self, **holder: Any) -> Standing:
        """Raise the token; a pipeline that is not there yet is made. `holder` is who has it now.

        Raises `StateFormatError` where a later version has written what this one cannot read.
        """
        self._plan = None
        if self._find("take_pipeline") is None:
            self._run("create_pipeline", incarnation=new_incarnation(), **_VERSIONS)
        self._run("raise_token", **holder)
        taken = self.standing()
        if taken.min_reader_version > STATE_VERSION:
            raise StateFormatError(
                f"the state of pipeline {self._pipeline!r} needs a Tidegate that reads "
                f"state version {taken.min_reader_version}, this one reads {STATE_VERSION}: "
                "use the version that wrote it, or a later one"
            )
        return taken

    def standing(self, holding: Holding | None = None) -> Standing:
        """Where the pipeline stands; raises `LostLease` if it is not there any more."""
        standing = self._find(holding or "find_pipeline")
        if standing is None:
            raise LostLease(f"pipeline {self._pipeline!r} was deleted from the database")
        return standing

    def recovered(self, standing: Standing) -> Recovered:
        """All that a driver needs to go on."""
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

    # --- what a store does under a token: transactions of their own ---

    @contextmanager
    def held(self, token: int, holding: Holding = "hold_pipeline") -> Iterator[Standing]:
        """A transaction of whoever holds the token; raises `LostLease` for anybody else."""
        with self._database.transaction():
            standing = self.standing(holding)
            if standing.token != token:
                raise LostLease(
                    f"another driver has taken pipeline {self._pipeline!r} over: "
                    f"token {token} is not current any more, {standing.token} is; "
                    "this driver must stop, or open the store again"
                )
            yield standing

    def check(self, token: int) -> None:
        """Raise `LostLease` unless the token is current."""
        with self.held(token):
            pass

    def adopt(self, token: int, plan: Mapping[str, Any]) -> None:
        """Keep the plan for the next commit under this token; a crash before it forgets it."""
        with self.held(token):
            self._plan = dict(plan)

    def forget_plan(self) -> None:
        """Commit nothing of a plan that was adopted."""
        self._plan = None

    def commit(
        self, token: int, manifest: Manifest, also: Callable[[], object] | None = None
    ) -> None:
        """One transaction: all of the manifest and what is done by `also`, or nothing."""
        with self.held(token) as standing:
            self._write(manifest, standing)
            if also is not None:
                also()
            faults.reached("committing")
        self._plan = None

    def published(self, token: int, epoch: int) -> None:
        """Forget manifests that are out, but the last."""
        with self.held(token):
            self._run("mark_published", epoch=epoch)
            self._run("forget_published_manifests")

    def fold(self, token: int, tables: Sequence[Folded]) -> None:
        """Some keys at a time: commits in between wait for a few milliseconds at most.

        A key of which a later epoch has been folded stays as it is.
        """
        for table in tables:
            for gone, there in rows_of(table, self._pipeline, _FOLDED_AT_ONCE):
                with self.held(token, "share_pipeline"):
                    self._database.run_many("drop_key", gone)
                    self._database.run_many("put_key", there)
                time.sleep(_PAUSE_S)  # a lock is not fair: whoever waits for it must see it free
            self._drop_forgotten(token, table)
        with self.held(token):
            self._run("mark_folded", epoch=max((each.as_of_epoch for each in tables), default=0))

    def needed_parts(self, standing: Standing) -> list[Part]:
        """Parts that are no garbage; inside `held`. What was replaced before the last commit is
        forgotten by it.
        """
        self._run("forget_replaced_parts", epoch=standing.epoch)
        return [*self._journal(), *self._unpublished_parts(standing)]

    def reset(self, token: int, then: Manifest | None = None) -> None:
        """One transaction: all is forgotten, and `then` committed with the adopted plan."""
        with self.held(token, "take_pipeline") as standing:
            for table in ("manifests", "journal", "offsets", "logs", "state"):
                self._run(f"clear_{table}")
            self._run("begin_incarnation", incarnation=after_reset(standing.incarnation))
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
        self._run("add_manifest", epoch=manifest.epoch, manifest=encode(manifest).decode())
        self._run("advance_pipeline", epoch=manifest.epoch, plan=plan, **_VERSIONS)

    def _write_journal(self, manifest: Manifest) -> None:
        known = {part.name: part for part in self._journal(live_only=True)}
        named = dict(_parts_of(manifest))
        fresh = [part for part in named if not _same_bytes(known.get(part.name), part)]
        sent = [output.part for output in manifest.outputs if not output.in_target]
        self._database.check_staged([*sent, *fresh])
        self._run_many("add_part", [{"epoch": manifest.epoch} | named[part] for part in fresh])
        replaced = known.keys() - {part.name for part in named}
        self._run_many(
            "replace_part", [{"epoch": manifest.epoch, "part": name} for name in sorted(replaced)]
        )

    def _write_offsets(self, manifest: Manifest) -> None:
        known = [source for (source,) in self._run("find_sources").fetchall()]
        self._run_many(
            "drop_offset",
            [{"source": source} for source in known if source not in manifest.offsets],
        )
        self._run_many(
            "put_offset",
            [
                {"source": source, "offset": encode(offset), "state_version": STATE_VERSION}
                for source, offset in manifest.offsets.items()
            ],
        )

    def _write_logs(self, manifest: Manifest) -> None:
        for source, entries in manifest.discovered.items():
            (first,) = self._run("next_place", source=source).fetchone()
            self._run_many(
                "add_log_entry",
                [
                    {"source": source, "place": place, "entry": encode(entry).decode()}
                    for place, entry in enumerate(entries, first)
                ],
            )

    # --- folding and garbage ---

    def _drop_forgotten(self, token: int, table: Folded) -> None:
        dropped = _FOLDED_AT_ONCE
        while dropped == _FOLDED_AT_ONCE:
            with self.held(token, "share_pipeline"):
                dropped = self._run(
                    "drop_forgotten_keys",
                    operator=table.operator,
                    watermark_us=table.watermark_us,
                    at_most=_FOLDED_AT_ONCE,
                ).rowcount
            time.sleep(_PAUSE_S)

    def _unpublished_parts(self, standing: Standing) -> list[Part]:
        return [
            output.part
            for epoch, manifest in self._manifests().items()
            for output in manifest.outputs
            if epoch > standing.published_epoch and not output.in_target
        ]

    # --- the database ---

    def _find(self, query: str) -> Standing | None:
        cursor = self._run(query)
        row = cursor.fetchone()
        if row is None:
            return None
        names = (column[0] for column in cursor.description)
        return Standing(**dict(zip(names, row, strict=True)))

    def _manifests(self) -> dict[int, Manifest]:
        """What is still to publish and the last one, by epoch, in order."""
        rows = self._run("find_manifests").fetchall()
        return {epoch: decode_manifest(text) for epoch, text in rows}

    def _logs(self) -> dict[str, SourceLog]:
        counted = self._run("find_logs").fetchall()
        return {
            source: SourceLog(entries, partial(self._log_entries, source))
            for source, entries in counted
        }

    def _log_entries(self, source: str, first: int, end: int) -> list[str]:
        with self._database.transaction():
            rows = self._run("read_log", source=source, first=first, end=end).fetchall()
        return [entry for (entry,) in rows]

    def _journal(self, *, live_only: bool = False) -> Iterator[Part]:
        for name, size, rows, checksum, replaced in self._run("find_parts").fetchall():
            if replaced is None or not live_only:
                yield Part(name=name, bytes=size, rows=rows, checksum=checksum)

    def _run(self, query: str, **values: Any) -> Cursor:
        return self._database.run(query, {"pipeline": self._pipeline, **values})

    def _run_many(self, query: str, rows: Sequence[Mapping[str, Any]]) -> None:
        self._database.run_many(query, [{"pipeline": self._pipeline, **row} for row in rows])


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
