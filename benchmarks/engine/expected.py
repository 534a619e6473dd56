"""What a system should have written, computed by DuckDB from all rows at once, and the comparison.

A figure counts only if the output was checked: session by session, each value.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import duckdb

from benchmarks.engine.files import data_files
from benchmarks.engine.workloads import DISORDER_US, LATE_PAGE

SESSIONS = """
CREATE TABLE expected AS
WITH clicks AS (
  SELECT user_id, epoch_us(event_time) AS at_us, amount
  FROM read_parquet($files) WHERE page <> $late_page
), marked AS (
  SELECT *, coalesce(at_us - lag(at_us) OVER (PARTITION BY user_id ORDER BY at_us)
                     {apart} $gap_us, true)::INT AS opens
  FROM clicks
), numbered AS (
  -- a range, not rows: clicks at the same time are in the same session
  SELECT *, sum(opens) OVER (PARTITION BY user_id ORDER BY at_us
                             RANGE UNBOUNDED PRECEDING) AS nth
  FROM marked
)
SELECT user_id, min(at_us) AS start_us, max(at_us) + $gap_us AS end_us, count(*) AS events,
       sum(amount) AS amount, min(amount) AS smallest, max(amount) AS largest
FROM numbered GROUP BY user_id, nth
"""

LAST_WATERMARK = """
SELECT max(epoch_us(event_time)) // $unit_us * $unit_us - $delay_us FROM read_parquet($files)
"""

WRITTEN = """
CREATE TABLE written AS
SELECT user_id, epoch_us(window_start) AS start_us, epoch_us(window_end) AS end_us,
       events, amount, smallest, largest
FROM read_parquet($files)
"""

DIFFERENCES = """
SELECT coalesce(e.user_id, w.user_id) AS user_id, e AS expected, w AS written
FROM expected e FULL JOIN written w ON e.user_id = w.user_id AND e.start_us = w.start_us
WHERE e.user_id IS NULL OR w.user_id IS NULL
   OR (e.end_us, e.events, e.smallest, e.largest)
      IS DISTINCT FROM (w.end_us, w.events, w.smallest, w.largest)
   OR NOT abs(e.amount - w.amount) <= 1e-9 * greatest(1, abs(e.amount))
ORDER BY ALL LIMIT 5
"""


@dataclass(frozen=True, kw_only=True)
class Semantics:
    """Where systems differ: two clicks `apart` the gap are two sessions; one is out when the
    watermark, in whole `watermark_unit_us`, `passes` its end.
    """

    apart: str
    passes: str
    watermark_unit_us: int


SEMANTICS = {
    "tidegate": Semantics(apart=">", passes=">", watermark_unit_us=1),
    "postgres": Semantics(apart=">", passes=">", watermark_unit_us=1),
    "spark": Semantics(apart=">", passes=">=", watermark_unit_us=1000),
}


def check(system: str, data: Path, output: Path, *, gap_ms: int, flushed: bool) -> int:
    """The number of sessions, if `output` holds exactly those it should."""
    files = data_files(output)
    assert files, f"{system} wrote no parquet file to {output}"
    with duckdb.connect() as database:
        _expect(database, SEMANTICS[system], data, gap_ms, flushed=flushed)
        database.execute(WRITTEN, {"files": files})
        differences = database.execute(DIFFERENCES).fetchall()
        expected, written = (
            int(database.table(name).count("*").fetchall()[0][0])
            for name in ("expected", "written")
        )
    assert not differences, f"{system}: wrong sessions in {output}, the first are {differences}"
    assert written == expected, f"{system}: {written} rows in {output}, {expected} expected"
    return written


PAIRS = """
SELECT l.user_id, epoch_us(l.event_time) AS left_us, epoch_us(r.event_time) AS right_us,
       l.amount AS left_amount, r.amount AS right_amount
FROM read_parquet($left) l JOIN read_parquet($right) r
  ON l.user_id = r.user_id
 AND r.event_time BETWEEN l.event_time - to_microseconds($delta_us)
                      AND l.event_time + to_microseconds($delta_us)
"""

WRITTEN_PAIRS = """
SELECT user_id, epoch_us(left_event_ts) AS left_us, epoch_us(right_event_ts) AS right_us,
       left_amount, right_amount
FROM read_parquet($files)
"""


def check_pairs(system: str, data: Path, output: Path, *, delta_ms: int) -> int:
    """The number of pairs, if `output` holds exactly those it should, each once."""
    files = data_files(output)
    assert files, f"{system} wrote no parquet file to {output}"
    inputs = {side: data_files(data / side) for side in ("left", "right")}
    with duckdb.connect() as database:
        database.execute(
            f"CREATE TABLE expected AS {PAIRS}", {**inputs, "delta_us": delta_ms * 1000}
        )
        database.execute(f"CREATE TABLE written AS {WRITTEN_PAIRS}", {"files": files})
        for what, one, other in (
            ("missing", "expected", "written"),
            ("wrong", "written", "expected"),
        ):
            found = database.execute(f"FROM {one} EXCEPT ALL FROM {other} LIMIT 5").fetchall()
            assert not found, f"{system}: pairs {what} in {output}, the first are {found}"
        return int(database.table("written").count("*").fetchall()[0][0])


def _expect(
    database: duckdb.DuckDBPyConnection, rules: Semantics, data: Path, gap_ms: int, *, flushed: bool
) -> None:
    files = data_files(data)
    rows = {"files": files, "late_page": LATE_PAGE, "gap_us": gap_ms * 1000}
    database.execute(SESSIONS.format(apart=rules.apart), rows)
    if not flushed:
        moving = {"files": files, "unit_us": rules.watermark_unit_us, "delay_us": DISORDER_US}
        watermark = database.execute(LAST_WATERMARK, moving).fetchall()[0][0]
        database.execute(
            f"DELETE FROM expected WHERE NOT $watermark_us {rules.passes} end_us",
            {"watermark_us": watermark},
        )
