"""A real Kafka for tests, benchmarks and faults: started, restarted and killed by them.

    with running_broker() as server:
        topic = server.new_topic(partitions=3)
        server.produce(topic, [b'{"n": 1}'])
        Source(format="kafka", options={"bootstrap_servers": server.servers, "topic": topic})

One process, broker and controller, on the loopback. It belongs to the process that started it and
ends with it, however that ends.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.kafka_java import format_storage, java
from tests.kafka_markers import ending
from tests.kafka_security import Security, secured
from tests.ports import free_port
from tidegate.kafka.keeping import close_idle

_PATIENCE_S: Final = 120.0
_MISSED: Final = (None, KafkaError._TIMED_OUT, KafkaError.INVALID_REPLICATION_FACTOR)
"""What is said, or not, where the controller has not heard of the broker for a while."""
_ANY: Final[Any] = None
_ALL_RIGHTS: Final = AclBindingFilter(
    *(ResourceType.ANY, _ANY, ResourcePatternType.ANY, _ANY, _ANY),
    *(AclOperation.ANY, AclPermissionType.ANY),
)
_SETTINGS: Final = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "CLIENTS",
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "log.retention.ms": "-1",  # events of 1970 are as good as any; topics may say otherwise
    "log.retention.check.interval.ms": "1000",
    "broker.session.timeout.ms": "4000",  # so long is one waited for that was killed
    "broker.heartbeat.interval.ms": "300",
    "log.initial.task.delay.ms": "100",
    "log.cleaner.dedupe.buffer.size": str(4 * 2**20),
    "log.cleaner.backoff.ms": "500",
    "num.network.threads": "1",
    "num.io.threads": "2",
    "num.replica.fetchers": "1",
    "background.threads": "2",
    "group.coordinator.threads": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    # rights can be taken away; who has none of their own may do everything
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
# Whoever started it holds the other end of its input: when that is closed, so is the broker.
_UNTIL_LEFT_ALONE: Final = (
    '"$@" & server=$!; echo $server > pid; '
    "(read -r _; kill -KILL $server 2>/dev/null) <&0 & wait $server"
)


@dataclass(frozen=True, slots=True)
class Record:
    """A record as it is in the log."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: dict[str, bytes | None]
    timestamp_ms: int


