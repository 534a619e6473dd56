"""Taking a pipeline over: from a value and a store to an engine that can run epochs."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import polars as pl
import pyarrow as pa
from pyspark.sql import SparkSession

from tidegate.core.compiling import polars_type
from tidegate.core.watermark import PipelineState, PipelineWatermark, partitions_in
from tidegate.errors import ConfigError, PlanChanged, Problem
from tidegate.eventtime import now_us, us_of_ms
from tidegate.pipeline import MAIN, Pipeline, RunSettings, Source, changes
from tidegate.pipeline.paths import located
from tidegate.spark.engine import Engine
from tidegate.spark.folding import Folder
from tidegate.spark.inputs import Input, Opening, Traits, TransformFunction, open_input
from tidegate.spark.job import numbered
from tidegate.spark.layout import laid_out, rows_of
from tidegate.spark.limits import KeyBound
from tidegate.spark.orders import Standing
from tidegate.spark.planning import (
    Plan,
    plan_of,
    standing_order,
    turned_away_schema,
    watermark_of,
)
from tidegate.spark.publishing import Publisher
from tidegate.spark.session import cores, epoch_session, on_this_machine
from tidegate.state import SqliteDepot, open_store
from tidegate.state.library import library_version
from tidegate.state.protocol import Depot, Manifest, Recovered, Store
from tidegate.targets.dated import refuse_older_state, refuse_other_places
from tidegate.targets.protocol import EpochKey, TargetWriter, needs_preparing

T = TypeVar("T")

OpenInputs = Callable[[SparkSession, Recovered], Mapping[str, Input]]


def open_engine(
    pipeline: Pipeline,
    spark: SparkSession,
    settings: RunSettings,
    *,
    function: TransformFunction | None = None,
    open_inputs: OpenInputs | None = None,
) -> Engine:
    """Take the pipeline over and finish what the run before it left to publish.

    Raises `ConfigError` for what cannot run, `PlanChanged` for state of another pipeline,
    `PipelineInUse` while somebody else runs it.
    """
    store = open_store(pipeline.state_store, pipeline.name)
    recovered = _taken_over(store)
    try:
        check_reachable(store.depot, spark)
        session = epoch_session(spark)
        opened = open_inputs or _sources_of(pipeline, function)
        inputs = opened(session, recovered)
        plan = plan_of(pipeline, columns_of(pipeline, inputs), traits_of(inputs))
        engine = _engine(plan, settings, session, store, recovered, inputs)
        fields = fields_for(plan, recovered.plan)
        refuse_other_places(
            engine.standing.writers, recovered.last.targets if recovered.last else {}
        )
        _prepare_targets(plan, engine.standing.writers)
        store.adopt(recovered.token, fields)  # still ours: whoever comes prepares targets later
        _finish(engine)
    except BaseException:
        store.close()
        raise
    return engine


def _taken_over(store: Store) -> Recovered:
    try:
        return store.open()
    except OSError as error:
        hint = "choose a folder that this user can write to"
        problem = Problem("state_store.url", str(error), "a folder for state", hint)
        raise ConfigError([problem]) from None


def _sources_of(pipeline: Pipeline, function: TransformFunction | None) -> OpenInputs:
    def opened(session: SparkSession, recovered: Recovered) -> Mapping[str, Input]:
        return each_source(
            pipeline,
            lambda place, source: open_input(
                session,
                Opening(
                    pipeline=pipeline.name,
                    source=source,
                    place=place,
                    log=recovered.logs.get(source.name, ()),
                ),
                function,
            ),
        )

    return opened


def columns_of(pipeline: Pipeline, inputs: Mapping[str, Input]) -> Mapping[str, Mapping[str, str]]:
    """What operators see of each source."""
    return each_source(pipeline, lambda _, source: inputs[source.name].columns())


def traits_of(inputs: Mapping[str, Input]) -> Mapping[str, Traits]:
    """What of each source shows in every epoch."""
    return {name: each.traits for name, each in inputs.items()}


def each_source(pipeline: Pipeline, ask: Callable[[int, Source], T]) -> dict[str, T]:
    """Ask every source for something; what is wrong with any of them is told together."""
    told, problems = dict[str, T](), list[Problem]()
    for place, source in enumerate(pipeline.sources):
        try:
            told[source.name] = ask(place, source)
        except ConfigError as error:
            problems += located(error.problems, f"sources[{place}]")
    if problems:
        raise ConfigError(pipeline.as_written(problems))
    return told


def _engine(
    plan: Plan,
    settings: RunSettings,
    session: SparkSession,
    store: Store,
    recovered: Recovered,
    inputs: Mapping[str, Input],
) -> Engine:
    standing = standing_order(
        plan,
        shards=settings.shards or min(cores(session), 256),
        depot=store.depot,
        library_version=library_version(),
    )
    check_targets(plan, standing.writers)
    for source in standing.sources:
        inputs[source.name].decide_by(source.read)
    last = recovered.last
    stacks = laid_out(last.state.get(standing.operator_id) if last else None, standing.shards)
    return Engine(
        spark=session,
        store=store,
        inputs=inputs,
        settings=settings,
        plan=plan,
        standing=standing,
        recovered=recovered,
        publisher=Publisher(
            pipeline=plan.pipeline.name,
            incarnation=recovered.incarnation,
            depot=store.depot,
            writers=standing.writers,
        ),
        folder=_folder(plan, standing, store, recovered),
        epoch=recovered.epoch,
        offsets=dict(last.offsets) if last else {},
        watermark=_restored(plan, last),
        stacks=stacks,
        keys=KeyBound(allowed=plan.pipeline.state_store.max_keys, at_most=rows_of(stacks)),
    )


def _restored(plan: Plan, last: Manifest | None) -> PipelineWatermark:
    watermark = watermark_of(plan.pipeline)
    if last is None:
        return watermark
    committed = cast("PipelineState", last.watermarks)
    for name, traits in plan.traits.items():
        if traits.partitioned:
            watermark = watermark.parted(name, partitions_in(name, committed["sources"]))
    return watermark.restored(committed)


def _folder(plan: Plan, standing: Standing, store: Store, recovered: Recovered) -> Folder:
    return Folder(
        store=store,
        token=recovered.token,
        operator_id=standing.operator_id,
        operator=standing.operator,
        interval_us=us_of_ms(plan.pipeline.state_store.checkpoint_interval_ms),
        folded_epoch=recovered.folded_epoch,
        folded_us=recovered.folded_us or now_us(),
    )


def check_targets(plan: Plan, writers: Mapping[str, TargetWriter]) -> None:
    """Before any data is read: results and rows turned away can go where they are to go.

    What is wrong with any of the targets is told together.
    """
    problems: list[Problem] = []
    for channel, writer in writers.items():
        try:
            identity = plan.identity if channel == MAIN else ()
            writer.check(identity, _schema_of(plan, channel))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(plan.pipeline.as_written(problems))


def _prepare_targets(plan: Plan, writers: Mapping[str, TargetWriter]) -> None:
    """Make the tables that are missing: rows of an epoch find them, or the epoch fails.

    Two channels may name one table: what the first has made, the other must be able to use.
    """
    made = {channel: writer for channel, writer in writers.items() if needs_preparing(writer)}
    for channel, writer in made.items():
        writer.prepare(_schema_of(plan, channel))
    if len(made) > 1:
        check_targets(plan, made)


def _schema_of(plan: Plan, channel: str) -> pl.Schema:
    if channel != MAIN:
        return turned_away_schema(plan, channel)
    types = {name: polars_type(kind) for name, kind in plan.bound.output_schema.items()}
    return pl.Schema(types)


def fields_for(plan: Plan, stored: Mapping[str, Any] | None) -> dict[str, Any]:
    """The fields of the plan's fingerprint; refuses state of one that computes something else."""
    fields: dict[str, Any] = json.loads(json.dumps(plan.pipeline.fingerprint_fields(plan.found)))
    if stored is not None and (changed := changes(stored, fields)):
        hint = (
            "restore what it was, or give the pipeline another name, or start over: "
            "pipeline.reset() or `tidegate state reset` forgets state and offsets, what is in "
            "the target stays"
        )
        raise PlanChanged(changed, hint)
    return fields


