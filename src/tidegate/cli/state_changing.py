"""`tidegate state reset | fold | export`: what takes a pipeline over for a moment, or writes."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.cli.state_listing import Listed
from tidegate.cli.state_where import pipeline_of
from tidegate.cli.telling import plain
from tidegate.errors import ConfigError, EpochTaken, PipelineInUse, Problem
from tidegate.eventtime import now_us
from tidegate.pipeline.wording import whereabouts
from tidegate.spark.folding import Folder
from tidegate.spark.resetting import claim_anew
from tidegate.state.catalog import Catalog
from tidegate.state.live import read_live
from tidegate.state.protocol import Recovered, Store
from tidegate.state.stored_plan import stored_operator
from tidegate.text import bytes_text


@contextmanager
def taken_over(catalog: Catalog, pipeline: str) -> Iterator[tuple[Store, Recovered]]:
    """Hold a pipeline for as long as it takes; `PipelineInUse` while somebody runs it."""
    store = catalog.store(pipeline)
    try:
        yield store, store.open()
    finally:
        store.close()


def check_free(catalog: Catalog, pipeline: str) -> None:
    """Raise `PipelineInUse` while somebody runs the pipeline."""
    if (holder := catalog.holder(pipeline)) is not None:
        raise PipelineInUse(f"pipeline {pipeline!r} is run by {holder}; stop that one first")


def forgotten_by_reset(found: Listed) -> Iterator[str]:
    """What a reset forgets, and what becomes of what was sent, in sentences."""
    committed = found.committed
    yield (
        f"pipeline {plain(committed.pipeline)} forgets all as of epoch {committed.epoch}: "
        f"{found.holds}, {bytes_text(committed.state_bytes)}"
    )
    if committed.published_epoch < committed.epoch:
        yield (
            f"output of the epochs after {committed.published_epoch} is not in the target yet, "
            "and will not come: run the pipeline once before, to send it"
        )
    yield "the next run reads its sources from their beginning, as far as they still have it"
    yield _of_target(committed.plan or {})


def forgotten_by_rewind(found: Listed, source: str) -> Iterator[str]:
    """The same of a source that is put back."""
    first, *rest = forgotten_by_reset(found)
    yield first
    *unsent, _, of_target = rest
    yield from unsent
    yield f"the next run reads {source} again, and goes on with all other sources"
    yield of_target


def _of_target(plan: Mapping[str, Any]) -> str:
    target = plan.get("target", {})
    told = plain(whereabouts(target.get("format", "unknown"), target.get("options", {})))
    joins = any("left" in each for each in plan.get("operators", {}).values())
    if target.get("mode") == "upsert" and joins:
        hint = "behind transforms and from files of lines with other ids: then empty it first"
        return f"rows in the target ({told}) stay; pairs that come again replace them, but {hint}"
    if target.get("mode") == "upsert":
        hint = "windows that come out otherwise leave their old rows there: then empty it first"
        return f"rows in the target ({told}) stay; those that come again replace them, but {hint}"
    return f"rows in the target ({told}) stay, and come a second time: empty it first"


def reset(catalog: Catalog, pipeline: str, confirmed_epoch: int | None) -> int:
    """Forget everything, and say how many files went with it.

    With `confirmed_epoch`: only if nothing was committed since somebody agreed to it.
    """
    with taken_over(catalog, pipeline) as (store, recovered):
        if confirmed_epoch is not None and recovered.epoch != confirmed_epoch:
            raise EpochTaken(
                f"pipeline {pipeline!r} was at epoch {confirmed_epoch} when you were asked and "
                f"is at {recovered.epoch} now: nothing was forgotten; ask again"
            )
        store.reset(recovered.token)
        return store.collect_garbage(recovered.token)


def claim_targets(where: Path | None, catalog: Catalog, pipeline: str) -> None:
    """Refuse older publishers of the pipeline from now on, where its file says what it writes to.

    Else they are refused from its next run on.
    """
    spec, committed = pipeline_of(where), catalog.committed(pipeline)
    if spec is not None and committed is not None:
        claim_anew(spec, committed.incarnation)


def fold(catalog: Catalog, pipeline: str) -> bool:
    """Bring the readable table up to date, and say whether there was anything to do."""
    with taken_over(catalog, pipeline) as (store, recovered):
        last = recovered.last
        if last is None or recovered.folded_epoch >= last.epoch:
            return False
        stored = stored_operator(recovered.plan)
        folder = Folder(
            store=store,
            token=recovered.token,
            operator_id=stored.id,
            operator=stored.operator,
            interval_us=0,
            folded_epoch=recovered.folded_epoch,
            folded_us=now_us(),
        )
        folder.fold(last)
        return True


def export(catalog: Catalog, pipeline: str, target: Path, *, force: bool) -> tuple[int, int]:
    """Write all that is held as one parquet file; as of which epoch, and how many rows, come back.

    It is written under another name and renamed: nobody ever sees half of it.
    """
    _check_target(target, force=force)
    live = read_live(catalog, pipeline)
    table = live.rows().table().to_arrow()
    facts = {"tidegate.pipeline": pipeline, "tidegate.epoch": str(live.committed.epoch)}
    table = table.replace_schema_metadata(facts)
    unfinished = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    try:
        _write(table, unfinished)
        _put(unfinished, target, force=force)
    finally:
        unfinished.unlink(missing_ok=True)
    return live.committed.epoch, table.num_rows


def _write(table: pa.Table, path: Path) -> None:
    pq.write_table(table, path, compression="zstd")
    with path.open("rb") as written:
        os.fsync(written.fileno())


def _put(unfinished: Path, target: Path, *, force: bool) -> None:
    """Give the file its name; without `force` never that of a file which came meanwhile."""
    if not force:
        try:
            os.link(unfinished, target)
        except FileExistsError:
            raise ConfigError([_exists(target)]) from None
        except OSError:  # a file system without links
            _check_target(target, force=False)
    unfinished.replace(target)


def _check_target(target: Path, *, force: bool) -> None:
    if target.is_dir():
        raise ConfigError([Problem(str(target), "a folder", "the name of a file to write")])
    if target.suffix != ".parquet":
        hint = f"{target.with_name(target.name + '.parquet')}"
        raise ConfigError([Problem(str(target), "another suffix", "a name in .parquet", hint)])
    if target.exists() and not force:
        raise ConfigError([_exists(target)])
    if not target.parent.is_dir():
        raise ConfigError([Problem(str(target.parent), "no such folder", "one to write to")])


def _exists(target: Path) -> Problem:
    hint = "another name, or --force to replace it"
    return Problem(str(target), "a file that is there already", "a name that is free", hint)
