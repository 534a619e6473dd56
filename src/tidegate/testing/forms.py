"""The forms of cases, one for each kind: what a case may say, its types, what it may leave out.

    YAML -> [read] -> a form -> runner

Times are written in ms and held as microseconds. Keys that a form does not have are passed over:
a case names its origin, and what other systems give. What a window or a join is, is checked by
`Window` and `Join`.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tidegate.errors import ScenarioError
from tidegate.eventtime import US_PER_MS

Row = dict[str, Any]
T = TypeVar("T")
Some = Annotated[list[T], Meta(min_length=1)]
"""From an empty list nothing could be found wrong."""

_ANNOTATIONS = ("note", "differs", "adapted")


class Micros(int):
    """Microseconds; a case says ms."""


def us_of(written: Any) -> Micros:
    """A time or a duration in ms as microseconds; a fraction of a ms must be whole microseconds."""
    if type(written) is int:
        return Micros(written * US_PER_MS)
    us = Decimal(repr(written)) * US_PER_MS if type(written) is float else Decimal("nan")
    if us.is_finite() and us == us.to_integral_value():  # as written: 0.007 * 1000 is not 7
        return Micros(us)
    raise ValueError(f"expected an integer (ms), found {written!r}")


def ms_of(us: int) -> float:
    """Microseconds as ms; what is no whole number of them, and so in no case, stays visible."""
    return us // US_PER_MS if us % US_PER_MS == 0 else us / US_PER_MS


def read(written: Any, form: type[T], at: str = "") -> T:
    """A case, or the part of it `at` a place, in its form.

    Raises `ScenarioError` that names the place in the case.
    """
    try:
        return msgspec.convert(_without_annotations(written), form, dec_hook=_decode)
    except msgspec.ValidationError as error:
        raise ScenarioError(_told(str(error), at)) from None


def _decode(_: type, written: Any) -> Micros:
    """Called for types that msgspec does not know; there is one."""
    return us_of(written)


def _without_annotations(value: Any) -> Any:
    """Leave out what is there for readers only."""
    if isinstance(value, Mapping):
        return {
            name: _without_annotations(each)
            for name, each in value.items()
            if name not in _ANNOTATIONS and not str(name).startswith("peer_")
        }
    return [_without_annotations(each) for each in value] if isinstance(value, list) else value


def _told(message: str, part: str) -> str:
    """The place first, and YAML's words for types: `Expected X, got Y - at $.Z` is JSON's."""
    problem, _, at = message.partition(" - at ")
    for json, yaml in (("`array`", "a list"), ("`object`", "a mapping"), (", got ", ", found ")):
        problem = problem.replace(json, yaml)
    problem = problem[0].lower() + problem[1:]
    place = at.replace("`", "").replace("$", part).removeprefix(".").replace(" in .", " in ")
    place = place or part
    return f"{place}: {problem}" if place else problem


Expected = float | int | UnsetType | None
"""The watermark after a step, in ms, where a case says one; None: there is none yet."""


class Clock(msgspec.Struct, frozen=True, kw_only=True):
    """How the watermark moves: its mode, how far behind the rows it stays, its first value."""

    mode: str = "explicit"
    max_out_of_order_ms: Micros = Micros(0)
    initial: Micros | None = None

    def __post_init__(self) -> None:
        modes = ("explicit", "per_record", "per_batch")
        if self.mode not in modes:
            raise ValueError(f"mode: expected one of {', '.join(modes)}, found {self.mode!r}")


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """Rows, a watermark to move to, or a restart; and what must come of it."""

    rows: list[Row] | UnsetType = UNSET
    advance_watermark: Micros | UnsetType = UNSET
    restart: Any = UNSET
    expect: list[Row] | UnsetType = UNSET
    expect_watermark: Expected = UNSET

    def __post_init__(self) -> None:
        actions = ("rows", "advance_watermark", "restart")
        found = [name for name in actions if getattr(self, name) is not UNSET]
        if len(found) != 1:
            names = " and ".join(found) or "none"
            raise ValueError(f"expected one of {', '.join(actions)}, found {names}")


class OperatorForm(msgspec.Struct, frozen=True, kw_only=True):
    """What cases of windows and of joins have in common."""

    steps: list[Step]
    watermark: Clock | None = None
    final: list[Row] | None = None


class WindowForm(OperatorForm, frozen=True, kw_only=True):
    """A window that is fed step by step."""

    window: Row
    group_by: list[str] | str | None = None
    aggregates: list[str | Row] | None = None
    dropped_late: int | UnsetType = UNSET
    side_output: list[Row] | UnsetType = UNSET


class Limit(msgspec.Struct, frozen=True):
    """Where it stops; never, if None."""

    error_at_step: int | None


class GroupLimitForm(WindowForm, frozen=True, kw_only=True):
    """A window that may hold so many keys."""

    limit: int
    ematix: Limit


class JoinForm(OperatorForm, frozen=True, kw_only=True):
    """A join that is fed step by step; late rows are named by their ids, or counted."""

    join: Row
    kind: str | None = None
    dropped_late: list[Any] | int | None = None


class Residual(msgspec.Struct, frozen=True, kw_only=True):
    """A condition: of others, or a column compared with another one or with a literal."""

    all_of: list[Residual] = msgspec.field(name="and", default_factory=list)
    any_of: list[Residual] = msgspec.field(name="or", default_factory=list)
    negated: Residual | None = msgspec.field(name="not", default=None)
    col: str | UnsetType = UNSET
    op: str | UnsetType = UNSET
    col2: str | UnsetType = UNSET
    lit: str | int | float | bool | UnsetType | None = UNSET

    def __post_init__(self) -> None:
        if self.all_of or self.any_of or self.negated:
            return
        other = "lit" if self.col2 is UNSET else "col2"
        missing = [name for name in ("col", "op", other) if getattr(self, name) is UNSET]
        if missing:
            raise ValueError(f"a comparison has no {' and no '.join(missing)}")


class Pane(msgspec.Struct, frozen=True):
    """The tumbling window that both rows of a pair are in."""

    width_ms: int | None = None
    offset_ms: int = 0


class JoinKeys(msgspec.Struct, frozen=True, kw_only=True):
    """What cases call otherwise than `Join` does; it has all other keys of `join`."""

    lower_ms: int | None = None
    upper_ms: int | None = None
    lower_inclusive: bool = True
    upper_inclusive: bool = True
    max_state_age_ms: int | None = None
    window: Pane | None = None
    residual: Residual | None = None


class Assigned(msgspec.Struct, frozen=True):
    """A time, with a gap of its own perhaps, and its windows."""

    windows: list[tuple[int, int]]
    ts: Any
    gap_ms: Any = UNSET


class AssignmentForm(msgspec.Struct, frozen=True):
    """Which windows a time falls in."""

    window: Row
    assign: Some[Assigned]


class Touch(msgspec.Struct, frozen=True):
    """The other interval."""

    other: tuple[int, int]
    joins: bool


class TouchForm(msgspec.Struct, frozen=True):
    """Whether two intervals join."""

    base: tuple[int, int]
    touch: Some[Touch]


class ConfigErrorForm(msgspec.Struct, frozen=True):
    """Configurations, each with `error`: whether it must be refused."""

    configs: Some[Row]


class Bounds(msgspec.Struct, frozen=True):
    """The bounds of the join, and the watermark behind it."""

    left_minus_right_ms: tuple[int, int]
    expect_output_watermark: int


class OutputWatermarkForm(msgspec.Struct, frozen=True):
    """How far a join holds the watermark behind it back."""

    cases: list[Bounds]
    input_watermark: Micros = Micros(0)


class SourceKeys(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a source's watermark."""

    max_out_of_order_ms: Micros = Micros(0)
    advance_threshold: int = 1


