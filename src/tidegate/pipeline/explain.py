"""The plan in words, for a terminal: what is read, computed, kept and sent, without secrets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tidegate.pipeline.aggregate_lookup import spec_of
from tidegate.pipeline.binding import BoundWindow
from tidegate.pipeline.emit_strategies import sending_of
from tidegate.pipeline.graph import Bound, bound_operators, inputs_of, sinks_of
from tidegate.pipeline.join import Join
from tidegate.pipeline.join_binding import BoundJoin
from tidegate.pipeline.masking import listed, masked
from tidegate.pipeline.pipeline_rules import REJECTED
from tidegate.pipeline.sizing import bytes_per_row, bytes_per_window, growing_parts
from tidegate.pipeline.source import ARRIVAL, Source
from tidegate.pipeline.store import StateStore
from tidegate.pipeline.target import Target
from tidegate.pipeline.watermark import Watermark
from tidegate.pipeline.window import Aggregation, Window
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
    return [
        ("sources", [line for each in pipeline.sources for line in _source(pipeline, each)]),
        *((f"operator {each.id}", [*_operator(pipeline, each)]) for each in pipeline.operators),
        ("state", [*_state(pipeline, bound)]),
        ("target", [_target(pipeline.target)]),
        ("channels", [*_channels(pipeline)]),
        *_outputs(pipeline, bound),
    ]


def operator_lines(operator: Window | Join) -> list[str]:
    """What an operator does, whatever it reads."""
    return [*(_join(operator) if isinstance(operator, Join) else _window(operator))]


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


def _operator(pipeline: Pipeline, operator: Window | Join) -> Iterator[str]:
    if isinstance(operator, Window):
        yield f"reads     {listed(inputs_of(pipeline)[operator.id], 'and')}"
    yield from operator_lines(operator)


def _join(join: Join) -> Iterator[str]:
    yield f"joins     {join.left} (left) with {join.right} (right), {join.type}"
    equal = "NULL equals NULL" if join.null_keys_equal else "NULL equals nothing"
    yield f"keys      {', '.join(join.on)}; {equal}"
    yield f"matches   {_near(join)}"
    if join.condition is not None:
        yield f"          where {' '.join(join.condition.split())}"
    for side in ("left", "right"):
        for each in getattr(join, f"{side}_aggregations"):
            yield f"computes  {each.output_name} = {_aggregation(each)}, of the {side} session"
    held = f", and {duration_text(join.allowed_lateness_ms)}" if join.allowed_lateness_ms else ""
    yield f"waits     until the watermark passes the last time that could match{held}"
    yield f"late      {_late_in_join(join)}"
    yield f"sends     {_SENDS[join.type]}"


_SENDS: Final = {
    "inner": "each pair once",
    "left": "each pair once; left rows that match nothing, when they can match no more",
    "right": "each pair once; right rows that match nothing, when they can match no more",
    "full": "each pair once; rows that match nothing, when they can match no more",
    "semi": "each left row once, with its first match",
    "anti": "left rows that match nothing, when they can match no more",
}


def _near(join: Join) -> str:
    if join.kind == "interval":
        return f"right time - left time {_bounds(join)}"
    if join.kind == "tumbling_tumbling":
        return f"rows in the same pane of {duration_text(join.size_ms or 0)}"
    if join.kind == "tumbling_sliding":
        left, right = duration_text(join.left_size_ms or 0), duration_text(join.right_size_ms or 0)
        slide = duration_text(join.right_slide_ms or 0)
        if join.match == "same_pane":
            return f"right rows in the left row's pane of {left} (panes of {right} every {slide})"
        return f"panes of {left} on the left that overlap panes of {right}, one every {slide}"
    gap, cap = duration_text(join.gap_ms or 0), duration_text(join.max_session_duration_ms or 0)
    what = "sessions" if join.output == "sessions" else "rows of sessions"
    return f"{what} that overlap: over after {gap} of silence, sealed at {cap}"


def _bounds(join: Join) -> str:
    def text(ms: int) -> str:
        return f"{'-' if ms < 0 else ''}{duration_text(abs(ms))}"

    age, parts = f"{duration_text(join.max_state_age_ms or 0)}, the age of state", []
    low, high = join.min_delta_ms, join.max_delta_ms
    at_least = "at least" if join.min_inclusive else "more than"
    at_most = "at most" if join.max_inclusive else "less than"
    parts.append(f"at least -{age}" if low is None else f"{at_least} {text(low)}")
    parts.append(f"at most {age}" if high is None else f"{at_most} {text(high)}")
    return " and ".join(parts)


def _late_in_join(join: Join) -> str:
    left, right = join.late_data_of("left"), join.late_data_of("right")
    fates = {
        "drop": "are dropped and counted",
        "side_output": f"go to channel {join.late_channel}, with side and reason",
        "dlq": f"go to channel {join.late_channel}, with side and reason",
        "reassign": "count at the watermark if at most "
        f"{duration_text(join.max_lateness_ms or 0)} late, else are dropped and counted",
    }
    extra = duration_text(join.allowed_lateness_ms) if join.allowed_lateness_ms else ""
    if join.kind == "interval":
        which = "behind the watermark" + (f" by more than {extra}" if extra else "")
    else:
        what = "session" if join.kind == "session_session" else "pane"
        which = f"whose {what} is over" + (f" for {extra}" if extra else "")
    if left == right:
        return f"rows {which} {fates[left]}"
    return f"left rows {which} {fates[left]}; right rows {fates[right]}"


def _window(window: Window) -> Iterator[str]:
    yield f"windows   {_windows(window)}"
    yield f"keys      {', '.join(window.group_by) or 'none: one group for all rows'}"
    names = [each.output_name for each in window.aggregations]
    width = max(map(len, names))
    for place, each in enumerate(window.aggregations):
        title = "computes" if place == 0 else ""
        yield f"{title:<9} {each.output_name:<{width}} = {_aggregation(each)}"
    yield f"late      {_late(window)}"
    yield f"sends     a window {_emit(window)}"


def _windows(window: Window) -> str:
    if window.kind == "session":
        return f"{_session(window)}, sealed at {duration_text(window.max_session_duration_ms or 0)}"
    width = duration_text(window.width_ms or 0)
    text = f"tumbling, {width} each"
    if window.kind == "hopping":
        text = f"hopping, {width} each, a new one every {duration_text(window.hop_ms or 0)}"
    offset = window.offset_ms
    sign = "-" if offset < 0 else ""
    return f"{text}, bounds moved by {sign}{duration_text(abs(offset))}" if offset else text


def _session(window: Window) -> str:
    if window.gap_ms is not None:
        return f"session, over after {duration_text(window.gap_ms)} of silence"
    without = "left out" if window.nonpositive_gap == "drop" else "a session of length 0"
    return (
        f"session, over after the silence that column {window.gap_column} gives in ms "
        f"(a row without: {without})"
    )


def _aggregation(each: Aggregation) -> str:
    spec, value_of = spec_of(each.kind), partial(getattr, each)
    if spec.takes is None:
        return "number of rows"
    options = "".join(
        f", {'at most ' if option.bound else ''}{value_of(option.name)}"
        for option in spec.active(value_of)
    )
    return f"{each.kind}({each.input_column}){options}"


def _late(window: Window) -> str:
    held = window.allowed_lateness_ms
    if held == "unbounded":
        return "never: a window takes rows for ever, and is held for ever"
    over = f"is {duration_text(held)} past" if held else "passes"
    return f"once the watermark {over} the end of their window, rows {_fate(window)}"


def _fate(window: Window) -> str:
    if window.late_data in ("side_output", "dlq"):
        return f"go to channel {window.late_channel}, with the reason"
    if window.late_data == "reassign":
        most = duration_text(window.max_lateness_ms or 0)
        return f"count at the watermark if at most {most} late, else are dropped and counted"
    return "are dropped and counted"


def _emit(window: Window) -> str:
    return sending_of(window).text.format(every=duration_text(window.every_ms or 0))


def _state(pipeline: Pipeline, bound: Mapping[str, Bound]) -> Iterator[str]:
    store = pipeline.state_store
    yield _store(store)
    for operator in pipeline.operators:
        found = bound.get(operator.id)
        if isinstance(operator, Join):
            joined = found if isinstance(found, BoundJoin) else None
            sizes = [bytes_text(size) for size in bytes_per_row(operator, joined)]
            yield f"{operator.id}: about {sizes[0]} per waiting left row, {sizes[1]} per right row"
            continue
        size = bytes_per_window(operator, found if isinstance(found, BoundWindow) else None)
        total = _total(store, size)
        yield f"{operator.id}: about {bytes_text(size)} per key and open window{total}"
        yield from (f"  {part}" for part in growing_parts(operator))
    yield from _limits(store)


def _store(store: StateStore) -> str:
    if store.kind == "in_memory":
        return "in memory: a crash loses all of it"
    where = f"sqlite in {masked('', store.url)}"
    if store.kind == "postgres":
        where = f"postgres, schema {store.schema_name}" if store.schema_name else "postgres"
    return f"{where}; table of keys every {duration_text(store.checkpoint_interval_ms)}"


def _total(store: StateStore, size: int) -> str:
    if store.max_keys is None:
        return ""
    keys = count_text(store.max_keys, "keys")
    return f", {bytes_text(size * store.max_keys)} with one window for each of {keys}"


def _limits(store: StateStore) -> Iterator[str]:
    limits = [count_text(store.max_keys, "keys")] if store.max_keys is not None else []
    if store.max_state_bytes is not None:
        limits.append(bytes_text(store.max_state_bytes))
    then = "the pipeline stops" if store.on_state_cap == "stop" else "rows of new keys are shed"
    yield f"limit: {listed(limits)}; then {then}" if limits else "no limit"


def _target(target: Target) -> str:
    how = "appends only" if target.appends_only else "replaces and deletes by key"
    return f"{target.format}{_options(target.options)}: {how}"


def _channels(pipeline: Pipeline) -> Iterator[str]:
    for name, target in pipeline.channels.items():
        yield f"{name}: {target.format}{_options(target.options)}"
    if REJECTED not in pipeline.channels:
        yield f"{REJECTED}: counted only"


def _outputs(pipeline: Pipeline, bound: Mapping[str, Bound]) -> Iterator[tuple[str, list[str]]]:
    for sink in sinks_of(pipeline):
        if sink in bound:
            schema = bound[sink].output_schema
            yield "output columns", _aligned((name, str(kind)) for name, kind in schema.items())


def _aligned(pairs: Iterable[tuple[str, str]]) -> list[str]:
    rows = [*pairs]
    width = max(len(name) for name, _ in rows)
    return [f"{name:<{width}}  {text}" for name, text in rows]


def _options(options: Mapping[str, Any]) -> str:
    shown = masked("", options)
    return f" ({', '.join(f'{name}={value!r}' for name, value in shown.items())})" if shown else ""
