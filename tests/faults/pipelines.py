"""The program that is killed, and the pipeline that it runs.

    python -m tests.faults.pipelines <folder> <settings as JSON>

What it computes, and where it keeps state and results, is in a file of the folder: a `Setup`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.faults.attaching import attached
from tests.faults.operators import OPERATORS, SETTINGS, Operator
from tests.postgres_server import Place
from tidegate import Pipeline, Source, StateStore, Target
from tidegate.targets import kafka

MODULE = "tests.faults.pipelines"
NAME = "clicks"
_FILE = "setup.json"
PIECE_ROWS = 40
"""Of a transaction with which an epoch goes to a topic: each epoch is several."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """An operator, a store and targets; what is not in a server is in the folder of the run."""

    operator: str = "sessions"
    state: Place | None = None
    """Where PostgreSQL has the state; None: SQLite."""
    tables: Place | None = None
    """Where PostgreSQL has the results; in the same place as the state they are in its commit."""
    topics: Mapping[str, Any] | None = None
    """The options of Kafka for results, with the topic of which those of channels have names."""

    def write(self, folder: Path) -> None:
        """Put it where the run of this folder finds it."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _FILE).write_text(json.dumps(asdict(self)))

    @classmethod
    def of(cls, folder: Path) -> Setup:
        """The setup of this folder; sessions in files, with SQLite, if nobody wrote one."""
        if not (folder / _FILE).exists():
            return cls()
        found = json.loads((folder / _FILE).read_text())
        for name in ("state", "tables"):
            found[name] = None if found[name] is None else Place(**found[name])
        return cls(**found)

    @property
    def computed(self) -> Operator:
        return OPERATORS[self.operator]

    def topic(self, channel: str) -> str:
        """The topic of a channel."""
        assert self.topics is not None
        return f"{self.topics['topic']}.{channel}"

    def target(self, folder: Path, channel: str) -> Target:
        """Results are a table, wherever the format has those; other rows are only added."""
        if self.topics is not None:
            options = {**self.topics, "topic": self.topic(channel), "key": channel == "main"}
            return Target(format="kafka", options=options)
        if self.tables is None:
            return Target(format="parquet", options={"path": str(folder / channel)})
        address = {} if self.tables == self.state else {"url": self.tables.url}
        options = {"table": channel, "schema": self.tables.schema, **address}
        mode = {} if channel == "main" else {"mode": "append"}
        return Target.from_dict({"format": "postgres", "options": options, **mode})

    def store(self, folder: Path) -> StateStore:
        if self.state is None:
            return StateStore(url=str(folder / "state"))
        return StateStore(kind="postgres", url=self.state.url, schema=self.state.schema)


def pipeline_of(folder: Path, source: Source | None = None) -> Pipeline:
    """The pipeline of a folder, perhaps with another source."""
    setup = Setup.of(folder)
    operator = setup.computed
    targets = {channel: setup.target(folder, channel) for channel in operator.channels}
    return Pipeline(
        name=NAME,
        sources=operator.sources if source is None else source,
        window=operator.window,
        join=operator.join,
        target=targets["main"],
        late=targets.get("late"),
        rejected=targets.get("rejected"),
        watermark=operator.watermark,
        state_store=setup.store(folder),
    )


def note_of_epoch(folder: Path, epoch: int) -> Path:
    """The file that a run in a process of its own makes when this epoch is out."""
    return folder / "epochs" / str(epoch)


def main(folder: Path, settings: Mapping[str, Any]) -> None:
    kafka._PIECE_ROWS = PIECE_ROWS  # type: ignore[misc]  # a constant
    (folder / "epochs").mkdir(parents=True, exist_ok=True)
    pipeline_of(folder).run(
        spark=attached(),
        on_epoch=lambda result: note_of_epoch(folder, result.epoch).touch(),
        **{**SETTINGS, **settings},
    )
    os._exit(0)  # all is durable: nothing is gained by waiting for the JVM to go


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
