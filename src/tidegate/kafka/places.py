"""Reading from places that are known: no group is joined, nothing is committed.

Consumer(broker.config(FROM_PLACES)) -> assign -> [consumed] -> records and ends of partitions
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message

_LOOK_S: Final = 0.02

FROM_PLACES: Final[dict[str, Any]] = {
    "group.id": "tidegate.reading",  # librdkafka wants one, also where none is joined
    "isolation.level": "read_committed",
    "auto.offset.reset": "earliest",  # where retention was faster
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 10,
    "fetch.queue.backoff.ms": 2,  # so long a full queue is waited for, by default a second
}


def consumed(consumer: Consumer, at_once: int, timeout_s: float) -> Iterator[list[Message]]:
    """What comes, some at a time, for as long as somebody asks; an error if nothing comes."""
    since_s = time.monotonic()
    while True:
        if messages := consumer.consume(at_once, _LOOK_S):
            yield messages
            since_s = time.monotonic()  # behind what the caller did meanwhile, however long
        elif time.monotonic() - since_s > timeout_s:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))


def is_end(message: Message) -> bool:
    """Whether this is no record, but says that there is none behind; any other error is raised."""
    error = message.error()
    if error is None:
        return False
    if error.code() == KafkaError._PARTITION_EOF:
        return True
    raise KafkaException(error)
