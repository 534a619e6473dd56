"""Join cases of the scenario files on the oracle.

A case that ends with `final` ends with a flush, and `final` lists what that flush sends.
"""

import copy
import operator
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from tidegate.eventtime import US_PER_MS

from .aggregates import Row
from .joins import Condition, JoinEpoch, JoinOracle, JoinRules

_COMPARE = {
    **{"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge},
    **{"=": operator.eq, "==": operator.eq, "!=": operator.ne},
}
_OPEN_MS = 10**15  # how long an open side waits in a case that does not say


def mismatches(case: Row) -> list[str]:
    """Run a case, and tell each step whose rows are not as expected, and so of `dropped_late`."""
    run, found = _Run(case), []
    for nth, step in enumerate(case["steps"]):
        found += _differences(f"step {nth}", run.step(step), step.get("expect", []))
    if "final" in case:
        found += _differences("final", run.flush(), case["final"])
    late = [{"late": each} for each in run.late]
    return found + _differences("late", late, [{"late": each} for each in case["dropped_late"]])


def rules_of(join: Row) -> JoinRules:
    """What a `join` mapping says, in the oracle's own words."""
    window = join.get("window", {})
    left_only, right_only, both = _conditions(join.get("residual"))
    policy, max_lateness_us = join.get("late_data", "drop"), _us(join.get("max_lateness_ms", 0))
    return JoinRules(
        kind=join.get("kind", "tumbling_tumbling" if window else "interval"),
        type=join["type"],
        on=("key",),
        lower_us=_bound_us(join, "lower"),
        upper_us=_bound_us(join, "upper"),
        size_us=_us(window.get("width_ms", join.get("size_ms", 0))),
        offset_us=_us(window.get("offset_ms", join.get("offset_ms", 0))),
        left_size_us=_us(join.get("left_size_ms", 0)),
        right_size_us=_us(join.get("right_size_ms", 0)),
        right_slide_us=_us(join.get("right_slide_ms", 0)),
        match=join.get("match", "overlapping_pane"),
        gap_us=_us(join.get("gap_ms", 0)),
        cap_us=_us(join.get("max_session_duration_ms", _OPEN_MS)),
        allowed_lateness_us=_us(join.get("allowed_lateness_ms", 0)),
        late_left=policy,
        late_right=policy,
        max_lateness_left_us=max_lateness_us,
        max_lateness_right_us=max_lateness_us,
        null_keys_equal=join.get("null_keys_equal", False),
        left_only=left_only,
        right_only=right_only,
        both=both,
    )


class _Run:
    """One case on the way: the oracle, and the clocks that the mode of the watermark asks for."""

    def __init__(self, case: Row) -> None:
        self.late: list[str] = []
        self._type = case["join"]["type"]
        self._oracle = JoinOracle(rules_of(case["join"]))
        self._mode = case["watermark"]["mode"]
        self._delay_us = _us(case["watermark"].get("max_out_of_order_ms", 0))
        initial_ms = case["watermark"].get("initial")
        initial_us = None if initial_ms is None else _us(initial_ms)
        self._clocks: dict[str, int | None] = {"L": initial_us, "R": initial_us}
        self._seen = 0
        self._epoch([], initial_us)

    def step(self, step: Row) -> list[Row]:
        if "restart" in step:
            self._oracle = copy.deepcopy(self._oracle)
            return []
        if "advance_watermark" in step:
            return self._epoch([], _us(step["advance_watermark"]))
        rows = [self._placed(row) for row in step["rows"]]
        if self._mode == "per_record":
            return [sent for row in rows for sent in self._record(row)]
        return self._batch(rows)

    def flush(self) -> list[Row]:
        return self._told(self._oracle.flush())

    def _record(self, row: Row) -> list[Row]:
        """The watermark moves before the row, by its time too."""
        return self._epoch([], row["event_us"] - self._delay_us) + self._epoch([row], None)

    def _batch(self, rows: list[Row]) -> list[Row]:
        """Rows are judged by the watermark before them; per_batch: then the slower side counts."""
        if self._mode == "explicit":
            return self._epoch(rows, None)
        for row in rows:
            clock_us = self._clocks[row["side"]]
            own_us = row["event_us"] - self._delay_us
            self._clocks[row["side"]] = own_us if clock_us is None else max(clock_us, own_us)
        slowest_us = [clock_us for clock_us in self._clocks.values() if clock_us is not None]
        return self._epoch(rows, min(slowest_us) if len(slowest_us) == 2 else None)

    def _epoch(self, rows: list[Row], watermark_us: int | None) -> list[Row]:
        left = [row for row in rows if row["side"] == "L"]
        right = [row for row in rows if row["side"] == "R"]
        return self._told(self._oracle.epoch(left, right, watermark_us))

    def _placed(self, row: Row) -> Row:
        self._seen += 1
        return row | {"event_us": _us(row["ts"]), "lane": 0, "offset": self._seen}

    def _told(self, epoch: JoinEpoch) -> list[Row]:
        """What an epoch sent, by the ids of the rows."""
        self.late += [row["id"] for _, row, _ in epoch.late]
        names = ("left",) if self._type in ("semi", "anti") else ("left", "right")
        ids = [[None if row is None else row["id"] for row in pair] for pair in epoch.pairs]
        return [dict(zip(names, pair, strict=False)) for pair in ids]


def _differences(where: str, found: list[Row], expected: list[Row]) -> list[str]:
    """Both as lists of rows in any order."""
    rows, wanted = (sorted(map(str, map(_ordered, each))) for each in (found, expected))
    return [] if rows == wanted else [f"{where}: expected {wanted}, found {rows}"]


def _ordered(row: Row) -> Row:
    return dict(sorted(row.items()))


def _us(ms: float) -> int:
    return round(ms * US_PER_MS)


def _bound_us(join: Row, which: str) -> int:
    """R11: exclusive is one microsecond tighter; `max_state_age_ms` bounds an open side."""
    inward = 1 if which == "lower" else -1
    bound_ms = join.get(f"{which}_ms")
    if bound_ms is None:
        return -inward * _us(join.get("max_state_age_ms", _OPEN_MS))
    return _us(bound_ms) + (0 if join.get(f"{which}_inclusive", True) else inward)


# conditions: SQL's three values, taken apart at the ANDs on top


def _conditions(
    residual: Row | None,
) -> tuple[
    Callable[[Row], Condition] | None,
    Callable[[Row], Condition] | None,
    Callable[[Row, Row], Condition] | None,
]:
    parts = _conjuncts(residual) if residual else []
    lefts = [part for part in parts if _sides(part) == {"left"}]
    rights = [part for part in parts if _sides(part) == {"right"}]
    boths = [part for part in parts if part not in lefts + rights]
    return (
        (lambda left: _verdict({"and": lefts}, {"left": left})) if lefts else None,
        (lambda right: _verdict({"and": rights}, {"right": right})) if rights else None,
        partial(_verdict_on_both, {"and": boths}) if boths else None,
    )


def _verdict_on_both(condition: Row, left: Row, right: Row) -> Condition:
    return _verdict(condition, {"left": left, "right": right})


def _conjuncts(condition: Row) -> list[Row]:
    if "and" not in condition:
        return [condition]
    return [part for each in condition["and"] for part in _conjuncts(each)]


def _sides(condition: Row) -> set[str]:
    for name in ("and", "or"):
        if name in condition:
            return {side for each in condition[name] for side in _sides(each)}
    return {condition[name].split(".")[0] for name in ("col", "col2") if name in condition}


def _verdict(condition: Row, rows: Mapping[str, Row]) -> Condition:
    """True, False or NULL."""
    if "and" in condition:
        verdicts = [_verdict(each, rows) for each in condition["and"]]
        return False if False in verdicts else None if None in verdicts else True
    if "or" in condition:
        verdicts = [_verdict(each, rows) for each in condition["or"]]
        return True if True in verdicts else None if None in verdicts else False
    one = _value(condition["col"], rows)
    other = _value(condition["col2"], rows) if "col2" in condition else condition["lit"]
    return None if one is None or other is None else bool(_COMPARE[condition["op"]](one, other))


def _value(name: str, rows: Mapping[str, Row]) -> Any:
    side, column = name.split(".")
    return rows[side].get(column)
