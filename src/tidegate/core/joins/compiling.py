"""From a join as the user wrote it to the operator that runs it."""

from __future__ import annotations

from functools import reduce
from typing import Any

import polars as pl

from tidegate.core.compiling import aggregates_of, polars_type
from tidegate.core.expressions import compiled
from tidegate.core.joins.plan import NAMES, Condition, JoinPlan, JoinSide
from tidegate.core.joins.reach import SIDES, Interval, Reach, SamePane, SlidingPanes
from tidegate.core.joins.rows import RowJoin
from tidegate.core.joins.session_results import SessionResults
from tidegate.core.joins.sessions import SessionJoin
from tidegate.core.lateness import ORIGINAL_EVENT_TS, Lateness
from tidegate.core.step import Operator
from tidegate.errors import ConfigError
from tidegate.eventtime import us_of_ms
from tidegate.pipeline import BoundJoin, Columns, Join, bind_join
from tidegate.pipeline.join_binding import typed_condition
from tidegate.pipeline.paths import located
from tidegate.pipeline.typed_expressions import Scope, Typed


def compile_join(join: Join, left: Columns, right: Columns) -> Operator[Any, Any]:
    """The operator of a join over inputs with these columns; `ConfigError` if they do not fit."""
    bound = bind_join(join, left, right)
    plan, allowed_us = _plan(bound), us_of_ms(join.allowed_lateness_ms)
    if join.kind == "session_session":
        return SessionJoin(
            plan=plan,
            gap_us=us_of_ms(join.gap_ms or 0),
            cap_us=us_of_ms(join.max_session_duration_ms or 0),
            allowed_us=allowed_us,
            results=_results(bound, plan) if join.output == "sessions" else None,
        )
    return RowJoin(plan=plan, reach=_reach(join), allowed_us=allowed_us)


def _reach(join: Join) -> Reach:
    if join.kind == "interval":
        lower_us, upper_us = join.bounds_us
        return Interval(lower_us=lower_us, upper_us=upper_us)
    if join.kind == "tumbling_tumbling":
        return SamePane(size_us=us_of_ms(join.size_ms or 0), offset_us=us_of_ms(join.offset_ms))
    return SlidingPanes(
        left_size_us=us_of_ms(join.left_size_ms or 0),
        right_size_us=us_of_ms(join.right_size_ms or 0),
        slide_us=us_of_ms(join.right_slide_ms or 0),
        same_pane=join.match == "same_pane",
    )


def _results(bound: BoundJoin, plan: JoinPlan) -> SessionResults:
    left, right = bound.aggregations
    types = [
        {each.aggregation.output_name: polars_type(each.result_type) for each in own}
        for own in (left, right)
    ]
    return SessionResults(
        plan=plan,
        gap_us=us_of_ms(bound.join.gap_ms or 0),
        aggregates=(aggregates_of(left), aggregates_of(right)),
        types=(types[0], types[1]),
    )


def _plan(bound: BoundJoin) -> JoinPlan:
    join = bound.join
    keys = {name: polars_type(kind) for name, kind in bound.keys.items()}
    sides = [_side(bound, side) for side in SIDES]
    types: Scope = {NAMES[side]: {**bound.keys, **bound.values[side]} for side in SIDES}
    return JoinPlan(
        keys=keys,
        sides=(sides[0], sides[1]),
        type=join.type,
        null_keys_equal=join.null_keys_equal,
        condition=condition_of(join.condition, types),
        prefixes=(join.left_prefix, join.right_prefix),
        max_rows_per_key=join.max_state_rows_per_key,
    )


def _side(bound: BoundJoin, side: int) -> JoinSide:
    join, own = bound.join, bound.values[side]
    reassigns = join.late_data_of(NAMES[side]) == "reassign"
    within_us = us_of_ms(join.max_lateness_ms or 0) if reassigns else None
    return JoinSide(
        columns={
            name: polars_type(kind)
            for name, kind in own.items()
            if not (reassigns and name == ORIGINAL_EVENT_TS)
        },
        lateness=Lateness(
            allowed_us=us_of_ms(join.allowed_lateness_ms), reassign_within_us=within_us
        ),
    )


def condition_of(text: str | None, types: Scope) -> Condition:
    """The condition over the columns of both sides, its parts sorted by the sides they look at."""
    if text is None:
        return Condition()
    parts: dict[frozenset[str], list[pl.Expr]] = {}
    for part in typed_condition(text, types).conjuncts():
        sides = frozenset(each.qualifier for each in part.columns())
        parts.setdefault(sides, []).append(_compiled(part))
    together = {sides: reduce(pl.Expr.and_, found) for sides, found in parts.items()}
    both = [together[sides] for sides in together if len(sides) != 1]
    return Condition(
        own=(together.get(frozenset(NAMES[:1])), together.get(frozenset(NAMES[1:]))),
        both=reduce(pl.Expr.and_, both) if both else None,
    )


def _compiled(part: Typed) -> pl.Expr:
    try:
        return compiled(part)
    except ConfigError as error:
        raise ConfigError(located(error.problems, "condition")) from None
