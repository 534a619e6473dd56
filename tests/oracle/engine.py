"""The oracle as an engine of scenarios: the same cases that the core must pass."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from tidegate.eventtime import US_PER_MS
from tidegate.pipeline import Join, Window
from tidegate.testing import Sent

from .aggregates import Aggregate
from .windows import Oracle, OracleEpoch, Rules

_POSITION = ("lane", "offset")


class OracleEngine:
    """An `Oracle` of windows as an engine; rows get their position as they come."""

    def __init__(
        self, operator: Window | Join, columns: Mapping[str, str], *, max_keys: int | None = None
    ) -> None:
        del columns
        if isinstance(operator, Join) or max_keys is not None:
            raise NotImplementedError("the oracle of windows knows neither joins nor limits")
        self._oracle = Oracle(rules_of(operator))
        self._seen = 0

    def epoch(self, inputs: Sequence[list[dict[str, Any]]], watermark_us: int | None) -> Sent:
        (rows,) = inputs
        placed = [row | {"lane": 0, "offset": self._seen + n} for n, row in enumerate(rows)]
        self._seen += len(rows)
        return _sent(self._oracle.epoch(placed, watermark_us))

    def flush(self) -> Sent:
        return _sent(self._oracle.flush())

    def restart(self) -> None:
        self._oracle = copy.deepcopy(self._oracle)

    def close(self) -> None:
        """There is nothing to clean up."""


def rules_of(window: Window) -> Rules:
    """What a `Window` says, in the oracle's own words."""
    return Rules(
        kind=window.kind,
        group_by=tuple(window.group_by),
        aggregates=tuple(
            Aggregate(kind=a.kind, input_column=a.input_column, output_name=a.output_name)
            for a in window.aggregations
        ),
        gap_us=_us(window.gap_ms),
        gap_column=window.gap_column,
        nonpositive_gap=window.nonpositive_gap,
        cap_us=_us(window.max_session_duration_ms) or 2**61,
        width_us=_us(window.width_ms) or 0,
        hop_us=_us(window.hop_ms) or _us(window.width_ms) or 0,
        offset_us=_us(window.offset_ms) or 0,
        allowed_lateness_us=(
            None if window.allowed_lateness_ms == "unbounded" else _us(window.allowed_lateness_ms)
        ),
        late_data=window.late_data,
        max_lateness_us=_us(window.max_lateness_ms) or 0,
        emit=window.emit,
        every_us=_us(window.every_ms) or 0,
    )


def _us(ms: int | None) -> int | None:
    return None if ms is None else ms * US_PER_MS


def _sent(epoch: OracleEpoch) -> Sent:
    late = [
        {name: value for name, value in row.items() if name not in _POSITION} | {"reason": reason}
        for row, reason in epoch.late
    ]
    return Sent(
        rows=epoch.rows, retracted=epoch.retracted, late=late, watermark_us=epoch.watermark_us
    )
