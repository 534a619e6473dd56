"""`tidegate dlq replay`: from a dead-letter topic back to the topics of sources.

    a pass through the topic -> [plan_of] what would be sent -> another pass -> [send] it

Letters are sent some at a time, in transactions that also say which were sent. So a replay that is
killed, or run again, sends nothing twice; and one for a single reason leaves all others for later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TypeAlias

from tidegate.cli.dlq_letters import DeadLetter, Letter, dead_letter
from tidegate.cli.dlq_listing import channel_of
from tidegate.cli.dlq_marks import Marks, Progress, Sent
from tidegate.cli.dlq_passing import SENT_BEFORE, Fate, Passage
from tidegate.cli.dlq_plan import ReplayPlan
from tidegate.cli.dlq_reading import records_of_channel, some_at_a_time
from tidegate.cli.dlq_resolving import Resolver, Terms
from tidegate.cli.dlq_sources import Sources, check_cluster
from tidegate.cli.telling import plain
from tidegate.errors import ConfigError, Problem
from tidegate.kafka.asking import Partition, find_topics
from tidegate.kafka.broker import Broker
from tidegate.pipeline import Join, Pipeline, Source
from tidegate.pipeline.masking import listed, shown
from tidegate.pipeline.wording import did_you_mean
from tidegate.targets.kafka_options import KafkaTargetOptions, place_of
from tidegate.targets.kafka_reading import ends_of
from tidegate.targets.kafka_transactions import Headers, Transactions
from tidegate.targets.names import safe_name

_AT_ONCE: Final = 1_000
_AT_ONCE_BYTES: Final = 32 * 2**20
"""Letters in a transaction, and how long they are together: topics for them take some of 8 MiB."""
_ANY_LENGTH: Final = 1_000_000_000
_TOGETHER_BYTES: Final = 16_384
"""Records were in a topic before, however long they are; and few are sent together, as other
clients do: topics may take short ones only.
"""
_NO_ROW: Final = "no row that was turned away"

_Progress: TypeAlias = dict[tuple[str, Partition], Progress]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A dead-letter topic that is about to be sent back."""

    pipeline: Pipeline
    channel: str
    broker: Broker
    topic: str
    marks: Marks
    resolver: Resolver

    @classmethod
    @contextmanager
    def opened(cls, pipeline: Pipeline, channel: str, terms: Terms) -> Iterator[Replay]:
        """Whoever replays the same channel meanwhile is fenced: nothing is ever sent twice."""
        target = channel_of(pipeline, channel)
        sources = [each for each in pipeline.sources if each.format == "kafka"]
        problems = [*_problems(pipeline, channel, sources)]
        if problems:
            raise ConfigError(problems)
        options = KafkaTargetOptions.of_target(target, channel)
        _check_destination(options.topic, terms.to_topic)
        broker = options.broker(place_of(channel))
        check_cluster(broker, sources, channel)
        with (
            Resolver.opened(
                broker,
                options.topic,
                Sources(sources),
                terms,
                sided=has_sides(pipeline, channel),
            ) as resolver,
            _transactions(broker, pipeline.name, channel) as transactions,
        ):
            places = [(options.topic, each) for each in range(_partitions(broker, options.topic))]
            yield cls(
                pipeline=pipeline,
                channel=channel,
                broker=broker,
                topic=options.topic,
                marks=Marks(transactions, places, terms.to_topic, {}),
                resolver=resolver,
            )

    def batches(self, ends: Mapping[Partition, int]) -> Iterator[Sequence[DeadLetter | None]]:
        """The letters of this pipeline and channel, some at a time; None for what is no row."""
        found = records_of_channel(self.broker, self.topic, self.pipeline.name, self.channel, ends)
        for some in some_at_a_time(found, _AT_ONCE, _AT_ONCE_BYTES):
            yield [dead_letter(each) for each in some]

    def passage(self, before: dict[bytes, int]) -> Passage:
        """A pass through the topic; see `Passage`."""
        return Passage(self.topic, self.marks, self.resolver, before)

    def send(self, plan: ReplayPlan) -> int:
        """Send what was planned, some at a time; how many that were."""
        passage, progress = self.passage(plan.before), _Progress()
        count = 0
        for letters in self.batches(plan.ends):
            rows = [each for each in letters if each is not None]
            count += self._send(passage.fates(rows, plan.reason), progress)
        return count

    def _send(self, fates: Sequence[Fate], progress: _Progress) -> int:
        """Send letters, and mark in the same transaction that they were sent."""
        moved = self._moved(fates, progress)
        letters = [each.outcome for each in fates if isinstance(each.outcome, Letter)]
        if moved:
            with self.marks.transactions.transaction():
                for each in letters:
                    self._send_one(each)
                for reason, sent in moved.items():
                    self.marks.move(reason, sent)
        return len(letters)

    def _moved(
        self, fates: Sequence[Fate], progress: _Progress
    ) -> dict[str, dict[Partition, Sent]]:
        """What is to be marked by reason, where letters are sent with these."""
        moved: dict[str, dict[Partition, Sent]] = {}
        for each in fates:
            reason, partition = each.dead.reason, (self.topic, each.dead.partition)
            key = reason, partition
            if key not in progress:
                progress[key] = Progress(self.marks.of(reason, partition))
            progress[key].add(each.dead.offset, sent=each.sent)
            if each.sent and each.outcome != SENT_BEFORE:
                moved.setdefault(reason, {})[partition] = Sent()
        return {
            reason: {each: progress[reason, each].now() for each in partitions}
            for reason, partitions in moved.items()
        }

    def _send_one(self, letter: Letter) -> None:
        record = letter.record
        said: Headers = [*record.headers]
        self.marks.transactions.send_one(
            letter.topic, record.key, record.value, said, _sending_ms(letter.sent_ms)
        )


