from __future__ import annotations

import errno
import json
import os
import threading
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tidegate.errors import ConfigError, StateLost
from tidegate.pipeline import Target
from tidegate.targets import FilesWriter, StagedRows, TargetOpening
from tidegate.targets.files import open_files
from tidegate.testing.target_contract import (
    Outlet,
    OwnershipContract,
    TableContract,
    TargetContract,
    all_types,
    key,
    rows,
    stage,
)


class Files(Outlet):
    def look(self) -> Any:
        out = self.folder / "out"
        return {p.name: p.read_bytes() for p in out.iterdir()} if out.exists() else {}


class Parquet(Files):
    format = "parquet"

    def table(self) -> pl.DataFrame:
        return pl.read_parquet(self.folder / "out" / "*.parquet")


class Json(Files):
    format = "json"


class Csv(Files):
    format = "csv"


class TestParquet(TableContract, OwnershipContract):
    @pytest.fixture
    def outlet(self, tmp_path: Path) -> Outlet:
        return Parquet(tmp_path)


class TestJson(TargetContract, OwnershipContract):
    @pytest.fixture
    def outlet(self, tmp_path: Path) -> Outlet:
        return Json(tmp_path)


class TestCsv(TargetContract):
    @pytest.fixture
    def outlet(self, tmp_path: Path) -> Outlet:
        return Csv(tmp_path)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def opened(path: Path | str, format: str = "parquet", **options: Any) -> FilesWriter:
    target = Target(format=format, options={"path": str(path), **options})
    return open_files(TargetOpening(target=target, pipeline="orders", channel="main"))


def problems_of(format: str, **options: Any) -> list[str]:
    target = Target(format=format, options=options)
    with pytest.raises(ConfigError) as caught:
        open_files(TargetOpening(target=target, pipeline="orders", channel="main"))
    return [str(problem) for problem in caught.value.problems]


# --- what a file holds ------------------------------------------------------------------------


def test_json_has_one_object_a_line_with_every_type(out: Path) -> None:
    first, second, third = map(json.loads, opened(out, "json").encode(all_types()).splitlines())
    assert first == {
        "user": "ann",
        "window_start": "2026-01-01T12:00:00.000000Z",
        "n": 2**63 - 1,
        "price": "12.50",
        "total": "1" + "0" * 36,
        "raw": "AP8=",
        "day": "2026-01-01",
        "yes": True,
        "small": 1,
        "mean": 0.1,
        "local": "2026-01-01T00:00:00.000000",
        "words": ["a", None, 'b "c", d'],
        "times": ["2026-01-01T12:00:00.000000Z", None],
        "prices": ["1.10"],
        "blobs": ["/w==", None],
    }
    assert second == dict.fromkeys(first)
    assert (third["window_start"], third["raw"]) == ("2026-01-01T12:00:01.000001Z", "")
    assert [third[name] for name in ("words", "times", "prices", "blobs")] == [[]] * 4


def test_csv_has_a_header_and_lists_as_json(out: Path) -> None:
    data = opened(out, "csv").encode(all_types())
    read = pl.read_csv(data, infer_schema=False)
    assert read.columns == all_types().columns
    first, second, third = read.to_dicts()
    assert first == {
        "user": "ann",
        "window_start": "2026-01-01T12:00:00.000000Z",
        "n": str(2**63 - 1),
        "price": "12.50",
        "total": "1" + "0" * 36,
        "raw": "AP8=",
        "day": "2026-01-01",
        "yes": "true",
        "small": "1",
        "mean": "0.1",
        "local": "2026-01-01T00:00:00.000000",
        "words": '["a",null,"b \\"c\\", d"]',
        "times": '["2026-01-01T12:00:00.000000Z",null]',
        "prices": '["1.10"]',
        "blobs": '["/w==",null]',
    }
    assert second == dict.fromkeys(first)
    assert (third["user"], third["words"]) == ("", "[]")


def test_json_has_null_for_what_is_not_a_number(out: Path) -> None:
    data = opened(out, "json").encode(pl.DataFrame({"x": [float("nan"), float("inf"), 1.5]}))
    assert [json.loads(line)["x"] for line in data.splitlines()] == [None, None, 1.5]


@pytest.mark.parametrize("format", ["json", "csv"])
def test_times_of_other_zones_are_written_in_utc(out: Path, format: str) -> None:
    table = rows(("ann", 0, 1)).with_columns(
        pl.col("window_start").dt.convert_time_zone("Europe/Berlin")
    )
    assert b"2026-01-01T12:00:00.000000Z" in opened(out, format).encode(table)


@pytest.mark.parametrize("compression", ["zstd", "snappy", "gzip", "lz4", "uncompressed"])
def test_parquet_can_be_compressed_otherwise(out: Path, compression: str) -> None:
    data = opened(out, compression=compression).encode(rows(("ann", 0, 1)))
    assert_frame_equal(pl.read_parquet(data), rows(("ann", 0, 1)))


# --- where it is ------------------------------------------------------------------------------


