"""What a run came to: all that its targets and its store hold, in a form that compares."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.faults.clicks import CHANNELS, clicks_pipeline
from tidegate.core.segment_format import from_bytes
from tidegate.core.stacks import Stack
from tidegate.state import Depot, Entry, Recovered, open_store

_PUBLISHED = re.compile(r"clicks-window-\w+-(?P<epoch>\d{12})-(?P<token>\d+)-\d+-.+\.parquet")

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Two runs whose outcomes are equal cannot be told apart by anybody who reads them."""

    sent: Mapping[str, Mapping[int, Rows]]
    """By channel and epoch: the rows, sorted."""
    state: Rows
    """Whatever is held and not forgotten, sorted."""
    epoch: int
    offsets: Mapping[str, Any]
    watermarks: Mapping[str, Any]
    to_publish: int
    """Epochs of which some output may not be out."""

    def rows_of(self, channel: str) -> Rows:
        """All rows of a channel."""
        return [row for rows in self.sent[channel].values() for row in rows]


def assert_same(found: Outcome, expected: Outcome) -> None:
    """Fail with the first few differences: a whole diff of two runs is of no use to anybody."""
    for channel in CHANNELS:
        epochs, wanted = found.sent[channel], expected.sent[channel]
        assert sorted(epochs) == sorted(wanted), f"other epochs in {channel}"
        for epoch, rows in wanted.items():
            _assert_rows(epochs[epoch], rows, f"{channel} of epoch {epoch}")
    _assert_rows(found.state, expected.state, "state")
    for name in ("epoch", "offsets", "watermarks", "to_publish"):
        assert getattr(found, name) == getattr(expected, name), name


def _assert_rows(found: Rows, expected: Rows, where: str) -> None:
    if found == expected:
        return
    came, wanted = Counter(map(repr, found)), Counter(map(repr, expected))
    more, less = [*(came - wanted).elements()], [*(wanted - came).elements()]
    pytest.fail(f"{where}: {len(more)} rows too many {more[:3]}, {len(less)} missing {less[:3]}")


def outcome(folder: Path) -> Outcome:
    """Read everything; nobody runs the pipeline meanwhile."""
    pipeline = clicks_pipeline(folder)
    store = open_store(pipeline.state_store, pipeline.name)
    recovered = store.open()
    try:
        return Outcome(
            sent={channel: _sent(folder / channel) for channel in CHANNELS},
            state=state_of(store.depot, recovered),
            epoch=recovered.epoch,
            offsets=recovered.last.offsets if recovered.last else {},
            watermarks=recovered.last.watermarks if recovered.last else {},
            to_publish=len(recovered.to_publish),
        )
    finally:
        store.close()


def files_by_epoch(folder: Path) -> dict[int, list[Path]]:
    """The visible files of a target."""
    found: dict[int, list[Path]] = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        published = _PUBLISHED.fullmatch(path.name)
        assert published is not None, f"{path} is no file of ours"
        found.setdefault(int(published["epoch"]), []).append(path)
    return found


def runs_of_epochs(folder: Path) -> dict[tuple[str, int], set[str]]:
    """By channel and epoch, the tokens of the runs that its files are of: never more than one."""
    return {
        (channel, epoch): {_token(path) for path in paths}
        for channel in CHANNELS
        for epoch, paths in files_by_epoch(folder / channel).items()
    }


def _token(path: Path) -> str:
    published = _PUBLISHED.fullmatch(path.name)
    assert published is not None
    return published["token"]


def _sent(folder: Path) -> dict[int, Rows]:
    return {
        epoch: _sorted(pl.concat([pl.read_parquet(path) for path in paths]))
        for epoch, paths in files_by_epoch(folder).items()
    }


def state_of(depot: Depot, recovered: Recovered) -> Rows:
    """Whatever is held and not forgotten, sorted."""
    if recovered.last is None:
        return []
    watermark_us = recovered.last.watermarks["watermark_us"]
    alive = []
    for stacks in recovered.last.state.values():
        for entries in stacks.shards:
            held = Stack(tuple(_segments(depot, entries))).alive(watermark_us)
            alive += [] if held is None else [held]
    return _sorted(pl.concat(alive)) if alive else []


def _segments(depot: Depot, entries: tuple[Entry, ...]) -> Iterator[Any]:
    for entry in entries:
        segment = from_bytes(depot.fetch(entry.part).to_pybytes())
        yield segment.within(range(entry.first_group, entry.end_group))


def _sorted(rows: pl.DataFrame) -> Rows:
    return sorted(rows.rows(), key=repr)


def staged_files(folder: Path) -> set[str]:
    """What lies staged beside the targets: nothing, once everything is out and tidied up."""
    return {
        path.name
        for channel in CHANNELS
        for path in (folder / f".{channel}.tidegate").rglob("*.parquet")
    }


def state_files(folder: Path) -> set[str]:
    """The names of the files with parts in the store."""
    return {path.name for path in (folder / "state" / "parts").rglob("*.part")}
