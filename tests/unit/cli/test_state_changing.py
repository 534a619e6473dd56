"""What a reset by command does beside the state: targets take no more rows of what was before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tidegate.cli.state_changing import claim_targets
from tidegate.errors import LostLease
from tidegate.pipeline import StateStore, Target
from tidegate.state import folder_catalog, open_store
from tidegate.targets import TargetWriter, open_target
from tidegate.targets.ownership import claim_targets as claimed
from tidegate.testing.target_contract import key, rows, stage

PIPELINE = """
name = "orders"

[[sources]]
name = "clicks"
format = "generator"
event_time = "at"
options = {{ rows = 1, seed = 1 }}

[transform.window]
kind = "tumbling"
width_ms = 1_000
group_by = "user_id"
aggregations = [{{ kind = "count" }}]

[state_store]
url = "{folder}/state"

[target]
format = "parquet"
options = {{ path = "{folder}/out" }}
"""


def reset_while_somebody_sleeps(folder: Path, where: Path) -> Callable[[], None]:
    """What the sleeper does when it wakes."""
    (folder / "pipeline.toml").write_text(PIPELINE.format(folder=folder))
    store = open_store(StateStore(url=str(folder / "state")), "orders")
    before = store.open()
    target = Target(format="parquet", options={"path": str(folder / "out")})
    sleeper: TargetWriter | None = open_target(target, pipeline="orders", channel="main")
    assert sleeper is not None
    claimed({"main": sleeper}, before.incarnation)
    part = stage(sleeper, rows(("ann", 0, 1)), name="1-1-x")
    store.reset(before.token)
    store.close()
    claim_targets(where, folder_catalog(folder / "state"), "orders")
    return lambda: sleeper.publish(key(1, incarnation=before.incarnation), [part])


def test_a_reset_by_the_file_of_a_pipeline_refuses_who_slept_through_it(tmp_path: Path) -> None:
    wake = reset_while_somebody_sleeps(tmp_path, tmp_path / "pipeline.toml")
    with pytest.raises(LostLease, match="'orders' was taken over"):
        wake()


@pytest.mark.parametrize("where", ["state", "state/tidegate.db"])
def test_a_reset_by_the_folder_knows_no_target(tmp_path: Path, where: str) -> None:
    reset_while_somebody_sleeps(tmp_path, tmp_path / where)()