def test_names_say_where_rows_come_from(out: Path) -> None:
    writer = opened(out)
    writer.publish(key(7), [stage(writer, rows(("ann", 0, 1)), name="p1")])
    assert os.listdir(out) == ["orders-window-main-000000000007-p1.parquet"]


def test_what_is_staged_is_beside_the_folder_and_hidden(out: Path) -> None:
    staged = opened(out).staging.file("p1")
    assert staged.relative_to(out.parent).parts[0] == ".out.tidegate"
    assert staged.name == "p1.parquet"


def test_what_is_staged_is_out_of_reach_for_others_and_what_is_published_is_not(out: Path) -> None:
    writer = opened(out)
    writer.staging.folder.mkdir(parents=True)  # as earlier versions made it
    writer.publish(key(1), [stage(writer, rows(("ann", 0, 1)), name="p1")])
    (published,) = out.iterdir()
    (usual := out.parent / "usual").touch()
    assert writer.staging.folder.stat().st_mode & 0o777 == 0o700
    assert published.stat().st_mode == usual.stat().st_mode


def test_publishing_leaves_nothing_staged(out: Path) -> None:
    writer = opened(out)
    parts = [stage(writer, rows(("ann", 0, 1))), stage(writer, rows(("bob", 0, 1)))]
    writer.publish(key(1), parts)
    assert [*writer.staging.folder.iterdir()] == []


def test_a_link_is_followed_to_the_file_system_of_the_folder(tmp_path: Path) -> None:
    real = tmp_path / "disk" / "real"
    real.mkdir(parents=True)
    (tmp_path / "link").symlink_to(real)
    assert opened(tmp_path / "link").staging.folder.parent == real.parent / ".real.tidegate"


def test_a_relative_path_is_the_same_for_tasks_in_other_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert opened("out").folder == Path(os.path.realpath(tmp_path)) / "out"


# --- garbage ----------------------------------------------------------------------------------


def test_staged_files_that_nobody_names_are_discarded(out: Path) -> None:
    writer = opened(out)
    parts = [stage(writer, rows(("ann", 0, 1)), name=name) for name in ("a", "b/c", "d")]
    writer.staging.discard_unnamed({"a", "b/c"})
    assert [part.path is not None and part.path.exists() for part in parts] == [True, True, False]


def test_staged_files_that_are_not_in_question_are_left_alone(out: Path) -> None:
    writer = opened(out)
    parts = [stage(writer, rows(("ann", 0, 1)), name=name) for name in ("1-5-x", "2-6-x")]
    writer.staging.discard_unnamed([], among=lambda name: name.startswith("1-"))
    assert [part.path is not None and part.path.exists() for part in parts] == [False, True]


def test_staged_files_of_others_are_left_alone(out: Path) -> None:
    target = Target(format="parquet", options={"path": str(out)})
    writers = [
        open_files(TargetOpening(target=target, pipeline=pipeline, channel=channel))
        for pipeline, channel in [("a/b", "main"), ("a_b", "main"), ("a/b", "late")]
    ]
    parts = [stage(writer, rows(("ann", 0, 1)), name="same") for writer in writers]
    writers[0].staging.discard_unnamed([])
    assert [part.path is not None and part.path.exists() for part in parts] == [False, True, True]


def test_where_nothing_was_staged_there_is_nothing_to_discard(out: Path) -> None:
    opened(out).staging.discard_unnamed([])
    assert not out.parent.joinpath(".out.tidegate").exists()


# --- crashes ----------------------------------------------------------------------------------


def test_after_a_crash_between_renames_the_rest_is_renamed(out: Path) -> None:
    writer = opened(out)
    parts = [stage(writer, rows((user, 0, 1))) for user in ("ann", "bob", "cid")]
    writer.publish(key(1), parts[:2])
    writer.publish(key(1), parts)
    table = pl.read_parquet(out / "*.parquet")
    assert_frame_equal(
        table, rows(("ann", 0, 1), ("bob", 0, 1), ("cid", 0, 1)), check_row_order=False
    )


def test_rows_that_are_nowhere_stop_the_pipeline(out: Path) -> None:
    writer = opened(out)
    part = stage(writer, rows(("ann", 0, 1)), name="p1")
    assert part.path is not None
    part.path.unlink()
    with pytest.raises(StateLost) as caught:
        writer.publish(key(1), [part])
    assert str(part.path) in str(caught.value)
    assert str(out / "orders-window-main-000000000001-p1.parquet") in str(caught.value)


def test_a_published_file_is_never_replaced_by_another(out: Path) -> None:
    writer = opened(out)
    writer.publish(key(1), [stage(writer, rows(("ann", 0, 1)), name="p1")])
    other = stage(writer, rows(("bob", 0, 1)), name="p1")
    with pytest.raises(StateLost, match="other rows"):
        writer.publish(key(1), [other])
    assert_frame_equal(pl.read_parquet(out / "*.parquet"), rows(("ann", 0, 1)))
    assert other.path is not None
    assert other.path.exists()


