"""The clicks that are killed, with their results in topics.

    python -m tests.integration.kafka_target_run <folder> <settings as JSON>

Where the topics are stands in a file of the folder. Windows are sent again when late rows change
them, so rows are replaced and deleted; rejected rows are only added.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.faults.attaching import attached
from tests.faults.clicks import NAME, SETTINGS, clicks_source, sessions_window
from tidegate import Pipeline, StateStore, Target, Watermark

MODULE = "tests.integration.kafka_target_run"
CHANNELS = ("main", "rejected")


def pipeline(folder: Path) -> Pipeline:
    """The pipeline of this folder; without topics its results are in memory."""
    place = folder / "topics.json"
    if place.exists():
        topics = json.loads(place.read_text())
        main = Target(format="kafka", options={**topics, "topic": topics["topic"], "key": True})
        options = {**topics, "topic": f"{topics['topic']}.rejected"}
        rejected = Target(format="kafka", options=options)
    else:
        main, rejected = (
            Target(format="memory", options={"name": f"{folder}.{channel}"}) for channel in CHANNELS
        )
    window = sessions_window().model_copy(
        update={"late_data": "reopen", "allowed_lateness_ms": 40_000}
    )
    return Pipeline(
        name=NAME,
        sources=clicks_source(),
        window=window,
        target=main,
        rejected=rejected,
        watermark=Watermark(max_out_of_order_ms=8_000),
        state_store=StateStore(url=str(folder / "state")),
    )


def main(folder: Path, settings: dict[str, Any]) -> None:
    pipeline(folder).run(spark=attached(), **{**SETTINGS, **settings})
    os._exit(0)  # all is durable: nothing is gained by waiting for the JVM to go


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
