"""`tidegate dlq`: rows that were turned away, looked at and sent back, on a real broker."""

from __future__ import annotations

import base64
import json
import re
import secrets
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner, Result

from tests.contracts.targets import key, stage
from tests.kafka_broker import KafkaServer, Record
from tests.services.kafka.kafka_topics import opened, seen
from tidegate.cli import app
from tidegate.cli.dlq_listing import reason_column
from tidegate.cli.dlq_marks import Marks
from tidegate.cli.dlq_replaying import Replay, plan_of
from tidegate.cli.dlq_resolving import Terms
from tidegate.errors import LostLease
from tidegate.frontends.toml import load_pipeline
from tidegate.kafka.broker import Broker
from tidegate.targets.kafka_reading import records_in

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

    def __init__(
        self, folder: Path, server: KafkaServer, dead_partitions: int = 2, **source: Any
    ) -> None:
        self.server, self.topic = server, server.new_topic(partitions=2)
        self.dead = {name: server.new_topic(dead_partitions) for name in ("rejected", "late")}
        self.file = folder / "clicks.toml"
        address = f'bootstrap_servers = "{server.servers}"'
        options = "".join(f", {name} = {json.dumps(value)}" for name, value in source.items())
        self.file.write_text(f"""
name = "clicks"
[[sources]]
name = "clicks"
format = "kafka"
event_time = "at"
event_time_unit = "s"
columns = {{ user = "string", at = "long" }}
options = {{ {address}, topic = "{self.topic}"{options} }}
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

    def reads_also(self, topic: str) -> None:
        """From now on the pipeline reads this topic too."""
        names = json.dumps([self.topic, topic])
        toml = self.file.read_text().replace(f'topic = "{self.topic}"', f"topics = {names}")
        self.file.write_text(toml)

    def turn_away(self, *rows: dict[str, Any], channel: str = "rejected", **parts: Any) -> None:
        """As an epoch of the pipeline does."""
        self.epochs += 1
        name = parts.pop("pipeline", "clicks")
        table = pl.DataFrame([{**_ROW, **row} for row in rows], schema=_SCHEMA)
        if (times := parts.pop("times", None)) is not None:
            table = table.with_columns(kafka_timestamp=times)
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


def raw(letterbox: Letterbox, value: bytes, **parts: Any) -> dict[str, Any]:
    """A record that did not decode."""
    return {"kafka_topic": letterbox.topic, "kafka_value": value, **parts}


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


def test_what_did_not_decode_goes_back_as_it_was(letterbox: Letterbox) -> None:
    when = (
        pl.Series([1_700_000_000_123]).cast(pl.Datetime("ms", "UTC")).cast(pl.Datetime("us", "UTC"))
    )
    sent = raw(letterbox, b"\x00\xff{half", kafka_key=b"\xfe", kafka_timestamp=when[0])
    letterbox.turn_away(sent)
    done = letterbox.replay()
    assert (done.exit_code, done.output) == (
        0,
        f"1 row (unparsable) to topic {letterbox.topic}\n"
        "  1 row as bytes, without headers: their records are gone\nsent\n",
    )
    (record,) = letterbox.sent()
    assert (record.key, record.value) == (b"\xfe", b"\x00\xff{half")
    assert record.timestamp_ms == 1_700_000_000_123
    assert record.headers["tidegate.replayed"] is not None


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
    assert "  3 rows as they were, from the topic that they came from\nsent\n" in done.output
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
    """Deleted, never there, or another one by now: raw bytes go, columns only if told so."""
    named = letterbox.receive(b'{"user":"ann","at":1}', b"{half", b'{"user":"bob","at":2}', None)
    letterbox.server.delete_records(letterbox.topic, {0: named[1]["kafka_offset"] + 1})
    rows = [
        {"user": "ann", "at": 1, **named[0]},
        {**named[1], "kafka_value": b"{half"},
        {"user": "cid", "at": 3, **named[2], "kafka_key": b"of another"},
        {**named[3], "kafka_timestamp": None},
    ]
    letterbox.turn_away(*rows)
    done = letterbox.replay()
    assert done.output.splitlines()[1:] == [
        "  1 row as bytes, without headers: their records are gone",
        "1 row cannot be sent: rows of NULLs whose records are gone, and may have been tombstones",
        "2 rows cannot be sent: rows whose records are gone: --rebuilt sends what their columns "
        "tell",
        "sent",
    ]
    assert "2 rows rebuilt from columns" in letterbox.replay("--rebuilt").output
    sent = [(each.key, each.value) for each in letterbox.sent() if "x" not in each.headers]
    assert sorted(sent) == [
        (b"k0", b'{"user":"ann","at":1}'),
        (b"k1", b"{half"),
        (b"of another", b'{"user":"cid","at":3}'),
    ]


def test_a_record_of_which_several_rows_were_turned_away_is_sent_once(
    letterbox: Letterbox,
) -> None:
    (named,) = letterbox.receive(b'{"user":"ann","at":[1,2,3]}')
    letterbox.turn_away(*[{"user": "ann", **named, "reason": "late"}] * 2)
    letterbox.turn_away({"user": "ann", **named, "reason": "sealed"})
    done = letterbox.replay("--reason", "late")
    assert "1 row (late) to topic" in done.output
    assert "1 row come with the record of another, which is sent once" in done.output
    assert "there is nothing to send" in letterbox.replay().output
    assert len(letterbox.sent()) == 2


PLACE = ("kafka_topic", "kafka_partition", "kafka_offset")


@pytest.mark.parametrize("more", [(), ("--now",)], ids=["", "now"])
@pytest.mark.parametrize("time_ms", [1_700_000_000_123, 1_767_225_600_001_000])
def test_a_record_whose_letters_have_no_time_is_sent_once(
    letterbox: Letterbox, time_ms: int, more: tuple[str, ...]
) -> None:
    """A transform that keeps the place of records and nothing else of them."""
    topic = letterbox.server.new_topic(config={"message.timestamp.after.max.ms": f"{2**63 - 1}"})
    letterbox.reads_also(topic)
    letterbox.server.produce(topic, [b'{"user":"ann"}'], timestamps_ms=[time_ms])
    row = {**dict(zip(PLACE, (topic, 0, 0), strict=True)), "user": "ann"}
    letterbox.turn_away({**row, "reason": "late"}, leave_out=("kafka_timestamp", "kafka_key"))
    letterbox.turn_away({**row, "reason": "sealed"}, leave_out=("kafka_timestamp", "kafka_key"))
    assert "1 row (late) to topic" in letterbox.replay("--reason", "late", *more).output
    again = letterbox.replay(*more).output
    assert "1 row come with the record of another, which is sent once" in again
    assert "there is nothing to send" in again
    assert len(letterbox.sent(topic)) == 2


@pytest.mark.parametrize("more", [(), ("--now",)], ids=["", "now"])
def test_a_record_that_is_younger_than_a_letter_is_another(
    letterbox: Letterbox, more: tuple[str, ...]
) -> None:
    """The topic was made anew: at the place of one that was sent there is one that was not."""
    topic = letterbox.server.new_topic()
    letterbox.reads_also(topic)
    row = {**dict(zip(PLACE, (topic, 0, 0), strict=True)), "user": "ann"}
    letterbox.server.produce(topic, [b"old"])
    letterbox.turn_away({**row, "reason": "late"}, leave_out=("kafka_timestamp", "kafka_key"))
    assert letterbox.replay().exit_code == 0
    letterbox.server.delete_topic(topic)
    opened(letterbox.server, topic).prepare(pl.Schema(_SCHEMA))
    letterbox.server.produce(topic, [b"new"])
    letterbox.turn_away({**row, "reason": "late"}, leave_out=("kafka_timestamp", "kafka_key"))
    assert "1 row (late) to topic" in letterbox.replay(*more).output
    assert [each.value for each in letterbox.sent(topic)] == [b"new", b"new"]


def test_times_beyond_the_year_9999_do_not_keep_rows_from_being_sent(
    letterbox: Letterbox,
) -> None:
    """Microseconds, and nanoseconds, which no row can tell, in place of milliseconds."""
    topic = letterbox.server.new_topic(config={"message.timestamp.after.max.ms": f"{2**63 - 1}"})
    letterbox.reads_also(topic)
    times_ms = [1_767_225_600_001_000, 1_767_225_600_001_000_000, -5_000]
    letterbox.server.produce(topic, [b"us", b"ns", b"before"], timestamps_ms=times_ms)
    told_us = pl.Series([times_ms[0] * 1000, None, times_ms[2] * 1000])
    rows = [dict(zip(PLACE, (topic, 0, offset), strict=True)) for offset in range(3)]
    letterbox.turn_away(*rows, times=told_us.cast(pl.Datetime("us", "UTC")))
    done = letterbox.replay("--to-topic", letterbox.topic)
    why = f"times that message.timestamp.after.max.ms of topic {letterbox.topic} refuses"
    assert f"2 rows cannot be sent: {why}: --now sends them" in done.output
    assert letterbox.replay("--to-topic", letterbox.topic, "--now").exit_code == 0
    assert {each.value for each in letterbox.sent()} == {b"us", b"ns", b"before"}
    assert "  3 rows as they were" in letterbox.replay().output
    assert sorted(each.timestamp_ms for each in letterbox.sent(topic)) == sorted(times_ms * 2)


def test_a_row_that_names_no_record_goes_back_as_json_of_its_payload_if_told_so(
    letterbox: Letterbox,
) -> None:
    row = {"user": "naïve ☃", "at": None, "kafka_topic": letterbox.topic, "kafka_key": b"k"}
    letterbox.turn_away({**row, "reason": "no_event_time"})
    refused = letterbox.replay()
    assert "that do not name their record: --rebuilt sends what" in refused.output
    done = letterbox.replay("--rebuilt")
    assert "1 row rebuilt from columns" in done.output
    (record,) = letterbox.sent()
    assert record.key == b"k"
    assert record.value == '{"user":"naïve ☃","at":null}'.encode()


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


def test_each_replay_renews_all_that_is_remembered(
    tmp_path: Path, kafka_server: KafkaServer
) -> None:
    """Of other reasons too, if there is nothing to send, and if nothing can be."""
    made = Letterbox(tmp_path, kafka_server, dead_partitions=1)
    made.turn_away(raw(made, b"1"), {"user": "ann"}, raw(made, b"2"))
    assert made.replay().exit_code == 0
    assert commits(made) == {("unparsable", 0): [1]}
    made.turn_away(raw(made, b"3", reason="future"))
    assert made.replay("--reason", "future").exit_code == 0
    assert commits(made) == {("unparsable", 0): [1, 1], ("future", 0): [5]}
    assert "there is nothing to send" in made.replay().output
    assert commits(made) == {("unparsable", 0): [1] * 3, ("future", 0): [5] * 2}
    assert "found no topic gone" in made.replay("--to-topic", "gone").output
    assert commits(made) == {("unparsable", 0): [1] * 4, ("future", 0): [5] * 3}
    assert "3 rows were sent before" in made.replay().output


def kill_in_second_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with Ctrl-C, of a replay that sends four letters in one; those behind it live."""
    monkeypatch.setattr("tidegate.cli.dlq_replaying._AT_ONCE", 4)
    marked = Marks.move
    calls: list[int] = []

    def killed(self: Marks, *arguments: Any) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        marked(self, *arguments)

    monkeypatch.setattr(Marks, "move", killed)


def test_a_replay_that_is_killed_goes_on_where_it_was(
    letterbox: Letterbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed in its second transaction: nothing comes twice, and nothing is lost."""
    letterbox.turn_away(*(raw(letterbox, b"%d" % n) for n in range(10)))
    kill_in_second_transaction(monkeypatch)
    assert letterbox.replay().exit_code == 130
    assert len(letterbox.sent()) == 4
    assert letterbox.replay().exit_code == 0
    assert sorted(each.value or b"" for each in letterbox.sent()) == [b"%d" % n for n in range(10)]


def test_few_letters_that_are_long_are_held_at_once(
    tmp_path: Path, kafka_server: KafkaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Letterbox(tmp_path, kafka_server, dead_partitions=1)
    made.turn_away(*(raw(made, b"x" * each) for each in (10, 10, 3_000, 10, 1_500)))
    monkeypatch.setattr("tidegate.cli.dlq_replaying._AT_ONCE_BYTES", 4_000)
    with Replay.opened(load_pipeline(made.file).pipeline, "rejected", Terms()) as opened_:
        held = [*opened_.batches(plan_of(opened_, None).ends)]
        assert [[each and each.offset for each in some] for some in held] == [[0, 1], [2], [3, 4]]
    assert made.replay().exit_code == 0
    assert len(made.sent()) == 5


def test_what_cannot_be_sent_is_never_taken_for_sent(
    tmp_path: Path, kafka_server: KafkaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that need `--rebuilt` between others that do not, and a replay that is killed."""
    made = Letterbox(tmp_path, kafka_server, dead_partitions=1)
    for nth in range(3):
        made.turn_away({"user": f"row{nth}"}, *[raw(made, b"raw%d%d" % (nth, n)) for n in range(2)])
    kill_in_second_transaction(monkeypatch)
    assert made.replay().exit_code == 130
    assert len(made.sent()) == 2
    again = made.replay()
    assert "4 rows (unparsable) to topic" in again.output
    assert "3 rows cannot be sent: rows that do not say their topic" in again.output
    last = made.replay("--to-topic", made.topic, "--rebuilt")
    assert "3 rows (unparsable) to topic" in last.output
    assert "6 rows were sent before" in last.output
    assert "9 rows were sent before" in made.replay("--to-topic", made.topic, "--rebuilt").output
    found = [(each.value or b"").decode() for each in made.sent()]
    rows = [f'{{"user":"row{n}","at":null}}' for n in range(3)]
    assert sorted(found) == sorted([*rows, *(f"raw{n}{m}" for n in range(3) for m in range(2))])


def test_of_two_replays_at_once_the_first_is_fenced(letterbox: Letterbox) -> None:
    letterbox.turn_away(*(raw(letterbox, b"%d" % n) for n in range(3)))
    with Replay.opened(load_pipeline(letterbox.file).pipeline, "rejected", Terms()) as first:
        plan = plan_of(first, None)
        assert letterbox.replay().exit_code == 0
        with pytest.raises(LostLease):
            first.send(plan)
    assert len(letterbox.sent()) == 3


def test_rows_go_to_another_topic_if_told_so(letterbox: Letterbox) -> None:
    other = letterbox.server.new_topic()
    letterbox.turn_away(raw(letterbox, b"1"), {"user": "ann", "reason": "no_event_time"})
    assert letterbox.replay("--to-topic", other, "--rebuilt").exit_code == 0
    assert len(letterbox.sent(other)) == 2
    assert letterbox.sent() == []


def test_what_was_sent_elsewhere_can_still_go_back(letterbox: Letterbox) -> None:
    other = letterbox.server.new_topic()
    letterbox.turn_away(raw(letterbox, b"1"))
    assert letterbox.replay("--to-topic", other).exit_code == 0
    assert "1 row (unparsable) to topic" in letterbox.replay().output
    assert "1 row were sent before" in letterbox.replay("--to-topic", letterbox.topic).output
    letterbox.turn_away(raw(letterbox, b"2"))
    assert letterbox.replay().exit_code == 0
    last = letterbox.replay("--to-topic", other).output
    assert "1 row that went back to their own topic before" in last
    assert len(letterbox.sent()) == len(letterbox.sent(other)) == 2


def test_times_that_a_topic_refuses_do_not_keep_others_from_being_sent(
    letterbox: Letterbox,
) -> None:
    picky = letterbox.server.new_topic(config={"message.timestamp.before.max.ms": "3600000"})
    old, new = datetime.fromtimestamp(0, UTC), datetime.now(UTC)
    letterbox.turn_away(
        raw(letterbox, b"old", kafka_timestamp=old), raw(letterbox, b"new", kafka_timestamp=new)
    )
    done = letterbox.replay("--to-topic", picky)
    why = f"times that message.timestamp.before.max.ms of topic {picky} refuses"
    assert f"1 row cannot be sent: {why}: --now sends them with the time of now" in done.output
    assert [each.value for each in letterbox.sent(picky)] == [b"new"]
    assert letterbox.replay("--to-topic", picky, "--now").exit_code == 0
    assert [each.value for each in letterbox.sent(picky)] == [b"new", b"old"]
    assert letterbox.replay().exit_code == 0
    assert min(each.timestamp_ms for each in letterbox.sent()) == 1  # 0 would be now


def test_records_that_a_topic_is_too_small_for_do_not_keep_others_from_being_sent(
    letterbox: Letterbox,
) -> None:
    """Whatever is told to be short enough is taken, up to the last bytes around it."""
    small = letterbox.server.new_topic(config={"max.message.bytes": "20000"})
    lengths = [5, *range(19_800, 20_000, 10), 30_000]
    letterbox.turn_away(*(raw(letterbox, secrets.token_bytes(each)) for each in lengths))
    done = letterbox.replay("--to-topic", small)
    assert (done.exit_code, done.output.splitlines()[-1]) == (0, "sent"), done.output
    sent = sorted(len(each.value or b"") for each in letterbox.sent(small))
    assert sent == lengths[: len(sent)]
    assert {5, 19_800} <= {*sent} < {*lengths}
    why = f"records that max.message.bytes of topic {small} refuses, of more than 20,000 bytes"
    left = len(lengths) - len(sent)
    assert f"{left} rows cannot be sent: {why}: raise it to send them" in done.output
    assert letterbox.replay().exit_code == 0
    assert sorted(len(each.value or b"") for each in letterbox.sent()) == lengths


def test_records_that_the_client_is_too_small_for_do_not_keep_others_from_being_sent(
    letterbox: Letterbox,
) -> None:
    of_rejected = f'topic = "{letterbox.dead["rejected"]}"'
    client = 'client = { "message.max.bytes" = 20_000 }'
    toml = letterbox.file.read_text().replace(of_rejected, f"{of_rejected}, {client}")
    letterbox.file.write_text(toml)
    letterbox.turn_away(raw(letterbox, b"short"), raw(letterbox, b"x" * 30_000))
    done = letterbox.replay()
    why = "records that client.'message.max.bytes' refuses, of more than 20,000 bytes"
    assert f"1 row cannot be sent: {why}: raise it to send them" in done.output
    assert [each.value for each in letterbox.sent()] == [b"short"]


def test_records_without_a_key_do_not_keep_others_from_a_compacted_topic(
    letterbox: Letterbox,
) -> None:
    table = letterbox.server.new_topic(config={"cleanup.policy": "compact,delete"})
    letterbox.turn_away(
        raw(letterbox, b"keyed", kafka_key=b"k"),
        raw(letterbox, b"by nothing", kafka_key=b""),
        raw(letterbox, b"not keyed"),
    )
    done = letterbox.replay("--to-topic", table)
    why = f"records without a key, which cleanup.policy=compact,delete of topic {table} refuses"
    assert f"1 row cannot be sent: {why}: --to-topic sends them elsewhere" in done.output
    assert {each.value for each in letterbox.sent(table)} == {b"keyed", b"by nothing"}
    assert letterbox.replay().exit_code == 0
    assert len(letterbox.sent()) == 3


def test_topics_of_long_and_of_short_records_get_theirs_back(letterbox: Letterbox) -> None:
    """What was in a topic fits there again, alone and with others that are sent beside it."""
    long = letterbox.server.new_topic(config={"max.message.bytes": "3000000"})
    short = letterbox.server.new_topic(config={"max.message.bytes": "20000"})
    (named,) = letterbox.receive(b"x" * 2_000_000, topic=long)
    bytes_ = [secrets.token_bytes(200) for _ in range(300)]
    letterbox.turn_away(named, *(raw(letterbox, each, kafka_topic=short) for each in bytes_))
    refused = letterbox.replay().output.splitlines()
    assert f"300 rows cannot be sent: rows of topic {short}, which no source reads: " in "".join(
        line for line in refused if short in line
    )
    assert refused[-1] == "there is nothing to send"
    done = letterbox.replay("--allow-topic", long, "--allow-topic", short)
    assert (done.exit_code, done.output.splitlines()[-1]) == (0, "sent"), done.output
    assert [len(each.value or b"") for each in letterbox.sent(long)] == [2_000_000] * 2
    assert sorted(each.value or b"" for each in letterbox.sent(short)) == sorted(bytes_)


def test_what_cannot_be_meant_is_refused(letterbox: Letterbox) -> None:
    letterbox.turn_away(raw(letterbox, b"1"))
    ours = {"tidegate.pipeline": b"clicks", "tidegate.channel": b"rejected"}
    odd: list[bytes | None] = [
        b"[1,2]",
        b'{"kafka_key":5,"reason":"odd"}',
        b'{"kafka_timestamp":17,"reason":"odd"}',
        b'{"kafka_value":"=","reason":"odd"}',
    ]
    letterbox.server.produce(letterbox.dead["rejected"], odd, headers=[ours] * 4)
    wrong = letterbox.replay("--reason", "unparseable")
    assert wrong.exit_code == 2
    assert "did you mean 'unparsable'? there is odd and unparsable" in wrong.output
    own = letterbox.replay("--to-topic", letterbox.dead["rejected"])
    assert own.exit_code == 2
    assert "expected another topic than that of the dead letters" in own.output
    assert letterbox.sent() == []
    done = letterbox.replay()
    assert done.exit_code == 0
    assert "1 row cannot be sent: no row that was turned away" in done.output
    assert "rows that are not as they were written: 5 is not base64" in done.output
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


def test_rows_of_avro_that_decoded_are_not_sent(tmp_path: Path, kafka_server: KafkaServer) -> None:
    made = Letterbox(tmp_path, kafka_server, value_format="avro", schema="x.avsc")
    decoded = {"user": "ann", "kafka_topic": made.topic, "reason": "no_event_time"}
    made.turn_away(raw(made, b"raw"), decoded)
    done = made.replay()
    assert "1 row cannot be sent: rows of Avro that decoded" in done.output
    assert [each.value for each in made.sent()] == [b"raw"]
