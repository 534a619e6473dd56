"""A topic of Kafka: an epoch is a transaction, which also says that the epoch is out.

    step -> [encode] in the task -> staged -> commit -> [publish] in a transaction

A large epoch is several, one after the other: each says how many rows of the epoch are out.

With `upserts` the topic is a table: records are keyed by the identity of their row, and what counts
no more gets a tombstone. A reader of committed records ends with exactly the rows of the table.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from tidegate.errors import (
    ConfigError,
    Problem,
    TidegateError,
)
from tidegate.kafka.asking import (
    Partition,
    create_topic,
    find_topics,
    first_offsets,
    group_note,
    group_offsets,
    last_offsets,
    topic_config,
)
from tidegate.kafka.broker import Broker
from tidegate.kafka.registry import (
    prefix_of,
    register,
)
from tidegate.pipeline import MAIN
from tidegate.targets.blobs import table_to_bytes
from tidegate.targets.kafka_avro import name_problems, schema_text
from tidegate.targets.kafka_letters import fitting
from tidegate.targets.kafka_options import KafkaTargetOptions, place_of
from tidegate.targets.kafka_policy import policy_of, policy_problems
from tidegate.targets.kafka_producers import (
    Claim,
    Owned,
    let_go,
    owned_by,
    refuse_other_topic,
    taken_over,
)
from tidegate.targets.kafka_reading import (
    Record,
    last_of_each_key,
    records_in,
    rows_of_avro,
    rows_of_json,
)
from tidegate.targets.kafka_rows import (
    CHANGE_HEADER,
    CHANNEL_HEADER,
    EPOCH_HEADER,
    PIPELINE_HEADER,
    SCHEMA_HEADER,
    ValueFormat,
    avro_schema_of,
    headers_of,
    keys_of,
    places_of,
    records_of,
    told_columns,
    values_of,
)
from tidegate.targets.kafka_transactions import Headers, Mark
from tidegate.targets.names import safe_name
from tidegate.targets.options import CHANGE, identity_problems, refuse
from tidegate.targets.pieces import Piece, next_piece
from tidegate.targets.protocol import (
    EpochKey,
    PartKind,
    Place,
    StagedRows,
    TargetOpening,
    WriterDefaults,
)

_AS_THE_CLUSTER: Final = -1
_PIECE_ROWS: Final = 100_000
"""Of so many rows a transaction comes to its end long before its time-out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaWriter(WriterDefaults):
    """Records are added; with `upserts` they replace and delete those of the same identity."""

    broker: Broker
    topic: str
    pipeline: str
    channel: str
    identity: tuple[str, ...] = ()
    """The columns by which rows are replaced and deleted."""
    keyed: bool = False
    """Whether records have the identity as their key."""
    upserts: bool = False
    changes: bool | None = None
    """Whether rows are changes of rows; None: those that have a column `op` are."""
    value_format: ValueFormat = "json"
    partitions: int | None = None
    replication: int | None = None
    registry: str | None = field(default=None, repr=False)
    run: str = field(default_factory=lambda: uuid.uuid4().hex, compare=False, repr=False)
    """Whoever opens the target again has another one: only the last may publish."""

    @property
    def takes_retractions(self) -> bool:
        """Rows that have a key can be deleted."""
        return self.upserts

    @property
    def one_schema(self) -> bool:
        """What `prepare` registers is the schema of all rows: no registry is asked later on."""
        return self.value_format == "avro"

    @property
    def transactional_id(self) -> str:
        """The same for every run and incarnation: who opens it last fences all others."""
        return f"tidegate.{safe_name(self.pipeline)}/{safe_name(self.channel)}"

    def check(self, identity: Sequence[str], schema: pl.Schema) -> None:
        """A topic that is there keeps what it is to keep; nothing is made."""
        problems = [*identity_problems(identity, schema)]
        if self.value_format == "avro":
            problems += name_problems(schema)
        if self.topic in find_topics(self.broker, [self.topic]):
            problems += self._policy_problems(schema)
        refuse(problems, self.channel)

    def _policy_problems(self, schema: pl.Schema) -> Iterator[Problem]:
        try:
            config = topic_config(self.broker, self.topic)
        except ConfigError:  # who may not ask for settings, may write all the same
            return
        yield from policy_problems(self.topic, config, table=self._is_table(schema))

    def prepare(self, schema: pl.Schema) -> None:
        """Make the topic where it is missing; from now on no older driver can publish."""
        if self.topic not in find_topics(self.broker, [self.topic]):
            create_topic(
                self.broker,
                self.topic,
                self.partitions or _AS_THE_CLUSTER,
                self.replication or _AS_THE_CLUSTER,
                policy_of(table=self._is_table(schema), letters=self.channel != MAIN),
            )
        if self.value_format == "avro" and self.registry is not None:
            self._registered(schema_text(self.topic, schema))
        taken_over(self._claim)

    @property
    def place(self) -> Place:
        """A table is a topic with its partitions; rows that are only added may go anywhere."""
        return owned_by(self._claim).place if self.upserts else {}

    def refuse_other_place(self, was: Place) -> None:
        """A topic made anew has not the rows of the old one; in more partitions keys move."""
        refuse_other_topic(self.broker, self.topic, was)

    @property
    def _claim(self) -> Claim:
        return Claim(
            run=self.run,
            broker=self.broker,
            pipeline=self.pipeline,
            transactional_id=self.transactional_id,
            topic=self.topic,
        )

    def _is_table(self, schema: pl.Schema) -> bool:
        """Whether rows replace each other; changes of rows never do."""
        return self.upserts and not self._are_changes(schema)

    def _are_changes(self, columns: Collection[str]) -> bool:
        return CHANGE in columns if self.changes is None else self.changes

    def encode(self, rows: pl.DataFrame) -> bytes:
        """Records, as an Arrow stream."""
        changes = self._are_changes(rows.columns)
        records = records_of(
            rows,
            told=told_columns(rows.columns, channel=self.channel, changes=changes),
            identity=self.identity if self.keyed or changes else (),
            value_format=self.value_format,
            name=self.topic,
        )
        return table_to_bytes(records)

    def publish(self, key: EpochKey, parts: Sequence[StagedRows]) -> None:
        """Send what is not out of the epoch: a transaction for each piece of it.

        Before one begins all is there that does not come from the broker.
        """
        if not any(part.rows for part in parts):
            return
        owned = owned_by(self._claim)
        out = self._rows_out(owned, key)
        if out is None:
            return
        self._owner_in(owned)  # known from now on: in a transaction nobody waits for an answer
        check = owned.refuse_other_place if self.upserts else _nothing
        check()  # sending to a topic that is gone would wait for it
        while (piece := self._read(owned, key, parts, out)) is not None:
            for kind, records in piece.tables:
                self._prefix(_schema_of(kind, records))  # asks the registry for what is not known
            with owned.transactions.transaction(check):
                self._mark(owned, key, "" if piece.last else str(piece.until))
                for kind, records in piece.tables:
                    self._send(owned, key, kind, records)
            out = piece.until

    def _read(
        self, owned: Owned, key: EpochKey, parts: Sequence[StagedRows], out: int
    ) -> Piece | None:
        try:
            return next_piece(parts, out, _PIECE_ROWS)
        except (OSError, TidegateError):  # whoever took over may have tidied up
            with owned.transactions.transaction():
                self._mark(owned, key, str(out))
                raise

    def _mark(self, owned: Owned, key: EpochKey, note: str) -> None:
        """Say in a transaction that this epoch is out; who is fenced hears it now.

        With a note, only so many rows of it are. Whose it is, is said again: what a group says, the
        cluster forgets after some days.
        """
        owned.transactions.mark(_group_of(key), {self._marked: Mark(key.epoch, note)})
        if owner := self._owner_in(owned):
            owned.transactions.mark(self._owners, owner)

    def _rows_out(self, owned: Owned, key: EpochKey) -> int | None:
        """How many rows of an epoch are out; None: all of them."""
        mark = owned.transactions.marked(_group_of(key), [self._marked]).get(self._marked)
        if mark is None or mark.offset < key.epoch:
            return 0
        return int(mark.note) if mark.offset == key.epoch and mark.note else None

    def _send(self, owned: Owned, key: EpochKey, kind: PartKind, records: pl.DataFrame) -> None:
        schema = _schema_of(kind, records)
        values: Iterable[bytes | None] = values_of(records)
        headers: Iterable[Headers] = headers_of(records, self._headers(key, schema))
        if kind == "retracted":
            values = [None] * records.height
        elif self.channel != MAIN:
            made = fitting(values, headers, schema, owned.transactions.largest_bytes)
            values, headers = zip(*made, strict=True)
        prefix, places = self._prefix(schema), places_of(records, owned.topic.partitions)
        if prefix:
            values = [value and prefix + value for value in values]
        owned.transactions.send(self.topic, keys_of(records), values, headers, places)

    def _prefix(self, schema: str | None) -> bytes:
        """What values begin with whose schema a registry has."""
        if schema is None or self.registry is None:
            return b""
        return prefix_of(self._registered(schema))

    def _headers(self, key: EpochKey, schema: str | None) -> Headers:
        """What all records of an epoch say; those of turned away rows also whose they are."""
        always: Headers = [(EPOCH_HEADER, str(key.epoch))]
        if schema is not None and self.registry is None:
            always.append((SCHEMA_HEADER, schema.encode()))
        if self.channel != MAIN:
            always += [
                (PIPELINE_HEADER, self.pipeline.encode()),
                (CHANNEL_HEADER, self.channel.encode()),
            ]
        return always

    def last_epoch(self, key: EpochKey) -> int | None:
        """The last epoch of which anything was sent, as the cluster has it: fences nobody."""
        if not self._topic_is_there:
            return None
        return group_offsets(self.broker, _group_of(key), [self._marked]).get(self._marked)

    def owner(self) -> str | None:
        """By a group of the pipeline's channel; it goes with the topic, and where it is old."""
        if not self._topic_is_there:
            return None
        return group_note(self.broker, self._owners, self._marked) or None

    def is_empty(self) -> bool:
        """Whether no record is left, also of transactions that were undone."""
        there = find_topics(self.broker, [self.topic])
        parts = [(self.topic, n) for n in range(there[self.topic].partitions)] if there else []
        return first_offsets(self.broker, parts) == last_offsets(self.broker, parts)

    def claim(self, incarnation: str) -> None:
        """Fence whoever published before, and say in a transaction whose records come now."""
        if self._topic_is_there:
            owned = owned_by(self._claim)
            self._owner_in(owned)
            with owned.transactions.transaction():
                owned.transactions.mark(self._owners, {self._marked: Mark(0, incarnation)})

    def _owner_in(self, owned: Owned) -> Mapping[Partition, Mark]:
        """The note as whoever has fenced all others finds it."""
        return owned.transactions.marked(self._owners, [self._marked])

    @property
    def _topic_is_there(self) -> bool:
        return bool(find_topics(self.broker, [self.topic]))

    @property
    def _owners(self) -> str:
        """The group that says whose records a topic has, beside those of its incarnations."""
        return self.transactional_id

    @property
    def _marked(self) -> Partition:
        """Where epochs are marked: every topic has a first partition."""
        return self.topic, 0

    def _registered(self, schema: str) -> int:
        assert self.registry is not None  # asked before
        return register(self.registry, f"{self.topic}-value", schema, place_of(self.channel))

    def close(self) -> None:
        """See `TargetWriter`."""
        let_go(self.run)

    def rows(self, schema: pl.Schema | None = None) -> pl.DataFrame:
        """The table, or all rows that were added, the newest last: of what is committed."""
        records = [*records_in(self.broker, self.topic)]
        if not self.upserts:
            records.sort(key=lambda each: each.timestamp_ms)
        elif not any(each.header(CHANGE_HEADER) for each in records):
            records = last_of_each_key(records)
        return self._decoded(records, schema)

    def _decoded(self, records: Sequence[Record], schema: pl.Schema | None) -> pl.DataFrame:
        if self.value_format == "json":
            return rows_of_json(records, schema, self.topic)
        rows = rows_of_avro(records, self.topic, self.registry, place_of(self.channel))
        known = {name: each for name, each in (schema or {}).items() if name in rows.columns}
        return rows.with_columns(pl.col(name).cast(each) for name, each in known.items())


