"""What a task stages: parts of which a few fit into the memory of any driver."""

from __future__ import annotations

import polars as pl
from polars.testing import assert_frame_equal

from tidegate.tasks.step_task import in_parts


def test_many_rows_are_staged_in_several_parts() -> None:
    rows = pl.DataFrame({"n": range(120_000)})
    parts = [*in_parts(rows)]
    assert [part.height for part in parts] == [50_000, 50_000, 20_000]
    assert_frame_equal(pl.concat(parts), rows)


def test_large_rows_are_staged_in_smaller_parts() -> None:
    rows = pl.DataFrame({"n": range(40), "text": ["x" * (1 << 20)] * 40})
    assert {part.height for part in in_parts(rows)} <= {15, 10}


def test_a_row_is_never_cut() -> None:
    rows = pl.DataFrame({"text": ["x" * (17 << 20)] * 2})
    assert [part.height for part in in_parts(rows)] == [1, 1]
