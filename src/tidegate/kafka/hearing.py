"""What librdkafka says on the side: why it has no connection, while a call just waits.

A time-out does not know its reason. The clients of a process say it to their `error_cb`, or only to
their log, whenever they are polled; the last few things about each broker are kept here, and
whether it has ever let this process in: then a refusal may be one of a moment.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Hashable
from typing import Final

from confluent_kafka import KafkaError

_KEPT: Final = 16
_HEARD: Final[dict[Hashable, deque[tuple[float, KafkaError]]]] = {}
_LET_IN: Final[set[Hashable]] = set()


def hear(broker: Hashable, error: KafkaError) -> None:
    """Keep what is said about `broker`."""
    _HEARD.setdefault(broker, deque(maxlen=_KEPT)).append((time.monotonic(), error))


def heard(broker: Hashable, since_s: float) -> list[KafkaError]:
    """What was said since then (`time.monotonic`), the last thing first."""
    return [error for at_s, error in [*_HEARD.get(broker, ())][::-1] if at_s >= since_s]


def note_answer(broker: Hashable) -> None:
    """Keep that `broker` has let this process in."""
    _LET_IN.add(broker)


def has_answered(broker: Hashable) -> bool:
    """Whether `broker` has let this process in before."""
    return broker in _LET_IN