def open_kafka(opening: TargetOpening) -> KafkaWriter:
    """The writer of a target; raises `ConfigError` with all that is wrong with its options."""
    target, channel, changes = opening.target, opening.channel, opening.changes
    options = KafkaTargetOptions.of_target(target, channel, changes=bool(changes))
    return KafkaWriter(
        broker=options.broker(place_of(channel)),
        topic=options.topic,
        pipeline=opening.pipeline,
        channel=channel,
        identity=opening.identity if channel == MAIN else (),
        keyed=options.key and channel == MAIN,
        upserts=target.mode == "upsert" and channel == MAIN,
        changes=changes if channel == MAIN else False,
        value_format=options.value_format,
        partitions=options.partitions,
        replication=options.replication,
        registry=options.schema_registry,
    )


def _nothing() -> None:
    """Rows that are only added may go anywhere."""


def _schema_of(kind: PartKind, records: pl.DataFrame) -> str | None:
    """The schema of Avro that values have; what is deleted has none, whatever its rows tell."""
    return None if kind == "retracted" else avro_schema_of(records)


def _group_of(key: EpochKey) -> str:
    """The group whose offset is the last epoch: whatever belongs to an epoch but its number."""
    names = (key.pipeline, key.incarnation, key.operator, key.channel)
    return f"tidegate.{'/'.join(safe_name(name) for name in names)}"
