"""Kill a run as the table says, run it to its end, and see that what it had staged is gone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.faults.kills import DAY, NIGHT, Kill, Store
from tests.faults.operators import SETTINGS
from tests.faults.outcome import committed_epoch, parts_in_store, uncommitted_parts
from tests.faults.pipelines import MODULE, pipeline_of
from tests.faults.processes import driver
from tests.nights import at_night

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_STAGED = {"staged", "commit", "committing"}
"""Points at which an epoch has parts in the store and is not committed."""


def kills_of(store: Store) -> list[Any]:
    """The kills of runs with this store, with those of the night."""
    day, night = ([each for each in kills if each.store == store] for kills in (DAY, NIGHT))
    return [*day, *at_night(*night)]


def killed_and_run_to_its_end(spark: SparkSession, folder: Path, kill: Kill) -> None:
    """Kill all processes at each fault; what was staged and not committed is deleted by the end."""
    left = set[str]()
    for fault in kill.faults:
        settings = {"shards": kill.shards, "on_end": kill.on_end}
        with driver(MODULE, folder, settings, fault=fault) as run:
            run.wait_at_fault()
            run.kill()
        committed = committed_epoch(folder)
        assert committed in kill.committed(fault)
        assert left <= parts_in_store(folder), "it was killed before it deletes garbage"
        left |= uncommitted_parts(folder, committed)
    if kill.on_end != "flush":  # which forgets state, and writes none
        assert left or not _STAGED & {*kill.points}, "it was killed before it staged anything"
    settings = {**SETTINGS, "shards": kill.then_shards, "on_end": kill.on_end}
    pipeline_of(folder).run(spark=spark, **settings)
    assert not left & parts_in_store(folder)
