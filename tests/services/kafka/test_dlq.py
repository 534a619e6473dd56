"""`tidegate dlq`: rows that were turned away, looked at and sent back, on a real broker."""

from __future__ import annotations

import base64
import json
import re
import secrets
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner, Result

from tests.kafka_broker import KafkaServer, Record
from tests.services.kafka.kafka_topics import opened, seen
from tidegate.cli import app
from tidegate.deadletters.listing import reason_column
from tidegate.deadletters.replay import Replay
from tidegate.errors import LostLease
from tidegate.frontends.toml import load_pipeline
from tidegate.kafka.broker import Broker
from tidegate.targets.kafka_reading import records_in
from tidegate.targets.kafka_transactions import Transactions
from tidegate.testing.target_contract import key, stage

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "dead-letters.md"

WINDOW = """
[transform.window]
kind = "tumbling"
width_ms = 60_000
group_by = "user"
late_data = "side_output"
aggregations = [{ kind = "count" }]
"""


def told(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["dlq", *arguments])


class Letterbox:
    """A pipeline that reads a topic, and has a topic for each kind of row that it turns away."""

    def __init__(self, folder: Path, server: KafkaServer, dead_partitions: int = 2) -> None:
        self.server, self.topic = server, server.new_topic(partitions=2)
        self.dead = {name: server.new_topic(dead_partitions) for name in ("rejected", "late")}
        self.file = folder / "clicks.toml"
        address = f'bootstrap_servers = "{server.servers}"'
        self.file.write_text(f"""
name = "clicks"
[[sources]]
name = "clicks"
format = "kafka"
event_time = "at"
event_time_unit = "s"
columns = {{ user = "string", at = "long" }}
options = {{ {address}, topic = "{self.topic}" }}
{WINDOW}
[target]
format = "memory"
[rejected]
format = "kafka"
options = {{ {address}, topic = "{self.dead["rejected"]}" }}
[late]
format = "kafka"
options = {{ {address}, topic = "{self.dead["late"]}" }}
""")
        self.epochs = 0

    def turn_away(self, *rows: dict[str, Any], channel: str = "rejected", **parts: Any) -> None:
        """As an epoch of the pipeline does."""
        self.epochs += 1
        name = parts.pop("pipeline", "clicks")
        table = pl.DataFrame([{**_ROW, **row} for row in rows], schema=_SCHEMA)
        table = table.drop(parts.pop("leave_out", ()))
        writer = opened(self.server, self.dead[channel], pipeline=name, channel=channel, **parts)
        writer.publish(key(self.epochs, pipeline=name, channel=channel), [stage(writer, table)])

    def replay(self, *more: str, channel: str = "rejected") -> Result:
        return told("replay", str(self.file), "--channel", channel, "--yes", *more)

    def receive(self, *values: bytes | None, topic: str | None = None) -> list[dict[str, Any]]:
        """Records of the source topic, and what a row says of each."""
        topic = topic or self.topic
        times = [1_700_000_000_123 + nth for nth in range(len(values))]
        keys = [b"k%d" % nth for nth in range(len(values))]
        longer = {"message.max.bytes": 5_000_000}
        producer = Producer({"bootstrap.servers": self.server.servers, **longer})
        for value, key_, time_ms in zip(values, keys, times, strict=True):
            producer.produce(topic, value, key_, 0, timestamp=time_ms, headers=[*HEADERS])
        assert producer.flush(60) == 0
        found = [each for each in self.server.records(topic) if each.partition == 0]
        return [naming(topic, each) for each in found[-len(values) :]]

    def sent(self, topic: str | None = None) -> list[Record]:
        return seen(self.server, topic or self.topic)


_SCHEMA: dict[str, Any] = {
    "user": pl.String,
    "at": pl.Int64,
    "kafka_key": pl.Binary,
    "kafka_topic": pl.String,
    "kafka_partition": pl.Int32,
    "kafka_offset": pl.Int64,
    "kafka_timestamp": pl.Datetime("us", "UTC"),
    "kafka_value": pl.Binary,
    "reason": pl.String,
}
_ROW = {"reason": "unparsable"}
HEADERS = (("trace", b"\xff\x01"), ("x", b"y"), ("x", None), ("x", b""))


