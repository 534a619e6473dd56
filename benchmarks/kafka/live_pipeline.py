"""The newest event of each user, in a table, as it comes: until this process is told to end.

    python -m benchmarks.kafka.live_pipeline SETTINGS

The address of PostgreSQL is in the environment. When Spark is there, the file `ready` is.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from pathlib import Path
from typing import Any, Final

from benchmarks.engine import session, tidegate_sessions
from benchmarks.engine.postgres_sessions import URL
from tidegate import Aggregation, Pipeline, Source, StateStore, Target, Watermark, Window
from tidegate.spark.session import OWN_JVM_OPTIONS

TABLE: Final = "newest"
SCHEMA: Final = "bench_live"
_POLL_MS: Final = 20
_WIDTH_MS: Final = 10_000


def main(settings: dict[str, Any]) -> None:
    scratch = Path(settings["scratch"])
    spark = session.start(scratch, OWN_JVM_OPTIONS)
    (scratch / "ready").touch()
    result = pipeline(settings["servers"], settings["topic"]).run(
        mode="continuous", poll_interval_ms=_POLL_MS, shards=tidegate_sessions.SHARDS
    )
    epochs = result.epochs[len(result.epochs) // 3 :]  # without the cold ones
    names = dict.fromkeys(name for epoch in epochs for name in epoch.parts)
    told = {
        "epochs": len(result.epochs),
        "counts": dict(result.counts),
        "rows": statistics.median(epoch.rows for epoch in epochs),
        "seconds": statistics.median(epoch.seconds for epoch in epochs),
        "parts": {
            name: statistics.median(epoch.parts.get(name, 0.0) for epoch in epochs)
            for name in names
        },
    }
    print(json.dumps(told))
    sys.stdout.flush()
    spark.stop()


def pipeline(servers: str, topic: str) -> Pipeline:
    """Windows of ten seconds, sent again whenever they change."""
    return Pipeline(
        name="live",
        sources=Source(
            name="events",
            format="kafka",
            event_time="sent_us",
            event_time_unit="us",
            columns={"user_id": "long", "sent_us": "long"},
            options={"bootstrap_servers": servers, "topic": topic},
            watermark=Watermark(max_out_of_order_ms=1_000),
        ),
        window=Window(
            kind="tumbling",
            width_ms=_WIDTH_MS,
            group_by=["user_id"],
            aggregations=[
                Aggregation(kind="count", output_name="events"),
                Aggregation(kind="max", input_column="sent_us", output_name="newest_us"),
            ],
            emit="on_update",
        ),
        target=Target(format="postgres", options={"table": TABLE, "schema": SCHEMA}),
        state_store=StateStore(kind="postgres", url=os.environ[URL], schema=SCHEMA),
    )


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
