"""Kafka, for whatever reads from it or writes to it: brokers, what they say, and what goes wrong.

    BrokerOptions -> Broker -> [asking | a client] -> a refusal in words, without secrets

Its modules import confluent_kafka, which comes with `tidegate[kafka]`; `need_confluent_kafka` says
so where it is missing, and must be called before they are imported.
"""

from __future__ import annotations

from tidegate.errors import ConfigError, Problem


def need_confluent_kafka(at: str) -> None:
    """Raise `ConfigError` unless confluent_kafka can be imported; `at` is what asks for it."""
    try:
        import confluent_kafka  # noqa: F401, PLC0415  # only where it is used
    except ImportError as error:
        hint = "pip install 'tidegate[kafka]', on the driver and wherever tasks run"
        found = f"'kafka', but confluent_kafka cannot be imported: {error}"
        raise ConfigError([Problem(at, found, "confluent-kafka 2.8 or later", hint)]) from None
