"""Publishing: what is committed comes out, what nobody names goes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import polars as pl
import pytest

from tidegate.errors import StateLost
from tidegate.pipeline import Target
from tidegate.spark.publishing import Publisher
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
    publisher(tmp_path, writers).discard_garbage([committed(names[0])], token=2)
    assert [file.exists() for file in files] == [True, False, True]


def test_rows_staged_beside_a_target_that_is_no_more_are_not_passed_over(tmp_path: Path) -> None:
    elsewhere = publisher(tmp_path, {"main": opened("memory")})
    with pytest.raises(StateLost, match=r"1-1-a-x was staged beside a target(.|\n)*hint: run"):
        elsewhere.publish(committed("1-1-a-x"))
