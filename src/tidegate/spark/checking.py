"""What can be found out about a pipeline without running it: nothing is written, or taken over.

    state -> sources -> columns -> plan -> targets -> Checked, or why it cannot be run

Spark is started only where it has to say something: for a format of its own, or a transform.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from pyspark.sql import SparkSession

from tidegate.engine.absent_columns import AbsentColumn, absent_columns
from tidegate.engine.inputs import Opening
from tidegate.engine.plan import Plan, plan_of, writer_of
from tidegate.engine.recover import (
    each_source,
    fields_for,
    refuse_targets_of_others,
    target_problems,
)
from tidegate.errors import ConfigError, Problem
from tidegate.pipeline import MAIN, Pipeline, Target
from tidegate.pipeline.store import DEFAULT_FOLDER
from tidegate.sources import LogEntry, open_source
from tidegate.spark.inputs import open_input
from tidegate.spark.session import check_not_remote, epoch_session, spark_session
from tidegate.spark.spark_target import SparkFormatWriter
from tidegate.state import catalog_of, open_store
from tidegate.state.catalog import Committed
from tidegate.targets.protocol import TargetWriter
from tidegate.text import bytes_text


@dataclass(frozen=True, kw_only=True)
class Checked:
    """A pipeline that can be run as it stands."""

    plan: Plan
    committed: Committed | None
    """Where it stands, if it has been run."""
    holder: str | None
    """Who runs it now."""
    absent: Sequence[AbsentColumn] = ()
    """Columns that are probably misspelt, or rare: a run does not need them."""

    def lines(self) -> Iterator[str]:
        """What was found, for people."""
        pipeline = self.plan.pipeline
        yield f"{pipeline.name}: can be run"
        for source in pipeline.sources:
            yield f"  source {source.name}: {_columns(self.plan.found[source.name])}"
        output = {name: str(kind) for name, kind in self.plan.sink.schema.items()}
        yield f"  sends: {_columns(output)}"
        yield f"  state: {self._state()}"
        if self.holder is not None:
            yield f"  note: it is being run by {self.holder}"
        for each in self.absent:
            yield f"  warning: {each.text}"

    def _state(self) -> str:
        if self.committed is None or not self.committed.epoch:
            return "none yet, the first run begins at the beginning"
        size = bytes_text(self.committed.state_bytes)
        return f"{size} at epoch {self.committed.epoch}, the next run goes on behind it"


def _columns(types: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in types.items())


def checked(pipeline: Pipeline, spark: Callable[[], SparkSession] = spark_session) -> Checked:
    """Look at everything that a run would look at before its first epoch.

    Raises `ConfigError` with all problems, `PlanChanged` if the state is another pipeline's,
    `StateLost` if a target has rows that other state has sent.
    """
    check_not_remote()
    wrong, stands = _Problems(), _Stands()
    session = cache(lambda: epoch_session(spark()))
    with wrong.taken():
        open_store(pipeline.state_store, pipeline.name)
        _check_folder(pipeline)
        stands = _stands(pipeline)
    plan: Plan | None = None
    with wrong.taken():
        found = each_source(
            pipeline,
            lambda place, source: _columns_of(
                Opening(
                    pipeline=pipeline.name,
                    source=source,
                    place=place,
                    log=stands.logs.get(source.name, ()),
                ),
                session,
            ),
        )
        plan = plan_of(pipeline, found)
    if plan is None:
        raise ConfigError(wrong.found)
    writers = _writers(plan, session, wrong)
    wrong.found += target_problems(plan, writers)
    absent = [*_absent_columns(plan, stands)]
    wrong.found += [each.problem for each in absent if each.fatal]
    stored = stands.committed.plan if stands.committed is not None else None
    fields_for(plan, stored, pipeline.as_written(wrong.found))
    if stands.holder is None:  # whoever runs it goes on meanwhile
        refuse_targets_of_others(plan, writers, stands.committed)
    return Checked(plan=plan, committed=stands.committed, holder=stands.holder, absent=absent)


def _absent_columns(plan: Plan, stands: _Stands) -> Iterator[AbsentColumn]:
    """The declared columns that no row has, of sources whose rows name their columns."""
    for place, source in enumerate(plan.pipeline.sources):
        if source.columns is None:
            continue
        log = stands.logs.get(source.name, ())
        reader = open_source(source, log, pipeline=plan.pipeline.name)
        if reader is not None:
            yield from absent_columns(plan, place, reader.sampled_names())


def _writers(
    plan: Plan, spark: Callable[[], SparkSession], wrong: _Problems
) -> dict[str, TargetWriter]:
    writers = {}
    for channel, target in {MAIN: plan.pipeline.target, **plan.pipeline.channels}.items():
        with wrong.taken():
            writers[channel] = writer_of(plan, target, channel, lambda t: _spark_format(t, spark))
    return writers


def _spark_format(target: Target, spark: Callable[[], SparkSession]) -> TargetWriter:
    return SparkFormatWriter(target=target, spark=spark())


def _columns_of(opening: Opening, spark: Callable[[], SparkSession]) -> Mapping[str, str]:
    source = opening.source
    if source.transform is None:
        reader = open_source(source, opening.log, pipeline=opening.pipeline)
        if reader is not None:
            return reader.columns()
    return open_input(spark(), opening).columns()


def _check_folder(pipeline: Pipeline) -> None:
    """Whether the folder of an embedded store is one, or can be made."""
    folder = _folder_of(pipeline)
    if folder is None:
        return
    there = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK) or _is_of_the_system(there):
        what = "cannot be written to" if there.is_dir() else "is no folder"
        hint = "choose a folder that this user can write to"
        problem = Problem("state_store.url", f"{there}, which {what}", "a folder for state", hint)
        raise ConfigError([problem])


def _is_of_the_system(folder: Path) -> bool:
    """Root may write anywhere, and yet not here."""
    return folder.is_relative_to("/proc") or folder.is_relative_to("/sys")


def _folder_of(pipeline: Pipeline) -> Path | None:
    store = pipeline.state_store
    return Path(store.url or DEFAULT_FOLDER).expanduser() if store.kind == "sqlite" else None


@dataclass(frozen=True, kw_only=True)
class _Stands:
    """What is kept of a pipeline that a run would go on with."""

    committed: Committed | None = None
    holder: str | None = None
    logs: Mapping[str, Sequence[LogEntry]] = field(default_factory=dict)
    """By source: the columns that were found once are in it, and count for ever."""


def _stands(pipeline: Pipeline) -> _Stands:
    if pipeline.state_store.kind == "in_memory":
        return _Stands()
    catalog = catalog_of(pipeline.state_store)
    if (committed := catalog.committed(pipeline.name)) is not None:
        committed.check_readable()
    return _Stands(
        committed=committed,
        holder=catalog.holder(pipeline.name),
        logs=catalog.logs(pipeline.name),
    )


@dataclass
class _Problems:
    """Problems of parts that can be looked at one by one."""

    found: list[Problem] = field(default_factory=list)

    @contextmanager
    def taken(self) -> Iterator[None]:
        try:
            yield
        except ConfigError as error:
            self.found += error.problems
