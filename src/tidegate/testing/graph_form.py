"""The form of cases of graphs: sources, operators, and what each step sends.

    YAML -> [read] -> GraphForm -> graph_runner

What a window, a join or a dedupe may say is judged by the plan: here they are mappings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from tidegate.testing.forms import Micros, Row, Some, SourceKeys

Text = dict[str, str]
RowsByName = dict[str, list[Row]]
_CORRECTING = ("on_update", "every", "changelog")


class GraphSource(SourceKeys, frozen=True, kw_only=True):
    """The settings of a source; its rows have `ts` and any other columns."""

    dedupe: Row | None = None


class GraphOperator(msgspec.Struct, frozen=True, kw_only=True):
    """A window, a join, a dedupe, or none of them: then it is stateless."""

    id: str
    input: str | None = msgspec.field(name="from", default=None)
    left: str | None = None
    right: str | None = None
    event_time: str | None = None
    where: str | None = None
    select: Text | None = None
    window: Row | None = None
    group_by: list[str] | None = None
    aggregates: Text | None = None
    join: Row | None = None
    on: list[str] | str = []
    dedupe: Row | None = None

    def __post_init__(self) -> None:
        kinds = [name for name in ("window", "join", "dedupe") if getattr(self, name) is not None]
        if len(kinds) > 1:
            raise ValueError(f"{self.id}: expected one of window, join, dedupe, found {kinds}")
        needed = ("left", "right") if self.join is not None else ("input",)
        for name in ("left", "right", "input"):
            if (getattr(self, name) is not None) != (name in needed):
                inputs = "`left` and `right`" if self.join is not None else "`from`"
                raise ValueError(f"{self.id}: expected {inputs} for its inputs")

    @property
    def inputs(self) -> tuple[str, ...]:
        """The sources and operators it reads, the left one first."""
        return tuple(name for name in (self.input, self.left, self.right) if name is not None)

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns by which a join matches."""
        return (self.on,) if isinstance(self.on, str) else tuple(self.on)

    @property
    def corrects_itself(self) -> bool:
        """Whether it may send a window again (R16)."""
        if self.window is None:
            return False
        emit = self.window.get("emit") or "on_watermark"
        reopens = emit == "on_watermark" and self.window.get("late_data") == "reopen"
        return emit in _CORRECTING or reopens

    @property
    def complete(self) -> bool:
        """Whether it sends its whole table each time."""
        return self.window is not None and self.window.get("emit") == "complete"


class GraphClock(msgspec.Struct, frozen=True, kw_only=True):
    """How watermarks move, their first value, and how far apart sources may be."""

    mode: str = "per_batch"
    initial: Micros | None = None
    max_drift_ms: Micros | None = None

    def __post_init__(self) -> None:
        if self.mode not in ("explicit", "per_batch"):
            raise ValueError(f"mode: expected explicit or per_batch, found {self.mode!r}")


class GraphStep(msgspec.Struct, frozen=True, kw_only=True):
    """Rows, watermarks to move to, sources that are idle or not any more, or a restart."""

    rows: RowsByName | UnsetType = UNSET
    advance_watermark: dict[str, Micros] | UnsetType = UNSET
    restart: Any = UNSET
    idle: list[str] = []
    active: list[str] = []
    expect: RowsByName | UnsetType = UNSET
    expect_watermark: dict[str, Micros | None] = {}
    expect_held: list[str] | UnsetType = UNSET

    def __post_init__(self) -> None:
        actions = ("rows", "advance_watermark", "restart")
        found = [name for name in actions if getattr(self, name) is not UNSET]
        marked = bool(self.idle or self.active)
        if len(found) > 1 or not (found or marked):
            names = " and ".join(found) or "none"
            raise ValueError(f"expected one of {', '.join(actions)}, idle, active, found {names}")

    @property
    def fed(self) -> RowsByName:
        """Its rows, by source."""
        return {} if self.rows is UNSET else self.rows

    @property
    def advanced(self) -> dict[str, Micros]:
        """The watermarks to move to, by source."""
        return {} if self.advance_watermark is UNSET else self.advance_watermark

    @property
    def expects_something(self) -> bool:
        """Whether anything is compared behind it."""
        given = (self.expect, self.expect_held)
        return bool(self.expect_watermark) or any(each is not UNSET for each in given)


class GraphForm(msgspec.Struct, frozen=True, kw_only=True):
    """A graph that is fed step by step, or one that must be refused in the words given."""

    sources: dict[str, GraphSource | None] = {}
    operators: list[GraphOperator] = []
    watermark: GraphClock = GraphClock()
    outputs: list[str] | None = None
    steps: list[GraphStep] = []
    final: RowsByName | None = None
    late: dict[str, int] = {}
    duplicates: dict[str, int] = {}
    duplicate_differs: dict[str, int] = {}
    config_error: Some[str] | None = None

    def __post_init__(self) -> None:
        if self.config_error is not None:
            if self.steps:
                raise ValueError("expected steps or config_error, found both")
            return
        if not (self.steps and self.sources and self.operators):
            raise ValueError("expected sources, operators and steps, or config_error")
        counts = (self.late, self.duplicates, self.duplicate_differs)
        expects = self.final is not None or any(counts)
        if not expects and not any(step.expects_something for step in self.steps):
            raise ValueError("the case expects nothing, so nothing could be found wrong")
        self._check_names()

    @property
    def compared(self) -> tuple[str, ...]:
        """The operators whose rows are compared: those named, else those that no other reads."""
        if self.outputs is not None:
            return tuple(self.outputs)
        read = {name for operator in self.operators for name in operator.inputs}
        return tuple(each.id for each in self.operators if each.id not in read)

    def settings(self, source: str) -> GraphSource:
        """What a case says of a source, or the defaults."""
        return self.sources[source] or GraphSource()

    def operator(self, id_: str) -> GraphOperator:
        """Look an operator up."""
        return next(each for each in self.operators if each.id == id_)

    def _check_names(self) -> None:
        operators = [each.id for each in self.operators]
        nodes = [*self.sources, *operators]
        _expect_names("outputs", self.compared, operators)
        _expect_names("final", self.final or {}, self.compared)
        for name in ("late", "duplicates", "duplicate_differs"):
            _expect_names(name, getattr(self, name), nodes)
        for n, step in enumerate(self.steps):
            at = f"steps[{n}]"
            for name in ("rows", "advance_watermark", "idle", "active", "expect_held"):
                _expect_names(f"{at}.{name}", _given(step, name), self.sources)
            _expect_names(f"{at}.expect", _given(step, "expect"), self.compared)
            _expect_names(f"{at}.expect_watermark", step.expect_watermark, nodes)


def _given(step: GraphStep, name: str) -> Iterable[str]:
    value: Mapping[str, Any] | list[str] | UnsetType = getattr(step, name)
    return () if isinstance(value, UnsetType) else value


def _expect_names(at: str, found: Iterable[str], known: Iterable[str]) -> None:
    unknown = [name for name in found if name not in known]
    if unknown:
        raise ValueError(f"{at}: expected names of {', '.join(known)}, found {', '.join(unknown)}")
