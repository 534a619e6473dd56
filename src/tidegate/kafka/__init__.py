"""Kafka, for whatever reads from it or writes to it: brokers, what they say, and what goes wrong.

    BrokerOptions -> Broker -> [asking | a client] -> a refusal in words, without secrets

Its modules import confluent_kafka, which comes with `tidegate[kafka]`; `need_confluent_kafka` says
so where it is missing, and must be called before they are imported.
"""

from __future__ import annotations

from tidegate.pipeline.formats import CONFLUENT_KAFKA


def need_confluent_kafka(at: str) -> None:
    """Raise `ConfigError` unless confluent_kafka can be imported; `at` is what asks for it."""
    try:
        import confluent_kafka  # noqa: F401, PLC0415  # only where it is used
    except ImportError as error:
        raise CONFLUENT_KAFKA.missing(at, "kafka", error) from None