def naming(topic: str, record: Record) -> dict[str, Any]:
    """What the row of a record says of it."""
    return {
        "kafka_key": record.key,
        "kafka_topic": topic,
        "kafka_partition": record.partition,
        "kafka_offset": record.offset,
        "kafka_timestamp": datetime.fromtimestamp(0, UTC)
        + timedelta(milliseconds=record.timestamp_ms),
    }


@pytest.fixture
def letterbox(tmp_path: Path, kafka_server: KafkaServer) -> Letterbox:
    return Letterbox(tmp_path, kafka_server)


_GONE = count(1_000_000)


def raw(letterbox: Letterbox, value: bytes, **parts: Any) -> dict[str, Any]:
    """A record that did not decode, and is not in its topic any more."""
    place = {"kafka_topic": letterbox.topic, "kafka_partition": 0, "kafka_offset": next(_GONE)}
    return {**place, "kafka_value": value, **parts}


# --- list ---


def test_the_list_counts_by_reason_and_shows_the_newest(letterbox: Letterbox) -> None:
    broken = [raw(letterbox, b"\x1b[31m{half") for _ in range(3)]
    letterbox.turn_away(*broken)
    letterbox.turn_away({"user": "ann", "reason": "no_event_time"})
    letterbox.turn_away({"user": "bob", "at": 7, "reason": "late"}, channel="late")
    listed = told("list", str(letterbox.file))
    assert listed.exit_code == 0, listed.output
    lines = listed.output.splitlines()
    assert lines[0] == f"late (kafka {letterbox.dead['late']}): 1 row"
    assert f"rejected (kafka {letterbox.dead['rejected']}): 4 rows" in lines
    assert "           3  unparsable" in lines
    assert "           1  no_event_time" in lines
    assert base64.b64encode(b"\x1b[31m{half").decode() in listed.output
    assert "\x1b" not in listed.output


def test_the_list_counts_what_this_pipeline_turned_away_into_this_channel(
    letterbox: Letterbox,
) -> None:
    shared = letterbox.dead["late"]
    letterbox.file.write_text(
        letterbox.file.read_text().replace(letterbox.dead["rejected"], shared)
    )
    letterbox.dead["rejected"] = shared
    letterbox.turn_away(*[raw(letterbox, b"x")] * 3)
    letterbox.turn_away({"reason": "late"}, {"user": "ann", "reason": "late"}, channel="late")
    letterbox.turn_away(*[raw(letterbox, b"x")] * 5, pipeline="another")
    ours = {"tidegate.pipeline": b"clicks", "tidegate.channel": b"rejected"}
    odd = [b"[1,2]", b'{"user":[5],"kafka_topic":{},"reason":"odd"}']
    letterbox.server.produce(shared, odd, headers=[ours] * 2)
    letterbox.server.produce(shared, [b"no row at all"])
    listed = told("list", str(letterbox.file), "--limit", "9")
    assert listed.exit_code == 0, listed.output
    known = re.compile(r"late \(|rejected \(| +[0-9]+  |  besides")
    assert [line for line in listed.output.splitlines() if known.match(line)] == [
        f"late (kafka {shared}): 2 rows",
        "           2  late",
        "  besides 1 record that cannot be read as rows",
        f"rejected (kafka {shared}): 4 rows",
        "           3  unparsable",
        "           1  odd",
        "  besides 2 records that cannot be read as rows",
    ]


def test_the_list_as_json_is_for_scripts(letterbox: Letterbox) -> None:
    letterbox.turn_away(*(raw(letterbox, b"%d" % n) for n in range(3)))
    listed = told("list", str(letterbox.file), "--channel", "rejected", "--json", "--limit", "1")
    (found,) = json.loads(listed.output)
    assert {name: found[name] for name in ("channel", "rows", "reasons")} == {
        "channel": "rejected",
        "rows": 3,
        "reasons": {"unparsable": 3},
    }
    assert [row["kafka_topic"] for row in found["newest"]] == [letterbox.topic]


