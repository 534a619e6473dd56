"""What a run came to, in a line."""

from __future__ import annotations

from tests.unit.spark.examples import epoch
from tidegate.cli.progress import summary
from tidegate.engine.loop import RunResult
from tidegate.engine.status import RunStatus
from tidegate.pipeline import Pipeline


def test_a_summary_says_where_rows_went() -> None:
    pipeline = Pipeline.from_dict(
        {
            "name": "p",
            "sources": {"name": "s", "format": "memory", "event_time": "at"},
            "window": {"kind": "tumbling", "width_ms": 5, "aggregations": [{"kind": "count"}]},
            "target": {"format": "parquet", "options": {"path": "out"}},
        }
    )
    counts = {"rows": 1_000, "sent": 2, "late": 1}
    result = RunResult(pipeline=pipeline, epochs=(), counts=counts, watermark_us=None)
    status = RunStatus(pipeline="p", epochs=1, counts=counts, seconds=1.5, last=epoch(1))
    assert summary(result, status) == (
        "p: ended: 1,000 rows in 1 epoch, 1.5 s, 2 sent to parquet out, 1 late, 3 open"
    )
