"""Joins of two streams by event time, as the user writes them.

A pair of rows joins when their keys are equal, their times are near enough in the way that `kind`
says, and `condition` holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from tidegate.eventtime import us_of_ms
from tidegate.pipeline import join_rules
from tidegate.pipeline.fieldtypes import DurationMs, Name, Names, OffsetMs, PositiveMs
from tidegate.pipeline.names import PlainName
from tidegate.pipeline.target import Target
from tidegate.pipeline.validation import Rule, SpelledOut, Value
from tidegate.pipeline.window import Aggregation

JoinKind = Literal["interval", "tumbling_tumbling", "tumbling_sliding", "session_session"]
JoinType = Literal["inner", "left", "right", "full", "semi", "anti"]
Side = Literal["left", "right"]
JoinLateData = Literal["drop", "side_output", "dlq", "reassign"]


class Join(Value):
    """Pairs rows of two inputs that have the same key and times near to each other.

    Every pair comes once, when its second row arrives; a row of an outer side that matches
    nothing comes once, when nothing can match it any more.
    """

    left: Name
    """The source or operator on the left."""
    right: Name
    """The source or operator on the right; it may be the same one."""
    on: Names
    """The key columns, one name or several, of both sides; NULL equals nothing."""
    kind: JoinKind = "interval"
    """What near means: a distance, a pane both lie in, panes that overlap, sessions that do."""
    type: JoinType = "inner"
    """Which rows come out beside pairs; `semi` and `anti` send left rows alone."""
    min_delta_ms: OffsetMs | None = None
    """`interval`: the right time minus the left one is at least this; without it, unbounded."""
    max_delta_ms: OffsetMs | None = None
    """`interval`: the right time minus the left one is at most this; without it, unbounded."""
    time_window_ms: DurationMs | None = None
    """`interval`: short for bounds of this much on both sides."""
    min_inclusive: bool = True
    """`interval`: whether exactly `min_delta_ms` still matches."""
    max_inclusive: bool = True
    """`interval`: whether exactly `max_delta_ms` still matches."""
    max_state_age_ms: PositiveMs | None = None
    """`interval` without a bound: rows further apart never match, so that none is kept longer."""
    size_ms: PositiveMs | None = None
    """`tumbling_tumbling`: the length of a pane."""
    offset_ms: OffsetMs = 0
    """`tumbling_tumbling`: how far panes are moved from multiples of their size since 1970 UTC."""
    left_size_ms: PositiveMs | None = None
    """`tumbling_sliding`: the length of the panes on the left."""
    right_size_ms: PositiveMs | None = None
    """`tumbling_sliding`: the length of the panes on the right."""
    right_slide_ms: PositiveMs | None = None
    """`tumbling_sliding`: how long after one pane on the right the next one begins."""
    match: Literal["overlapping_pane", "same_pane"] | None = None
    """`tumbling_sliding`: a pane of the right row overlaps that of the left one (the default), or
    the right row itself lies in it."""
    gap_ms: PositiveMs | None = None
    """`session_session`: rows of a key and side at most this far apart are one session."""
    max_session_duration_ms: PositiveMs | None = None
    """`session_session`: the cap; a session whose rows would be so far apart is sealed."""
    output: Literal["pairs", "sessions"] | None = None
    """`session_session`: every pair of rows (the default), or both sessions as one row."""
    left_aggregations: Sequence[Aggregation] = ()
    """With `output = "sessions"`: what is computed of the left session."""
    right_aggregations: Sequence[Aggregation] = ()
    """With `output = "sessions"`: what is computed of the right session."""
    condition: Name | None = None
    """What else must hold, in SQL over `left.column` and `right.column`."""
    null_keys_equal: bool = False
    """Whether NULL keys equal each other."""
    left_prefix: Name = "left_"
    """Stands before names of left columns that the right side has too."""
    right_prefix: Name = "right_"
    """Stands before names of right columns that the left side has too."""
    allowed_lateness_ms: DurationMs = 0
    """How far behind the watermark a row may be before it is late; rows wait so much longer."""
    late_data: JoinLateData = "drop"
    """What becomes of late rows, unless their side says otherwise."""
    left_late_data: JoinLateData | None = None
    """What becomes of late rows on the left."""
    right_late_data: JoinLateData | None = None
    """What becomes of late rows on the right."""
    late_channel: Name = "late"
    """The channel that late rows go to under `side_output` and `dlq`; it needs a target."""
    max_lateness_ms: DurationMs | None = None
    """With `reassign`: rows later than this are dropped."""
    max_state_rows_per_key: Annotated[int, Field(gt=0)] | None = None
    """More rows of one key and side waiting than this stop the pipeline."""
    id: PlainName = "join"
    """The name of this operator; its state is kept under it."""
    target: Target | None = None
    """Where its results go; the pipeline's target is that of the last operator."""

    rules: ClassVar[tuple[Rule, ...]] = join_rules.JOIN

    @classmethod
    def spelled_out(cls, data: Mapping[str, Any]) -> SpelledOut:
        """Refuse what only an operator with one input can say."""
        refused = tuple(join_rules.of_one_input(data))
        wrong = [each.at for each in refused]
        return SpelledOut({k: v for k, v in data.items() if k not in wrong}, problems=refused)

    @classmethod
    def completed(cls, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Spell out the short form of symmetric bounds, and what a kind has by default."""
        done = dict(fields)
        near_ms = done.get("time_window_ms")
        if near_ms is not None and done.get("min_delta_ms") is None is done.get("max_delta_ms"):
            done |= {"min_delta_ms": -near_ms, "max_delta_ms": near_ms, "time_window_ms": None}
        if done.get("kind") == "tumbling_sliding" and done.get("match", "") is None:
            done["match"] = "overlapping_pane"
        if done.get("kind") == "session_session" and done.get("output", "") is None:
            done["output"] = "pairs"
        return done

    def _repr_html_(self) -> str:
        """As `explain` says it, for notebooks."""
        from tidegate.pipeline.html import operator_html  # noqa: PLC0415 - it describes joins

        return operator_html(self)

    @property
    def inputs(self) -> tuple[str, ...]:
        """What it reads; one source that is joined with itself is read once."""
        return tuple(dict.fromkeys((self.left, self.right)))

    @property
    def group_by(self) -> Sequence[str]:
        """The columns that place a row in a shard."""
        return self.on

    def late_data_of(self, side: Side) -> JoinLateData:
        """What becomes of late rows of a side."""
        return join_rules.late_policy(self, side)

    @property
    def bounds_us(self) -> tuple[int, int]:
        """The least and the greatest distance that match, both in."""
        return join_rules.bounds_us(self)

    @property
    def hold_back_us(self) -> int:
        """How far behind the watermark a result may be: what is downstream hears of it so late."""
        lateness_us = us_of_ms(self.allowed_lateness_ms)
        if self.kind == "interval":
            lower_us, upper_us = self.bounds_us
            return max(upper_us, -lower_us, 0) + lateness_us
        if self.kind == "session_session":
            cap_us = us_of_ms(self.max_session_duration_ms or 0)
            return 2 * (cap_us + us_of_ms(self.gap_ms or 0)) + lateness_us
        panes_ms = (self.size_ms, self.left_size_ms, self.right_size_ms)
        return us_of_ms(sum(ms for ms in panes_ms if ms is not None)) + lateness_us
