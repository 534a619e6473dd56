"""Rows at a steady rate, each with the moment it was produced at.

    python -m benchmarks.kafka.live_events SETTINGS

In the end the file `sent.npz` holds user and time of all of them, in the order they were sent.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka import Producer

from benchmarks.kafka.cases import PARTITIONS, USERS

_TICK_S = 0.001


def main(settings: dict[str, Any]) -> None:
    producer = Producer({"bootstrap.servers": settings["servers"]})
    rng = np.random.default_rng(7)
    users: list[int] = rng.integers(0, USERS, settings["rate"] * settings["seconds"]).tolist()
    sent_us = _sent(producer, settings["topic"], users, settings["rate"])
    left = producer.flush(60)
    assert left == 0, f"{left} events were not delivered"
    np.savez(Path(settings["scratch"]) / "sent.npz", user=users, sent_us=sent_us)
    print(json.dumps({"events": len(users), "seconds": (sent_us[-1] - sent_us[0]) / 1e6}))


def _sent(producer: Producer, topic: str, users: list[int], rate: int) -> list[int]:
    """Every event is produced when its time has come, and as soon as possible after that."""
    sent_us: list[int] = []
    began = time.monotonic()
    while len(sent_us) < len(users):
        due = min(len(users), int((time.monotonic() - began) * rate))
        for user in users[len(sent_us) : due]:
            now_us = time.time_ns() // 1000
            producer.produce(topic, value(user, now_us), partition=user % PARTITIONS)
            sent_us.append(now_us)
        producer.poll(0)
        time.sleep(_TICK_S)
    return sent_us


def value(user: int, sent_us: int) -> bytes:
    """An event."""
    return b'{"user_id":%d,"sent_us":%d}' % (user, sent_us)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
