"""What a run left: all that its targets and its store hold, in a form that compares."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import polars as pl
import psycopg
import pytest
from psycopg import sql

from tests.faults.pipelines import Setup, pipeline_of
from tests.kafka_broker import KafkaServer
from tests.postgres_server import Place
from tests.services.kafka.kafka_topics import seen
from tidegate.core.segment_format import from_bytes
from tidegate.core.stacks import Stack, Tables
from tidegate.state import Depot, Entry, Recovered, open_store

_PUBLISHED = re.compile(r"clicks-\w+-\w+-(?P<epoch>\d{12})-(?P<token>\d+)-\d+-.+\.parquet")

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Two runs whose outcomes are equal cannot be told apart by anybody who reads them."""

    sent: Mapping[str, Mapping[int, Rows]]
    """By channel and epoch: the rows, sorted. Tables of PostgreSQL keep no epochs: all are in 0."""
    state: Rows
    """Whatever is held and not forgotten, sorted."""
    epoch: int
    offsets: Mapping[str, Any]
    watermarks: Mapping[str, Any]
    to_publish: int
    """Epochs of which some output may not be out."""
    torn: frozenset[tuple[str, int]]
    """Channels and epochs with files of more than one run."""
    staged: frozenset[str]
    """What lies staged beside targets: nothing, once everything is out and tidied up."""

    def rows_of(self, channel: str) -> Rows:
        """All rows of a channel."""
        return [row for rows in self.sent[channel].values() for row in rows]

    def but_for_staged(self) -> Outcome:
        """The same where a task that nobody waits for may have staged something."""
        return replace(self, staged=frozenset())


def assert_same(found: Outcome, expected: Outcome) -> None:
    """Fail with the first few differences: a whole diff of two runs is of no use to anybody."""
    assert found.sent.keys() == expected.sent.keys()
    for channel, wanted in expected.sent.items():
        epochs = found.sent[channel]
        assert sorted(epochs) == sorted(wanted), f"other epochs in {channel}"
        for epoch, rows in wanted.items():
            _assert_rows(epochs[epoch], rows, f"{channel} of epoch {epoch}")
    _assert_rows(found.state, expected.state, "state")
    for field in fields(Outcome):
        assert getattr(found, field.name) == getattr(expected, field.name), field.name


def _assert_rows(found: Rows, expected: Rows, where: str) -> None:
    if found == expected:
        return
    came, wanted = Counter(map(repr, found)), Counter(map(repr, expected))
    more, less = [*(came - wanted).elements()], [*(wanted - came).elements()]
    pytest.fail(f"{where}: {len(more)} rows too many {more[:3]}, {len(less)} missing {less[:3]}")


def outcome(folder: Path) -> Outcome:
    """Read everything; nobody runs the pipeline meanwhile."""
    setup, recovered, state = Setup.of(folder), *_recovered(folder)
    channels = setup.computed.channels
    return Outcome(
        sent={channel: _sent(setup, folder, channel) for channel in channels},
        state=state,
        epoch=recovered.epoch,
        offsets=recovered.last.offsets if recovered.last else {},
        watermarks=recovered.last.watermarks if recovered.last else {},
        to_publish=len(recovered.to_publish),
        torn=frozenset(where for where, tokens in runs_of_epochs(folder).items() if tokens[1:]),
        staged=staged_files(folder),
    )


def committed_epoch(folder: Path) -> int:
    """The last epoch that the run of a folder has committed."""
    return _recovered(folder)[0].epoch


def _recovered(folder: Path) -> tuple[Recovered, Rows]:
    pipeline = pipeline_of(folder)
    store = open_store(pipeline.state_store, pipeline.name)
    try:
        recovered = store.open()
        return recovered, _state_of(store.depot, recovered)
    finally:
        store.close()


# --- what was sent ---


def _sent(setup: Setup, folder: Path, channel: str) -> dict[int, Rows]:
    if setup.topics is not None:
        broker = KafkaServer.at(setup.topics["bootstrap_servers"])
        return _records(broker, setup.topic(channel))
    if setup.tables is not None:
        return {0: _rows_of_table(setup.tables, channel)}
    return {
        epoch: _sorted(pl.concat([pl.read_parquet(path) for path in paths]))
        for epoch, paths in files_by_epoch(folder / channel).items()
    }


