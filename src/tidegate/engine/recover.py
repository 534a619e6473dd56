"""Taking a pipeline over: from a value and a store to an engine that can run epochs."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import polars as pl
from msgspec import structs

from tidegate.core.compiling import polars_type
from tidegate.core.watermark import PipelineState, PipelineWatermark, partitions_in
from tidegate.engine.epoch import Engine
from tidegate.engine.executor import Backend
from tidegate.engine.fold import Folder
from tidegate.engine.head import Head, OperatorHead
from tidegate.engine.inputs import Input, Opening
from tidegate.engine.layout import laid_out, rows_of
from tidegate.engine.limits import KeyBound
from tidegate.engine.plan import (
    Plan,
    job_context,
    plan_of,
    turned_away_schema,
    watermark_of,
)
from tidegate.engine.publish import Publisher
from tidegate.errors import ConfigError, PlanChanged, Problem
from tidegate.eventtime import BEGINNING, now_us, us_of_ms
from tidegate.pipeline import MAIN, Pipeline, RunSettings, Source, changes
from tidegate.pipeline.fingerprint import code_of
from tidegate.pipeline.paths import located
from tidegate.state import open_store
from tidegate.state.catalog import Committed
from tidegate.state.library import library_version
from tidegate.state.protocol import Manifest, Recovered, Store
from tidegate.targets.dated import refuse_older_state, refuse_other_places
from tidegate.targets.ownership import claim_targets, refuse_other_state
from tidegate.targets.protocol import EpochKey, TargetWriter
from tidegate.tasks.orders import JobContext

T = TypeVar("T")
logger = logging.getLogger("tidegate")


def open_engine(
    pipeline: Pipeline,
    backend: Backend,
    settings: RunSettings,
    *,
    function: Callable[..., Any] | None = None,
) -> Engine:
    """Take the pipeline over and finish what the run before it left to publish.

    `function` is the transform of the backend's inputs, for the fingerprint. Raises `ConfigError`
    for what cannot run, `PlanChanged` for state of another pipeline, `PipelineInUse` while another
    driver runs it.
    """
    store = open_store(pipeline.state_store, pipeline.name)
    recovered = _taken_over(store)
    try:
        inputs = each_source(
            pipeline,
            lambda place, source: backend.open_input(
                Opening(
                    pipeline=pipeline.name,
                    source=source,
                    place=place,
                    log=recovered.logs.get(source.name, ()),
                )
            ),
        )
        recovered = structs.replace(recovered, logs={})  # may be long; only sources need them
        traits = {name: each.traits for name, each in inputs.items()}
        columns = each_source(pipeline, lambda _, source: inputs[source.name].columns())
        plan = plan_of(pipeline, columns, traits)
        engine = _engine(plan, settings, backend, store, recovered, inputs)
        writers = engine.context.writers
        backend.check_reachable(pipeline, store.depot, writers, inputs)
        problems = target_problems(plan, writers)
        fields = fields_for(plan, recovered.plan, problems, function=function)
        with engine.unless_taken_over():
            refuse_targets_of_others(plan, writers, recovered)
        store.adopt(recovered.token, fields)  # a driver that slept until now claims no target
        with engine.unless_taken_over():
            _prepare_targets(plan, writers)
            claim_targets(writers, recovered.incarnation)
        store.check_token(recovered.token)  # still ours: another driver claims targets later
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
    backend: Backend,
    store: Store,
    recovered: Recovered,
    inputs: Mapping[str, Input],
) -> Engine:
    context = job_context(
        plan,
        shards=settings.shards or backend.default_shards,
        depot=store.depot,
        library_version=library_version(),
        open_other=backend.open_target,
    )
    for source in context.sources:
        inputs[source.name].decide_by(source.read)
    return Engine(
        executor=backend.executor(context),
        store=store,
        inputs=inputs,
        settings=settings,
        plan=plan,
        context=context,
        recovered=recovered,
        publisher=Publisher(
            pipeline=plan.pipeline.name,
            incarnation=recovered.incarnation,
            depot=store.depot,
            writers=context.writers,
        ),
        folder=_folder(plan, store, recovered),
        head=_head(plan, context, recovered),
    )


def _head(plan: Plan, context: JobContext, recovered: Recovered) -> Head:
    """The head as it is committed, laid out over the shards of this run."""
    last, allowed = recovered.last, plan.pipeline.state_store.max_keys
    stacks = {
        spec.id: laid_out(last.state.get(spec.id) if last else None, context.shards)
        for spec in plan.operators
    }
    return Head(
        epoch=recovered.epoch,
        offsets=dict(last.offsets) if last else {},
        watermark=_restored(plan, last),
        operators={
            name: OperatorHead(stacks=held, keys=KeyBound(allowed=allowed, at_most=rows_of(held)))
            for name, held in stacks.items()
        },
        arrival_us=latest_arrival(last) if context.by_arrival else None,
        manifest=last,
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


def _folder(plan: Plan, store: Store, recovered: Recovered) -> Folder:
    return Folder(
        store=store,
        token=recovered.token,
        operators={spec.id: spec.operator for spec in plan.operators},
        interval_us=us_of_ms(plan.pipeline.state_store.checkpoint_interval_ms),
        folded_epoch=recovered.folded_epoch,
        folded_us=recovered.folded_us or now_us(),
    )


def target_problems(plan: Plan, writers: Mapping[str, TargetWriter]) -> list[Problem]:
    """Why results, and rows turned away, cannot go where they are to go."""
    problems: list[Problem] = []
    for channel, writer in writers.items():
        try:
            identity = plan.sink.identity if channel == MAIN else ()
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
        operator=plan.sink.id,
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
    for channel, writer in writers.items():
        writer.prepare(_schema_of(plan, channel))
    if len(writers) > 1 and (problems := target_problems(plan, writers)):
        raise ConfigError(problems)


def _schema_of(plan: Plan, channel: str) -> pl.Schema:
    if channel != MAIN:
        return turned_away_schema(plan, channel)
    types = {name: polars_type(kind) for name, kind in plan.sink.schema.items()}
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
    function: Callable[..., Any] | None = None,
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
