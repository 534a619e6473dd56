"""What has to hold between the parts of a pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from tidegate.errors import Problem
from tidegate.pipeline.emit_strategies import EMIT_STRATEGIES, sending_of
from tidegate.pipeline.graph import targets_of
from tidegate.pipeline.graph_rules import GRAPH, columns_fit
from tidegate.pipeline.masking import listed, masked_text, shown
from tidegate.pipeline.names import EXPECTED, is_plain, plain_name
from tidegate.pipeline.operators import kind_of
from tidegate.pipeline.topics import option_that_reads
from tidegate.pipeline.validation import readable
from tidegate.pipeline.window import Window
from tidegate.pipeline.wording import did_you_mean

if TYPE_CHECKING:
    from tidegate.pipeline.pipeline import Pipeline
    from tidegate.pipeline.source import Source
    from tidegate.pipeline.target import Target

REJECTED: Final = "rejected"
"""The channel for rows that were not admitted."""

MAIN: Final = "main"
"""What the results themselves are called, where all that is sent has a name.

Rows of every other channel have no identity."""

Problems = Iterator[Problem]


def something_is_read(pipeline: Pipeline) -> Problems:
    """At least one source."""
    if not pipeline.sources:
        hint = "Source(name='clicks', format='files', event_time='ts', options={'path': ...})"
        yield Problem("sources", "nothing", "at least one source", hint)


def something_is_computed(pipeline: Pipeline) -> Problems:
    """At least one operator."""
    if not pipeline.operators:
        hint = "window=Window(kind='session', ...), or join=Join(left=..., right=..., on=...)"
        yield Problem("window", "nothing", "a window or a join", hint)


def names_are_plain(pipeline: Pipeline) -> Problems:
    """Names of pipelines, sources, operators and channels follow one rule."""
    for at, name in _names(pipeline):
        if not is_plain(name):
            hint = f"call it {plain_name(masked_text(name), 'x')!r}"
            if at == "name":
                hint += "; what is kept under the old name stays there, see `tidegate state list`"
            yield Problem(at, shown(name), EXPECTED, hint)


def names_differ(pipeline: Pipeline) -> Problems:
    """No name twice, of sources and operators together: inputs refer to both."""
    named = [(f"sources[{n}].name", s.name) for n, s in readable(pipeline.sources, "name")]
    named += [(f"operators[{n}].id", o.id) for n, o in readable(pipeline.operators, "id")]
    first: dict[str, str] = {}
    for at, name in named:
        if name in first:
            hint = "give it another name"
            yield Problem(at, shown(name), f"a name not used before, as at {first[name]}", hint)
        first.setdefault(name, at)


def sessions_have_a_store(pipeline: Pipeline) -> Problems:
    """Sessions live for long: where they do is a decision."""
    if pipeline.state_store is None:
        hint = "state_store=StateStore() keeps state in ./.tidegate; in production kind='postgres'"
        yield Problem("state_store", "nothing", "a state store for session windows", hint)


def target_takes_emit(pipeline: Pipeline) -> Problems:
    """Only what is sent once, or as a changelog, goes where rows cannot be taken back."""
    targets = targets_of(pipeline)
    for place, operator in _windows(pipeline, "id", "emit", "late_data"):
        target = targets.get(operator.id)
        if target is None or not [*readable([target], "mode", "format")]:
            continue
        if target.mode == "append" and not sending_of(operator).append_only:
            yield _refused_emit(f"operators[{place}].emit", operator, target.format)


def late_rows_have_a_channel(pipeline: Pipeline) -> Problems:
    """Rows that are kept need a place."""
    for place, operator in readable(pipeline.operators, "late_data", "late_channel"):
        channel = operator.late_channel
        kept = [
            policy
            for policy in kind_of(operator).late_policies(operator)
            if policy in ("side_output", "dlq")
        ]
        if kept and channel not in pipeline.channels:
            expected = f"a channel with a target for late_data={kept[0]!r}"
            target = "Target(format='parquet', options={'path': ...})"
            new = f"late={target}" if channel == "late" else f"channels={{{channel!r}: {target}}}"
            at = f"operators[{place}].late_channel"
            yield Problem(at, f"{shown(channel)} without a target", expected, f"add {new}")


def results_have_their_own_channel(pipeline: Pipeline) -> Problems:
    """No row that was turned away is taken for a result."""
    if MAIN in pipeline.channels:
        at, hint = f"channels.{MAIN}", "give the late channel another name"
        yield Problem(at, shown(MAIN), "a name that is not taken: results go to 'main'", hint)


def channels_are_used(pipeline: Pipeline) -> Problems:
    """Nobody configures a channel that nothing can ever reach."""
    used = {REJECTED, *(operator.late_channel for operator in pipeline.operators)}
    for name in pipeline.channels:
        if name not in used:
            hint = did_you_mean(name, sorted(used), "remove it")
            yield Problem(f"channels.{name}", shown(name), listed(sorted(used)), hint)


def nothing_sent_is_read(pipeline: Pipeline) -> Problems:
    """What goes out of a pipeline does not come back: it would go round for ever."""
    targets: dict[str, Target | None] = {"target": pipeline.target}
    targets |= {f"channels.{name}": each for name, each in pipeline.channels.items()}
    for place, operator in readable(pipeline.operators, "target"):
        own = operator.target if operator.target != pipeline.target else None
        targets[f"operators[{place}].target"] = own
    sources = [*readable(pipeline.sources, "name", "format", "options")]
    for at, target in targets.items():
        if target is None or not [*readable([target], "format", "options")]:
            continue
        for _, source in sources:
            if (option := option_that_reads(source, target)) is not None:
                yield _read_again(f"{at}.options.topic", target, source, option)


PIPELINE: Final = (
    something_is_read,
    something_is_computed,
    names_are_plain,
    names_differ,
    *GRAPH,
    sessions_have_a_store,
    target_takes_emit,
    late_rows_have_a_channel,
    results_have_their_own_channel,
    channels_are_used,
    nothing_sent_is_read,
    columns_fit,
)


def _names(pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    """What has a name of its own, each with the path where it says so."""
    yield from (("name", each.name) for _, each in readable([pipeline], "name"))
    yield from ((f"sources[{n}].name", s.name) for n, s in readable(pipeline.sources, "name"))
    yield from ((f"operators[{n}].id", o.id) for n, o in readable(pipeline.operators, "id"))
    yield from (("channels", name) for name in pipeline.channels)


def _windows(pipeline: Pipeline, *names: str) -> Iterator[tuple[int, Any]]:
    """The operators that are windows, with their place, if these fields can be read."""
    for place, operator in enumerate(pipeline.operators):
        if kind_of(operator).config is Window:
            yield from ((place, each) for _, each in readable([operator], *names))


def _refused_emit(at: str, window: Window, target: str) -> Problem:
    reopens = " with late_data='reopen'" if EMIT_STRATEGIES[window.emit].reopening else ""
    fit = [each for each in EMIT_STRATEGIES.values() if each.sending.append_only]
    return Problem(
        at,
        f"{window.emit!r}{reopens}, which may send a window again, to {target}, which only appends",
        listed(
            f"{each.name!r}" + (" without late_data='reopen'" if each.reopening else "")
            for each in sorted(fit, key=lambda each: each.sending.as_changes)
        ),
        f"targets that take {window.emit!r}{reopens}: postgres or delta with mode='upsert', "
        "kafka with options.key, memory, console",
    )


def _read_again(at: str, target: Target, source: Source, option: str) -> Problem:
    pattern = f" {shown(source.options[option])}" if option == "topic_pattern" else ""
    topic, reader = shown(target.options["topic"]), shown(source.name)
    found = f"{topic}, which source {reader} reads by its {option}{pattern}"
    expected = "a topic that the pipeline does not read: its rows would come back for ever"
    another = "that the pattern does not match" if pattern else "that is not read"
    return Problem(at, found, expected, f"write to a topic with a name {another}")
