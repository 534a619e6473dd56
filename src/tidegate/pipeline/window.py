"""Windows over event time and what is computed in them, as the user writes it.

Durations are whole milliseconds (`*_ms`); the `*_us` properties are what the core
computes with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from tidegate.errors import Problem
from tidegate.eventtime import FOREVER, us_of_ms
from tidegate.pipeline import window_rules
from tidegate.pipeline.aggregate_lookup import AggregationKind, spec_of
from tidegate.pipeline.aggregates import AggregateSpec
from tidegate.pipeline.edge_rules import EDGE
from tidegate.pipeline.emit_strategies import Emit, LateData
from tidegate.pipeline.fieldtypes import (
    DERIVED,
    DurationMs,
    Freeze,
    Name,
    Names,
    OffsetMs,
    PositiveMs,
)
from tidegate.pipeline.names import PlainName
from tidegate.pipeline.target import Target
from tidegate.pipeline.validation import Rule, SpelledOut, Value

WindowKind = Literal["session", "tumbling", "hopping"]


class Aggregation(Value):
    """One computed column of a window. NULL inputs are skipped."""

    kind: AggregationKind
    """What is computed; `count` counts rows, `count_col` the rows where the column is not NULL."""
    input_column: Name | None = None
    """The column to aggregate; every kind but `count` needs one."""
    output_name: Name = DERIVED
    """The name of the result; by default `count`, or kind and column: `sum_amount`."""
    mode: Literal["approx", "exact"] | None = None
    """For `count_distinct`: `approx` (the default; within 2 %) or `exact`, up to `max_distinct`."""
    max_distinct: Annotated[int, Field(gt=0)] | None = None
    """For exact `count_distinct`: more different values in a window than this stop the pipeline."""
    max_values: Annotated[int, Field(gt=0)] | None = None
    """For `collect`: more values in a window than this stop the pipeline."""

    rules: ClassVar[tuple[Rule, ...]] = window_rules.AGGREGATION

    @classmethod
    def completed(cls, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Name the result, and fill in the settings that its kind has."""
        done = dict(fields)
        spec = spec_of(done["kind"]) if "kind" in done else None
        for option in spec.options if spec else ():
            if option.applies(done.get) and done.get(option.name, option.default) is None:
                done[option.name] = option.default
        if done.get("output_name", "") is None:
            done.pop("output_name")
            if name := _output_name(spec, done.get("input_column")):
                done["output_name"] = name
        return done


