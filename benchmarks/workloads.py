"""Seeded streams of clicks: rate, number of keys, disorder. Described in README.md."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from tidegate.core.hashing import xxhash64
from tidegate.core.rows import Rows


@dataclass(frozen=True, kw_only=True)
class Clicks:
    """Epochs of `rows` clicks, `epoch_us` long; each epoch clicks `active` of `keys` users.

    A click is up to `disorder_us` out of order. `key_columns` says how a user is named: by a
    number, by a text, or by two columns.
    """

    keys: int
    active: int
    rows: int = 250_000
    epoch_us: int = 10_000_000
    disorder_us: int = 1_000_000
    key_columns: tuple[str, ...] = ("user",)
    seed: int = 7

    @property
    def types(self) -> dict[str, str]:
        """The columns and their types."""
        named = {"user": "long", "name": "string", "site": "long"}
        return {**{column: named[column] for column in self.key_columns}, "value": "long"}

    def epoch(self, nth: int) -> tuple[pl.DataFrame, Rows]:
        """The clicks of an epoch, as a plain table and as the step gets them."""
        rng = np.random.default_rng((self.seed, nth))
        in_order = np.sort(rng.integers(0, self.epoch_us, self.rows))
        event_us = nth * self.epoch_us + in_order - rng.integers(0, self.disorder_us, self.rows)
        user = self._users(rng)
        columns = {"user": user, "site": user % 7, "value": rng.integers(0, 1000, self.rows)}
        table = pl.DataFrame(columns).with_columns(name=pl.format("user-{}", "user"))
        table = table.select(*self.key_columns, "value")
        return table.with_columns(event_us=pl.Series(event_us)), self._events(nth, event_us, table)

    def _users(self, rng: np.random.Generator) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        if self.active == self.keys:
            return rng.integers(0, self.keys, self.rows)
        return rng.integers(0, self.keys, self.active)[rng.integers(0, self.active, self.rows)]

    def _events(
        self, nth: int, event_us: np.ndarray[tuple[int], np.dtype[np.int64]], table: pl.DataFrame
    ) -> Rows:
        return Rows(
            event_us=event_us,
            lane=np.zeros(self.rows, np.int64),
            offset=np.arange(nth * self.rows, (nth + 1) * self.rows),
            key_hash=xxhash64([table[column] for column in self.key_columns]),
            columns=table,
        )

    def watermark_us(self, nth: int) -> int:
        """A watermark behind the epoch that makes no click of this stream late."""
        return (nth + 1) * self.epoch_us - self.disorder_us
