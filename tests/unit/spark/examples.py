"""Reports of epochs for tests."""

from __future__ import annotations

from typing import Any

from tidegate.core.watermark import PipelineWatermark, SourceWatermark
from tidegate.engine.status import EpochReport
from tidegate.eventtime import BEGINNING

NOON_US = 1_767_614_400_000_000
"""2026-01-05, UTC: the watermark."""


def epoch(number: int, rows: int = 1000, late: int = 0, **changes: Any) -> EpochReport:
    """A report of an epoch with two sources, one of which has brought nothing yet."""
    sources = {
        "clicks": SourceWatermark(watermark_us=NOON_US),
        "orders": SourceWatermark(watermark_us=BEGINNING),
    }
    usual: dict[str, Any] = {
        "epoch": number,
        "rows": rows,
        "counts": {"rows": rows, "late": late, "sent": 7, "accepted": rows - late},
        "watermark_us": NOON_US,
        "watermarks": PipelineWatermark(sources=sources, watermark_us=NOON_US),
        "state_rows": 0,
        "state_bytes": 0,
        "open": 3,
        "worker_cache_bytes": 5,
        "seconds": 0.25,
        "parts": {},
    }
    return EpochReport(**{**usual, **changes})
