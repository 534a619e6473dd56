"""Rows of the readable table, from the state of keys as operators hand it over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from tidegate.state.manifest_format import STATE_VERSION
from tidegate.state.protocol import Folded

Rows: TypeAlias = list[dict[str, Any]]

_COLUMNS = ("group_key", "key_group", "state_blob", "forget_at")


def rows_of(table: Folded, pipeline: str, at_once: int) -> Iterator[tuple[Rows, Rows]]:
    """The keys that have no state any more and those that have, `at_once` at a time."""
    common = {
        "pipeline": pipeline,
        "operator": table.operator,
        "as_of_epoch": table.as_of_epoch,
        "state_version": STATE_VERSION,
    }
    for batch in table.keys.select(_COLUMNS).to_batches(max_chunksize=at_once):
        rows = [common | row for row in batch.to_pylist()]
        yield (
            [row for row in rows if not row["state_blob"]],
            [row for row in rows if row["state_blob"]],
        )
