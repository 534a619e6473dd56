"""The kinds of operators: a row each. Whoever asks anything of an operator asks its kind.

    graph, rules, fingerprint, explain -> [kind_of] -> window_kind | join_kind

How an operator computes is in `tidegate.core.operators`, which has a row for each kind too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

from tidegate.errors import Problem
from tidegate.pipeline import join_kind, window_kind
from tidegate.pipeline.binding import BoundWindow, Columns
from tidegate.pipeline.edges import Reading
from tidegate.pipeline.join import Join, JoinKind
from tidegate.pipeline.join_binding import BoundJoin
from tidegate.pipeline.store import StateStore
from tidegate.pipeline.window import Aggregation, Window, WindowKind

Operator: TypeAlias = Window | Join
"""An operator as the user wrote it."""
Bound: TypeAlias = BoundWindow | BoundJoin
"""The same with the types of all columns."""

ColumnsByInput = Mapping[str, Columns]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorKind:
    """What a pipeline asks of an operator."""

    config: type[Operator]
    names: tuple[str, ...]
    """What `kind` of an operator may be."""
    holds: Literal["windows", "rows"]
    """What is held of a key."""
    lists_inputs: bool
    """Whether explain lists what it reads beside what it does."""
    aggregations: Callable[[Any], Sequence[Aggregation]]
    named_inputs: Callable[[Any, str], list[tuple[str, str]]]
    """What it reads, each with the path where it says so; the path of the operator is given."""
    reading: Callable[[Any], Reading]
    """What stands between it and its input."""
    late_policies: Callable[[Any], list[str]]
    """By input."""
    corrects_itself: Callable[[Any], bool]
    """Whether what it sent may be replaced or taken back later."""
    not_reversible: Callable[[Any], Iterable[tuple[str, str]]]
    """What of it cannot take back rows that it has read: each its path, and what it is."""
    column_problems: Callable[[Any, ColumnsByInput], Iterable[Problem]]
    bind: Callable[[Any, ColumnsByInput], Bound]
    """Give it the types of inputs without problems."""
    fingerprint: Callable[[Any, tuple[str, ...], Any], dict[str, Any]]
    """Everything that state and output depend on, of the operator, its inputs and its types."""
    restored: Callable[[str, Mapping[str, Any]], tuple[Any, dict[str, Columns]]]
    """The operator of an id that a fingerprint with types was made of, and its inputs."""
    lines: Callable[[Any], Iterable[str]]
    """What it does, for people."""
    state_lines: Callable[[Any, Any, StateStore], Iterable[str]]
    """About how much it holds, for people: a line, and what may come on top."""


KINDS: Final = (
    OperatorKind(
        config=Window,
        names=get_args(WindowKind),
        holds="windows",
        lists_inputs=True,
        aggregations=window_kind.aggregations,
        named_inputs=window_kind.named_inputs,
        reading=window_kind.reading,
        late_policies=window_kind.late_policies,
        corrects_itself=window_kind.corrects_itself,
        not_reversible=window_kind.not_reversible,
        column_problems=window_kind.column_problems,
        bind=window_kind.bind_window,
        fingerprint=window_kind.fingerprint,
        restored=window_kind.restored,
        lines=window_kind.lines,
        state_lines=window_kind.state_lines,
    ),
    OperatorKind(
        config=Join,
        names=get_args(JoinKind),
        holds="rows",
        lists_inputs=False,
        aggregations=join_kind.aggregations,
        named_inputs=join_kind.named_inputs,
        reading=join_kind.reading,
        late_policies=join_kind.late_policies,
        corrects_itself=join_kind.corrects_itself,
        not_reversible=join_kind.not_reversible,
        column_problems=join_kind.column_problems,
        bind=join_kind.bind_sides,
        fingerprint=join_kind.fingerprint,
        restored=join_kind.restored,
        lines=join_kind.lines,
        state_lines=join_kind.state_lines,
    ),
)


def kind_of(operator: Operator) -> OperatorKind:
    """The kind of an operator; the draft of one, whose keys are wrong, is asked like a window."""
    return find_kind(operator) or KINDS[0]


def find_kind(operator: Any) -> OperatorKind | None:
    """The kind of an operator; None for the draft of one, whose keys are wrong."""
    return next((each for each in KINDS if isinstance(operator, each.config)), None)