def test_the_list_reads_files_too(tmp_path: Path) -> None:
    file = tmp_path / "clicks.toml"
    file.write_text(f"""
name = "clicks"
[[sources]]
name = "clicks"
format = "json"
event_time = "at"
event_time_unit = "s"
options = {{ path = "in" }}
{WINDOW}
[target]
format = "memory"
[late]
format = "json"
options = {{ path = "{tmp_path}/late" }}
[rejected]
format = "console"
""")
    (tmp_path / "late").mkdir()
    (tmp_path / "late" / "a.json").write_text('{"user":"ann","reason":"theirs","_reason":"late"}\n')
    listed = told("list", str(file))
    assert listed.output.splitlines()[:2] == [
        f"late (json {tmp_path}/late): 1 row",
        "           1  late",
    ]
    assert "rejected (console): rows there cannot be read back" in listed.output
    refused = told("replay", str(file), "--channel", "late", "--yes")
    assert refused.exit_code == 2
    assert "'late', which goes to json, expected a channel that goes to a topic" in refused.output
    assert "found 'clicks' (json), expected a source of Kafka" in refused.output
    wrong = told("list", str(file), "--channel", "lat")
    assert (wrong.exit_code, "did you mean 'late'" in wrong.output) == (2, True)


def test_the_list_reads_avro_too_and_a_replay_wants_json(letterbox: Letterbox) -> None:
    of_rejected = f'topic = "{letterbox.dead["rejected"]}"'
    toml = letterbox.file.read_text()
    letterbox.file.write_text(toml.replace(of_rejected, f'{of_rejected}, value_format = "avro"'))
    letterbox.turn_away(raw(letterbox, b"{half"), value_format="avro")
    listed = told("list", str(letterbox.file), "--channel", "rejected", "--json")
    (found,) = json.loads(listed.output)
    assert (found["rows"], found["reasons"], found["unreadable"]) == (1, {"unparsable": 1}, 0)
    assert found["newest"][0]["kafka_value"] == base64.b64encode(b"{half").decode()
    refused = letterbox.replay()
    assert refused.exit_code == 2
    assert "found 'avro', expected 'json', to be sent back" in refused.output


def test_a_pipeline_that_keeps_nothing_is_told_how(tmp_path: Path) -> None:
    file = tmp_path / "clicks.toml"
    source = '[[sources]]\nname = "s"\nformat = "generator"\nevent_time = "event_time"\n'
    window = WINDOW.replace('late_data = "side_output"\n', "").replace('"user"', '"user_id"')
    file.write_text(f'name = "clicks"\n{source}{window}[target]\nformat = "memory"\n')
    listed = told("list", str(file))
    assert listed.exit_code == 2
    assert "give it [rejected] or [late]" in listed.output


