"""Tables of PostgreSQL, on a real server: the contract, and how rows are written."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl
import psycopg
import pytest
from polars.testing import assert_frame_equal
from psycopg import sql

from tests.postgres_server import Place, Server
from tests.services.postgres.postgres_tables import SCHEMA, made, opened
from tidegate.errors import LostLease, StateLost, TargetRefused
from tidegate.postgres.address import Address
from tidegate.postgres.connecting import Connection, OpenTransaction, connect, transaction
from tidegate.postgres.pool import close_idle
from tidegate.targets import EpochKey, StagedRows, TargetWriter, WriterDefaults
from tidegate.targets.blobs import table_of_bytes
from tidegate.targets.pieces import Piece, next_piece
from tidegate.targets.postgres import PostgresWriter
from tidegate.targets.postgres_published import first_time
from tidegate.targets.postgres_rows import change_of
from tidegate.testing.target_contract import (
    IDENTITY,
    Outlet,
    OwnershipContract,
    TableContract,
    UpsertContract,
    ids,
    key,
    rows,
    stage,
)


@dataclass(frozen=True)
class Prepared(WriterDefaults):
    """A writer whose table is made when the first rows are encoded, as opening an engine does."""

    writer: PostgresWriter

    @property
    def takes_retractions(self) -> bool:
        return self.writer.takes_retractions

    def check(self, identity: Sequence[str], schema: pl.Schema) -> None:
        self.writer.check(identity, schema)

    def prepare(self, schema: pl.Schema) -> None:
        self.writer.prepare(schema)

    def last_epoch(self, key: EpochKey) -> int | None:
        return self.writer.last_epoch(key)

    def owner(self) -> str | None:
        return self.writer.owner()

    def is_empty(self) -> bool:
        return self.writer.is_empty()

    def claim(self, incarnation: str) -> None:
        self.writer.claim(incarnation)

    def encode(self, table: pl.DataFrame) -> bytes:
        self.writer.prepare(SCHEMA if table.columns == [*IDENTITY] else table.schema)
        return self.writer.encode(table)

    def publish(self, key: EpochKey, parts: Sequence[StagedRows]) -> None:
        self.writer.publish(key, parts)


class PostgresOutlet(Outlet):
    format = "postgres"

    def __init__(self, folder: Path, place: Place) -> None:
        super().__init__(folder)
        self.place = place

    @property
    def options(self) -> Mapping[str, Any]:
        return {"url": self.place.url, "schema": self.place.schema, "table": "Sessions ☃"}

    def open(self, **parts: Any) -> TargetWriter:
        writer = super().open(**parts)
        assert isinstance(writer, PostgresWriter)
        return Prepared(writer)

    def look(self) -> Any:
        return sorted(map(str, self.table().rows()))

    def table(self) -> pl.DataFrame:
        writer = super().open()
        assert isinstance(writer, PostgresWriter)
        found = writer.rows()
        return found.cast({"small": pl.Int8}) if "small" in found.columns else found


class TestUpserts(UpsertContract, OwnershipContract):
    @pytest.fixture
    def outlet(self, tmp_path: Path, postgres: Place) -> Outlet:
        return PostgresOutlet(tmp_path, postgres)


class TestAppends(TableContract):
    @pytest.fixture
    def outlet(self, tmp_path: Path, postgres: Place) -> Outlet:
        outlet = PostgresOutlet(tmp_path, postgres)
        outlet.mode = "append"
        return outlet


# --- writing ---


def test_rows_are_staged_in_the_order_of_their_key_and_changes_as_they_came(
    postgres: Place,
) -> None:
    writer = opened(postgres)
    table = rows(("bob", 0, 1), ("ann", 5, 2), (None, 0, 3), ("ann", 0, 4), ("ann", 0, 5))
    in_order = rows((None, 0, 3), ("ann", 0, 4), ("ann", 0, 5), ("ann", 5, 2), ("bob", 0, 1))
    assert_frame_equal(table_of_bytes(writer.encode(table)), in_order)
    changes = table.with_columns(op=pl.lit("+I"))
    assert_frame_equal(table_of_bytes(writer.encode(changes)), changes)
    theirs = replace(writer, changes=False).encode(changes)
    assert_frame_equal(table_of_bytes(theirs), in_order.with_columns(op=pl.lit("+I")))
    assert_frame_equal(table_of_bytes(replace(writer, upserts=False).encode(table)), table)


def with_revisions(*values: tuple[str | None, int, int], revision: int) -> pl.DataFrame:
    return rows(*values).with_columns(revision=pl.lit(revision, pl.Int64))


def whole(parts: Sequence[StagedRows]) -> Piece:
    piece = next_piece(parts, 0, 1000)
    assert piece is not None
    assert piece.last
    return piece


def test_rows_of_the_first_revision_are_new_and_others_may_be_there(postgres: Place) -> None:
    writer = opened(postgres)
    parts = [
        stage(writer, with_revisions(("ann", 0, 1), ("bob", 0, 1), revision=0)),
        stage(writer, with_revisions(("eve", 0, 1), revision=3)),
        stage(writer, ids(("ann", 5)), "retracted"),
    ]
    change = change_of(whole(parts), IDENTITY)
    assert change.new is not None
    assert change.again is not None
    assert change.new["user"].to_list() == ["ann", "bob"]
    assert change.again["user"].to_list() == ["eve"]
    assert change_of(whole(parts[:1]), ()).identity == ()


def test_a_revision_of_the_users_says_nothing_of_rows(postgres: Place) -> None:
    of_the_user = rows(("ann", 0, 1), ("bob", 0, 1)).with_columns(revision=pl.lit("draft"))
    change = change_of(whole([stage(opened(postgres), of_the_user)]), IDENTITY)
    assert change.new is not None
    assert change.new.height == 2


@pytest.mark.parametrize(
    ("column", "made", "text"),
    [
        (pl.Series("x", ["a", None]), "text", False),
        (pl.Series("x", ["a", None]), "varchar(5)", False),
        (pl.Series("x", [1, None], dtype=pl.Int32), "integer", False),
        (pl.Series("x", [1, None], dtype=pl.Int32), "bigint", True),
        (pl.Series("x", [[1], None]), "bigint[]", True),
        (pl.Series("x", [-(10**18), None]).cast(pl.Datetime("us")), "timestamp", True),
    ],
)
def test_rows_go_as_text_only_where_they_must(
    postgres: Place,
    owner: psycopg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
    column: pl.Series,
    made: str,
    text: bool,
) -> None:
    owner.execute(f"CREATE TABLE sessions (n bigint, x {made})".encode())
    writer = opened(postgres, mode="append")
    table = pl.DataFrame([pl.Series("n", [1, 2]), column])
    writer.check((), table.schema)
    writer.prepare(table.schema)

    def refuse(_: object) -> None:
        raise RuntimeError("as text")

    monkeypatch.setattr("tidegate.targets.postgres_rows.csv_of", refuse)
    part = stage(writer, table)
    if text:
        with pytest.raises(RuntimeError, match="as text"):
            writer.publish(key(1), [part])
    else:
        writer.publish(key(1), [part])
        assert writer.rows()["x"].to_list() == column.to_list()


@pytest.mark.parametrize("made", ["integer", "bigint"], ids=["binary", "text"])
def test_columns_that_have_no_type_are_left_out(
    postgres: Place, owner: psycopg.Connection[Any], made: str
) -> None:
    owner.execute(f"CREATE TABLE sessions (n {made})".encode())
    writer = opened(postgres, mode="append")
    table = pl.DataFrame({"odd": [{"a": 1}], "n": pl.Series([7], dtype=pl.Int32)})
    writer.prepare(table.select("n").schema)
    writer.publish(key(1), [stage(writer, table)])
    assert writer.rows().rows() == [(7,)]


def test_rows_that_are_there_in_spite_of_all_are_replaced(postgres: Place) -> None:
    """As after a reset: a new incarnation sends first revisions of what the table has."""
    writer = opened(postgres)
    writer.prepare(with_revisions(revision=0).schema)
    first = with_revisions(("ann", 0, 1), (None, 0, 1), revision=0)
    second = with_revisions((None, 0, 2), ("ann", 0, 2), ("bob", 0, 2), revision=0)
    writer.publish(key(1), [stage(writer, first)])
    writer.publish(key(1, incarnation="i2"), [stage(writer, second)])
    assert_frame_equal(writer.rows(), second, check_row_order=False)


def test_many_rows_are_replaced_and_deleted_in_pieces(
    postgres: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.targets.postgres_rows._AT_ONCE", 2)
    writer = made(postgres)
    users = [None, "a", "b", "c", "d"]
    writer.publish(key(1), [stage(writer, rows(*((user, 0, 1) for user in users)))])
    writer.publish(key(2), [stage(writer, rows(*((user, 0, 2) for user in users)))])
    assert_frame_equal(
        writer.rows(), rows(*((user, 0, 2) for user in users)), check_row_order=False
    )
    writer.publish(key(3), [stage(writer, ids(*((user, 0) for user in users)), "retracted")])
    assert writer.rows().height == 0


def test_an_epoch_is_one_transaction_however_many_pieces_it_is_read_in(
    postgres: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.targets.postgres._PIECE_ROWS", 2)
    writer = made(postgres)
    users = [f"u{n}" for n in range(5)]
    first = [stage(writer, rows(*((user, 0, n) for user in users))) for n in (1, 2)]
    gone = stage(writer, ids(*((user, 0) for user in users[:3])), "retracted")
    writer.publish(key(1), first)  # the second row of a user replaces the first
    assert sorted(writer.rows()["n"]) == [2] * 5

    def lost() -> bytes:
        assert sorted(writer.rows()["n"]) == [2] * 5, "nothing of the epoch is seen yet"
        raise StateLost("the last part")

    sent = [stage(writer, rows((user, 5, 3))) for user in users]
    with pytest.raises(StateLost, match="the last part"):
        writer.publish(key(2), [*sent[:-1], replace(sent[-1], read=lost), gone])
    assert writer.last_epoch(key(2)) == 1
    writer.publish(key(2), [*sent, gone])
    assert sorted(writer.rows()["n"]) == [2, 2, 3, 3, 3, 3, 3]


def test_what_the_server_refuses_leaves_the_epoch_to_publish(
    postgres: Place, owner: psycopg.Connection[Any]
) -> None:
    writer = made(postgres)
    owner.execute("ALTER TABLE sessions ADD CONSTRAINT few CHECK (n < 10)")
    part = stage(writer, rows(("ann", 0, 1), ("bob", 0, 11)))
    refusal = r'refuses rows: new row for .* violates check constraint "few"(.|\n)*hint: drop'
    with pytest.raises(TargetRefused, match=refusal):
        writer.publish(key(1), [part])
    assert writer.rows().height == 0
    owner.execute("ALTER TABLE sessions DROP CONSTRAINT few")
    writer.publish(key(1), [part])
    assert writer.rows().height == 2


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ("DROP TABLE sessions", r"relation .* does not exist(.|\n)*hint: restore the table"),
        ("ALTER TABLE sessions DROP COLUMN n", r"column \"n\" of relation .* does not exist"),
        ("ALTER TABLE sessions ALTER n TYPE int", "out of range for type integer"),
        (
            "ALTER TABLE sessions ADD UNIQUE (n) DEFERRABLE INITIALLY DEFERRED",
            "duplicate key value violates unique constraint",
        ),
    ],
)
def test_a_table_that_was_changed_meanwhile_refuses(
    postgres: Place, owner: psycopg.Connection[Any], change: str, refusal: str
) -> None:
    writer = made(postgres)
    owner.execute(change)
    part = stage(writer, rows(("ann", 0, 2**40), ("bob", 0, 2**40)))
    with pytest.raises(TargetRefused, match=refusal):
        writer.publish(key(1), [part])


def test_a_zero_byte_is_told_with_the_way_out(postgres: Place) -> None:
    writer = made(postgres)
    with pytest.raises(TargetRefused, match=r"hint: say zero_bytes='replace' in the options"):
        writer.publish(key(1), [stage(writer, rows(("a\0b", 0, 1)))])


def test_a_zero_byte_in_a_list_of_a_row_that_is_replaced_is_told_too(postgres: Place) -> None:
    """Such a list goes as text, and is refused before the server sees it."""
    words = pl.Series("words", [["a\0b"]])
    table = with_revisions(("ann", 0, 1), revision=1).with_columns(words)
    writer = opened(postgres)
    writer.prepare(table.schema)
    with pytest.raises(TargetRefused, match=r"refuses rows: (.|\n)*hint: say zero_bytes"):
        writer.publish(key(1), [stage(writer, table)])


def test_zero_bytes_are_replaced_where_that_is_said(postgres: Place) -> None:
    words = pl.Series("words", [["a\0b", None], ["\0"]])
    table = with_revisions(("a\0b", 0, 1), ("a\ufffdb", 10, 2), revision=1).with_columns(words)
    writer = opened(postgres, options={"zero_bytes": "replace"})
    writer.prepare(table.schema)
    writer.publish(key(1), [stage(writer, table)])
    writer.publish(key(2), [stage(writer, table[:1].with_columns(n=pl.lit(7, pl.Int64)))])
    found = writer.rows().sort("n").select("user", "n", "words").rows()
    assert found == [("a\ufffdb", 2, ["\ufffd"]), ("a\ufffdb", 7, ["a\ufffdb", None])]


def test_a_key_that_no_index_can_hold_is_told_with_the_way_out(postgres: Place) -> None:
    writer = made(postgres)
    part = stage(writer, rows((random_text(20_000), 0, 1)))
    with pytest.raises(TargetRefused, match=r"index row (.|\n)*hint: keys are too long"):
        writer.publish(key(1), [part])


def test_keys_that_the_table_takes_for_one_are_told(
    postgres: Place, owner: psycopg.Connection[Any]
) -> None:
    """As in columns that know no upper and lower case."""
    writer = made(postgres)
    owner.execute(
        "CREATE COLLATION caseless (provider = icu, locale = 'und-u-ks-level2',"
        " deterministic = false)"
    )
    owner.execute('ALTER TABLE sessions ALTER "user" TYPE text COLLATE caseless')
    part = stage(writer, rows(("ann", 0, 1), ("ANN", 0, 2)))
    with pytest.raises(
        TargetRefused, match=r"a second time(.|\n)*hint: the table takes .* for one"
    ):
        writer.publish(key(1), [part])
    assert writer.rows().height == 0


def random_text(length: int) -> str:
    """One that cannot be made smaller."""
    return random.Random(1).randbytes(length // 2).hex()


def test_the_last_epoch_that_is_out_is_known(postgres: Place) -> None:
    writer = opened(postgres)
    assert writer.last_epoch(key(1)) is None
    writer.prepare(SCHEMA)
    assert writer.last_epoch(key(1)) is None
    writer.publish(key(7), [stage(writer, rows(("ann", 0, 1)))])
    assert writer.last_epoch(key(1)) == 7
    assert writer.last_epoch(key(1, incarnation="i2")) is None
    assert replace(writer, in_commit=True).last_epoch(key(1)) is None


def test_a_run_that_wakes_behind_another_one_publishes_nothing(postgres: Place) -> None:
    """Also under an incarnation of its own, and though its epochs have higher numbers."""
    sleeper, other = made(postgres), made(postgres, table="others")
    sleeper.publish(key(8), [stage(sleeper, rows(("ann", 0, 1)))])
    successor = made(postgres, incarnation="i2")
    successor.publish(key(1, incarnation="i2"), [stage(successor, rows(("ann", 0, 2)))])
    with pytest.raises(LostLease, match="'orders' was taken over: another run publishes to table"):
        sleeper.publish(key(9), [stage(sleeper, rows(("ann", 0, 3)))])
    assert_frame_equal(successor.rows(), rows(("ann", 0, 2)))
    other.publish(key(9), [stage(other, rows(("ann", 0, 4)))])
    assert_frame_equal(other.rows(), rows(("ann", 0, 4)))


def test_a_connection_that_was_cut_meanwhile_is_made_again(
    postgres: Place, postgres_server: Server
) -> None:
    writer = made(postgres)
    for epoch in (1, 2):
        part = stage(writer, rows(("ann", epoch, epoch)))
        assert postgres_server.terminate_backends(postgres.role, "tidegate target") == 1
        writer.publish(key(epoch), [part])
    assert writer.rows().height == 2


def test_an_epoch_whose_commit_nobody_heard_of_is_written_once(
    postgres: Place, postgres_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = made(postgres, mode="append")
    heard: list[bool] = []

    def lost(connection: Connection, *_: Any) -> bool:
        """The first time, the connection is lost when all is committed."""
        first = first_time(connection, *_)
        if not heard:
            heard.append(first)
            connection.execute("INSERT INTO sessions VALUES ('ann', now(), 1)")
            connection.execute("COMMIT")
            pid = connection.info.backend_pid
            postgres_server.run("SELECT pg_terminate_backend(%s, 5000)", pid)
        return first

    with psycopg.connect(postgres.url, autocommit=True) as connection:
        role, schema = sql.Identifier(postgres.role), sql.Identifier(postgres.schema)
        path = sql.SQL("ALTER ROLE {} SET search_path = {}").format(role, schema)
        connection.execute(path)
    close_idle()
    monkeypatch.setattr("tidegate.targets.postgres.first_time", lost)
    writer.publish(key(1), [stage(writer, rows(("ann", 0, 1)))])
    assert heard == [True]
    assert writer.rows().height == 1


def test_publishing_is_durable_whatever_the_role_says(
    postgres: Place, postgres_server: Server
) -> None:
    role = sql.Identifier(postgres.role)
    postgres_server.run(sql.SQL("ALTER ROLE {} SET synchronous_commit = off").format(role))
    writer = made(postgres)
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        telling = sql.SQL(
            "CREATE FUNCTION {0}.told() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " RAISE 'said %', current_setting('synchronous_commit'); END $$;"
            " CREATE TRIGGER t BEFORE INSERT ON {0}.sessions"
            " FOR EACH STATEMENT EXECUTE FUNCTION {0}.told()"
        )
        connection.execute(telling.format(sql.Identifier(postgres.schema)))
    part = stage(writer, rows(("ann", 0, 1)))
    with pytest.raises(TargetRefused, match="said on"):
        writer.publish(key(1), [part])


def test_triggers_find_what_they_name_wherever_the_state_is(
    postgres: Place, postgres_server: Server, owner: psycopg.Connection[Any]
) -> None:
    """The role's own search path counts, not that of the connection that commits."""
    owner.execute("CREATE TABLE audit (who text)")
    owner.execute(
        "CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS"
        ' $$ BEGIN INSERT INTO audit VALUES (NEW."user"); RETURN NEW; END $$'
    )
    names = {"role": sql.Identifier(postgres.role), "schema": sql.Identifier(postgres.schema)}
    postgres_server.run(sql.SQL("ALTER ROLE {role} SET search_path = {schema}").format(**names))
    writer = made(postgres)
    owner.execute(
        "CREATE TRIGGER noted BEFORE INSERT ON sessions FOR EACH ROW EXECUTE FUNCTION noted()"
    )
    apply = writer.beside([stage(writer, rows(("ann", 0, 1)))])
    with connect(Address(postgres.url, "information_schema"), "test") as connection:
        with transaction(connection):
            apply(OpenTransaction(connection, "postgres"))
        assert connection.execute("SELECT current_schema()").fetchone() == ("information_schema",)
    assert owner.execute("SELECT who FROM audit").fetchall() == [("ann",)]
