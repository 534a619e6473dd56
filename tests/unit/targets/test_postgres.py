"""Tables of PostgreSQL, on a real server: the contract, odd names, and what is refused."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl
import psycopg
import pytest
from polars.testing import assert_frame_equal
from psycopg import sql

from tests.postgres_server import Place, Server
from tests.unit.targets.contract import (
    IDENTITY,
    Outlet,
    TableContract,
    UpsertContract,
    all_types,
    ids,
    key,
    rows,
    stage,
)
from tidegate.errors import ConfigError, TargetRefused
from tidegate.pipeline import StateStore, Target
from tidegate.targets import EpochKey, StagedRows, TargetWriter, open_target
from tidegate.targets.postgres import PostgresWriter, same_database
from tidegate.targets.postgres_rows import change_of
from tidegate.targets.reading import read_target

SCHEMA = rows().schema


def with_column(name: str, dtype: pl.DataType) -> pl.Schema:
    schema = SCHEMA.copy()
    schema[name] = dtype
    return schema


@dataclass(frozen=True)
class Prepared:
    """A writer whose table is made when the first rows are encoded, as opening an engine does."""

    writer: PostgresWriter
    staging = None

    @property
    def takes_retractions(self) -> bool:
        return self.writer.takes_retractions

    def check(self, identity: Sequence[str], schema: pl.Schema) -> None:
        self.writer.check(identity, schema)

    def encode(self, table: pl.DataFrame) -> bytes:
        columns = {*self.writer.identity, *table.columns} - {*table.columns}
        if not columns and table.columns != [*self.writer.identity]:
            self.writer.prepare(table.schema)
        elif table.columns == [*self.writer.identity]:
            self.writer.prepare(SCHEMA)
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


class TestUpserts(UpsertContract):
    @pytest.fixture
    def outlet(self, tmp_path: Path, postgres: Place) -> Outlet:
        return PostgresOutlet(tmp_path, postgres)


class TestAppends(TableContract):
    @pytest.fixture
    def outlet(self, tmp_path: Path, postgres: Place) -> Outlet:
        outlet = PostgresOutlet(tmp_path, postgres)
        outlet.mode = "append"
        return outlet


# --- a writer of a test, and a look at its table by somebody else ---


def opened(place: Place, table: str = "sessions", **other: Any) -> PostgresWriter:
    parts = {"channel": "main", "identity": IDENTITY, "mode": "upsert", **other}
    options = {"table": table, "schema": place.schema, "url": place.url}
    writer = open_target(
        Target(format="postgres", mode=parts.pop("mode"), options=options),
        pipeline="orders",
        **parts,
    )
    assert isinstance(writer, PostgresWriter)
    return writer


def made(place: Place, **other: Any) -> PostgresWriter:
    writer = opened(place, **other)
    writer.prepare(SCHEMA)
    return writer


@pytest.fixture
def owner(postgres: Place) -> Iterator[psycopg.Connection[Any]]:
    """The role of the test, in its schema."""
    path = sql.SQL("SET search_path = {}").format(sql.Identifier(postgres.schema))
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(path)
        yield connection


def problems_of(writer: PostgresWriter, schema: pl.Schema = SCHEMA) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        writer.check(IDENTITY, schema)
    return [f"{each.at}: {each.found} | {each.expected}" for each in caught.value.problems]


# --- the table that is made ---


def test_a_table_is_made_with_the_types_of_the_rows(
    postgres: Place, owner: psycopg.Connection[Any]
) -> None:
    opened(postgres).prepare(all_types().schema)
    found = owner.execute(
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
        " WHERE attrelid = 'sessions'::regclass AND attnum > 0"
    ).fetchall()
    assert dict(found) == {
        "user": "text",
        "window_start": "timestamp with time zone",
        "n": "bigint",
        "price": "numeric(12,2)",
        "total": "numeric(38,0)",
        "raw": "bytea",
        "day": "date",
        "yes": "boolean",
        "small": "smallint",
        "mean": "double precision",
        "local": "timestamp without time zone",
        "words": "text[]",
        "times": "timestamp with time zone[]",
        "prices": "numeric(12,2)[]",
        "blobs": "bytea[]",
    }


def test_a_table_that_is_made_passes_its_own_check(postgres: Place) -> None:
    for nth, schema in enumerate([SCHEMA, all_types().schema, with_column("op", pl.String())]):
        writer = opened(postgres, f"table {nth}")
        writer.prepare(schema)
        writer.prepare(schema)
        writer.check(IDENTITY, schema)


def test_a_check_makes_nothing(postgres: Place, owner: psycopg.Connection[Any]) -> None:
    opened(postgres).check(IDENTITY, SCHEMA)
    tables = "SELECT count(*) FROM pg_class WHERE relnamespace = %s::regnamespace"
    assert owner.execute(tables, [f'"{postgres.schema}"']).fetchone() == (0,)


# --- the table that is there ---


def test_all_that_is_wrong_with_a_table_is_told_at_once(
    postgres: Place, owner: psycopg.Connection[Any]
) -> None:
    owner.execute(
        'CREATE TABLE sessions ("user" varchar(20), window_start timestamptz(3), more int NOT NULL,'
        " filled int NOT NULL DEFAULT 1, counted bigint GENERATED ALWAYS AS IDENTITY)"
    )
    name = f'"{postgres.schema}"."sessions"'
    assert problems_of(opened(postgres)) == [
        f"target.options.table: the table {name}, where the column 'window_start' is"
        " timestamp(3) with time zone | timestamp with time zone",
        f"target.options.table: the table {name} without the column 'n'"
        " | a column 'n' of type bigint",
        f"target.options.table: the table {name} with the column 'more', which is NOT NULL"
        " | a column that rows have, or one that is nullable or has a default",
        f'target.options.table: the table {name} without a unique index on "user", "window_start"'
        " | one, by which rows are replaced",
    ]


def columns(owner: psycopg.Connection[Any], *more: str, null: str = "") -> None:
    owner.execute(
        f'CREATE TABLE sessions ("user" text {null}, window_start timestamptz {null}, n bigint)'
    )
    for statement in more:
        owner.execute(statement)


def test_a_key_for_which_nulls_differ_is_refused(
    postgres: Place, owner: psycopg.Connection[Any]
) -> None:
    columns(owner, 'CREATE UNIQUE INDEX ON sessions ("user", window_start)')
    (told,) = problems_of(opened(postgres))
    assert "that takes NULLs for different | NULLS NOT DISTINCT, or 'user' and 'win" in told


@pytest.mark.parametrize(
    "index",
    [
        'CREATE UNIQUE INDEX ON sessions ("user", window_start) NULLS NOT DISTINCT WHERE n > 0',
        'CREATE UNIQUE INDEX ON sessions (lower("user"), window_start) NULLS NOT DISTINCT',
        'CREATE UNIQUE INDEX ON sessions ("user") NULLS NOT DISTINCT',
        'CREATE INDEX ON sessions ("user", window_start)',
        'ALTER TABLE sessions ADD UNIQUE NULLS NOT DISTINCT ("user", window_start) DEFERRABLE',
    ],
)
def test_an_index_that_is_no_key_is_refused(
    postgres: Place, owner: psycopg.Connection[Any], index: str
) -> None:
    columns(owner, index)
    (told,) = problems_of(opened(postgres))
    assert 'without a unique index on "user", "window_start"' in told


@pytest.mark.parametrize(
    ("null", "index"),
    [
        ("", 'CREATE UNIQUE INDEX ON sessions (window_start, "user") NULLS NOT DISTINCT'),
        ("NOT NULL", 'ALTER TABLE sessions ADD PRIMARY KEY ("user", window_start)'),
        ("", 'ALTER TABLE sessions ADD UNIQUE NULLS NOT DISTINCT ("user", window_start)'),
    ],
)
def test_a_table_with_a_key_of_its_own_takes_rows(
    postgres: Place, owner: psycopg.Connection[Any], null: str, index: str
) -> None:
    columns(
        owner, index, "ALTER TABLE sessions ADD COLUMN seen timestamptz DEFAULT now()", null=null
    )
    writer = made(postgres)
    writer.check(IDENTITY, SCHEMA)
    for epoch, n in enumerate([1, 2], 1):
        writer.publish(key(epoch), [stage(writer, rows(("ann", 0, n)))])
    assert owner.execute('SELECT "user", n, seen IS NULL FROM sessions').fetchall() == [
        ("ann", 2, False)
    ]


def test_rows_that_are_only_added_need_no_key(
    postgres: Place, owner: psycopg.Connection[Any]
) -> None:
    columns(owner)
    opened(postgres, mode="append").check(IDENTITY, SCHEMA)
    opened(postgres, channel="late", identity=()).check((), SCHEMA)
    owner.execute("ALTER TABLE sessions ADD COLUMN op text")
    opened(postgres).check(IDENTITY, with_column("op", pl.String()))


def test_a_wider_column_takes_rows(postgres: Place, owner: psycopg.Connection[Any]) -> None:
    owner.execute(
        'CREATE TABLE sessions ("user" varchar, window_start timestamptz, n numeric, small bigint,'
        ' price numeric(20,4), UNIQUE NULLS NOT DISTINCT ("user", window_start))'
    )
    table = all_types().select("user", "window_start", "n", "small", "price")
    writer = opened(postgres)
    writer.check(IDENTITY, table.schema)
    writer.prepare(table.schema)
    for epoch in (1, 2):
        writer.publish(key(epoch), [stage(writer, table)])
    found = owner.execute('SELECT n, small, price FROM sessions ORDER BY "user"').fetchall()
    assert [tuple(map(str, row)) for row in found] == [
        ("-9223372036854775808", "-128", "-0.0100"),
        ("9223372036854775807", "1", "12.5000"),
        ("None", "None", "None"),
    ]


def test_a_view_is_no_target(postgres: Place, owner: psycopg.Connection[Any]) -> None:
    owner.execute("CREATE VIEW sessions AS SELECT 1 AS n")
    (told,) = problems_of(opened(postgres))
    assert "a view or a foreign table" in told


# --- reading back ---


def test_a_table_is_read_back_from_the_database_of_the_store(postgres: Place) -> None:
    store = StateStore(kind="postgres", url=postgres.url)
    target = Target(format="postgres", options={"table": "sessions", "schema": postgres.schema})

    def read(schema: pl.Schema | None = None) -> pl.DataFrame:
        return read_target(target, pipeline="orders", schema=schema, store=store)

    assert_frame_equal(read(), pl.DataFrame())
    assert_frame_equal(read(SCHEMA), rows())
    writer = made(postgres)
    assert_frame_equal(read(), rows())
    writer.publish(key(1), [stage(writer, rows((None, 0, 1)))])
    assert_frame_equal(read(), rows((None, 0, 1)))


def test_columns_of_types_that_frames_have_not_come_as_text(
    postgres: Place, owner: psycopg.Connection[Any]
) -> None:
    owner.execute("CREATE TABLE sessions AS SELECT '1.2.3.4'::inet AS a, '{\"b\": 1}'::jsonb AS b")
    assert opened(postgres).rows().to_dicts() == [{"a": "1.2.3.4/32", "b": '{"b": 1}'}]


# --- rights ---


def test_a_schema_that_is_not_there_is_told(postgres: Place) -> None:
    elsewhere = replace(postgres, schema="no such schema")
    (told,) = problems_of(opened(elsewhere))
    assert told.startswith("target.options.schema: no schema 'no such schema'")


def test_a_role_that_may_not_create_the_table_is_told(postgres: Place) -> None:
    (told,) = problems_of(opened(replace(postgres, schema="public")))
    assert "and a role that may not create it | a table, or the right to create it" in told


def test_a_role_that_may_not_write_is_told(
    postgres: Place, postgres_server: Server, owner: psycopg.Connection[Any]
) -> None:
    made(postgres)
    other = postgres_server.new_place()
    try:
        names = {"role": sql.Identifier(other.role), "schema": sql.Identifier(postgres.schema)}
        owner.execute(sql.SQL("GRANT USAGE ON SCHEMA {schema} TO {role}").format(**names))
        owner.execute(sql.SQL("GRANT INSERT, SELECT ON sessions TO {role}").format(**names))
        poor = Place(other.url, postgres.schema, other.role)
        (told,) = problems_of(opened(poor))
        assert "without the right to UPDATE and DELETE | a role with these rights" in told
        opened(poor, mode="append").check(IDENTITY, SCHEMA)
    finally:
        postgres_server.drop(other)


# --- names ---

NAMES = ['quote"d', "two words", "select", "ünï ☃", "UPPER", "per%cent %s $1", "semi;colon--", "'"]


@pytest.mark.parametrize("name", NAMES)
def test_names_are_taken_as_they_are(name: str, postgres_server: Server) -> None:
    place = postgres_server.new_place(name)
    try:
        writer = opened(place, name, identity=(name, "window_start"))
        table = rows((None, 0, 1), ("ann", 0, 1)).rename({"user": name, "n": f"{name} n"})
        writer.check(writer.identity, table.schema)
        writer.prepare(table.schema)
        writer.check(writer.identity, table.schema)
        again = table.with_columns(pl.lit(2).cast(pl.Int64).alias(f"{name} n"))
        gone = table.head(1).select(writer.identity)
        writer.publish(key(1), [stage(writer, table)])
        writer.publish(key(2), [stage(writer, again), stage(writer, gone, "retracted")])
        writer.publish(key(3), [stage(writer, gone, "retracted")])
        assert_frame_equal(writer.rows(), again.tail(1))
    finally:
        postgres_server.drop(place)


def test_a_name_that_would_be_cut_is_refused(postgres: Place) -> None:
    (told,) = problems_of(opened(postgres), with_column("x" * 64, pl.Int64()))
    assert "with a name of 64 bytes | 1 to 63 bytes" in told
    with pytest.raises(ConfigError, match="the name of a table: 1 to 63 bytes"):
        opened(postgres, "x" * 64)


def test_types_that_a_table_has_not_are_refused(postgres: Place) -> None:
    schema = with_column("took", pl.Duration("us"))
    schema["deep"] = pl.List(pl.List(pl.Int64))
    assert [line.partition(" | ")[0] for line in problems_of(opened(postgres), schema)] == [
        "target.options.table: column 'took' of type Duration(time_unit='us')",
        "target.options.table: column 'deep' of type List(List(Int64))",
    ]


# --- options ---


def refused_options(store: StateStore | None = None, **options: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        open_target(
            Target(format="postgres", options=options),
            pipeline="orders",
            channel="main",
            store=store,
        )
    return [str(problem) for problem in caught.value.problems]


def test_a_table_without_an_address_needs_a_store_in_postgres() -> None:
    (told,) = refused_options(StateStore(), table="sessions")
    assert told.startswith("target.options.url: found nothing, the state store is sqlite, expected")


def test_all_that_is_wrong_with_the_options_is_told_at_once() -> None:
    told = refused_options(tabel="x", schema=7, url="")
    assert [line.partition(": ")[0] for line in told] == [
        "target.options.tabel",
        "target.options.table",
        "target.options.schema",
        "target.options.url",
    ]


def test_a_point_in_the_name_of_a_table_is_rather_a_schema() -> None:
    (told,) = refused_options(table="marts.sessions", url="postgresql://h/d")
    assert "hint: options={'schema': 'marts', 'table': 'sessions'}" in told


def test_an_address_that_cannot_be_read_is_not_shown() -> None:
    (told,) = refused_options(table="t", url="postgresql://ann:s3cret@[::1/x")
    assert told.startswith("target.options.url: found ***")
    assert "s3cret" not in told


def test_nothing_shows_the_password(postgres: Place) -> None:
    password = postgres.url.partition("@")[0].rpartition(":")[2]
    writer = opened(postgres)
    assert password not in repr(writer)
    wrong = replace(postgres, url=postgres.url.replace(password, "wr0ng-pw"))
    with pytest.raises(ConfigError) as caught:
        opened(wrong).check(IDENTITY, SCHEMA)
    assert "wr0ng-pw" not in str(caught.value)
    assert [problem.at for problem in caught.value.problems] == ["target.options.url"]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("postgresql://a:1@h/d", "postgresql://a:2@h:5432/d?sslmode=require", True),
        ("postgresql://a@h/d", "host=h dbname=d user=a", True),
        ("postgresql://a@h/d", "postgresql://b@h/d", False),
        ("postgresql://a@h/d", "postgresql://a@h/e", False),
        ("postgresql://a@h/d", "postgresql://a@h:5433/d", False),
        ("postgresql://a@h/d", "postgresql://a@g/d", False),
    ],
)
def test_which_addresses_lead_to_the_same_database(one: str, other: str, same: bool) -> None:
    assert same_database(one, other) is same
    store = StateStore(kind="postgres", url=other)
    options = {"table": "t", "url": one}
    writer = open_target(
        Target(format="postgres", options=options), pipeline="p", channel="main", store=store
    )
    assert isinstance(writer, PostgresWriter)
    assert writer.in_commit is same
    assert pickle.loads(pickle.dumps(writer)) == writer


# --- writing ---


def with_revisions(*values: tuple[str | None, int, int], revision: int) -> pl.DataFrame:
    return rows(*values).with_columns(revision=pl.lit(revision, pl.Int64))


def test_rows_of_the_first_revision_are_new_and_others_may_be_there(postgres: Place) -> None:
    writer = opened(postgres)
    parts = [
        stage(writer, with_revisions(("ann", 0, 1), ("bob", 0, 1), revision=0)),
        stage(writer, with_revisions(("eve", 0, 1), revision=3)),
        stage(writer, ids(("ann", 5)), "retracted"),
    ]
    change = change_of(parts, IDENTITY)
    assert change.new is not None
    assert change.again is not None
    assert change.new["user"].to_list() == ["ann", "bob"]
    assert change.again["user"].to_list() == ["eve"]
    assert change_of(parts[:1], ()).identity == ()


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
    with pytest.raises(TargetRefused, match=r"hint: take zero bytes out in the transform"):
        writer.publish(key(1), [stage(writer, rows(("a\0b", 0, 1)))])


def test_the_last_epoch_that_is_out_is_known(postgres: Place) -> None:
    writer = opened(postgres)
    assert writer.last_epoch(key(1)) is None
    writer.prepare(SCHEMA)
    assert writer.last_epoch(key(1)) is None
    writer.publish(key(7), [stage(writer, rows(("ann", 0, 1)))])
    assert writer.last_epoch(key(1)) == 7
    assert writer.last_epoch(key(1, incarnation="i2")) is None
    assert replace(writer, in_commit=True).last_epoch(key(1)) is None


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
