"""Segments that older versions wrote are read by this one, and go on where they stood."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal

from tests.migration.write_segments import FOLDER, RUNS, WATERMARK_US, fed, segments_of
from tidegate.core.local import LocalRun, Saved
from tidegate.core.segment_format import from_bytes, to_bytes
from tidegate.core.segment_migrations import STATE_VERSION, migrated
from tidegate.core.stacks import Stack
from tidegate.errors import StateFormatError

VERSIONS = sorted(int(path.name.removeprefix("segments_")) for path in FOLDER.glob("segments_*"))


def kept(version: int, name: str) -> tuple[bytes, ...]:
    lines = (FOLDER / f"segments_{version}" / f"{name}.b64").read_text().split()
    return tuple(base64.b64decode(line) for line in lines)


def test_there_is_data_of_every_version() -> None:
    assert list(range(1, STATE_VERSION + 1)) == VERSIONS


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", RUNS)
def test_a_run_goes_on_from_what_an_older_version_wrote(version: int, name: str) -> None:
    window, columns = RUNS[name]
    undisturbed = fed(LocalRun(window, columns))
    saved = Saved(
        segments=(kept(version, name),),
        watermark_us=undisturbed.saved().watermark_us,
        flushed_us=undisturbed.saved().flushed_us,
        rows_seen=undisturbed.saved().rows_seen,
    )
    again = LocalRun.restored(window, columns, saved)
    assert again.flush().rows.equals(undisturbed.flush().rows)


@pytest.mark.parametrize("name", RUNS)
def test_the_newest_data_is_what_this_version_writes(name: str) -> None:
    """Who changes what is written finds out here, and appends a migration."""
    written, there = stack_of(segments_of(name)), stack_of(kept(STATE_VERSION, name))
    assert {tuple(s.rows.schema.items()) for s in written.segments} == {
        tuple(s.rows.schema.items()) for s in there.segments
    }
    assert all(segment.unit_time == there.segments[0].unit_time for segment in written.segments)
    one, other = written.alive(WATERMARK_US), there.alive(WATERMARK_US)
    assert one is not None
    assert other is not None
    assert_frame_equal(one, other, check_row_order=False)


def stack_of(segments: Sequence[bytes]) -> Stack:
    """State as a whole: how it is spread over segments is no part of the format."""
    return Stack(tuple(from_bytes(data) for data in segments))


def test_migrations_run_one_after_the_other_from_the_version_found() -> None:
    def renamed(old: str, new: str, table: pa.Table) -> pa.Table:
        return table.rename_columns([new if name == old else name for name in table.column_names])

    chain = (
        lambda table: renamed("a", "b", table),
        lambda table: renamed("b", "c", table),
    )
    assert migrated(pa.table({"a": [1]}), "1", chain).column_names == ["c"]
    assert migrated(pa.table({"b": [1]}), "2", chain).column_names == ["c"]
    assert migrated(pa.table({"c": [1]}), "3", chain).column_names == ["c"]


@pytest.mark.parametrize("version", ["0", "4", "none", "²", "-1", ""])
def test_a_version_nobody_knows_is_refused(version: str) -> None:
    with pytest.raises(StateFormatError, match="this library reads 1 to 3"):
        migrated(pa.table({"a": [1]}), version, (lambda table: table,) * 2)


def test_a_segment_of_a_later_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = kept(STATE_VERSION, "sessions")[0]
    monkeypatch.setattr("tidegate.core.segment_format.STATE_VERSION", STATE_VERSION + 1)
    later = to_bytes(from_bytes(data))
    with pytest.raises(StateFormatError, match=f"format version {STATE_VERSION + 1}"):
        from_bytes(later)