def _records(broker: KafkaServer, topic: str) -> dict[int, Rows]:
    """What is committed, with keys and headers; no partition has an older epoch behind a newer."""
    found: dict[int, Rows] = {}
    last: dict[int, int] = {}
    for each in seen(broker, topic):
        epoch = int(each.headers["tidegate.epoch"] or b"")
        assert last.get(each.partition, 0) <= epoch, f"epoch {epoch} is out too late"
        last[each.partition] = epoch
        found.setdefault(epoch, []).append((each.key, each.value, sorted(each.headers.items())))
    return {epoch: sorted(rows, key=repr) for epoch, rows in found.items()}


def _rows_of_table(place: Place, table: str) -> Rows:
    """The rows as text; none before the table is made."""
    name = sql.Identifier(place.schema, table)
    with psycopg.connect(place.url) as connection:
        if connection.execute("SELECT to_regclass(%s)", [name.as_string()]).fetchone() == (None,):
            return []
        return sorted(connection.execute(sql.SQL("SELECT t::text FROM {} AS t").format(name)))


def files_by_epoch(folder: Path) -> dict[int, list[Path]]:
    """The visible files of a target."""
    found: dict[int, list[Path]] = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        found.setdefault(int(_published(path)["epoch"]), []).append(path)
    return found


def runs_of_epochs(folder: Path) -> dict[tuple[str, int], list[str]]:
    """By channel and epoch, the tokens of the runs that its files are of: never more than one."""
    return {
        (channel, epoch): sorted({_published(path)["token"] for path in paths})
        for channel in Setup.of(folder).computed.channels
        for epoch, paths in files_by_epoch(folder / channel).items()
    }


def _published(path: Path) -> re.Match[str]:
    published = _PUBLISHED.fullmatch(path.name)
    assert published is not None, f"{path} is no file of ours"
    return published


def staged_files(folder: Path) -> frozenset[str]:
    """What lies staged beside the targets."""
    return frozenset(
        path.name
        for channel in Setup.of(folder).computed.channels
        for path in (folder / f".{channel}.tidegate").rglob("*.parquet")
    )


# --- what is held ---


def _state_of(depot: Depot, recovered: Recovered) -> Rows:
    """Whatever is held and not forgotten, sorted; of joins, with the table that it is in."""
    if recovered.last is None:
        return []
    watermark_us = recovered.last.watermarks["watermark_us"]
    return sorted(
        (
            (name, *row)
            for stacks in recovered.last.state.values()
            for entries in stacks.shards
            for name, stack in _tables(tuple(_segments(depot, entries)))
            if (alive := stack.alive(watermark_us)) is not None
            for row in alive.rows()
        ),
        key=repr,
    )


def _tables(segments: tuple[Any, ...]) -> Iterator[tuple[str, Stack]]:
    """The tables that an operator keeps; a window has one."""
    names = {name for each in segments if isinstance(each, Tables) for name in each.tables}
    if not names:
        yield "", Stack(segments)
    for name in sorted(names):
        tables: Stack[Tables] = Stack(segments)
        yield name, tables.table(name)


def _segments(depot: Depot, entries: tuple[Entry, ...]) -> Iterator[Any]:
    for entry in entries:
        segment = from_bytes(depot.fetch(entry.part).to_pybytes())
        yield segment.within(range(entry.first_group, entry.end_group))


def _sorted(rows: pl.DataFrame) -> Rows:
    return sorted(rows.rows(), key=repr)


def parts_in_store(folder: Path) -> set[str]:
    """The names of the parts that the store has, named by a manifest or not."""
    place = Setup.of(folder).state
    if place is None:
        return {path.name for path in (folder / "state" / "parts").rglob("*.part")}
    table = sql.Identifier(place.schema, "tidegate_streaming_journal")
    with psycopg.connect(place.url) as connection:
        query = sql.SQL("SELECT DISTINCT part_name FROM {}").format(table)
        return {name for (name,) in connection.execute(query)}


def uncommitted_parts(folder: Path, committed: int) -> set[str]:
    """The parts that were staged for epochs behind the last one committed."""
    return {name for name in parts_in_store(folder) if int(name.split("-")[1]) > committed}
