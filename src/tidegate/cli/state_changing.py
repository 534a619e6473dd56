"""`tidegate state reset | rewind | skip-publish | fold | export`: what changes or writes something.

All but `export` take the pipeline over for a moment.
"""

from __future__ import annotations

import os
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.cli.state_listing import Listed
from tidegate.cli.state_offsets import Offset
from tidegate.cli.state_where import pipeline_of
from tidegate.cli.telling import plain
from tidegate.core.watermark import (
    PipelineWatermark,
    SourceWatermark,
    partition_key,
    partitions_in,
)
from tidegate.engine.fold import Folder
from tidegate.engine.reset import claim_anew
from tidegate.errors import ConfigError, EpochTaken, PipelineInUse, Problem
from tidegate.eventtime import BEGINNING, now_us
from tidegate.pipeline.wording import whereabouts
from tidegate.state.catalog import Catalog
from tidegate.state.live import read_live
from tidegate.state.protocol import Manifest, Recovered, Stacks, Store
from tidegate.state.stored_plan import stored_operator
from tidegate.text import bytes_text, count_text


@contextmanager
def taken_over(
    catalog: Catalog, pipeline: str, confirmed_epoch: int | None = None
) -> Iterator[tuple[Store, Recovered]]:
    """Hold a pipeline for as long as it takes; `PipelineInUse` while somebody runs it.

    With `confirmed_epoch`: `EpochTaken` if something was committed since somebody agreed to it.
    """
    store = catalog.store(pipeline)
    try:
        recovered = store.open()
        if confirmed_epoch is not None and recovered.epoch != confirmed_epoch:
            raise EpochTaken(
                f"pipeline {pipeline!r} was at epoch {confirmed_epoch} when you were asked and "
                f"is at {recovered.epoch} now: nothing was forgotten; ask again"
            )
        yield store, recovered
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
    """Forget everything, and say how many files went with it."""
    with taken_over(catalog, pipeline, confirmed_epoch) as (store, recovered):
        store.reset(recovered.token)
        return store.collect_garbage(recovered.token)


def rewind(
    catalog: Catalog, pipeline: str, source: str, to: Offset | None, confirmed_epoch: int | None
) -> int:
    """Put a source back, and return the epoch that says so.

    Rows that are read again would count twice in what is held, so that is forgotten in the same
    transaction, and a new incarnation begins behind the offsets that remain.
    """
    with taken_over(catalog, pipeline, confirmed_epoch) as (store, recovered):
        last, token = recovered.last, recovered.token
        if last is None:
            raise ConfigError([Problem("--source", repr(source), "a source that was read")])
        offsets = {name: offset for name, offset in last.offsets.items() if name != source}
        if to is not None:
            offsets[source] = to
        manifest = _begun_anew(source, last, recovered, offsets)
        store.adopt(token, recovered.plan or {})
        store.reset(token, then=manifest)
        store.published(token, manifest.epoch)
        store.collect_garbage(token)
        return manifest.epoch


def _begun_anew(
    source: str, last: Manifest, recovered: Recovered, offsets: Mapping[str, Offset]
) -> Manifest:
    """An epoch in which nothing is held, and each source stands where it is to.

    Which partitions the one has that is rewound, the next run sees.
    """
    known = last.watermarks["sources"]
    left = {partition_key(source, each) for each in partitions_in(source, known)}
    watermarks = PipelineWatermark(
        sources={name: SourceWatermark() for name in known if name not in left}
    )
    return Manifest(
        epoch=recovered.epoch + 1,
        offsets=offsets,
        watermarks=dict(watermarks.to_dict()),
        state={name: Stacks(shards=((),) * len(each.shards)) for name, each in last.state.items()},
        discovered={name: tuple(entries) for name, entries in recovered.logs.items()},
        committed_us=last.committed_us,
        arrival_us=BEGINNING,
    )


def unpublished(catalog: Catalog, pipeline: str) -> tuple[Manifest, ...]:
    """The committed epochs whose output may not be out yet."""
    with taken_over(catalog, pipeline) as (_, recovered):
        return recovered.to_publish


def given_up(pipeline: str, manifests: Sequence[Manifest]) -> Iterator[str]:
    """What is lost when these epochs are not published, in sentences."""
    epochs = count_text(len(manifests), "epochs")
    yield f"pipeline {pipeline} gives up what is not in its targets yet of {epochs}:"
    for manifest in manifests:
        rows, parts = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
        for output in manifest.outputs:
            if not output.in_commit:
                what = (output.channel, output.kind)
                rows[what] += output.part.rows
                parts[what] += 1
        for (channel, kind), count in sorted(rows.items()):
            taken_back = " to be taken back" if kind == "retracted" else ""
            yield (
                f"epoch {manifest.epoch}, channel {channel}: {count_text(count, 'rows')}"
                f"{taken_back} in {count_text(parts[channel, kind], 'parts')}"
            )
        if not rows:
            yield f"epoch {manifest.epoch}: no rows"
    yield "state and offsets stay as they are: these rows do not come again"


def skip_publish(catalog: Catalog, pipeline: str, agreed: Sequence[Manifest]) -> None:
    """Note that these epochs are out, whatever of them is; what was staged for them goes.

    Raises `EpochTaken` if there are others by now.
    """
    with taken_over(catalog, pipeline) as (store, recovered):
        if [each.epoch for each in recovered.to_publish] != [each.epoch for each in agreed]:
            raise EpochTaken(
                f"pipeline {pipeline!r} went on while you were asked: nothing was given up; "
                "ask again"
            )
        store.published(recovered.token, agreed[-1].epoch)
        store.collect_garbage(recovered.token)


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
            operators={stored.id: stored.operator},
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
