"""How far a consumer has come, by what it says of itself.

librdkafka passes over the records of aborted transactions in silence: of a range that ends among
them nothing is heard before the first record behind them all, which may be gigabytes away. Its
statistics say what it fetches next; whatever is before that is in its queue, or was taken.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from tidegate.kafka.asking import Partition

_EVERY_MS: Final = 200
_AT_ONCE: Final = 4 * 2**20
"""Bytes: of answers without a record librdkafka wants ever longer ones, that take ever longer."""


class Positions:
    """What one consumer fetches next, by partition.

    It must never have been assigned anything else: until it has asked a broker for what it is to
    read now, its statistics tell of what it read before.
    """

    def __init__(self) -> None:
        """Nothing is heard yet."""
        self.next: Mapping[Partition, int] = {}

    def config(self, users: Mapping[str, str]) -> dict[str, Any]:
        """The properties of such a consumer, beside those of the user."""
        ours = {"statistics.interval.ms": _EVERY_MS, "stats_cb": self._hear}
        return {"fetch.max.bytes": users.get("fetch.max.bytes", _AT_ONCE), **ours}

    def _hear(self, statistics: str) -> None:
        self.next = {
            (topic, int(number)): int(each["next_offset"])
            for topic, told in json.loads(statistics)["topics"].items()
            for number, each in told["partitions"].items()
        }