def test_looking_at_dead_letters_loads_no_spark(letterbox: Letterbox) -> None:
    letterbox.turn_away(raw(letterbox, b"x"))
    program = (
        "import sys; from typer.testing import CliRunner; from tidegate.cli import app;"
        f"done = CliRunner().invoke(app, ['dlq', 'list', {str(letterbox.file)!r}]);"
        "assert done.exit_code == 0, done.output;"
        "assert 'pyspark' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_reason_is_ours_where_rows_have_one_too() -> None:
    assert reason_column(["n", "reason"]) == "reason"
    assert reason_column(["_reason", "__reason", "reason"]) == "__reason"
    assert reason_column(["n"]) is None


# --- the page ---


def test_the_page_shows_what_is_printed(letterbox: Letterbox, tmp_path: Path) -> None:
    """The pipeline of the page, with topics of this test in place of its own."""
    page = PAGE.read_text()
    names = {
        "broker-1:9092": letterbox.server.servers,
        '"clicks.rejected"': f'"{letterbox.dead["rejected"]}"',
        '"clicks.late"': f'"{letterbox.dead["late"]}"',
        'topic = "clicks"': f'topic = "{letterbox.topic}"',
    }
    (toml,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    for shown, ours in names.items():
        toml = toml.replace(shown, ours)
    letterbox.file.write_text(toml)
    noon = 1_767_268_800_000
    letterbox.server.produce(
        letterbox.topic,
        [b'{"user"'] * 42,
        keys=[b"ann"] * 42,
        partition=0,
        timestamps_ms=[noon] * 42,
    )
    names_of = [naming(letterbox.topic, each) for each in letterbox.sent()]
    letterbox.turn_away({"user": "ann", **names_of[7], "reason": "no_event_time"})
    for offset in (8, 9, 41):
        letterbox.turn_away({**names_of[offset], "kafka_value": b'{"user"'})
    printed = ""
    blocks = re.findall(r"<!-- shown as .*? -->\n```console\n(.*?)```", page, re.DOTALL)
    for line in re.findall(r"^\$ tidegate dlq (.*)$", "".join(blocks), re.MULTILINE):
        done = told(*line.replace("clicks.toml", str(letterbox.file)).split())
        printed += f"$ tidegate dlq {line}\n{done.output}"
    printed = printed.replace(letterbox.dead["rejected"], "clicks.rejected")
    printed = printed.replace(letterbox.topic, "clicks")
    assert words_of(printed) == words_of("".join(blocks))


def words_of(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


# --- replay ---


def test_what_did_not_decode_goes_back_also_if_its_record_is_gone(letterbox: Letterbox) -> None:
    when = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=1_700_000_000_123)
    sent = raw(letterbox, b"\x00\xff{half", kafka_key=b"\xfe", kafka_timestamp=when)
    letterbox.turn_away(sent)
    done = letterbox.replay()
    assert (done.exit_code, done.output) == (
        0,
        f"1 row (unparsable) to topic {letterbox.topic}\n"
        "  1 row as bytes with key and time, without headers: their records are gone\nsent\n",
    )
    (record,) = letterbox.sent()
    assert (record.key, record.value) == (b"\xfe", b"\x00\xff{half")
    assert record.timestamp_ms == 1_700_000_000_123
    (letter,) = seen(letterbox.server, letterbox.dead["rejected"])
    place = f"{letterbox.dead['rejected']}/{letter.partition}/{letter.offset}"
    assert record.headers == {"tidegate.replayed": place.encode()}


def test_a_row_goes_back_as_the_record_that_it_was(letterbox: Letterbox) -> None:
    """With what no column shows: fields that are not declared, headers, a tombstone's NULL."""
    written = b'{"user":"ann","at":"2126-01-01 00:00:00Z","page":"/p","price":1.10}'
    named = letterbox.receive(written, None, b"{half")
    letterbox.turn_away(
        {"user": "ann", "at": 4_922_899_200, **named[0], "reason": "future"},
        {**named[1], "reason": "no_event_time"},
        {**named[2], "kafka_value": b"{half"},
    )
    done = letterbox.replay()
    assert (done.exit_code, done.output.splitlines()[3:]) == (0, ["sent"])
    first = records_in(Broker(letterbox.server.servers), letterbox.topic)
    sent = sorted(first, key=lambda each: (each.timestamp_ms, len(each.headers)))
    for one, again in zip(sent[::2], sent[1::2], strict=True):
        assert (again.key, again.value, again.timestamp_ms) == (
            one.key,
            one.value,
            one.timestamp_ms,
        )
        assert again.headers[:-1] == one.headers == HEADERS
        assert again.headers[-1][0] == "tidegate.replayed"
    assert [each.value for each in sent[::2]] == [written, None, b"{half"]


def test_a_record_that_is_gone_is_not_made_up(letterbox: Letterbox) -> None:
    """Deleted, never named, or another one by now: it is passed over only if told so."""
    named = letterbox.receive(b'{"user":"ann","at":1}', b"{half", b'{"user":"bob","at":2}')
    letterbox.server.delete_records(letterbox.topic, {0: named[1]["kafka_offset"] + 1})
    letterbox.turn_away(
        {"user": "ann", "at": 1, **named[0]},
        {**named[1], "kafka_value": b"{half"},
        {"user": "cid", "at": 3, **named[2], "kafka_key": b"of another"},
        {"user": "dan", "at": 4, "kafka_topic": letterbox.topic},
    )
    unnamed = (
        "they do not name their record: a transform has to keep kafka_topic, kafka_partition and "
        "kafka_offset"
    )
    plan = [
        f"1 row (unparsable) to topic {letterbox.topic}",
        "  1 row as bytes with key and time, without headers: their records are gone",
        "2 rows cannot be sent: their records are gone",
        f"1 row cannot be sent: {unnamed}",
    ]
    refused = letterbox.replay()
    assert refused.exit_code == 1
    told_ = "tidegate: nothing was sent; --skip passes over rows that cannot be sent, for good"
    assert refused.output.splitlines() == [*plan, told_]
    assert len(letterbox.sent()) == 1
    done = letterbox.replay("--skip")
    assert done.exit_code == 0
    assert done.output.splitlines() == [
        *plan,
        "passed over 2 rows: their records are gone",
        f"passed over 1 row: {unnamed}",
        "sent",
    ]
    assert [each.value for each in letterbox.sent()] == [b'{"user":"bob","at":2}', b"{half"]
    again = letterbox.replay()
    assert (again.exit_code, again.output) == (
        0,
        "4 rows were sent before, and are not sent again\nthere is nothing to send\n",
    )


@pytest.mark.parametrize("leave_out", [(), ("kafka_timestamp", "kafka_key")])
def test_a_record_of_which_several_rows_were_turned_away_is_sent_once(
    letterbox: Letterbox, leave_out: tuple[str, ...]
) -> None:
    """Also where a transform keeps nothing of a record but its place."""
    (named,) = letterbox.receive(b'{"user":"ann","at":[1,2,3]}')
    row = {"user": "ann", **named}
    letterbox.turn_away(*[{**row, "reason": "late"}] * 2, leave_out=leave_out)
    letterbox.turn_away({**row, "reason": "sealed"}, leave_out=leave_out)
    done = letterbox.replay("--reason", "late")
    assert "1 row (late) to topic" in done.output
    assert "1 row come with the record of another, which is sent once" in done.output
    assert "there is nothing to send" in letterbox.replay().output
    assert len(letterbox.sent()) == 2


def test_a_time_beyond_the_year_9999_stays(letterbox: Letterbox) -> None:
    """Microseconds in place of milliseconds, in a topic that takes them."""
    topic = letterbox.server.new_topic(config={"message.timestamp.after.max.ms": f"{2**63 - 1}"})
    time_ms = 1_767_225_600_001_000
    letterbox.server.produce(topic, [b"us"], timestamps_ms=[time_ms])
    place = {"kafka_topic": topic, "kafka_partition": 0, "kafka_offset": 0}
    row = {**place, "kafka_timestamp": "+57971-02-25T00:00:01.000000Z", "reason": "unparsable"}
    ours = {"tidegate.pipeline": b"clicks", "tidegate.channel": b"rejected"}
    letterbox.server.produce(letterbox.dead["rejected"], [json.dumps(row).encode()], headers=[ours])
    assert letterbox.replay("--allow-topic", topic).output.endswith("sent\n")
    assert [each.timestamp_ms for each in letterbox.sent(topic)] == [time_ms] * 2


def test_a_replay_that_is_run_twice_sends_nothing_twice(letterbox: Letterbox) -> None:
    letterbox.turn_away(*(raw(letterbox, b"%d" % n) for n in range(10)))
    assert letterbox.replay().exit_code == 0
    again = letterbox.replay()
    assert again.output == (
        "10 rows were sent before, and are not sent again\nthere is nothing to send\n"
    )
    letterbox.turn_away(raw(letterbox, b"new"))
    assert "1 row (unparsable) to topic" in letterbox.replay().output
    found = sorted(each.value or b"" for each in letterbox.sent())
    assert found == sorted([*(b"%d" % n for n in range(10)), b"new"])


def test_a_reason_is_replayed_without_the_others(letterbox: Letterbox) -> None:
    letterbox.turn_away(raw(letterbox, b"1"), raw(letterbox, b"2", reason="no_event_time"))
    letterbox.turn_away(raw(letterbox, b"3"), raw(letterbox, b"4", reason="no_event_time"))
    assert letterbox.replay("--reason", "no_event_time").exit_code == 0
    assert sorted(each.value or b"" for each in letterbox.sent()) == [b"2", b"4"]
    assert letterbox.replay().exit_code == 0
    assert sorted(each.value or b"" for each in letterbox.sent()) == [b"1", b"2", b"3", b"4"]
    assert "there is nothing to send" in letterbox.replay().output


def commits(made: Letterbox) -> dict[tuple[str, int], list[int]]:
    """The offsets that replays committed, by reason and partition, in the cluster's own topic.

    The cluster forgets one a while after the last commit of its partition.
    """
    names = rb"tidegate\.clicks/rejected/replay/(.+)..%s" % made.dead["rejected"].encode()
    commit = re.compile(rb"\x00\x01.." + names + rb"(.{4})", re.DOTALL)
    found: dict[tuple[str, int], list[int]] = {}
    for record in seen(made.server, "__consumer_offsets"):
        if place := commit.fullmatch(record.key or b""):
            reason, partition = place[1].decode(), int.from_bytes(place[2])
            offset = int.from_bytes((record.value or b"")[2:10])
            found.setdefault((reason, partition), []).append(offset)
    return found


def test_each_replay_commits_all_reasons_anew(tmp_path: Path, kafka_server: KafkaServer) -> None:
    """Of other reasons too, if there is nothing to send, and if nothing can be."""
    made = Letterbox(tmp_path, kafka_server, dead_partitions=1)
    made.turn_away(raw(made, b"1"), raw(made, b"2"))
    assert made.replay().exit_code == 0
    assert commits(made) == {("unparsable", 0): [2]}
    made.turn_away(raw(made, b"3", reason="future"))
    assert made.replay("--reason", "future").exit_code == 0
    assert commits(made) == {("unparsable", 0): [2, 2], ("future", 0): [4]}
    assert "there is nothing to send" in made.replay().output
    assert commits(made) == {("unparsable", 0): [2] * 3, ("future", 0): [4] * 2}
    assert "3 rows were sent before" in made.replay().output


def test_a_replay_that_is_killed_goes_on_where_it_was(
    letterbox: Letterbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed in its second transaction: nothing comes twice, and nothing is lost."""
    letterbox.turn_away(*(raw(letterbox, b"%d" % n) for n in range(10)))
    monkeypatch.setattr("tidegate.deadletters.replay._AT_ONCE", 4)
    marked = Transactions.mark
    calls: list[int] = []

    def killed(self: Transactions, *arguments: Any) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        marked(self, *arguments)

    monkeypatch.setattr(Transactions, "mark", killed)
    assert letterbox.replay().exit_code == 130
    assert len(letterbox.sent()) == 4
    assert letterbox.replay().exit_code == 0
    assert sorted(each.value or b"" for each in letterbox.sent()) == [b"%d" % n for n in range(10)]


def test_few_letters_that_are_long_are_held_at_once(
    tmp_path: Path, kafka_server: KafkaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Letterbox(tmp_path, kafka_server, dead_partitions=1)
    made.turn_away(*(raw(made, b"x" * each) for each in (10, 10, 3_000, 10, 1_500)))
    monkeypatch.setattr("tidegate.deadletters.replay._AT_ONCE_BYTES", 4_000)
    with closing(Replay(load_pipeline(made.file).pipeline, "rejected")) as opened_:
        held = [*opened_._batches(opened_.plan(None).ends)]
        assert [[each and each.offset for each in some] for some in held] == [[0, 1], [2], [3, 4]]
    assert made.replay().exit_code == 0
    assert len(made.sent()) == 5


def test_of_two_replays_at_once_the_first_is_fenced(letterbox: Letterbox) -> None:
    letterbox.turn_away(*(raw(letterbox, b"%d" % n) for n in range(3)))
    with closing(Replay(load_pipeline(letterbox.file).pipeline, "rejected")) as first:
        plan = first.plan(None)
        assert letterbox.replay().exit_code == 0
        with pytest.raises(LostLease):
            first.send(plan, skip=True)
    assert len(letterbox.sent()) == 3


def test_what_went_to_another_topic_can_still_go_back(letterbox: Letterbox) -> None:
    other = letterbox.server.new_topic()
    letterbox.turn_away(raw(letterbox, b"1"))
    assert letterbox.replay("--to-topic", other).exit_code == 0
    assert (len(letterbox.sent(other)), letterbox.sent()) == (1, [])
    assert "1 row were sent before" in letterbox.replay("--to-topic", other).output
    assert letterbox.replay().exit_code == 0
    assert len(letterbox.sent(other)) == len(letterbox.sent()) == 1


REFUSING: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    "too long": ({"max.message.bytes": "20000"}, {"kafka_value": secrets.token_bytes(30_000)}),
    "too old": (
        {"message.timestamp.before.max.ms": "3600000"},
        {"kafka_timestamp": datetime.fromtimestamp(0, UTC)},
    ),
    "no key": ({"cleanup.policy": "compact"}, {"kafka_key": None}),
}


@pytest.mark.parametrize("which", REFUSING)
def test_a_record_that_its_topic_refuses_is_named_and_can_be_passed_over(
    tmp_path: Path, kafka_server: KafkaServer, which: str
) -> None:
    """All before it is sent; with --skip all behind it too, and nothing twice."""
    config, refused = REFUSING[which]
    picky = kafka_server.new_topic(config=config)
    made = Letterbox(tmp_path, kafka_server, dead_partitions=1)
    new = {"kafka_key": b"k", "kafka_timestamp": datetime.now(UTC)}
    rows = [raw(made, b"%d" % n, **new) for n in range(6)]
    rows[3] |= refused
    made.turn_away(*rows)
    done = made.replay("--to-topic", picky)
    assert done.exit_code == 1
    place = f"{made.dead['rejected']}/0/3"
    assert f"tidegate: the row at {place} cannot be sent: kafka" in done.output
    assert "all before it is sent; --skip passes over it for good" in done.output
    assert [each.value for each in made.sent(picky)] == [b"0", b"1", b"2"]
    skipped = made.replay("--to-topic", picky, "--skip")
    assert (skipped.exit_code, skipped.output.splitlines()[-1]) == (0, "sent"), skipped.output
    assert "passed over 1 row: kafka" in skipped.output
    assert [each.value for each in made.sent(picky)] == [b"%d" % n for n in (0, 1, 2, 4, 5)]
    assert "6 rows were sent before" in made.replay("--to-topic", picky).output
    assert made.replay().exit_code == 0
    assert len(made.sent()) == 6


def test_a_topic_that_no_source_reads_is_neither_read_nor_written_to(
    letterbox: Letterbox,
) -> None:
    """Unless it is named: also if --to-topic would send what is there elsewhere."""
    payroll = letterbox.server.new_topic()
    letterbox.server.produce(payroll, [b"secret"])
    forged = {"kafka_topic": payroll, "kafka_partition": 0, "kafka_offset": 0}
    letterbox.turn_away({"user": "eve", **forged}, raw(letterbox, b"1"))
    for more in ((), ("--to-topic", letterbox.topic)):
        done = letterbox.replay(*more)
        assert done.exit_code == 1
        why = f"no source reads topic {payroll}: --allow-topic {payroll} trusts what they say"
        assert f"1 row cannot be sent: {why}" in done.output
    assert (len(letterbox.sent(payroll)), letterbox.sent()) == (1, [])
    assert letterbox.replay("--allow-topic", payroll).exit_code == 0
    assert [each.value for each in letterbox.sent(payroll)] == [b"secret"] * 2
    assert [each.value for each in letterbox.sent()] == [b"1"]


def test_topics_of_long_and_of_short_records_get_theirs_back(letterbox: Letterbox) -> None:
    """What was in a topic fits there again, alone and with others that are sent beside it."""
    long = letterbox.server.new_topic(config={"max.message.bytes": "3000000"})
    short = letterbox.server.new_topic(config={"max.message.bytes": "20000"})
    (named,) = letterbox.receive(b"x" * 2_000_000, topic=long)
    bytes_ = [secrets.token_bytes(200) for _ in range(300)]
    letterbox.turn_away(named, *(raw(letterbox, each, kafka_topic=short) for each in bytes_))
    done = letterbox.replay("--allow-topic", long, "--allow-topic", short)
    assert (done.exit_code, done.output.splitlines()[-1]) == (0, "sent"), done.output
    assert [len(each.value or b"") for each in letterbox.sent(long)] == [2_000_000] * 2
    assert sorted(each.value or b"" for each in letterbox.sent(short)) == sorted(bytes_)


def test_what_cannot_be_meant_is_refused(letterbox: Letterbox) -> None:
    letterbox.turn_away(raw(letterbox, b"1"))
    ours = {"tidegate.pipeline": b"clicks", "tidegate.channel": b"rejected"}
    odd: list[bytes | None] = [b"[1,2]", b'{"kafka_key":5,"reason":"late"}', b'{"reason":"odd"}']
    letterbox.server.produce(letterbox.dead["rejected"], odd, headers=[ours] * 3)
    wrong = letterbox.replay("--reason", "unparseable")
    assert wrong.exit_code == 2
    assert "did you mean 'unparsable'?" in wrong.output
    own = letterbox.replay("--to-topic", letterbox.dead["rejected"])
    assert own.exit_code == 2
    assert "expected another topic than that of the dead letters" in own.output
    assert letterbox.sent() == []
    done = letterbox.replay()
    assert done.exit_code == 0
    assert "besides 3 records that cannot be read as dead letters" in done.output
    assert [each.value for each in letterbox.sent()] == [b"1"]


def test_a_topic_that_is_gone_is_told_and_nothing_sent(letterbox: Letterbox) -> None:
    letterbox.turn_away(raw(letterbox, b"1"), raw(letterbox, b"2", kafka_topic="gone"))
    done = letterbox.replay("--allow-topic", "gone")
    assert done.exit_code == 2
    assert "found no topic gone in kafka" in done.output
    assert letterbox.sent() == []


def test_letters_of_others_in_the_topic_stay_where_they_are(letterbox: Letterbox) -> None:
    letterbox.turn_away(raw(letterbox, b"theirs"), pipeline="others")
    letterbox.server.produce(letterbox.dead["rejected"], [b"no row at all"])
    assert letterbox.replay().output == "there is nothing to send\n"


def test_late_rows_are_told_to_be_late_again(letterbox: Letterbox) -> None:
    (named,) = letterbox.receive(b'{"user":"ann","at":5}')
    letterbox.turn_away({"user": "ann", "at": 5, **named, "reason": "late"}, channel="late")
    done = letterbox.replay(channel="late")
    assert "late rows will be late again" in done.output
    assert [each.value for each in letterbox.sent()] == [b'{"user":"ann","at":5}'] * 2


def test_nothing_is_sent_unless_somebody_says_yes(letterbox: Letterbox) -> None:
    letterbox.turn_away(raw(letterbox, b"1"))
    done = told("replay", str(letterbox.file), "--channel", "rejected")
    assert done.exit_code == 2
    assert "--yes sends without asking" in done.output
    assert letterbox.sent() == []
    assert letterbox.replay().exit_code == 0
