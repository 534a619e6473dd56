"""Publishing: what is committed comes out, what nobody names goes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import polars as pl
import pytest

from tidegate.engine.publish import Publisher
from tidegate.errors import StateLost
from tidegate.pipeline import Target
from tidegate.state import SqliteDepot
from tidegate.state.protocol import Manifest, Output, Part
from tidegate.targets import TargetWriter, memory_table, open_target

ROWS = pl.DataFrame({"n": [1]})


def opened(format: str, channel: str = "main", **options: str) -> TargetWriter:
    target = Target.from_dict({"format": format, "options": options})
    writer = open_target(target, pipeline="orders", channel=channel)
    assert writer is not None
    return writer


def publisher(folder: Path, writers: Mapping[str, TargetWriter]) -> Publisher:
    depot = SqliteDepot(folder / "parts")
    return Publisher(pipeline="orders", incarnation="i1", depot=depot, writers=writers)


def staged(writer: TargetWriter, name: str) -> Path:
    assert writer.staging is not None
    path = writer.staging.file(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(writer.encode(ROWS))
    return path


def committed(*names: str) -> Manifest:
    outputs = [
        Output(
            operator="window",
            channel="main",
            kind="sent",
            part=Part(name=name, bytes=1, checksum=1, rows=1),
            in_target=True,
        )
        for name in names
    ]
    return Manifest(
        epoch=1,
        offsets={},
        watermarks={},
        state={},
        outputs=tuple(outputs),
        discovered={},
        counts={},
        committed_us=0,
    )


def test_what_is_staged_beside_a_target_comes_out(tmp_path: Path) -> None:
    writer = opened("parquet", path=str(tmp_path / "out"))
    staged(writer, "2-1-a-output0")
    publisher(tmp_path, {"main": writer}).publish(committed("2-1-a-output0"))
    assert pl.read_parquet(tmp_path / "out" / "*.parquet").equals(ROWS)


def in_commit(name: str) -> Manifest:
    manifest = committed(name)
    outputs = [
        msgspec.structs.replace(each, in_target=False, in_commit=True) for each in manifest.outputs
    ]
    return msgspec.structs.replace(manifest, outputs=tuple(outputs))


def test_what_was_in_the_commit_is_not_published(tmp_path: Path) -> None:
    writer = opened("memory", name=str(tmp_path))
    publisher(tmp_path, {"main": writer}).publish(in_commit("2-1-a-output0"))
    assert memory_table(str(tmp_path)).epochs() == []


def test_what_is_published_is_not_written_beside_the_commit(tmp_path: Path) -> None:
    writer = opened("memory", name=str(tmp_path))
    assert publisher(tmp_path, {"main": writer}).beside(committed("2-1-a-output0")) is None


def test_rows_for_a_commit_need_a_target_that_is_in_it(tmp_path: Path) -> None:
    writers = {"main": opened("memory", name=str(tmp_path))}
    with pytest.raises(StateLost, match="'main' were staged for the database of the store"):
        publisher(tmp_path, writers).beside(in_commit("2-1-a-output0"))


def test_what_older_tokens_staged_and_nobody_names_goes(tmp_path: Path) -> None:
    writer = opened("parquet", path=str(tmp_path / "out"))
    names = ("1-1-named-x", "1-1-unnamed-x", "2-1-of-a-running-task-x")
    files = [staged(writer, name) for name in names]
    writers = {"main": writer, "late": opened("memory", "late")}
    publisher(tmp_path, writers).discard_garbage([committed(names[0])], token=2, epoch=0)
    assert [file.exists() for file in files] == [True, False, True]


def test_what_a_twin_staged_for_an_epoch_that_is_out_goes(tmp_path: Path) -> None:
    writer = opened("parquet", path=str(tmp_path / "out"))
    names = ("2-1-winner-x", "2-1-late-twin-x", "2-2-of-a-running-task-x")
    files = [staged(writer, name) for name in names]
    made = publisher(tmp_path, {"main": writer})
    made.publish(committed(names[0]))
    made.discard_garbage((), token=2, epoch=1)
    assert [file.exists() for file in files] == [False, False, True]
    assert len(list((tmp_path / "out").iterdir())) == 1


def test_nothing_is_committed_that_the_driver_does_not_find_beside_a_target(
    tmp_path: Path,
) -> None:
    """A task on another machine may have staged on a disk of its own."""
    writer = opened("parquet", path=str(tmp_path / "out"))
    made = publisher(tmp_path, {"main": writer})
    path = staged(writer, "2-1-a-x")
    output = committed("2-1-a-x").outputs[0]
    whole = msgspec.structs.replace(output.part, bytes=path.stat().st_size)
    manifest = msgspec.structs.replace(
        committed(), outputs=(msgspec.structs.replace(output, part=whole),)
    )
    made.check_staged(manifest)
    with pytest.raises(StateLost, match=r"1 bytes; .* bytes long: nothing .* was committed"):
        made.check_staged(committed("2-1-a-x"))
    path.unlink()
    with pytest.raises(StateLost, match=r"is not there: nothing(.|\n)*hint: .* tasks share"):
        made.check_staged(manifest)


def test_rows_of_a_committed_epoch_that_the_store_has_lost_are_told_with_the_way_out(
    tmp_path: Path,
) -> None:
    made = publisher(tmp_path, {"main": opened("memory", name=str(tmp_path))})
    manifest = committed("2-1-a-output0")
    outputs = [msgspec.structs.replace(each, in_target=False) for each in manifest.outputs]
    with pytest.raises(StateLost, match=r"cannot be read(.|\n)*hint: .*state skip-publish"):
        made.publish(msgspec.structs.replace(manifest, outputs=tuple(outputs)))


def test_rows_staged_beside_a_target_that_is_no_more_are_not_passed_over(tmp_path: Path) -> None:
    elsewhere = publisher(tmp_path, {"main": opened("memory")})
    with pytest.raises(StateLost, match=r"1-1-a-x was staged beside a target(.|\n)*hint: run"):
        elsewhere.publish(committed("1-1-a-x"))
