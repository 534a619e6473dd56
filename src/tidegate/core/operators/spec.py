"""What the engine and its tasks know of an operator, whatever its kind.

    Window | Join + columns -> bound -> [OperatorSpec] -> engine, tasks

A spec is a value that travels to tasks; `compile` makes the operator of it there. A new kind of
operator is one row in `_KINDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeAlias

from tidegate.core.compiling import compile_window
from tidegate.core.joins.compiling import compile_join
from tidegate.core.step import Operator
from tidegate.errors import ConfigError, Problem
from tidegate.pipeline import BoundJoin, BoundWindow, DataType, Join, Window, sending_of
from tidegate.pipeline.aggregate_lookup import spec_of
from tidegate.pipeline.join_binding import SIDES
from tidegate.pipeline.output_watermark import TimeColumns, time_columns
from tidegate.pipeline.window_rules import ORIGINAL_EVENT_TS

Config: TypeAlias = Window | Join
"""An operator as the user wrote it."""
Bound: TypeAlias = BoundWindow | BoundJoin
"""The same with the types of all columns."""

_KEPT: Final = ("side_output", "dlq")
"""The policies under which late rows go to a channel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSpec:
    """One input of an operator: a window has one, a join two."""

    producers: tuple[str, ...]
    """The sources, or operators, whose rows it gets."""
    columns: Mapping[str, DataType]
    """The columns that the operator reads."""
    side: str | None = None
    """The name of the input in a join."""
    keeps_late: bool = False
    """Whether late rows of this input go to the late channel."""


@dataclass(frozen=True, kw_only=True)
class OperatorSpec:
    """One operator of a plan."""

    id: str
    config: Config
    inputs: tuple[InputSpec, ...]
    keys: tuple[str, ...]
    """The columns by which rows are placed in shards."""
    schema: Mapping[str, DataType]
    """The columns of a result row."""
    identity: tuple[str, ...]
    """The columns by which results are replaced and deleted."""
    keeps_positions: bool
    """Whether state depends on the position of a row in its source."""
    numbers_rows: bool = False
    """Whether every row needs a position of its own; else equal ones are a tie."""
    sends_changes: bool = False
    """Whether results are changes of rows (`op`), and not rows."""
    late_channel: str
    corrects: bool = False
    """Whether it sends a row again, or takes it back: a reader must be able to do so too."""
    hands_on: bool = False
    """Whether other operators read it."""
    takes_back: bool = False
    """Whether an operator that it reads corrects itself."""
    time_columns: TimeColumns = field(default_factory=dict)
    """The columns that a reader may take for event time, the default first, and how far behind
    the watermark rows may be there."""

    @cached_property
    def operator(self) -> Operator[Any, Any]:
        """The operator, ready to run; `ConfigError` if its columns do not fit."""
        columns = [each.columns for each in self.inputs]
        return compile_operator(
            self.config, columns, hands_on=self.hands_on, takes_back=self.takes_back
        )

    @property
    def keeps_late(self) -> bool:
        """Whether late rows of any input are kept; else they are counted."""
        return any(each.keeps_late for each in self.inputs)

    @property
    def late_has_side(self) -> bool:
        """Whether late rows say which input they came by."""
        return len(self.inputs) > 1

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "operator"}


def operator_spec(bound: Bound, producers: Sequence[str]) -> OperatorSpec:
    """Describe an operator that reads the rows of `producers`."""
    return _KINDS[type(bound)].describe(bound, producers)


def compile_operator(
    config: Config,
    columns: Sequence[Mapping[str, Any]],
    *,
    hands_on: bool = False,
    takes_back: bool = False,
) -> Operator[Any, Any]:
    """Make the operator over inputs with these columns; `ConfigError` if they do not fit."""
    (kind,) = (each for each in _KINDS.values() if isinstance(config, each.config))
    return kind.compile(config, *columns, hands_on=hands_on, takes_back=takes_back)


def _window(bound: BoundWindow, producers: Sequence[str]) -> OperatorSpec:
    window = bound.window
    read = {name: kind for name, kind in bound.types_read.items() if name != ORIGINAL_EVENT_TS}
    if window.gap_column is not None and bound.gap_type is not None:
        read[window.gap_column] = bound.gap_type
    session = window.kind == "session"
    return OperatorSpec(
        id=window.id,
        config=window,
        inputs=(
            InputSpec(
                producers=tuple(producers), columns=read, keeps_late=window.late_data in _KEPT
            ),
        ),
        keys=tuple(window.group_by),
        schema=bound.output_schema,
        identity=(*window.group_by, "session_id" if session else "window_start"),
        keeps_positions=any(spec_of(each.kind).keeps_positions for each in window.aggregations),
        sends_changes=sending_of(window).as_changes,
        late_channel=window.late_channel,
        corrects=sending_of(window).corrects_itself,
        time_columns=time_columns(window),
    )


def _join(bound: BoundJoin, _: Sequence[str]) -> OperatorSpec:
    join = bound.join
    return OperatorSpec(
        id=join.id,
        config=join,
        inputs=tuple(
            InputSpec(
                producers=(name,),
                columns=bound.types_read(place),
                side=SIDES[place],
                keeps_late=join.late_data_of(SIDES[place]) in _KEPT,
            )
            for place, name in enumerate((join.left, join.right))
        ),
        keys=tuple(join.on),
        schema=bound.output_schema,
        identity=("pair_id",),
        keeps_positions=True,
        numbers_rows=True,
        late_channel=join.late_channel,
        time_columns=time_columns(join),
    )


def _compile_join(
    join: Join, left: Any, right: Any, *, hands_on: bool, takes_back: bool
) -> Operator[Any, Any]:
    """A join sends each row once, so what it hands on is what it sends."""
    if takes_back:
        expected = "a fixed window, since what it reads corrects itself"
        raise ConfigError([Problem("", f"the join {join.id!r}", expected)])
    return compile_join(join, left, right)


@dataclass(frozen=True, slots=True)
class _Kind:
    config: type
    describe: Callable[[Any, Sequence[str]], OperatorSpec]
    compile: Callable[..., Operator[Any, Any]]


_KINDS: Final[Mapping[type, _Kind]] = {
    BoundWindow: _Kind(Window, _window, compile_window),
    BoundJoin: _Kind(Join, _join, _compile_join),
}
