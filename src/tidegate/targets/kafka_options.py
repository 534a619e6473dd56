"""What a topic that results go to can be told, checked all at once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field

from tidegate.errors import ConfigError, Problem
from tidegate.kafka.broker import BrokerOptions
from tidegate.kafka.registry import address_flaw
from tidegate.pipeline import MAIN, Target
from tidegate.pipeline.fieldtypes import Name
from tidegate.pipeline.masking import shown
from tidegate.pipeline.paths import located
from tidegate.pipeline.validation import Rule
from tidegate.targets.options import target_at

Count = Annotated[int, Field(ge=1)]

_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


def topic_is_a_name(options: KafkaTargetOptions) -> Iterator[Problem]:
    """Kafka takes few characters."""
    if not _TOPIC.fullmatch(options.topic) or options.topic in (".", ".."):
        expected = "1 to 249 letters, digits, points, underscores and hyphens"
        yield Problem("topic", shown(options.topic), expected)


def registry_is_for_avro(options: KafkaTargetOptions) -> Iterator[Problem]:
    """JSON needs none; and it can be found."""
    if options.schema_registry is None:
        return
    if options.value_format != "avro":
        yield Problem("schema_registry", "one for JSON", "none", "value_format='avro'")
    elif (flaw := address_flaw(options.schema_registry)) is not None:
        found, hint = flaw
        yield Problem("schema_registry", found, "an address such as http://registry:8081", hint)


def keys_have_their_place(options: KafkaTargetOptions) -> Iterator[Problem]:
    """Rows that are replaced, and what deletes them, go to the partition of their key."""
    if options.key:
        yield from _partitioner_problems(options.client)


def _partitioner_problems(client: Mapping[str, Any]) -> Iterator[Problem]:
    if "partitioner" in client:
        found, hint = shown(client["partitioner"]), "remove it"
        expected = (
            "nothing where records have keys: they go where Kafka's own clients look for them"
        )
        yield Problem("client.partitioner", found, expected, hint)


class KafkaTargetOptions(BrokerOptions):
    """Where records go, and what they look like."""

    topic: Name
    """The name of the topic; it is made where it is missing."""
    key: bool = False
    """Whether records have the identity of their row as a key: then rows can be replaced."""
    value_format: Literal["json", "avro"] = "json"
    """A JSON object, or an Avro datum."""
    partitions: Count | None = None
    """Of a topic that is made; by default as the cluster has it."""
    replication: Count | None = None
    """How many brokers keep a copy of a topic that is made; by default as the cluster has it."""
    schema_registry: str | None = None
    """The address of a registry: then values are in Confluent's wire format."""

    rules: ClassVar[tuple[Rule, ...]] = (
        *BrokerOptions.rules,
        topic_is_a_name,
        registry_is_for_avro,
        keys_have_their_place,
    )

    @classmethod
    def of_target(
        cls, target: Target, channel: str, *, changes: bool = False
    ) -> KafkaTargetOptions:
        """The options of a target; raises `ConfigError` with all that is wrong with them.

        Changes of rows are keyed by the identity of their row, also without `key`.
        """
        place = place_of(channel)
        options = cls.from_dict(target.options, at=place)
        if options.key and channel != MAIN:
            expected = "no key: rows that are turned away have no identity"
            raise ConfigError([Problem(f"{place}.key", "true", expected, "remove it")])
        if changes and (problems := [*_partitioner_problems(options.client)]):
            raise ConfigError(located(problems, place))
        return options


def place_of(channel: str) -> str:
    """Where the options of a channel's target stand."""
    return f"{target_at(channel)}.options"