def test_rows_that_a_store_keeps_are_written_whole(out: Path) -> None:
    writer = opened(out)
    data = writer.encode(rows(("ann", 0, 1)))
    part = StagedRows(kind="sent", name="p1", rows=1, read=lambda: data)
    writer.publish(key(1), [part])
    writer.publish(key(1), [part])
    assert os.listdir(out) == ["orders-window-main-000000000001-p1.parquet"]
    assert_frame_equal(pl.read_parquet(out / "*.parquet"), rows(("ann", 0, 1)))


@pytest.fixture
def another_file_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rename out of the staging folder says what it says between file systems."""
    rename = Path.rename

    def refusing(path: Path, target: Path) -> Path:
        if path.parent != target.parent:
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refusing)


@pytest.mark.usefixtures("another_file_system")
def test_between_file_systems_files_are_copied(out: Path) -> None:
    writer = opened(out)
    part = stage(writer, rows(("ann", 0, 1)), name="p1")
    writer.publish(key(1), [part])
    assert os.listdir(out) == ["orders-window-main-000000000001-p1.parquet"]
    assert [*writer.staging.folder.iterdir()] == []


@pytest.mark.usefixtures("another_file_system")
def test_a_copy_whose_original_was_not_removed_counts_once(out: Path) -> None:
    writer = opened(out)
    part = stage(writer, rows(("ann", 0, 1)), name="p1")
    assert part.path is not None
    data = part.path.read_bytes()
    writer.publish(key(1), [part])
    part.path.write_bytes(data)
    writer.publish(key(1), [part])
    assert not part.path.exists()
    assert_frame_equal(pl.read_parquet(out / "*.parquet"), rows(("ann", 0, 1)))


@pytest.mark.usefixtures("another_file_system")
def test_a_copy_that_fails_leaves_nothing_behind(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    writer = opened(out)
    part = stage(writer, rows(("ann", 0, 1)))
    out.mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            writer.publish(key(1), [part])
    assert os.listdir(out) == []
    assert part.path is not None
    assert part.path.exists()


@pytest.mark.parametrize("crossing", [False, True])
def test_readers_see_whole_files_only(
    out: Path, crossing: bool, request: pytest.FixtureRequest
) -> None:
    if crossing:
        request.getfixturevalue("another_file_system")
    writer = opened(out, "json")
    table = pl.concat([rows(("ann", 0, 1))] * 20_000)
    data = writer.encode(table)
    out.mkdir()
    done, torn, seen = threading.Event(), [], set()

    def read() -> None:
        while True:
            last = done.is_set()
            for path in out.glob("[!.]*"):
                seen.add(path)
                if path.read_bytes() != data:
                    torn.append(path)
            if last:
                return

    reader = threading.Thread(target=read)
    reader.start()
    for epoch in range(1, 21):
        writer.publish(key(epoch), [stage(writer, table)])
    done.set()
    reader.join()
    assert (torn, len(seen)) == ([], 20)


# --- configuration ----------------------------------------------------------------------------


def test_a_folder_has_to_be_said() -> None:
    assert problems_of("csv") == [
        "target.options.path: found nothing, expected the place of the csv target\n"
        "  hint: options={'path': '/data/sessions'}"
    ]


def test_all_problems_are_reported_at_once() -> None:
    assert problems_of("parquet", compresion="zstd", compression="zip") == [
        "target.options.compresion: found an unknown key, expected one of the keys of a parquet "
        "target: path, compression\n  hint: did you mean 'compression'?",
        "target.options.path: found nothing, expected the place of the parquet target\n"
        "  hint: options={'path': '/data/sessions'}",
        "target.options.compression: found 'zip', expected 'zstd', 'snappy', 'gzip', 'lz4', "
        "'brotli' or 'uncompressed'\n  hint: did you mean 'gzip'?",
    ]


@pytest.mark.parametrize("path", ["", "  ", 7, "a\0b"])
def test_a_path_is_a_text(path: Any) -> None:
    (problem,) = problems_of("json", path=path)
    assert f"found {path!r}, expected a path" in problem


@pytest.mark.parametrize("path", ["s3://bucket/x", "file:/x", "dbfs:/x", "/"])
def test_a_path_that_is_no_local_folder_is_refused(path: str) -> None:
    (problem,) = problems_of("json", path=path)
    assert f"found {path!r}, expected a folder of this file system" in problem


def test_a_file_in_the_way_is_found_before_any_data_is_read(out: Path) -> None:
    out.write_text("a file")
    for path in (out, out / "below"):
        with pytest.raises(ConfigError, match="expected a folder") as caught:
            opened(path).check((), rows().schema)
        assert len(caught.value.problems) == 1


@pytest.mark.parametrize("closed", ["out", "."])
def test_a_folder_that_cannot_be_written_to_is_found_before_any_data_is_read(
    out: Path, closed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out.mkdir()
    locked = Path(os.path.realpath(out.parent / closed))
    monkeypatch.setattr(os, "access", lambda path, _: path != locked)
    with pytest.raises(ConfigError) as caught:
        opened(out).check((), rows().schema)
    (problem,) = caught.value.problems
    assert problem.found == f"{locked}, which this user cannot write to"
