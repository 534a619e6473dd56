"""`tidegate state show`: what keys hold, as of the last commit; or else as of the last fold."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec
from rich.console import Console
from rich.text import Text

from tidegate.cli.state_keys import NULL, looking_for, split_key, unquoted
from tidegate.cli.state_text import (
    folded_json,
    folded_table,
    live_json,
    live_table,
    print_table,
)
from tidegate.cli.telling import plain
from tidegate.errors import StateFormatError, StateLost
from tidegate.eventtime import BEGINNING
from tidegate.state.catalog import Catalog, Committed, KeyState
from tidegate.state.live import LiveState, read_live
from tidegate.text import count_text, instant_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What keys hold; `live` as of the last commit, or `folded` where that cannot be read.

    Neither: nothing is committed since the beginning, or since a reset.
    """

    committed: Committed
    live: LiveState | None = None
    folded: tuple[KeyState, ...] = ()
    problem: str | None = None
    """Why it is not live."""


def see(catalog: Catalog, pipeline: str, key: Sequence[str]) -> Seen:
    """What a pipeline holds, of one key or of all."""
    committed = catalog.committed(pipeline)
    if committed is None:
        raise StateLost(f"pipeline {pipeline!r} is not in {catalog.place} any more")
    if committed.holds_nothing:
        return Seen(committed=committed)
    try:
        live = read_live(catalog, pipeline, looking_for(key))
    except StateFormatError as error:
        folded = tuple(each for each in catalog.folded(pipeline) if _is_meant(each, key))
        return Seen(committed=committed, folded=folded, problem=str(error))
    return Seen(committed=live.committed, live=live)


def _is_meant(row: KeyState, key: Sequence[str]) -> bool:
    """Whether a row of the readable table has the values, compared as text: types are unknown."""
    columns = msgspec.json.decode(row.group_key)
    return all(_has_value(columns, *split_key(each, columns)) for each in key)


def _has_value(columns: Mapping[str, Any], name: str, text: str | None) -> bool:
    if name not in columns or text is None:
        return False
    value = columns[name]
    if value is None or text == NULL:
        return value is None and text == NULL
    return unquoted(text) == value if isinstance(value, str) else text == json.dumps(value)


def state_json(seen: Seen, limit: int) -> dict[str, Any]:
    """For scripts."""
    if seen.committed.holds_nothing:
        epoch = seen.committed.epoch
        return {"pipeline": seen.committed.pipeline, "as_of": "commit", "epoch": epoch, "keys": []}
    if seen.live is None:
        return {
            "pipeline": seen.committed.pipeline,
            "as_of": "fold",
            "epoch": seen.committed.folded_epoch,
            "problem": seen.problem,
            "keys_found": len(seen.folded),
            "keys": folded_json(seen.folded[:limit]),
        }
    keys, held = seen.live.count()
    what, watermark_us = seen.live.stored.what, seen.committed.watermark_us
    return {
        "pipeline": seen.committed.pipeline,
        "as_of": "commit",
        "epoch": seen.committed.epoch,
        "watermark": None if watermark_us == BEGINNING else instant_text(watermark_us),
        "keys_found": keys,
        f"{what}_found": held,
        "keys": live_json(seen.live.first_keys(limit), what),
    }


def print_state(console: Console, seen: Seen, limit: int) -> None:
    """A table, above it as of when it is, below it how much there is."""
    committed = seen.committed
    name = plain(committed.pipeline)
    if committed.holds_nothing:
        console.print(Text(f"{name} has committed nothing since its beginning, or its last reset"))
        return
    if seen.live is None:
        epoch = committed.folded_epoch
        console.print(Text(f"{name}, as of epoch {epoch}, the last fold, of {committed.epoch}"))
        print_table(console, *folded_table(list(islice(seen.folded, limit))))
        console.print(Text(_summary(len(seen.folded), "", limit)))
        return
    watermark = instant_text(committed.watermark_us)
    console.print(Text(f"{name}, as of epoch {committed.epoch}, watermark {watermark}"))
    keys, held = seen.live.count()
    if keys:
        print_table(console, *live_table(seen.live.first_keys(limit), seen.live.stored.what))
    if not keys and seen.live.key:
        console.print(Text("nothing is held of this key"))
        return
    console.print(Text(_summary(keys, f" with {count_text(held, seen.live.stored.what)}", limit)))


def _summary(keys: int, held: str, limit: int) -> str:
    if not keys:
        return "nothing is held"
    first = f"; these are the first {limit} (--limit, --key)" if keys > limit else ""
    return f"{count_text(keys, 'keys')}{held}{first}"
