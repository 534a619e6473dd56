"""Places of keys: those that librdkafka finds for them, on a real broker."""

from __future__ import annotations

import random

import polars as pl
from confluent_kafka import Producer

from tests.kafka_broker import KafkaServer
from tidegate.kafka.murmur2 import key_hashes

PARTITIONS = 13


def test_keys_go_where_librdkafka_puts_them(kafka_server: KafkaServer) -> None:
    """Of all lengths, few and many of a length, in a part of a column too."""
    topic = kafka_server.new_topic(PARTITIONS)
    drawn = random.Random(7)
    lengths = [*range(64), *[drawn.randrange(1, 20) for _ in range(500)], 300, 1_001, 50_000]
    keys = list({drawn.randbytes(length): None for length in lengths})
    producer = Producer({"bootstrap.servers": kafka_server.servers, "partitioner": "murmur2"})
    for key in keys:
        producer.produce(topic, b"", key)
    producer.flush(30)
    found = {each.key: each.partition for each in kafka_server.records(topic)}
    column = pl.Series(keys)
    assert (key_hashes(column) % PARTITIONS).to_list() == [found[key] for key in keys]
    assert key_hashes(column[5:200]).to_list() == key_hashes(column).to_list()[5:200]


def test_no_keys_have_no_hashes() -> None:
    assert key_hashes(pl.Series(dtype=pl.Binary)).to_list() == []
