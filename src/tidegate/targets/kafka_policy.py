"""What a topic must keep: of a table the last row of each key, else each row; and how long ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tidegate.errors import Problem

_POLICY: Final = "cleanup.policy"
_FOR_EVER: Final = "-1"
_LARGEST: Final = "max.message.bytes"
_LARGEST_BYTES: Final = 1_000_000
"""As every cluster takes them that nobody has told otherwise."""
_LARGEST_LETTER_BYTES: Final = 8 * 2**20


def policy_of(*, table: bool, letters: bool = False) -> dict[str, str]:
    """The settings of a topic that is made; dead letters are longer than the records they were."""
    policy = {_POLICY: "compact" if table else "delete"}
    return policy | ({_LARGEST: str(_LARGEST_LETTER_BYTES)} if letters else {})


def largest_record(config: Mapping[str, str]) -> int:
    """How many bytes a record of the topic may have."""
    return int(config.get(_LARGEST, _LARGEST_BYTES))


def policy_problems(topic: str, config: Mapping[str, str], *, table: bool) -> Iterator[Problem]:
    """A table loses no old rows, also where it is compacted; where rows are added each one counts.

    `config` are the settings of the topic, those that it has by default too.
    """
    policy = config.get(_POLICY, "")
    cleaned = {each.strip() for each in policy.split(",")}
    found = f"{topic}, which has {_POLICY}={policy}"
    if not table and "compact" in cleaned:
        expected = "a topic that is not compacted: each row counts, whatever its key"
        yield Problem("options.topic", found, expected, "use another topic")
    elif table and "delete" in cleaned and not _keeps_all(config):
        expected = "a topic that is compacted, and nothing else: this one forgets rows that count"
        hint = (
            f"kafka-configs --alter --topic {topic} --add-config {_POLICY}=compact, "
            "or use another topic: one that is missing is made so"
        )
        yield Problem("options.topic", found, expected, hint)


def _keeps_all(config: Mapping[str, str]) -> bool:
    return config.get("retention.ms") == config.get("retention.bytes") == _FOR_EVER
