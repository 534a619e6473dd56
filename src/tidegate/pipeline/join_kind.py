"""Joins as operators of a pipeline: what they read, cost, say and are known by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tidegate.errors import Problem
from tidegate.pipeline.binding import Columns
from tidegate.pipeline.edges import Reading
from tidegate.pipeline.join import Join
from tidegate.pipeline.join_binding import SIDES, BoundJoin, bind_join, check_join_columns
from tidegate.pipeline.sizing import bytes_per_row
from tidegate.pipeline.store import StateStore
from tidegate.pipeline.validation import given
from tidegate.pipeline.window import Aggregation
from tidegate.pipeline.window_kind import BOUNDS, aggregation_text
from tidegate.text import bytes_text, duration_text


def aggregations(join: Join) -> Sequence[Aggregation]:
    """What it computes of sessions."""
    return [*join.left_aggregations, *join.right_aggregations]


def named_inputs(join: Join, at: str) -> list[tuple[str, str]]:
    """What it reads, each with the path where it says so."""
    return [(f"{at}.left", join.left), (f"{at}.right", join.right)]


def late_policies(join: Join) -> list[str]:
    """What becomes of late rows, input by input."""
    return [join.late_data_of(side) for side in SIDES]


def reading(_: Join) -> Reading:
    """How it reads its inputs: as they are."""
    return Reading()


def corrects_itself(_: Join) -> bool:
    """What it sent stays: each pair comes once."""
    return False


def not_reversible(_: Join) -> Iterator[tuple[str, str]]:
    """What of it cannot take rows back: each its path, and what it is."""
    yield "", "a join"


def column_problems(join: Join, inputs: Mapping[str, Columns]) -> Sequence[Problem]:
    """What it reads and its inputs do not have, or have in types that do not fit."""
    of = [f"{join.left!r}", f"{join.right!r}"]
    return check_join_columns(join, inputs[join.left], inputs[join.right], of)


def bind_sides(join: Join, inputs: Mapping[str, Columns]) -> BoundJoin:
    """Give it the types of its inputs."""
    return bind_join(join, inputs[join.left], inputs[join.right])


def fingerprint(join: Join, _: Sequence[str], bound: BoundJoin | None) -> dict[str, Any]:
    """Everything that its state and output depend on, as JSON."""
    left_out = {"id", "target", "max_state_rows_per_key"}
    fields = given(join, leave_out={*left_out, "left_aggregations", "right_aggregations"})
    for side in ("left_aggregations", "right_aggregations"):
        if own := getattr(join, side):
            fields[side] = [given(each, leave_out=BOUNDS) for each in own]
    if bound:
        types = [
            {name: str(kind) for name, kind in bound.types_read(side).items()} for side in (0, 1)
        ]
        fields["types"] = {"left": types[0], "right": types[1]}
    return {**fields, "on": [*join.on]}


def restored(name: str, fields: Mapping[str, Any]) -> tuple[Join, dict[str, Columns]]:
    """The join that a fingerprint was made of, and the columns of its inputs."""
    join = Join.from_dict({"id": name, **{k: v for k, v in fields.items() if k != "types"}})
    types = fields["types"]
    return join, {join.left: types["left"], join.right: types["right"]}


def lines(join: Join) -> Iterator[str]:
    """What it does, for people."""
    yield f"joins     {join.left} (left) with {join.right} (right), {join.type}"
    equal = "NULL equals NULL" if join.null_keys_equal else "NULL equals nothing"
    yield f"keys      {', '.join(join.on)}; {equal}"
    yield f"matches   {_near(join)}"
    if join.condition is not None:
        yield f"          where {' '.join(join.condition.split())}"
    for side in ("left", "right"):
        for each in getattr(join, f"{side}_aggregations"):
            yield f"computes  {each.output_name} = {aggregation_text(each)}, of the {side} session"
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


def state_lines(join: Join, bound: BoundJoin | None, _: StateStore) -> Iterator[str]:
    """About how much it holds, for people."""
    left, right = (bytes_text(size) for size in bytes_per_row(join, bound))
    yield f"about {left} per waiting left row, {right} per right row"
