"""Cases on Spark: each epoch is a job, state is in SQLite.

What a case means is proven on the core; here is proven what Spark adds to it: the way of rows and
results over the wire, late rows to their channel, restarts, the flush, several shards. By day a
case for each of these; by night all that there are.
"""

from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from tidegate.testing import Scenario, load_scenarios, run_scenario

HERE = Path(__file__).parents[2] / "scenarios"
KINDS: Final = ("window", "assignment_only", "pairwise_touch", "group_limit", "join")
"""Those that an engine runs; others speak of watermarks and configuration alone."""

BY_DAY: Final = frozenset(
    {
        # rows, keys and results over the wire: NULL keys, no key, every aggregate, sketches
        "each-aggregate-over-plain-values",
        "all-null-gives-null-and-counts-zero",
        "a-case-without-a-guard-admits-times-of-any-future",
        "a-null-key-is-the-same-key-when-its-window-changes",
        "a-fixed-window-without-a-key-takes-every-row",
        "flink-sql-session-distinct-across-merge",
        "with-a-gap-column-one-row-can-merge-three-sessions",
        "sessions-before-1970-follow-the-same-rule",
        # late rows: counted, to their channel with the reason, at another time
        "side-output-receives-the-late-row-unchanged",
        "a-row-inside-a-sealed-session-is-late",
        "flink-sliding-side-output-partial",
        "a-reassigned-row-counts-at-the-watermark-for-everything",
        # restarts: the watermark, what is out, positions of rows, a seal
        "the-watermark-survives-a-restart",
        "what-is-out-and-its-revision-survive-a-restart",
        "ties-in-event-time-go-by-position",
        "a-sealed-session-survives-a-restart",
        # take-backs, changelogs, the flush, epochs without rows
        "a-merge-that-also-grows-backwards-takes-every-old-id-back",
        "a-changelog-updates-a-fixed-window-by-take-back-and-new-row",
        "a-flush-sends-a-session-that-was-opened-again",
        "under-every-a-flush-sends-what-waited-for-a-tick",
        "ematix-vs-laminar-group-cap",
        # joins: each kind and each type, a restart, late rows, the flush
        "interval-a-late-row-that-is-reassigned-counts-at-the-watermark",
        "interval-what-is-held-survives-a-restart",
        "interval-semi-sends-a-left-row-with-its-first-match-only",
        "interval-null-keys-under-anti-and-not-equal",
        "session-join-pairs-are-not-repeated-after-a-restart",
        "session-join-null-keys-are-late-like-any-other",
        "tumbling-join-a-restart-keeps-panes-and-watermark",
        "tumbling-join-right-with-null-keys",
        "sliding-join-restart-and-flush",
        "spark-join-left-outer-condition-violated",
    }
)
CASES = [
    pytest.param(case, id=case.id, marks=() if case.id in BY_DAY else pytest.mark.nightly)
    for case in load_scenarios(HERE)
    if case.kind in KINDS
]


@pytest.mark.parametrize("scenario", CASES)
def test_a_case_holds_on_spark(scenario: Scenario, spark: SparkSession) -> None:
    result = run_scenario(scenario, engine="spark")
    if result.skipped is not None:
        pytest.skip(result.skipped)
    assert result.mismatches == []


def test_the_cases_by_day_are_there() -> None:
    assert {case.id for case in load_scenarios(HERE)} >= BY_DAY
