"""The plan in words, for a terminal: what is read, computed, kept and sent, without secrets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tidegate.pipeline.explain_graph import graph_lines
from tidegate.pipeline.graph import bound_operators, inputs_of, targets_of
from tidegate.pipeline.masking import listed, masked
from tidegate.pipeline.operators import Bound, Operator, kind_of
from tidegate.pipeline.pipeline_rules import REJECTED
from tidegate.pipeline.source import ARRIVAL, Source
from tidegate.pipeline.store import StateStore
from tidegate.pipeline.target import Target
from tidegate.pipeline.watermark import Watermark
from tidegate.text import bytes_text, count_text, duration_text

if TYPE_CHECKING:
    from tidegate.pipeline.pipeline import Pipeline


def explained(pipeline: Pipeline) -> str:
    """Describe `pipeline` in sections, each a title and indented lines."""
    texts = [
        "\n".join([title, *(f"  {line}" for line in lines)])
        for title, lines in sections_of(pipeline)
    ]
    return "\n\n".join([f"pipeline {pipeline.name}", *texts]) + "\n"


def sections_of(pipeline: Pipeline) -> list[tuple[str, list[str]]]:
    """What there is to say of a pipeline: titles and lines."""
    bound = bound_operators(pipeline)
    several = len(pipeline.operators) > 1
    return [
        *([("graph", graph_lines(pipeline, bound))] if several else []),
        ("sources", [line for each in pipeline.sources for line in _source(pipeline, each)]),
        *((f"operator {each.id}", [*_operator(pipeline, each)]) for each in pipeline.operators),
        ("state", [*_state(pipeline, bound)]),
        ("targets" if several else "target", [*_targets(pipeline)]),
        ("channels", [*_channels(pipeline)]),
        *_outputs(pipeline, bound),
    ]


def operator_lines(operator: Operator) -> list[str]:
    """What an operator does, whatever it reads."""
    return [*kind_of(operator).lines(operator)]


def _source(pipeline: Pipeline, source: Source) -> Iterator[str]:
    yield f"{source.name}: {source.format}{_options(source.options)}"
    yield f"  event time  {_event_time(source)}"
    watermark = pipeline.watermark_of(source.name)
    yield f"  watermark   {_watermark(watermark, guarded=source.event_time != ARRIVAL)}"
    if source.transform is not None:
        yield f"  transform   {' '.join(source.transform.split())}"


def _event_time(source: Source) -> str:
    if source.event_time == ARRIVAL:
        return "the clock when the row is read"
    unit = f", {source.event_time_unit} since 1970" if source.event_time_unit else ""
    return f"column {source.event_time}{unit}"


def _watermark(watermark: Watermark, *, guarded: bool) -> str:
    disorder = watermark.max_out_of_order_ms
    parts = [
        f"latest event seen, less {duration_text(disorder)}" if disorder else "latest event seen"
    ]
    if watermark.advance_threshold is not None:
        parts.append(f"moves after {watermark.advance_threshold} more rows")
    parts.append(f"idle after {duration_text(watermark.source_idleness_ms)}")
    if watermark.advance_when_idle:
        parts.append("follows the clock while all are idle")
    if guarded and watermark.max_future_skew_ms != "unbounded":
        skew = duration_text(watermark.max_future_skew_ms)
        parts.append(f"rows over {skew} ahead of the clock are rejected")
    return "; ".join(parts)


def _operator(pipeline: Pipeline, operator: Operator) -> Iterator[str]:
    if kind_of(operator).lists_inputs:
        yield f"reads     {listed(inputs_of(pipeline)[operator.id], 'and')}"
    yield from operator_lines(operator)


def _state(pipeline: Pipeline, bound: Mapping[str, Bound]) -> Iterator[str]:
    store = pipeline.state_store
    yield _store(store)
    for operator in pipeline.operators:
        lines = kind_of(operator).state_lines(operator, bound.get(operator.id), store)
        first, *others = lines
        yield f"{operator.id}: {first}"
        yield from (f"  {each}" for each in others)
    yield from _limits(store)


def _store(store: StateStore) -> str:
    if store.kind == "in_memory":
        return "in memory: a crash loses all of it"
    where = f"sqlite in {masked('', store.url)}"
    if store.kind == "postgres":
        where = f"postgres, schema {store.schema_name}" if store.schema_name else "postgres"
    return f"{where}; table of keys every {duration_text(store.checkpoint_interval_ms)}"


def _limits(store: StateStore) -> Iterator[str]:
    limits = [count_text(store.max_keys, "keys")] if store.max_keys is not None else []
    if store.max_state_bytes is not None:
        limits.append(bytes_text(store.max_state_bytes))
    then = "the pipeline stops" if store.on_state_cap == "stop" else "rows of new keys are shed"
    yield f"limit: {listed(limits)}; then {then}" if limits else "no limit"


def _targets(pipeline: Pipeline) -> Iterator[str]:
    for name, target in targets_of(pipeline).items():
        yield f"{name}: {_target(target)}" if len(pipeline.operators) > 1 else _target(target)


def _target(target: Target) -> str:
    how = "appends only" if target.appends_only else "replaces and deletes by key"
    return f"{target.format}{_options(target.options)}: {how}"


def _channels(pipeline: Pipeline) -> Iterator[str]:
    for name, target in pipeline.channels.items():
        yield f"{name}: {target.format}{_options(target.options)}"
    if REJECTED not in pipeline.channels:
        yield f"{REJECTED}: counted only"


def _outputs(pipeline: Pipeline, bound: Mapping[str, Bound]) -> Iterator[tuple[str, list[str]]]:
    for sink in targets_of(pipeline):
        if sink in bound:
            title = f"output columns of {sink}" if len(pipeline.operators) > 1 else "output columns"
            schema = bound[sink].output_schema
            yield title, _aligned((name, str(kind)) for name, kind in schema.items())


def _aligned(pairs: Iterable[tuple[str, str]]) -> list[str]:
    rows = [*pairs]
    width = max(len(name) for name, _ in rows)
    return [f"{name:<{width}}  {text}" for name, text in rows]


def _options(options: Mapping[str, Any]) -> str:
    shown = masked("", options)
    return f" ({', '.join(f'{name}={value!r}' for name, value in shown.items())})" if shown else ""