def _finish(engine: Engine) -> None:
    """Publish what is committed and may not be out; then nobody needs what else is staged.

    Sources are told once more how far they are read: the run before may have ended too soon.
    """
    recovered = engine.recovered
    refuse_older_state(
        engine.standing.writers,
        EpochKey(
            pipeline=engine.plan.pipeline.name,
            incarnation=recovered.incarnation,
            operator=engine.standing.operator_id,
            channel=MAIN,
            epoch=recovered.epoch,
        ),
    )
    engine.publisher.discard_garbage(recovered.to_publish, recovered.token)
    for manifest in recovered.to_publish:
        engine.publisher.publish(manifest)
    if recovered.to_publish:
        engine.store.published(recovered.token, recovered.to_publish[-1].epoch)
    engine.store.collect_garbage(recovered.token)
    if recovered.last is not None:
        engine.tell_sources(recovered.last)


def check_reachable(depot: Depot, spark: SparkSession) -> None:
    """An embedded store needs tasks on this machine: proven by a file that they can read."""
    if not isinstance(depot, SqliteDepot) or on_this_machine(spark):
        return
    folder = depot.folder
    probe = folder / f".probe-{uuid.uuid4().hex}"
    probe.write_text(probe.name)
    try:
        tasks = max(2, cores(spark))
        seen = numbered(spark, tasks).mapInArrow(_Probe(str(probe)), "seen boolean").collect()
    finally:
        probe.unlink()
    if not all(row.seen for row in seen):
        found = f"a folder that not every Spark task can read: {folder}"
        hint = "use kind='postgres' on a cluster, or run Spark on this machine (local[*])"
        raise ConfigError([Problem("state_store.url", found, "Spark on this machine", hint)])


class _Probe:
    """Whether a task can read what the driver wrote."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __call__(self, batches: Any) -> Any:
        for batch in batches:
            path = Path(self._path)
            seen = path.exists() and path.read_text() == path.name
            column = pa.array([seen] * batch.num_rows)
            yield pa.RecordBatch.from_arrays([column], names=["seen"])
