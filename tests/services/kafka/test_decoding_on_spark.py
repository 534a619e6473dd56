"""Records that do not decode, and batches that nobody can read, end to end."""

from __future__ import annotations

import pytest

from tests.kafka_broker import KafkaServer
from tests.services.home import MEMORY, Home
from tests.services.kafka.test_damage import damaged
from tests.services.kafka.test_source_on_spark import clicks, events
from tidegate import Target
from tidegate.errors import UnreadableSource


@pytest.mark.parametrize("channels", [{}, {"rejected": MEMORY}])
def test_what_is_rejected_does_not_depend_on_where_it_goes(
    home: Home, kafka_server: KafkaServer, topic: str, channels: dict[str, Target]
) -> None:
    odd = b'{"user": "ann", "ts": 2, "note": 5}'  # of a column that no window reads
    untimely = b'{"user": "ann", "ts": null, "note": 5}'
    kafka_server.produce(topic, [*events(("ann", 1)), odd, untimely, b'{"user": 5, "ts": 3}'])
    columns = {"user": "string", "ts": "long", "note": "string"}
    source = clicks(kafka_server, topic, columns=columns)
    result = home.run(home.pipeline(source, channels=channels), on_end="flush")
    counts = {name: count for name, count in result.counts.items() if "rejected" in name}
    assert result.rows == 2
    assert counts == {"rejected": 2, "rejected.unparsable": 1, "rejected.no_event_time": 1}
    if channels:
        known = ("kafka_offset", "user", "note", "reason")
        assert sorted(home.table("rejected").select(known).rows()) == [
            (2, "ann", None, "no_event_time"),
            (3, None, None, "unparsable"),
        ]


def test_a_damaged_batch_ends_the_run_and_is_named(
    home: Home, kafka_server: KafkaServer, topic: str
) -> None:
    damaged(kafka_server, topic, "gzip")
    source = clicks(kafka_server, topic, event_time="arrival", event_time_unit=None)
    with pytest.raises(UnreadableSource, match=f"{topic}/0: the batch of records at offset 2"):
        home.run(home.pipeline(source))
