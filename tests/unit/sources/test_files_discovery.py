"""Which files are taken, when, and in what order."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

import pytest

from tests.unit.sources.reading import (
    CLICKS,
    NOW_US,
    clicks,
    drained,
    everything,
    frame_of,
    log_of,
    opened,
    poll,
    put_text,
    settled,
    slices_of,
    source,
    stamped,
    write,
)
from tidegate.errors import ConfigError, SourceChanged
from tidegate.sources import FilesReader, SourceReader

USER = {"user": "long"}


def reader_of(path: Path | str, **options: Any) -> SourceReader:
    return opened("json", USER, path=str(path), **options)


def put(path: Path, *users: int, mtime_s: int = 1_000) -> Path:
    return put_text(path, "".join(f'{{"user":{user}}}\n' for user in users), mtime_s)


def users(reader: SourceReader) -> list[int]:
    found = everything(reader)
    return found["user"].to_list() if found.width else []


def test_a_file_is_taken_once_it_is_unchanged_over_two_polls(tmp_path: Path) -> None:
    put(tmp_path / "a.json", 1)
    reader = reader_of(tmp_path)
    first, second = poll(reader), poll(reader)
    assert (first.slices, first.unread, first.discovered) == ((), True, ())
    assert (len(second.slices), second.unread) == (1, False)


@pytest.mark.parametrize("change", ["size", "time", "inode"])
def test_a_file_that_changes_between_polls_waits(change: str, tmp_path: Path) -> None:
    path = put(tmp_path / "a.json", 1)
    reader = reader_of(tmp_path)
    poll(reader)
    if change == "size":
        put(path, 1, 2)
    if change == "time":
        stamped(path, 1_001)
    if change == "inode":
        os.replace(put(tmp_path / "new.tmp", 1), path)
    polled = poll(reader)
    assert (polled.slices, polled.unread) == ((), True)
    assert len(poll(reader).slices) == 1


HOUR_S = 3_600


@pytest.mark.parametrize("age_s", [0, 23 * HOUR_S, -HOUR_S], ids=["now", "earlier", "ahead"])
def test_a_file_of_today_settles_by_a_clock_that_nobody_sets(age_s: int, tmp_path: Path) -> None:
    """The wall clock goes back an hour meanwhile."""
    put(tmp_path / "a.json", 1, mtime_s=NOW_US // 1_000_000 - age_s)
    steady_us = iter([5, 1_000_000, 2_000_004, 2_000_005])
    spec = source("json", USER, path=str(tmp_path))
    reader = FilesReader(spec, [], steady=lambda: next(steady_us))
    clock = itertools.count(NOW_US, -20 * 60 * 1_000_000)
    polls = [poll(reader, now_us=next(clock)) for _ in range(4)]
    assert [(len(each.slices), each.unread) for each in polls] == [(0, True)] * 3 + [(1, False)]


def test_how_long_a_file_settles_can_be_said(tmp_path: Path) -> None:
    put(tmp_path / "a.json", 1, mtime_s=NOW_US // 1_000_000)
    reader = reader_of(tmp_path, settle_ms=0)
    assert [len(poll(reader).slices) for _ in range(2)] == [0, 1]


def test_a_run_that_ends_waits_for_no_file_that_is_still_being_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(tmp_path / "done.json", 1)
    growing = put(tmp_path / "growing.json", 2)
    reader = reader_of(tmp_path)
    reader.end_at(NOW_US)
    poll(reader)
    put(growing, 2, 3)
    put(tmp_path / "later.json", 4)
    polls = drained(reader)
    assert frame_of(slices_of(polls))["user"].to_list() == [1]
    assert caplog.messages == [f"{growing} is still being written: left to the next run"]
    rest = drained(opened("json", USER, log_of(polls), path=str(tmp_path)), polls[-1].until)
    assert sorted(frame_of(slices_of(rest))["user"].to_list()) == [2, 3, 4]


def test_a_file_that_has_grown_since_it_was_read_is_named_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    paths = [put(tmp_path / f"{n:03}.json", n % 10, mtime_s=n) for n in range(150)]
    polls = drained(reader_of(tmp_path))
    reader = opened("json", USER, log_of(polls), path=str(tmp_path))
    reader.committed(polls[-1].until)
    put(paths[0], 0, 1)
    put(paths[1])
    paths[2].unlink()
    put(paths[149], 9, 9, 9)
    for _ in range(5):
        assert poll(reader, polls[-1].until).slices == ()
    assert caplog.messages == [
        f"{path} has grown from 11 to {size} bytes since it was read: what was added is not read; "
        "write new rows to files with new names"
        for path, size in ((paths[149], 33), (paths[0], 22))
    ]


def test_an_empty_file_is_waited_for_without_being_unread(tmp_path: Path) -> None:
    put(tmp_path / "a.json")
    reader = reader_of(tmp_path)
    poll(reader)
    polled = poll(reader)
    assert (polled.slices, polled.unread) == ((), False)
    put(tmp_path / "a.json", 7)
    assert users(reader) == [7]


def test_a_file_that_goes_before_it_is_taken_was_never_there(tmp_path: Path) -> None:
    path = put(tmp_path / "a.json", 1)
    reader = reader_of(tmp_path)
    poll(reader)
    path.unlink()
    polled = poll(reader)
    assert (polled.slices, polled.unread) == ((), False)


def test_a_finished_file_that_changes_before_it_is_planned_waits_again(tmp_path: Path) -> None:
    put(tmp_path / "a.json", 1, 2)
    later = put(tmp_path / "b.json", 3, mtime_s=2_000)
    reader = reader_of(tmp_path)
    first = settled(reader, max_rows=1)
    assert first.unread
    put(later, 3, 4, mtime_s=3_000)
    second = poll(reader, first.until)
    assert frame_of([*first.slices, *second.slices])["user"].to_list() == [1, 2]
    assert second.unread
    assert frame_of(poll(reader, second.until).slices)["user"].to_list() == [3, 4]


def test_files_found_together_are_read_by_time_then_path(tmp_path: Path) -> None:
    put(tmp_path / "c.json", 1, mtime_s=1)
    put(tmp_path / "b.json", 3, mtime_s=2)
    put(tmp_path / "a.json", 2, mtime_s=2)
    put(tmp_path / "0.json", 4, mtime_s=3)
    assert users(reader_of(tmp_path)) == [1, 2, 3, 4]


def test_a_file_that_turns_up_late_is_read_whatever_its_name_and_time(tmp_path: Path) -> None:
    put(tmp_path / "b.json", 1, mtime_s=2_000)
    reader = reader_of(tmp_path)
    first = drained(reader)
    put(tmp_path / "a.json", 2, mtime_s=1)
    second = drained(reader, first[-1].until)
    assert frame_of(second[-1].slices)["user"].to_list() == [2]
    names = [os.path.basename(entry["path"]) for entry in log_of([*first, *second])]
    assert names == ["b.json", "a.json"]


def test_of_files_that_are_committed_only_the_paths_are_remembered(tmp_path: Path) -> None:
    for user in range(4):
        put(tmp_path / f"{user}.json", user, mtime_s=user)
    reader = reader_of(tmp_path)
    first = settled(reader, max_rows=2)
    again = opened("json", USER, log_of([first]), path=str(tmp_path))
    for each in (reader, again):
        assert isinstance(each, FilesReader)
        each.committed(first.until)
        assert frame_of(settled(each, first.until).slices)["user"].to_list() == [2, 3]
        assert {*each._log} == {2, 3}
        each.committed({"file": 4, "at": 0})
        assert not poll(each, {"file": 4, "at": 0}).slices
        assert each._log == {}


def test_a_folder_may_grow_between_polls(tmp_path: Path) -> None:
    reader, polls = reader_of(tmp_path), []
    since = None
    for user in range(5):
        put(tmp_path / f"{user}.json", user)
        polls += drained(reader, since)
        since = polls[-1].until
    assert frame_of([part for each in polls for part in each.slices])["user"].to_list() == [
        *range(5)
    ]
    assert since == {"file": 5, "at": 0}


def test_a_file_that_was_read_is_not_taken_again_though_it_changed(tmp_path: Path) -> None:
    path = put(tmp_path / "a.json", 1)
    reader = reader_of(tmp_path)
    polls = drained(reader)
    put(path, 1, 2, mtime_s=9_000)
    for each in (reader, opened("json", USER, log_of(polls), path=str(tmp_path))):
        (again,) = drained(each, polls[-1].until)
        assert (again.slices, again.until) == ((), polls[-1].until)


def test_files_that_were_read_may_be_taken_away(tmp_path: Path) -> None:
    path = put(tmp_path / "a.json", 1)
    polls = drained(reader_of(tmp_path))
    path.unlink()
    put(tmp_path / "b.json", 2)
    rest = drained(opened("json", USER, log_of(polls), path=str(tmp_path)), polls[-1].until)
    assert frame_of(rest[-1].slices)["user"].to_list() == [2]


def test_the_log_says_what_the_file_was(tmp_path: Path) -> None:
    path = write(clicks(0, 5), tmp_path / "a.parquet", 1_000)
    found = path.stat()
    (entry,) = settled(opened("parquet", CLICKS, path=str(tmp_path))).discovered
    assert entry == {
        "path": str(path),
        "size": found.st_size,
        "mtime_ns": 1_000_000_000_000,
        "inode": found.st_ino,
        "rows": 5,
    }


def test_the_log_does_not_run_ahead_of_the_offset(tmp_path: Path) -> None:
    for user in range(5):
        put(tmp_path / f"{user}.json", user, user, mtime_s=user + 1)
    polled = settled(reader_of(tmp_path), max_rows=3)
    assert polled.until["file"] == 1
    assert len(polled.discovered) == 2


@pytest.mark.parametrize(
    "name", ["_a.json", ".a.json", "a.json.tmp", "a.inprogress", "a._COPYING_", "a.json.crc"]
)
def test_hidden_and_unfinished_files_are_nobody_s_rows(name: str, tmp_path: Path) -> None:
    put(tmp_path / name, 1)
    reader = reader_of(tmp_path)
    assert [poll(reader).unread, poll(reader).unread] == [False, False]


@pytest.mark.parametrize(
    "name", ["with space.json", "ü✓.json", "a%20b.json", "a[1]*.json", "#.json"]
)
def test_any_name_will_do(name: str, tmp_path: Path) -> None:
    put(tmp_path / name, 1)
    assert users(reader_of(tmp_path)) == [1]
    assert users(reader_of(tmp_path / name)) == [1]


@pytest.mark.parametrize(
    "name", ["with space.parquet", "ü✓.parquet", "a%20b.parquet", "a[1]*.parquet"]
)
def test_any_name_will_do_for_parquet(name: str, tmp_path: Path) -> None:
    write(clicks(0, 3), tmp_path / name)
    assert everything(opened("parquet", path=str(tmp_path)))["user"].to_list() == [0, 1, 2]


def test_folders_below_are_read_only_if_wanted(tmp_path: Path) -> None:
    for folder in ("day=1/hour=2", "_temporary"):
        (tmp_path / folder).mkdir(parents=True)
        put(tmp_path / folder / "a.json", len(folder))
    put(tmp_path / "b.json", 0)
    assert users(reader_of(tmp_path)) == [0]
    assert sorted(users(reader_of(tmp_path, recursive=True))) == [0, 12]


def test_a_single_file_is_taken_whatever_it_is_called(tmp_path: Path) -> None:
    path = put(tmp_path / "_a.tmp", 1, 2)
    assert users(reader_of(path)) == [1, 2]


def test_a_glob_names_files_and_folders(tmp_path: Path) -> None:
    for name in ("x1.json", "x2.json", "y.json", "_x3.json"):
        put(tmp_path / name, 1)
    (tmp_path / "x4").mkdir()
    put(tmp_path / "x4" / "y.json", 4)
    assert users(reader_of(tmp_path / "x*")) == [1, 1, 4]
    assert users(reader_of(tmp_path / "x?.json")) == [1, 1]


def test_a_glob_may_match_nothing_yet(tmp_path: Path) -> None:
    reader = reader_of(tmp_path / "x*.json")
    assert not poll(reader).unread
    put(tmp_path / "x1.json", 5)
    assert users(reader) == [5]


def test_an_empty_folder_has_nothing_unread(tmp_path: Path) -> None:
    polled = poll(reader_of(tmp_path))
    assert (polled.slices, polled.until, polled.unread) == ((), {"file": 0, "at": 0}, False)


def test_a_relative_path_is_remembered_as_an_absolute_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(tmp_path / "a.json", 1)
    monkeypatch.chdir(tmp_path)
    (entry,) = settled(reader_of(".")).discovered
    assert entry["path"] == str(path)


def test_an_address_of_this_machine_is_a_path(tmp_path: Path) -> None:
    put(tmp_path / "a.json", 1)
    assert users(reader_of(f"file://{tmp_path}")) == [1]
    assert users(reader_of(f"file:{tmp_path}")) == [1]


def test_a_folder_that_vanishes_stops_the_run(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    readers = [reader_of(folder), reader_of(folder / "*.json")]
    folder.rmdir()
    for reader in readers:
        with pytest.raises(SourceChanged, match=r"in: found no such file or folder"):
            poll(reader)


@pytest.mark.parametrize("missing", ["nowhere", "nowhere/*.json", "nowhere/[ab]/x.json"])
def test_a_path_that_does_not_exist_is_refused(missing: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        reader_of(tmp_path / missing)
    (problem,) = caught.value.problems
    assert (problem.at, problem.found) == ("options.path", f"no {tmp_path}/nowhere")
    assert problem.hint == f"create {tmp_path}/nowhere, or correct the path"


def test_a_single_file_that_was_read_may_be_gone_when_the_run_goes_on(tmp_path: Path) -> None:
    path = put(tmp_path / "a.json", 1)
    polls = drained(reader_of(path))
    path.unlink()
    again = poll(opened("json", USER, log_of(polls), path=str(path)), polls[-1].until)
    assert (again.slices, again.unread) == ((), False)