class EventSequence(msgspec.Struct, frozen=True):
    """The times, and the watermark behind them."""

    events: list[Micros] = []
    expect_watermark: Expected = UNSET


class SequencesForm(SourceKeys, frozen=True, kw_only=True):
    """Event times, each sequence in one epoch of a source of its own."""

    sequences: list[EventSequence]


class SourceStep(msgspec.Struct, frozen=True, kw_only=True):
    """A row that is admitted or rejected, or a watermark that somebody states."""

    event: Micros | UnsetType = UNSET
    now: Micros | None = None
    rejected: bool = False
    advance_watermark: Micros | UnsetType = UNSET
    expect_watermark: Expected = UNSET


class SourceStepsForm(SourceKeys, frozen=True, kw_only=True):
    """One source, step by step."""

    steps: list[SourceStep]
    now: Micros | None = None
    max_future_skew_ms: Micros | None = None


class SourcesForm(msgspec.Struct, frozen=True, kw_only=True):
    """Several sources, by the minimum rule; a step has keys called as they are."""

    kind: str
    steps: list[Row]
    inputs: dict[str | int, SourceKeys | None] | list[str | int] | int
    policy: Literal["min"] = "min"
    initial: Micros | None = None


class SourcesStep(msgspec.Struct, frozen=True, kw_only=True):
    """What steps of several sources say beside their rows: `idle: true` is about `input`."""

    restart: Any = None
    input: str | int | UnsetType = UNSET
    watermark: Micros | UnsetType = UNSET
    idle: bool | str | int | list[str | int] | None = None
    active: bool | str | int | list[str | int] | None = None
    expect_watermark: Expected = UNSET