def _sending_ms(timestamp_ms: int | None) -> int:
    """As librdkafka takes it, for whom 0 is now: the first moment of 1970 is told by the second."""
    return 0 if timestamp_ms is None else timestamp_ms or 1


def has_sides(pipeline: Pipeline, channel: str) -> bool:
    """Whether rows of a channel say their side: late ones of a join do, rejected ones do not."""
    operators = pipeline.operators
    return any(isinstance(each, Join) and each.late_channel == channel for each in operators)


def plan_of(replay: Replay, reason: str | None) -> ReplayPlan:
    """What is to be sent, of all reasons or of one; the topics that it goes to must be there.

    What was sent before is remembered anew, whatever becomes of this.
    """
    plan, reasons = _counted(replay, reason)
    replay.marks.renew()
    _check_reason(reason, reasons)
    _check_topics(replay.broker, {topic for _, topic in plan.letters})
    return plan


def _counted(replay: Replay, reason: str | None) -> tuple[ReplayPlan, set[str]]:
    """What is to be sent, and the reasons that letters have."""
    ends = ends_of(replay.broker, replay.topic)
    plan = ReplayPlan(channel=replay.channel, reason=reason, ends=ends)
    passage, reasons = replay.passage(plan.before), set[str]()
    for letters in replay.batches(ends):
        rows = [each for each in letters if each is not None]
        plan.unsendable[_NO_ROW] += len(letters) - len(rows)
        reasons |= {each.reason for each in rows}
        for fate in passage.fates(rows, reason):
            partition = (replay.topic, fate.dead.partition)
            plan.add(fate, elsewhere=replay.marks.elsewhere(fate.dead, partition))
    plan.unsendable += Counter()  # without what is counted 0 times
    return plan, reasons


def _problems(pipeline: Pipeline, channel: str, sources: Sequence[Source]) -> Iterator[Problem]:
    """Records can go from one topic to another."""
    target = pipeline.channels[channel]
    if target.format != "kafka":
        found = f"{channel!r}, which goes to {target.format}"
        hint = "read the rows there, and put them back in the way that they came"
        yield Problem("--channel", found, "a channel that goes to a topic of Kafka", hint)
    elif target.options.get("value_format", "json") != "json":
        found = shown(target.options["value_format"])
        yield Problem(f"{channel}.options.value_format", found, "'json', to be sent back")
    if not sources:
        formats = listed([f"{each.name!r} ({each.format})" for each in pipeline.sources], "and")
        yield Problem("sources", formats, "a source of Kafka, to which rows can go back")


def _check_destination(topic: str, to_topic: str | None) -> None:
    if to_topic == topic:
        hint = "leave it out: rows go to the topic that they came from"
        expected = "another topic than that of the dead letters"
        raise ConfigError([Problem("--to-topic", repr(to_topic), expected, hint)])


def _check_reason(reason: str | None, reasons: set[str]) -> None:
    """A reason that no letter has is a mistake, unless there are no letters."""
    if reason is None or not reasons or reason in reasons:
        return
    there = [plain(each) for each in sorted(reasons)]
    hint = " ".join([did_you_mean(reason, there), f"there is {listed(there, 'and')}"]).strip()
    raise ConfigError([Problem("--reason", repr(reason), "a reason that rows have", hint)])


def _check_topics(broker: Broker, topics: set[str]) -> None:
    missing = topics - find_topics(broker, sorted(topics)).keys() if topics else set()
    if missing:
        found = f"no topic {listed(sorted(missing), 'and')} in {broker.place}"
        hint = "create it, or --to-topic sends rows to another one"
        raise ConfigError([Problem("", found, "the topics that rows came from", hint)])


def _partitions(broker: Broker, topic: str) -> int:
    found = find_topics(broker, [topic]).get(topic)
    return found.partitions if found is not None else 0


@contextmanager
def _transactions(broker: Broker, pipeline: str, channel: str) -> Iterator[Transactions]:
    names = f"tidegate.{safe_name(pipeline)}/{safe_name(channel)}/replay"
    transactions = Transactions(broker, names, _ANY_LENGTH, _TOGETHER_BYTES)
    try:
        yield transactions
    finally:
        transactions.close()
