"""Taking a pipeline over: from a value and a store to an engine that can run epochs."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import polars as pl
from msgspec import structs
from pyspark.sql import SparkSession

from tidegate.core.compiling import polars_type
from tidegate.core.watermark import PipelineState, PipelineWatermark, partitions_in
from tidegate.errors import ConfigError, PlanChanged, Problem
from tidegate.eventtime import BEGINNING, now_us, us_of_ms
from tidegate.pipeline import MAIN, Pipeline, RunSettings, Source, changes
from tidegate.pipeline.fingerprint import code_of
from tidegate.pipeline.paths import located
from tidegate.spark.engine import Engine
from tidegate.spark.folding import Folder
from tidegate.spark.inputs import Input, Opening, TransformFunction, open_input
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
from tidegate.spark.reaching import check_reachable, shared_places
from tidegate.spark.session import default_shards, epoch_session
from tidegate.state import open_store
from tidegate.state.catalog import Committed
from tidegate.state.library import library_version
from tidegate.state.protocol import Manifest, Recovered, Store
from tidegate.targets.dated import refuse_older_state, refuse_other_places
from tidegate.targets.ownership import claim_targets, refuse_other_state
from tidegate.targets.protocol import EpochKey, TargetWriter, needs_preparing

T = TypeVar("T")
logger = logging.getLogger("tidegate")

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
        session = epoch_session(spark)
        opened = open_inputs or _sources_of(pipeline, function)
        inputs = opened(session, recovered)
        recovered = structs.replace(recovered, logs={})  # may be long; only sources need them
        traits = {name: each.traits for name, each in inputs.items()}
        columns = each_source(pipeline, lambda _, source: inputs[source.name].columns())
        plan = plan_of(pipeline, columns, traits)
        engine = _engine(plan, settings, session, store, recovered, inputs)
        writers = engine.standing.writers
        check_reachable(spark, pipeline, shared_places(pipeline, store.depot, writers, inputs))
        problems = target_problems(plan, writers)
        fields = fields_for(plan, recovered.plan, problems, function=function)
        with engine.unless_taken_over():
            refuse_targets_of_others(plan, writers, recovered)
        store.adopt(recovered.token, fields)  # who slept until now, claims no target
        with engine.unless_taken_over():
            _prepare_targets(plan, writers)
            claim_targets(writers, recovered.incarnation)
        store.check_token(recovered.token)  # still ours: whoever comes claims targets later
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
        shards=settings.shards or default_shards(session),
        depot=store.depot,
        library_version=library_version(),
        spark=lambda: session,
    )
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
        last=last,
        epoch=recovered.epoch,
        offsets=dict(last.offsets) if last else {},
        watermark=_restored(plan, last),
        stacks=stacks,
        keys=KeyBound(allowed=plan.pipeline.state_store.max_keys, at_most=rows_of(stacks)),
        arrival_us=latest_arrival(last) if standing.by_arrival else None,
    )


def latest_arrival(last: Manifest | None) -> int:
    """The latest time of arrival that is committed; earlier versions noted the clock alone."""
    if last is None:
        return BEGINNING
    return last.committed_us if last.arrival_us is None else last.arrival_us


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


def target_problems(plan: Plan, writers: Mapping[str, TargetWriter]) -> list[Problem]:
    """Why results, and rows turned away, cannot go where they are to go."""
    problems: list[Problem] = []
    for channel, writer in writers.items():
        try:
            identity = plan.identity if channel == MAIN else ()
            writer.check(identity, _schema_of(plan, channel))
        except ConfigError as error:
            problems += error.problems
    return plan.pipeline.as_written(problems)


def refuse_targets_of_others(
    plan: Plan, writers: Mapping[str, TargetWriter], state: Recovered | Committed | None
) -> None:
    """Raise `StateLost` unless rows in the targets are those that this state has sent.

    Nothing is claimed: a target whose rows are another state's is left to its own pipeline.
    """
    key = EpochKey(
        pipeline=plan.pipeline.name,
        incarnation=state.incarnation if state else "",
        operator=plan.config.id,
        channel=MAIN,
        epoch=state.epoch if state else 0,
    )
    refuse_other_places(writers, state.last.targets if state and state.last else {})
    refuse_other_state(writers, key)
    refuse_older_state(writers, key)


def _prepare_targets(plan: Plan, writers: Mapping[str, TargetWriter]) -> None:
    """Make the tables that are missing: rows of an epoch find them, or the epoch fails.

    Two channels may name one table: what the first has made, the other must be able to use.
    """
    made = {channel: writer for channel, writer in writers.items() if needs_preparing(writer)}
    for channel, writer in made.items():
        writer.prepare(_schema_of(plan, channel))
    if len(made) > 1 and (problems := target_problems(plan, made)):
        raise ConfigError(problems)


def _schema_of(plan: Plan, channel: str) -> pl.Schema:
    if channel != MAIN:
        return turned_away_schema(plan, channel)
    types = {name: polars_type(kind) for name, kind in plan.bound.output_schema.items()}
    return pl.Schema(types)


_CHANGED = (
    "restore what it was, or give the pipeline another name, or start over: pipeline.reset() or "
    "`tidegate state reset` forgets state and offsets, what is in the target stays"
)


def fields_for(
    plan: Plan,
    stored: Mapping[str, Any] | None,
    problems: Sequence[Problem] = (),
    *,
    function: TransformFunction | None = None,
) -> dict[str, Any]:
    """The fields of the plan's fingerprint, if the state is one of this plan.

    State that was written before the code of a function was part of the fingerprint is adopted,
    with a warning.

    Raises `PlanChanged` where the state is of a pipeline that computes something else, and
    `ConfigError` where there are `problems`: with the change among them, which comes first,
    because somebody who takes it back may have no other problem.
    """
    fields: dict[str, Any] = json.loads(json.dumps(plan.pipeline.fingerprint_fields(plan.found)))
    if function is not None and (code := code_of(function)):
        (source,) = fields["sources"].values()
        source["function"] = code
        if stored is not None:
            stored = _with_function(stored, plan.pipeline.name, code)
    changed = [] if stored is None else changes(stored, fields)
    if changed and not problems:
        raise PlanChanged(changed, _CHANGED)
    if changed:
        found = f"state of another pipeline: {', '.join(changed)}"
        problems = [Problem("state_store", found, "state of this one", _CHANGED), *problems]
    if problems:
        raise ConfigError(problems)
    return fields


def _with_function(stored: Mapping[str, Any], pipeline: str, code: str) -> Mapping[str, Any]:
    if any("function" in source for source in stored["sources"].values()):
        return stored
    logger.warning(
        "the state of pipeline %r does not say which function transformed its rows: it is taken "
        "to be this one, and from its next commit on a change of its code stops the run",
        pipeline,
    )
    sources = {name: {**source, "function": code} for name, source in stored["sources"].items()}
    return {**stored, "sources": sources}


def _finish(engine: Engine) -> None:
    """Publish what is committed and may not be out; then nobody needs what else is staged.

    Sources are told once more how far they are read: the run before may have ended too soon.
    """
    recovered = engine.recovered
    engine.publisher.discard_garbage(recovered.to_publish, recovered.token, recovered.epoch)
    for manifest in recovered.to_publish:
        with engine.unless_taken_over():
            engine.publisher.publish(manifest)
    if recovered.to_publish:
        engine.store.published(recovered.token, recovered.to_publish[-1].epoch)
    engine.store.collect_garbage(recovered.token)
    if recovered.last is not None:
        engine.tell_sources(recovered.last)
