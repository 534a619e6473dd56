"""A run that is killed at any point of an epoch and started again comes to the same.

Here with its state in SQLite; and the table of kills has all that it is to have.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.faults.conftest import Homes, Undisturbed
from tests.faults.killing import killed_and_run_to_its_end, kills_of
from tests.faults.kills import DAY, NIGHT, Kill
from tests.faults.operators import EPOCHS, JOINS, OPERATORS
from tests.faults.outcome import assert_same, outcome
from tests.faults.pipelines import PIECE_ROWS
from tests.faults.processes import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_by_day_every_point_of_an_epoch_is_met_once_for_each_store() -> None:
    source = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    points = {*re.findall(r'faults\.reached\("(\w+)"\)', source)}
    met = Counter((each.store, point) for each in DAY for point in each.points)
    assert met == Counter((store, point) for store in ("sqlite", "postgres") for point in points)


def test_by_day_every_operator_and_every_target_is_killed() -> None:
    assert {each.operator for each in DAY} == OPERATORS.keys()
    assert {(each.store, each.target) for each in DAY} == {
        *(("sqlite", kind) for kind in ("files", "apart", "kafka")),
        *(("postgres", kind) for kind in ("files", "together", "apart", "kafka")),
    }


def test_no_kill_is_in_the_table_twice() -> None:
    assert {*Counter((*DAY, *NIGHT)).values()} == {1}


def test_the_undisturbed_run_has_everything_that_could_go_wrong(undisturbed: Undisturbed) -> None:
    found = undisturbed()
    assert found.epoch == EPOCHS
    assert len(found.rows_of("main")) > 500
    assert len(found.rows_of("late")) > 100
    assert len(found.rows_of("rejected")) > 50
    assert len(found.state) > 50


@pytest.mark.parametrize("join", JOINS)
def test_an_undisturbed_join_pairs_rows_and_turns_some_away(
    undisturbed: Undisturbed, join: str
) -> None:
    found = undisturbed(join)
    assert found.epoch == EPOCHS
    assert len(found.rows_of("main")) > 500
    assert len(found.rows_of("late")) > 50
    assert len(found.state) > 50


def test_late_rows_change_sessions_that_were_sent(undisturbed: Undisturbed) -> None:
    found = undisturbed("reopened", "kafka")
    main = found.rows_of("main")
    assert len({key for key, *_ in main}) > 500
    assert len(main) - len({key for key, *_ in main}) > 50, "sent again"
    assert len([value for _, value, _ in main if value is None]) > 10, "merged away"
    assert len(found.rows_of("rejected")) > 50
    assert all(len(rows) > 2 * PIECE_ROWS for rows in found.sent["main"].values())


def test_the_number_of_shards_does_not_show(undisturbed: Undisturbed) -> None:
    assert_same(undisturbed(shards=4), undisturbed())


def test_a_flush_sends_what_is_held(undisturbed: Undisturbed) -> None:
    found, kept = undisturbed(on_end="flush"), undisturbed()
    assert (found.state, found.to_publish, found.epoch) == ([], 0, EPOCHS + 1)
    assert found.sent["main"] == {**kept.sent["main"], EPOCHS + 1: found.sent["main"][EPOCHS + 1]}
    assert len(found.sent["main"][EPOCHS + 1]) == len(kept.state)


@pytest.mark.parametrize("kill", kills_of("sqlite"), ids=str)
def test_a_run_that_is_killed_comes_to_the_same(
    spark: SparkSession, homes: Homes, undisturbed: Undisturbed, kill: Kill
) -> None:
    folder = homes(kill.operator, kill.store, kill.target)
    killed_and_run_to_its_end(spark, folder, kill)
    expected = undisturbed(kill.operator, kill.results, kill.on_end)
    if kill.flushed and "committed" in kill.points:
        expected = replace(expected, epoch=expected.epoch + 1)  # the next run flushes once more
    assert_same(outcome(folder), expected)
