"""What runs compute that are killed: sessions, and a join of each kind, over generated clicks.

Their epochs close and merge sessions, pair rows of one epoch and of several, pad rows, send rows
to the late and to the rejected channel, and merge segments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tidegate import Aggregation, Join, Source, Watermark, Window

EPOCHS: Final = 6
_ROWS_PER_EPOCH: Final = 1_000
SETTINGS: Final[Mapping[str, Any]] = {
    "max_rows_per_epoch": _ROWS_PER_EPOCH,
    "on_end": "keep",
}


@dataclass(frozen=True, kw_only=True)
class Operator:
    """Sources, a window or a join over them, and the channels to which it sends rows."""

    sources: tuple[Source, ...]
    channels: tuple[str, ...]
    watermark: Watermark
    window: Window | None = None
    join: Join | None = None


def clicks_source() -> Source:
    """20 s of event time per epoch; some rows are much too late, some have no time."""
    return _clicks(
        "clicks",
        rows=EPOCHS * _ROWS_PER_EPOCH,
        keys=300,
        disorder_ms=12_000,
        late_share=0.04,
        null_share=0.02,
        seed=7,
    )


def _clicks(name: str, **options: Any) -> Source:
    usual = {"events_per_second": 50, "late_share": 0.02, "late_by_ms": 60_000}
    made = {**usual, **options}
    return Source(name=name, format="generator", event_time="event_time", options=made)


def _sessions(*channels: str, **lateness: Any) -> Operator:
    """Aggregates show a row that was added twice, left out, or taken in another order."""
    window = Window(
        kind="session",
        gap_ms=5_000,
        max_session_duration_ms=3_600_000,
        group_by="user_id",
        aggregations=[
            Aggregation(kind="count"),
            Aggregation(kind="sum", input_column="duration_ms"),
            Aggregation(kind="sum", input_column="amount"),
            Aggregation(kind="last", input_column="page"),
            Aggregation(kind="collect", input_column="duration_ms", output_name="durations"),
        ],
        **lateness,
    )
    return Operator(
        sources=(clicks_source(),),
        window=window,
        watermark=Watermark(max_out_of_order_ms=8_000),
        channels=channels,
    )


def _joined(**fields: Any) -> Operator:
    """A join of two streams, 10 s of event time per epoch each."""
    rows = EPOCHS * _ROWS_PER_EPOCH // 2
    views, orders = (
        _clicks(name, rows=rows, keys=240, disorder_ms=9_000, seed=seed)
        for name, seed in (("views", 7), ("orders", 11))
    )
    sides = {"left": "views", "right": "orders", "on": "user_id", "late_data": "side_output"}
    return Operator(
        sources=(views, orders),
        join=Join.from_dict({**sides, **fields}),
        watermark=Watermark(max_out_of_order_ms=6_000),
        channels=("main", "late"),
    )


OPERATORS: Final[Mapping[str, Operator]] = {
    "sessions": _sessions(
        *("main", "late", "rejected"), late_data="side_output", allowed_lateness_ms=20_000
    ),
    "reopened": _sessions(  # late rows change sessions that were sent
        *("main", "rejected"), late_data="reopen", allowed_lateness_ms=40_000
    ),
    "interval": _joined(
        type="full",
        min_delta_ms=-4_000,
        max_delta_ms=8_000,
        condition="left.amount < right.amount or left.page <> right.page",
    ),
    "tumbling_tumbling": _joined(kind="tumbling_tumbling", type="left", size_ms=10_000),
    "tumbling_sliding": _joined(
        kind="tumbling_sliding",
        type="anti",
        left_size_ms=400,
        right_size_ms=400,
        right_slide_ms=200,
    ),
    "session_session": _joined(
        kind="session_session", type="full", gap_ms=3_000, max_session_duration_ms=600_000
    ),
}
JOINS: Final = tuple(name for name, each in OPERATORS.items() if each.join is not None)
