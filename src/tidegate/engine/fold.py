"""The fold: state as a table with one row a key, for people and tools to read.

    segments since the last fold -> their keys -> [one JSON blob a key] -> store

It runs beside the epochs, on what was committed, and nothing depends on it: recovery reads
segments. A fold that is slow, or fails, costs freshness only.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
import pyarrow as pa

from tidegate.core.hashing import key_group
from tidegate.core.stacks import Stack
from tidegate.core.step import Operator, Readable
from tidegate.eventtime import FOREVER
from tidegate.state.cache import fetch_segments
from tidegate.state.protocol import Entry, Folded, Manifest, Store
from tidegate.targets.rowtext import to_json_lines

logger = logging.getLogger("tidegate")


@dataclass(kw_only=True)
class Folder:
    """Folds now and then, one fold at a time, in a thread of its own."""

    store: Store
    token: int
    operators: Mapping[str, Operator]  # type: ignore[type-arg]  # of any kind
    """By id."""
    interval_us: int
    folded_epoch: int
    folded_us: int
    _thread: threading.Thread | None = field(default=None, init=False)

    def fold_if_due(self, committed: Manifest, now_us: int) -> None:
        """Begin a fold of this epoch where the last one is long enough ago and is over."""
        running = self._thread is not None and self._thread.is_alive()
        due = not 0 <= now_us - self.folded_us < self.interval_us  # a clock may be set back
        if running or not due or committed.epoch <= self.folded_epoch:
            return
        self.folded_us = now_us
        name = f"tidegate-fold-{committed.epoch}"
        self._thread = threading.Thread(target=self._try, args=(committed,), name=name, daemon=True)
        self._thread.start()

    def fold_now(self, committed: Manifest, now_us: int) -> None:
        """Fold in this thread, unless the last fold saw the same."""
        if committed.epoch > self.folded_epoch:
            self.folded_us = now_us
            self._try(committed)

    def wait(self) -> None:
        """Let a fold that is running come to its end."""
        if self._thread is not None:
            self._thread.join()

    def _try(self, committed: Manifest) -> None:
        try:
            self.fold(committed)
        except Exception as error:
            words = {"operators": [*self.operators], "epoch": committed.epoch}
            logger.warning("fold failed, will be tried again: %s", error, extra=words)

    def fold(self, committed: Manifest) -> None:
        """Bring the table up to date, in this thread."""
        tables = [table for name in self.operators for table in self._tables(name, committed)]
        self.store.fold(self.token, tables)
        self.folded_epoch = committed.epoch

    def _tables(self, operator: str, committed: Manifest) -> Iterator[Folded]:
        """The changed keys of an operator, shard by shard."""
        stacks = committed.state[operator].shards
        watermark_us = int(committed.watermarks["watermark_us"])
        if not any(stacks):  # a flush has forgotten everything, whenever that was due
            watermark_us, stacks = FOREVER, stacks[:1]
        for stack in stacks:
            yield Folded(
                operator=operator,
                as_of_epoch=committed.epoch,
                watermark_us=watermark_us,
                keys=self._keys(self.operators[operator], stack, watermark_us),
            )

    def _keys(
        self,
        operator: Operator,  # type: ignore[type-arg]  # of any kind
        entries: Sequence[Entry],
        watermark_us: int,
    ) -> pa.Table:
        stack = Stack(tuple(fetch_segments(self.store.depot, entries)))
        changed = [
            segment.hashes
            for entry, segment in zip(entries, stack.segments, strict=True)
            if epoch_of(entry) > self.folded_epoch
        ]
        if not changed:
            return _TABLE.empty_table()
        hashes = np.unique(np.concatenate(changed))
        return readable_keys(
            operator.state.readable(
                stack,
                lambda segment: (
                    (segment.forget_us > watermark_us) & np.isin(segment.hashes, hashes)
                ),
            )
        )


def epoch_of(entry: Entry) -> int:
    """The epoch for which a part was staged, which its name says."""
    return int(entry.part.name.split("-")[1])


def readable_keys(rows: Readable | None) -> pa.Table:
    """Rows of state as one row a key, as `Folded.keys` describes it."""
    if rows is None:
        return _TABLE.empty_table()
    count = len(rows.key_hash)
    per_row = pl.DataFrame(
        [
            _json("group_key", rows.keys, count),
            pl.Series("key_group", key_group(rows.key_hash)).cast(pl.Int64),
            _json("row", rows.values, count),
            pl.Series("forget_at", rows.forget_us),
        ]
    )
    per_key = per_row.group_by("group_key", maintain_order=True).agg(
        pl.col("key_group").first(),
        (pl.lit(f'{{"{rows.what}":[') + pl.col("row").str.join(",") + pl.lit("]}")).alias(
            "state_blob"
        ),
        pl.col("forget_at").max(),
    )
    return per_key.with_columns(pl.col("state_blob").cast(pl.Binary)).to_arrow().cast(_TABLE)


_TABLE = pa.schema(
    [
        pa.field("group_key", pa.string()),
        pa.field("key_group", pa.int64()),
        pa.field("state_blob", pa.binary()),
        pa.field("forget_at", pa.int64()),
    ]
)


def _json(name: str, columns: pl.DataFrame, height: int) -> pl.Series:
    """Each row as a JSON object; a window over all rows has the key {}."""
    if not columns.width:
        return pl.Series(name, ["{}"]).new_from_index(0, height)
    lines = to_json_lines(columns).splitlines()  # as bytes: text has line ends of its own
    return pl.Series(name, lines, dtype=pl.Binary).cast(pl.String)
