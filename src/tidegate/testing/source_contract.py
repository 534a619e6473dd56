"""What every source must do, as tests that the author of a source runs.

    class TestSqlite(GrowingSourceContract):
        @pytest.fixture
        def supply(self, tmp_path): return SqliteSupply(tmp_path)

`SourceContract` holds for all, `GrowingSourceContract` where rows come while a run reads, and
`EndlessSourceContract` where a run must end all the same. The format is found as a pipeline finds
it: it has to be registered.

Import it where pytest is installed.
"""
# ruff: noqa: D102  # the name of a test is the sentence that it proves

from __future__ import annotations

import json
import pickle
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tidegate.core.compiling import polars_type
from tidegate.errors import ConfigError
from tidegate.pipeline import DataType, Source
from tidegate.sources import LogEntry, Offset, Polled, Slice, SourceReader, open_source
from tidegate.sources.numbering import numbering

NOW_US = 4_102_444_800_000_000
"""2100: whatever has to settle has done so."""

_ROWS = 23
_MAX_ROWS = 5


class Supply(ABC):
    """A source of a test, and how rows come into it."""

    format: str
    columns: Mapping[str, str] | None = None
    counts_rows: bool = True
    """Whether it knows how many rows it gives; one that estimates may give twice as many."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    @abstractmethod
    def options(self) -> Mapping[str, Any]:
        """What leads to rows that nobody else writes, below `folder` where they are in files."""

    @abstractmethod
    def put(self, rows: int) -> None:
        """Add so many rows, all different, also from those that are there."""

    def open(self, log: Sequence[LogEntry] = (), **options: Any) -> SourceReader:
        """A reader, as a run opens it with the log that was committed."""
        spec = Source(
            name="rows",
            format=self.format,
            event_time="arrival",
            columns=self.columns,
            options={**self.options, **options},
        )
        reader = open_source(spec, log, pipeline="contract")
        assert reader is not None
        return reader


# --- polling and reading as a run does ---


def as_stored(value: Any) -> Any:
    """What comes back of something that was committed."""
    return json.loads(json.dumps(value))


def poll(
    reader: SourceReader,
    since: Offset | None = None,
    *,
    max_rows: int = 1_000,
    slices: int = 1,
    now_us: int = NOW_US,
) -> Polled:
    """One poll."""
    return reader.poll(since, max_rows=max_rows, slices=slices, now_us=now_us)


def drained(
    reader: SourceReader,
    since: Offset | None = None,
    *,
    max_rows: int = 1_000,
    slices: int = 1,
    most: int = 1_000,
) -> list[Polled]:
    """Poll until nothing is unread; every poll must move on, but for what has to settle."""
    polls: list[Polled] = []
    for _ in range(most):
        polls.append(poll(reader, since, max_rows=max_rows, slices=slices))
        since = as_stored(polls[-1].until)
        if not polls[-1].unread:
            return polls
    raise AssertionError(f"still unread after {most} polls, at {since}")


def log_of(polls: Iterable[Polled]) -> list[LogEntry]:
    """The log, once these polls are committed."""
    return [as_stored(entry) for each in polls for entry in each.discovered]


def slices_of(polls: Iterable[Polled]) -> list[Slice]:
    """All slices, in the order in which they were polled."""
    return [part for each in polls for part in each.slices]


def frame_of(parts: Iterable[Slice], columns: Sequence[str] | None = None) -> pl.DataFrame:
    """The rows of slices as a task gets them, whose numbers must be unique and ascending in each
    partition, and have room for more behind a transform.
    """
    frames: list[pl.DataFrame] = []
    behind: dict[int, int] = {}
    behind_apart = dict[int, tuple[int, int]]()
    for part in pickle.loads(pickle.dumps(list(parts))):
        read = [pl.DataFrame(batch) for batch in part.read(columns)]
        rows = sum(each.height for each in read) if columns != [] else part.span
        assert part.first_offset >= behind.get(part.partition, 0)
        assert part.span >= rows
        behind[part.partition] = part.first_offset + part.span
        assert behind[part.partition] < 2**63
        far = numbering(part, transformed=True)
        assert (far.partition, far.first) >= behind_apart.get(part.partition, (0, 0))
        assert far.room >= 1_000 * rows
        assert far.first + far.room <= 2**63
        behind_apart[part.partition] = (far.partition, far.first + far.room)
        frames += read
    return pl.concat(frames) if frames else pl.DataFrame()


def same_rows(found: pl.DataFrame, expected: pl.DataFrame) -> None:
    """The rows are equal, in whatever order."""
    assert_frame_equal(found, expected, check_row_order=False)


class SourceContract:
    """What holds for every source."""

    def test_every_row_comes_once(self, supply: Supply) -> None:
        for rows in (1, _ROWS - 1):
            supply.put(rows)
        rows_ = frame_of(slices_of(drained(supply.open(), max_rows=_MAX_ROWS)))
        assert (rows_.height, rows_.unique().height) == (_ROWS, _ROWS)

    def test_rows_do_not_depend_on_how_they_are_cut(self, supply: Supply) -> None:
        supply.put(_ROWS)
        whole = frame_of(slices_of(drained(supply.open())))
        for max_rows, slices in ((1, 1), (_MAX_ROWS, 3), (1_000, 7)):
            polls = drained(supply.open(), max_rows=max_rows, slices=slices)
            same_rows(frame_of(slices_of(polls)), whole)

    def test_a_poll_from_the_same_offset_gives_the_same(self, supply: Supply) -> None:
        supply.put(_ROWS)
        reader = supply.open()
        since: Offset | None = None
        for first in drained(supply.open(), max_rows=_MAX_ROWS):
            again = [poll(reader, since, max_rows=_MAX_ROWS) for _ in range(3)][1:]
            assert [each.until for each in again] == [again[0].until] * 2
            assert [each.discovered for each in again] == [again[0].discovered] * 2
            one, other = (frame_of(each.slices) for each in again)
            assert_frame_equal(one, other)
            if first.slices:
                since = as_stored(again[0].until)

    def test_a_slice_that_is_read_again_gives_the_same_rows(self, supply: Supply) -> None:
        supply.put(_ROWS)
        for part in slices_of(drained(supply.open(), slices=2)):
            assert_frame_equal(frame_of([part]), frame_of([part]))

    def test_slices_read_together_give_the_rows_of_each(self, supply: Supply) -> None:
        supply.put(_ROWS)
        for polled in drained(supply.open(), slices=3):
            parts = pickle.loads(pickle.dumps(polled.slices))
            read: list[list[pl.DataFrame]] = [[] for _ in parts]
            for place, batch in parts[0].read_all(parts, None) if parts else ():
                read[place].append(pl.DataFrame(batch))
            for part, frames in zip(parts, read, strict=True):
                assert_frame_equal(pl.concat(frames), frame_of([part]))

    def test_after_a_crash_the_rest_comes(self, supply: Supply) -> None:
        supply.put(_ROWS)
        polls = drained(supply.open(), max_rows=_MAX_ROWS)
        for done in range(1, len(polls)):
            reader = supply.open(log_of(polls[:done]))
            rest = drained(reader, as_stored(polls[done - 1].until), max_rows=_MAX_ROWS)
            same_rows(frame_of(slices_of(rest)), frame_of(slices_of(polls[done:])))

    def test_offsets_and_what_is_discovered_are_plain_json(self, supply: Supply) -> None:
        supply.put(_ROWS)
        for each in drained(supply.open(), max_rows=_MAX_ROWS):
            assert as_stored(each.until) == each.until
            assert as_stored(each.discovered) == [*each.discovered]

    def test_a_poll_gives_no_more_rows_than_asked_for(self, supply: Supply) -> None:
        supply.put(_ROWS)
        polls = drained(supply.open(), max_rows=_MAX_ROWS)
        most = _MAX_ROWS if supply.counts_rows else 2 * _MAX_ROWS
        assert [n for each in polls if (n := frame_of(each.slices).height) > most] == []

    def test_a_poll_gives_no_more_tasks_than_asked_for(self, supply: Supply) -> None:
        supply.put(_ROWS)
        polls = drained(supply.open(), slices=2)
        assert [n for each in polls if (n := len(each.tasks or each.slices)) > 2] == []

    def test_what_was_read_to_its_end_has_nothing_more(self, supply: Supply) -> None:
        supply.put(_ROWS)
        reader = supply.open()
        until = as_stored(drained(reader)[-1].until)
        for _ in range(3):
            after = poll(reader, until)
            assert (after.slices, after.until, after.unread) == ((), until, False)

    def test_columns_stay_as_they_are(self, supply: Supply) -> None:
        supply.put(_ROWS)
        reader = supply.open()
        columns = dict(reader.columns())
        polls = drained(reader)
        supply.put(1)
        assert dict(reader.columns()) == columns
        assert dict(supply.open(log_of(polls)).columns()) == columns

    def test_rows_have_the_columns_and_types_that_the_source_says(self, supply: Supply) -> None:
        supply.put(_ROWS)
        reader = supply.open()
        types = {name: polars_type(DataType.parse(kind)) for name, kind in reader.columns().items()}
        assert dict(frame_of(slices_of(drained(reader))).schema) == types

    def test_only_the_wanted_columns_are_read(self, supply: Supply) -> None:
        supply.put(_ROWS)
        reader = supply.open()
        columns = [*reader.columns()][::-1]
        parts = slices_of(drained(reader))
        assert_frame_equal(frame_of(parts, columns), frame_of(parts).select(columns))
        nothing = [batch for part in parts for batch in part.read([])]
        assert sum(batch.num_rows for batch in nothing) == _ROWS

    def test_a_commit_is_told_and_changes_nothing(self, supply: Supply) -> None:
        supply.put(_ROWS)
        reader, since, told = supply.open(), None, list[Polled]()
        for _ in drained(supply.open(), max_rows=_MAX_ROWS):
            told.append(poll(reader, since, max_rows=_MAX_ROWS))
            since = as_stored(told[-1].until)
            reader.committed(since)
        whole = frame_of(slices_of(drained(supply.open())))
        same_rows(frame_of(slices_of(told)), whole)

    def test_partitions_have_names_where_they_have_orders(self, supply: Supply) -> None:
        supply.put(_ROWS)
        reader = supply.open()
        polls = drained(reader)
        partitions = {part.partition for part in slices_of(polls)}
        if reader.traits.partitioned:
            assert all(reader.partition_name(each) for each in partitions)
            assert all(each.found is not None for each in polls)
        else:
            assert partitions == {0}
            assert reader.partition_name(0) == ""

    def test_all_wrong_options_are_named_at_once(self, supply: Supply) -> None:
        with pytest.raises(ConfigError) as caught:
            supply.open(nmae="x", zzz=1)
        places = [problem.at for problem in caught.value.problems]
        assert places == ["options.nmae", "options.zzz"]


class GrowingSourceContract(SourceContract):
    """What holds where rows come while a run reads."""

    def test_rows_that_come_later_are_read(self, supply: Supply) -> None:
        supply.put(3)
        reader = supply.open()
        polls = drained(reader)
        supply.put(4)
        polls += drained(reader, as_stored(polls[-1].until))
        rows = frame_of(slices_of(polls))
        assert (rows.height, rows.unique().height) == (7, 7)

    def test_the_next_run_reads_rows_that_came_between(self, supply: Supply) -> None:
        supply.put(3)
        polls = drained(supply.open())
        supply.put(4)
        rest = drained(supply.open(log_of(polls)), as_stored(polls[-1].until))
        assert frame_of(slices_of(rest)).height == 4


class EndlessSourceContract(GrowingSourceContract):
    """What holds where rows may come faster than they are read."""

    def test_a_run_that_is_to_end_reads_nothing_that_comes_later(self, supply: Supply) -> None:
        supply.put(3)
        reader = supply.open()
        reader.end_at(NOW_US)
        polls = [poll(reader)]
        supply.put(4)
        polls += drained(reader, as_stored(polls[-1].until))
        assert frame_of(slices_of(polls)).height == 3
        rest = drained(supply.open(log_of(polls)), as_stored(polls[-1].until))
        assert frame_of(slices_of(rest)).height == 4