@dataclass
class KafkaServer:
    """A broker of our own, on the loopback, in a folder of its own."""

    folder: Path
    settings: Mapping[str, str] = field(repr=False)
    client: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The properties of librdkafka that a client needs besides the address."""
    java_options: Sequence[str] = ()
    _ports: tuple[int, int] | None = field(default=None, init=False)
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @classmethod
    def at(cls, servers: str) -> KafkaServer:
        """A broker that was started elsewhere, to look at what it has."""
        found = cls(Path(), {})
        found._ports = (int(servers.rpartition(":")[2]), 0)
        return found

    @property
    def servers(self) -> str:
        """Where clients find it; the same after a restart."""
        assert self._ports is not None, "not started"
        return f"127.0.0.1:{self._ports[0]}"

    @property
    def pid(self) -> int:
        """The JVM."""
        return int((self.folder / "pid").read_text())

    @property
    def running(self) -> bool:
        """Whether it was started, and has not ended since."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it, on the port that it had; when this returns, each partition has a leader."""
        for _ in range(3):
            if self._tried():
                return
        raise RuntimeError(f"Kafka did not start:\n{self.log()}")

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Stop it: in good order, or with SIGKILL as a crash."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError, FileNotFoundError):
            if process.poll() is None:
                with self._no_transaction_ending():
                    os.kill(self.pid, how)
                process.wait(_PATIENCE_S)
        assert process.stdin is not None
        process.stdin.close()
        process.wait(_PATIENCE_S)

    def restart(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Cut all connections, and come back on the same port with all records."""
        self.stop(how)
        self.start()

    def log(self) -> str:
        """What the broker said."""
        return (self.folder / "log").read_text(errors="replace")

    def new_topic(
        self,
        partitions: int = 1,
        config: Mapping[str, str] | None = None,
        *,
        name: str | None = None,
    ) -> str:
        """A new topic, ready to be used; its name."""
        name = name or f"t{secrets.token_hex(6)}"
        new = NewTopic(name, partitions, 1, config=dict(config or {}))
        self._ask(lambda admin: admin.create_topics([new]), before=KafkaError.TOPIC_ALREADY_EXISTS)
        self._until(lambda led: led.get(name) == partitions)
        return name

    def add_partitions(self, topic: str, total: int) -> None:
        """Make it `total` partitions, ready to be used."""
        self._ask(lambda admin: admin.create_partitions([NewPartitions(topic, total)]))
        self._until(lambda led: led.get(topic) == total)

    def delete_topic(self, topic: str) -> None:
        """Delete it; when this returns, it is unknown."""
        self._ask(
            lambda admin: admin.delete_topics([topic]), before=KafkaError.UNKNOWN_TOPIC_OR_PART
        )
        self._until(lambda led: topic not in led)

    def delete_records(self, topic: str, before: Mapping[int, int]) -> None:
        """Delete, by partition, the records before an offset, as retention does."""
        offsets = [TopicPartition(topic, *each) for each in before.items()]
        self._ask(lambda admin: admin.delete_records(offsets))

    def set_rights(self, bindings: Sequence[AclBinding]) -> None:
        """Allow and forbid; when this returns, it counts."""
        admin, end = AdminClient(self._config()), time.monotonic() + _PATIENCE_S
        for future in admin.create_acls([*bindings]).values():
            future.result(_PATIENCE_S)
        while not {*bindings} <= {*admin.describe_acls(_ALL_RIGHTS).result(_PATIENCE_S)}:
            assert time.monotonic() < end, f"rights that do not count\n{self.log()}"
            time.sleep(0.01)

    def produce(
        self,
        topic: str,
        values: Sequence[bytes | None],
        *,
        keys: Sequence[bytes | None] | None = None,
        partition: int | None = None,
        timestamps_ms: Sequence[int] | None = None,
        headers: Sequence[Mapping[str, bytes | None]] | None = None,
    ) -> None:
        """Write records, in order where they go to one partition; when this returns, they are in.

        Without a partition, keys decide where they go, as they do for Java's clients.
        """
        _produce(
            Producer(self._config()),
            topic,
            _messages(values, keys, partition, timestamps_ms, headers),
        )

    def produce_in_transaction(
        self,
        topic: str,
        values: Sequence[bytes | None],
        commit: bool,
        *,
        keys: Sequence[bytes | None] | None = None,
        partition: int | None = None,
        timestamps_ms: Sequence[int] | None = None,
        headers: Sequence[Mapping[str, bytes | None]] | None = None,
    ) -> None:
        """As `produce`, in a transaction of its own, which is committed, or aborted at its end."""
        with self.transaction(commit) as producer:
            _produce(producer, topic, _messages(values, keys, partition, timestamps_ms, headers))

    @contextmanager
    def transaction(self, commit: bool) -> Iterator[Producer]:
        """A producer with an open transaction, which ends with this block for all who read."""
        config = self._config({"transactional.id": f"x{secrets.token_hex(6)}"})
        producer = Producer(config)
        producer.init_transactions(_PATIENCE_S)
        producer.begin_transaction()
        yield producer
        producer.flush(_PATIENCE_S)
        (producer.commit_transaction if commit else producer.abort_transaction)(_PATIENCE_S)
        # markers are written later: the next of this name has to wait for them
        Producer(config).init_transactions(_PATIENCE_S)

    def records(self, topic: str, *, committed: bool = True) -> list[Record]:
        """All records, from the beginning to the end, by partition and offset."""
        isolation = "read_committed" if committed else "read_uncommitted"
        reading = {
            "group.id": "tests",
            "enable.auto.commit": "false",
            "enable.partition.eof": "true",
            "isolation.level": isolation,
            "fetch.wait.max.ms": "10",
            "auto.offset.reset": "earliest",
        }
        consumer = Consumer(self._config(reading))
        try:
            partitions = self._partitions()[topic]
            places = [TopicPartition(topic, nth) for nth in range(partitions)]
            for place in places:  # librdkafka finds the beginning too, but half a second later
                place.offset = consumer.get_watermark_offsets(place, _PATIENCE_S)[0]
            consumer.assign(places)
            found = [*_to_the_end(consumer, partitions)]
        finally:
            consumer.close()
        return sorted(found, key=lambda record: (record.partition, record.offset))

    @contextmanager
    def _no_transaction_ending(self) -> Iterator[None]:
        """Hold it still at a moment at which it may die: see `tests.kafka_markers`."""
        end = time.monotonic() + _PATIENCE_S
        os.kill(self.pid, signal.SIGSTOP)
        while ending(self.folder):
            os.kill(self.pid, signal.SIGCONT)
            assert time.monotonic() < end, f"transactions do not end\n{self.log()}"
            time.sleep(0.005)
            os.kill(self.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGCONT)

    def _config(self, more: Mapping[str, str] | None = None) -> dict[str, Any]:
        # what fails is raised: that a broker is stopped need not be said on the way
        return {"bootstrap.servers": self.servers, "log_level": 0, **self.client, **(more or {})}

    def _ask(
        self, ask: Callable[[AdminClient], Mapping[Any, Any]], *, before: int | None = None
    ) -> None:
        """Ask until it is done; `before` is what it says of what an earlier question has done.

        On a loaded machine the controller misses the broker for a while, and has no place for
        anything then.
        """
        end, asked = time.monotonic() + 2 * _PATIENCE_S, 0
        while True:
            try:
                asked, admin = asked + 1, AdminClient(self._config())
                for future in ask(admin).values():
                    future.result(_PATIENCE_S / 3)
                return
            except (KafkaException, TimeoutError) as error:
                code = error.args[0].code() if isinstance(error, KafkaException) else None
                if asked > 1 and code == before and before is not None:
                    return
                if code not in _MISSED or time.monotonic() > end:
                    raise
            time.sleep(0.1)

    def _partitions(self) -> dict[str, int]:
        """By topic: how many of its partitions have a leader; -1 where not all have."""
        topics = AdminClient(self._config()).list_topics(timeout=_PATIENCE_S).topics
        return {
            name: len(topic.partitions)
            if topic.error is None and all(each.leader >= 0 for each in topic.partitions.values())
            else -1
            for name, topic in topics.items()
        }

    def _until(self, reached: Callable[[Mapping[str, int]], bool]) -> None:
        end = time.monotonic() + _PATIENCE_S
        while not reached(self._partitions()):
            assert time.monotonic() < end, f"not reached: {self._partitions()}\n{self.log()}"
            time.sleep(0.02)

    def _tried(self) -> bool:
        known, self._ports = self._ports, self._ports or (free_port(), free_port())
        self._write_settings()
        if not (self.folder / "data").exists():
            format_storage(self.folder, _cluster_id())
        broker = java(["kafka.Kafka", "settings"], self.java_options)
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                ["bash", "-c", _UNTIL_LEFT_ALONE, "server", *broker],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,  # Ctrl-C is for the tests
            )
        if self._answers(self._process):
            return True
        self.stop(signal.SIGKILL)
        self._ports = known
        return False

    def _write_settings(self) -> None:
        assert self._ports is not None
        clients, controller = (f"127.0.0.1:{port}" for port in self._ports)
        settings = {
            **_SETTINGS,
            "log.dirs": str(self.folder / "data"),
            "controller.quorum.voters": f"1@{controller}",
            "listeners": f"CLIENTS://{clients},CONTROLLER://{controller}",
            **self.settings,
        }
        lines = [f"{name}={value}\n" for name, value in settings.items()]
        (self.folder / "settings").write_text("".join(lines))

    def _answers(self, process: subprocess.Popen[bytes]) -> bool:
        """Wait for it; False if it ends instead, as where somebody else has taken the port."""
        end, port = time.monotonic() + _PATIENCE_S, int(self.servers.split(":")[1])
        while process.poll() is None and time.monotonic() < end:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.02)
        while process.poll() is None and time.monotonic() < end:
            with suppress(KafkaException):
                if min(self._partitions().values(), default=1) >= 0:
                    return True
            time.sleep(0.02)
        return False


@contextmanager
def running_broker(
    security: Security = "plain",
    settings: Mapping[str, str] | None = None,
    java_options: Sequence[str] = (),
) -> Iterator[KafkaServer]:
    """A new broker, stopped and deleted in the end."""
    folder = Path(tempfile.mkdtemp(prefix="tidegate-kafka-"))
    sides = secured(security, folder)
    server = KafkaServer(folder, {**sides.settings, **(settings or {})}, sides.client, java_options)
    try:
        server.start()
        yield server
    finally:
        close_idle()  # else they knock for as long as this process lives
        server.stop(signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)


def _cluster_id() -> str:
    """16 bytes as Kafka writes them; one that begins with a hyphen would be taken for an option."""
    return f"t{secrets.token_urlsafe(16)[1:]}"


def _messages(
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None] | None,
    partition: int | None,
    timestamps_ms: Sequence[int] | None,
    headers: Sequence[Mapping[str, bytes | None]] | None,
) -> Iterator[dict[str, Any]]:
    """What is given for each record, and nothing for what is not."""
    columns = {"value": values, "key": keys, "timestamp": timestamps_ms, "headers": headers}
    given = {name: column for name, column in columns.items() if column is not None}
    assert {len(column) for column in given.values()} == {len(values)}, "one of each a record"
    where = {} if partition is None else {"partition": partition}
    for row in zip(*given.values(), strict=True):
        message = {**dict(zip(given, row, strict=True)), **where}
        if "headers" in message:
            message["headers"] = [*message["headers"].items()]
        yield message


def _produce(producer: Producer, topic: str, messages: Iterator[dict[str, Any]]) -> None:
    refused: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Any) -> None:
        if error is not None:
            refused.append(error)

    for message in messages:
        while True:
            try:
                producer.produce(topic, on_delivery=delivered, **message)
                break
            except BufferError:  # full: make room
                producer.poll(0.1)
    left = producer.flush(_PATIENCE_S)
    assert (left, refused) == (0, []), "not all records were delivered"


def _to_the_end(consumer: Consumer, partitions: int) -> Iterator[Record]:
    end, ended = time.monotonic() + _PATIENCE_S, set[int]()
    while len(ended) < partitions:
        assert time.monotonic() < end, f"read to the end: only partitions {ended}"
        for message in consumer.consume(10_000, 0.05):
            error = message.error()
            if error is None:
                yield _record(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(int(message.partition() or 0))
            else:
                raise KafkaException(error)


def _record(message: Any) -> Record:
    return Record(
        message.partition(),
        message.offset(),
        message.key(),
        message.value(),
        dict(message.headers() or []),
        message.timestamp()[1],
    )
