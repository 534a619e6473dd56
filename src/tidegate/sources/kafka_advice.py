"""A copy of what is committed in the consumer group, for those who watch lag there.

Nobody reads it here: where it cannot be written, the next one may be, or the same one later.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final
from weakref import WeakSet

from tidegate.errors import BrokerUnavailable
from tidegate.kafka.asking import Partition, commit_group
from tidegate.kafka.broker import Broker

logger = logging.getLogger("tidegate")

_PATIENCE_MS: Final = 5_000
_TELLING: Final[WeakSet[threading.Thread]] = WeakSet()


@atexit.register
def hear_out() -> None:
    """Let what is being told be told; librdkafka may wait for ever for a broker that is gone."""
    end_s = time.monotonic() + _PATIENCE_MS / 1000
    for thread in [*_TELLING]:
        thread.join(max(0.0, end_s - time.monotonic()))


@dataclass
class GroupAdvice:
    """Tells a consumer group how far its topics were read, beside whatever else is going on.

    While one telling is under way, only the newest of those behind it is kept.
    """

    broker: Broker
    group: str
    _newest: Mapping[Partition, int] | None = field(default=None, init=False)
    _untold: Mapping[Partition, int] | None = field(default=None, init=False)
    """What the broker did not hear, with nothing newer behind it."""
    _warned: bool = field(default=False, init=False)
    _busy: bool = field(default=False, init=False)
    _guard: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        short_ms = min(_PATIENCE_MS, self.broker.timeout_ms)
        self.broker = replace(self.broker, timeout_ms=short_ms)

    def tell(self, offsets: Mapping[Partition, int]) -> None:
        """Have it said soon."""
        with self._guard:
            self._newest, self._untold = offsets, None
            if self._busy:
                return
            self._busy = True
        self._begin()

    def again(self) -> None:
        """Have said what could not be, if there is anything: else lag would seem to stay."""
        with self._guard:
            if self._busy or self._untold is None:
                return
            self._newest, self._untold, self._busy = self._untold, None, True
        self._begin()

    def _begin(self) -> None:
        telling = threading.Thread(target=self._say, name="tidegate-kafka-group", daemon=True)
        _TELLING.add(telling)
        telling.start()

    def _say(self) -> None:
        while (offsets := self._next()) is not None:
            try:
                commit_group(self.broker, self.group, offsets)
            except Exception as error:  # whatever it is, the next one is told all the same
                self._log(error)
                if isinstance(error, BrokerUnavailable):
                    self._keep(offsets)

    def _log(self, error: Exception) -> None:
        """Warn of a group that cannot be told, once: by its lag nothing would seem to be read."""
        level = logging.DEBUG
        if not isinstance(error, BrokerUnavailable) and not self._warned:
            level, self._warned = logging.WARNING, True
        words = {"group": self.group}
        logger.log(level, "consumer group was not told: %s", error, extra=words)

    def _keep(self, offsets: Mapping[Partition, int]) -> None:
        with self._guard:
            self._untold = offsets if self._newest is None else None

    def _next(self) -> Mapping[Partition, int] | None:
        with self._guard:
            newest, self._newest = self._newest, None
            self._busy = newest is not None
            return newest