class Window(Value):
    """Groups rows by key and event time and aggregates each group.

    A session holds events of a key at most a gap apart; a fixed window is half-open, so
    an event on a boundary belongs to the window it opens.
    """

    kind: WindowKind
    """How time is cut: where a key is silent, or in fixed steps that do or do not overlap."""
    gap_ms: PositiveMs | None = None
    """Sessions: two events of a key at most this far apart are in one session."""
    gap_column: Name | None = None
    """Sessions: the column that holds each row's own gap in milliseconds, instead of `gap_ms`."""
    max_session_duration_ms: PositiveMs | None = None
    """Sessions: the cap; a session whose first and last event would be so far apart is sealed."""
    width_ms: PositiveMs | None = None
    """Tumbling and hopping windows: their length."""
    hop_ms: PositiveMs | None = None
    """Hopping windows: how long after one window the next one opens; at most `width_ms`, and at
    least a ten-thousandth of it.
    """
    offset_ms: OffsetMs = 0
    """Fixed windows: how far their bounds are moved from multiples of the hop since 1970 UTC."""
    group_by: Names = ()
    """The key columns, one name or several; NULL is a key value like any other."""
    aggregations: Sequence[Aggregation] = ()
    """What is computed in each window; at least one."""
    nonpositive_gap: Literal["drop", "keep"] = "drop"
    """With `gap_column`: a row without a positive gap is left out, or a session of length 0."""
    late_data: LateData = "drop"
    """What becomes of late rows."""
    late_channel: Name = "late"
    """The channel that late rows go to under `side_output` and `dlq`; it needs a target."""
    allowed_lateness_ms: DurationMs | Literal["unbounded"] = 0
    """How long after its end a window still takes rows."""
    max_lateness_ms: DurationMs | None = None
    """With `late_data = "reassign"`: rows later than this are dropped."""
    emit: Emit = "on_watermark"
    """When a window is sent to the target."""
    every_ms: PositiveMs | None = None
    """With `emit = "every"`: the event time between two sendings of a window that changes."""
    id: PlainName = "window"
    """The name of this operator; its state is kept under it."""
    inputs: Names = ()
    """Sources and operators it reads; by default all sources, or the operator listed before it."""
    where: Name | None = None
    """SQL over the columns of its input: only rows for which it is true are read."""
    select: Annotated[Mapping[str, Name], *Freeze] | None = None
    """SQL by name: instead of the columns of its input, these and the event time are read."""
    event_time: Name | None = None
    """The time column of an operator that it reads; by default `window_time` or `match_ts`."""
    target: Target | None = None
    """Where its results go; the pipeline's target is that of the last operator."""

    rules: ClassVar[tuple[Rule, ...]] = (*window_rules.WINDOW, *EDGE)

    @classmethod
    def spelled_out(cls, data: Mapping[str, Any]) -> SpelledOut:
        """`from` is another word for `inputs`."""
        if "from" not in data:
            return SpelledOut(data)
        full = {name: value for name, value in data.items() if name != "from"}
        if full.get("inputs"):
            problem = Problem("from", "from and inputs", "one of the two", "remove one of them")
            return SpelledOut(full, problems=(problem,))
        return SpelledOut({**full, "inputs": data["from"]}, {"inputs": "from"})

    @classmethod
    def completed(cls, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Leave out the hop of a tumbling window that is its width: it says nothing more."""
        hop_is_width = fields.get("hop_ms") == fields.get("width_ms", 0)
        if fields.get("kind") == "tumbling" and hop_is_width:
            return {**fields, "hop_ms": None}
        return fields

    def _repr_html_(self) -> str:
        """As `explain` says it, for notebooks."""
        from tidegate.pipeline.html import operator_html  # noqa: PLC0415 - it describes windows

        return operator_html(self)

    @property
    def gap_us(self) -> int | None:
        """The gap of every row; None with `gap_column` and for fixed windows."""
        return _us(self.gap_ms)

    @property
    def max_session_duration_us(self) -> int | None:
        """The cap of a session; None for fixed windows."""
        return _us(self.max_session_duration_ms)

    @property
    def width_us(self) -> int | None:
        """The length of a fixed window; None for sessions."""
        return _us(self.width_ms)

    @property
    def hop_us(self) -> int | None:
        """The distance between two fixed windows, for tumbling ones their width."""
        return _us(self.hop_ms if self.hop_ms is not None else self.width_ms)

    @property
    def offset_us(self) -> int:
        """How far the bounds of fixed windows are moved."""
        return us_of_ms(self.offset_ms)

    @property
    def allowed_lateness_us(self) -> int:
        """How long a window is held after its end; FOREVER if without bound."""
        lateness = self.allowed_lateness_ms
        return FOREVER if lateness == "unbounded" else us_of_ms(lateness)

    @property
    def max_lateness_us(self) -> int | None:
        """The lateness up to which rows are reassigned."""
        return _us(self.max_lateness_ms)

    @property
    def every_us(self) -> int | None:
        """The period of `emit = "every"`."""
        return _us(self.every_ms)


def _us(ms: int | None) -> int | None:
    return None if ms is None else us_of_ms(ms)


def _output_name(spec: AggregateSpec | None, column: str | None) -> str | None:
    if spec is None or (spec.takes is not None and not column):
        return None
    return spec.name if spec.takes is None else f"{spec.name}_{column}"
