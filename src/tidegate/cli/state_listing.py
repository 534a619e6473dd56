"""`tidegate state list`: where pipelines stand, how much they hold, who runs them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import msgspec
from rich.console import Console
from rich.text import Text

from tidegate.cli.state_text import print_table
from tidegate.cli.telling import plain
from tidegate.errors import StateFormatError, StateLost
from tidegate.eventtime import BEGINNING
from tidegate.state.catalog import Catalog, Committed
from tidegate.state.live import read_live
from tidegate.text import bytes_text, count_text, elapsed_text, instant_text, number_text


@dataclass(frozen=True, slots=True)
class Held:
    """How much a pipeline holds."""

    keys: int
    held: int | None
    """Windows or waiting rows; None if that cannot be known."""
    what: str = "windows"
    problem: str | None = None
    """Why the state cannot be read; then `keys` are those of the readable table."""

    def __str__(self) -> str:
        held = "" if self.held is None else f" with {count_text(self.held, self.what)}"
        return f"{count_text(self.keys, 'keys')}{held}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A pipeline with what it holds."""

    committed: Committed
    holder: str | None
    holds: Held

    def to_dict(self) -> dict[str, Any]:
        """For scripts."""
        committed = self.committed
        watermark_us = committed.watermark_us
        return {
            "pipeline": committed.pipeline,
            "epoch": committed.epoch,
            "published_epoch": committed.published_epoch,
            "folded_epoch": committed.folded_epoch,
            "watermark": None if watermark_us == BEGINNING else instant_text(watermark_us),
            "keys": self.holds.keys,
            self.holds.what: self.holds.held,
            "segments": len(committed.parts),
            "bytes": committed.state_bytes,
            "committed_s_ago": None if committed.age_us is None else committed.age_us / 1_000_000,
            "run_by": self.holder,
            "sources": committed.offsets,
            "problem": self.holds.problem,
        }


def look_at(catalog: Catalog, pipeline: str) -> Listed | None:
    """A pipeline, however much of it can be read; None if it is gone meanwhile."""
    committed = catalog.committed(pipeline)
    if committed is None:
        return None
    held = Held(keys=0, held=0)
    try:
        if not committed.holds_nothing:
            live = read_live(catalog, pipeline)
            committed = live.committed
            held = Held(*live.count(), live.stored.what)
    except (StateFormatError, StateLost) as error:
        held = Held(keys=committed.folded_keys, held=None, problem=str(error))
    return Listed(committed=committed, holder=catalog.holder(pipeline), holds=held)


_HEADERS = (
    *("pipeline", "epoch", "published", "folded", "watermark"),
    *("keys", "holds", "segments", "size", "last commit"),
)


def print_listing(console: Console, listed: list[Listed]) -> None:
    """A line for each, and below what does not fit in one: sources, who runs it, what is odd."""
    print_table(console, _HEADERS, [[Text(cell) for cell in _line(each)] for each in listed])
    for each in listed:
        for note in _notes(each):
            console.print(Text(plain(f"{each.committed.pipeline}: {note}")))


def _line(each: Listed) -> list[str]:
    committed, holds = each.committed, each.holds
    return [
        plain(committed.pipeline),
        f"{committed.epoch}",
        f"{committed.published_epoch}",
        f"{committed.folded_epoch}",
        instant_text(committed.watermark_us),
        number_text(holds.keys) if holds.held is not None else f"{number_text(holds.keys)} folded",
        "unknown" if holds.held is None else count_text(holds.held, holds.what),
        f"{len(committed.parts)}",
        bytes_text(committed.state_bytes),
        "never" if committed.age_us is None else f"{elapsed_text(committed.age_us)} ago",
    ]


def _notes(each: Listed) -> list[str]:
    offsets = each.committed.offsets
    reads = [f"{name} read to {_offset(offset)}" for name, offset in offsets.items()]
    runs = [f"run by {each.holder}"] if each.holder else []
    odd = [f"cannot be read: {each.holds.problem}"] if each.holds.problem else []
    return [*runs, *reads, *odd]


def _offset(offset: Any) -> str:
    return json.dumps(msgspec.to_builtins(offset), ensure_ascii=False)
