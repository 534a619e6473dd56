"""Tables of PostgreSQL: what is made, what is checked, and how it is named."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import polars as pl
import psycopg
import pytest
from polars.testing import assert_frame_equal
from psycopg import sql

from tests.postgres_server import Place, Server
from tests.services.postgres.postgres_tables import SCHEMA, made, opened, problems_of, with_column
from tidegate.errors import ConfigError
from tidegate.pipeline import StateStore, Target
from tidegate.postgres.connecting import Connection
from tidegate.targets.postgres_published import make_tables
from tidegate.targets.reading import read_target
from tidegate.testing.target_contract import (
    IDENTITY,
    all_types,
    key,
    rows,
    stage,
)

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


@pytest.mark.parametrize("taken", ["SEQUENCE sessions", "TYPE sessions AS (n int)"])
def test_a_name_that_something_else_has_is_a_mistake_and_no_outage(
    postgres: Place, owner: psycopg.Connection[Any], taken: str
) -> None:
    owner.execute(f"CREATE {taken}".encode())
    with pytest.raises(ConfigError) as caught:
        opened(postgres).prepare(SCHEMA)
    (problem,) = caught.value.problems
    assert problem.at == "target.options.table"
    assert re.search(r'made: (relation|type) "sessions" already exists', problem.found)
    assert problem.expected == "a name and columns that a table can have"
    assert problem.hint == "choose another name: something that is no table has this one"


def test_rows_with_more_columns_than_a_table_can_have_are_a_mistake(postgres: Place) -> None:
    wide = pl.Schema({f"c{nth}": pl.Int64() for nth in range(1_601)})
    with pytest.raises(
        ConfigError, match=r"channels\.late\.options\.table: .* at most 1600 columns"
    ):
        opened(postgres, channel="late").prepare(wide)


def test_a_table_that_is_made_by_somebody_else_just_now_is_made_again(
    postgres: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two that make one table in the same moment: the catalog refuses one of them, once."""
    tries: list[str] = []

    def refused_once(connection: Connection, schema: str) -> None:
        tries.append(schema)
        if len(tries) == 1:
            raise psycopg.errors.UniqueViolation("duplicate key in pg_type_typname_nsp_index")
        make_tables(connection, schema)

    monkeypatch.setattr("tidegate.targets.postgres.make_tables", refused_once)
    writer = made(postgres)
    assert len(tries) == 2
    assert writer.rows().height == 0


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


def test_rows_with_a_column_of_the_users_need_the_key_that_is_made_for_them(
    postgres: Place, owner: psycopg.Connection[Any]
) -> None:
    schema = with_column("op", pl.String())
    columns(owner, "ALTER TABLE sessions ADD COLUMN op text")
    (told,) = problems_of(opened(postgres, changes=False), schema)
    assert 'without a unique index on "user", "window_start"' in told
    owner.execute("DROP TABLE sessions")
    opened(postgres, changes=False).prepare(schema)
    opened(postgres, changes=False).check(IDENTITY, schema)


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


@pytest.mark.parametrize("filled", ["AS (1) STORED", "AS IDENTITY"])
def test_a_column_that_the_table_fills_itself_is_refused(
    postgres: Place, owner: psycopg.Connection[Any], filled: str
) -> None:
    owner.execute(
        'CREATE TABLE sessions ("user" text, window_start timestamptz,'
        f" n bigint GENERATED ALWAYS {filled},"
        ' UNIQUE NULLS NOT DISTINCT ("user", window_start))'
    )
    (told,) = problems_of(opened(postgres))
    assert "the column 'n' is always generated | a column that takes the values of rows" in told


def test_a_column_with_an_identity_by_default_takes_rows(
    postgres: Place, owner: psycopg.Connection[Any]
) -> None:
    owner.execute(
        'CREATE TABLE sessions ("user" text, window_start timestamptz,'
        " n bigint GENERATED BY DEFAULT AS IDENTITY,"
        ' UNIQUE NULLS NOT DISTINCT ("user", window_start))'
    )
    writer = opened(postgres)
    writer.check(IDENTITY, SCHEMA)
    writer.prepare(SCHEMA)
    writer.publish(key(1), [stage(writer, rows(("ann", 0, 7)))])
    assert writer.rows()["n"].to_list() == [7]


def test_a_server_that_can_only_be_read_is_refused_before_anything_is_read(
    postgres: Place, postgres_server: Server
) -> None:
    read_only = sql.SQL("ALTER ROLE {} SET default_transaction_read_only = on")
    postgres_server.run(read_only.format(sql.Identifier(postgres.role)))
    (told,) = problems_of(opened(postgres))
    assert told.startswith("target.options.url: a server that can only be read | one that takes")


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


def test_a_role_that_may_not_use_the_schema_is_told(
    postgres: Place, postgres_server: Server, owner: psycopg.Connection[Any]
) -> None:
    """Rights to the table are of no use to it."""
    made(postgres)
    other = postgres_server.new_place()
    try:
        role = sql.Identifier(other.role)
        owner.execute(sql.SQL("GRANT ALL ON sessions TO {}").format(role))
        (told,) = problems_of(opened(Place(other.url, postgres.schema, other.role)))
        assert f"target.options.schema: no schema '{postgres.schema}' that this role may" in told
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


@pytest.mark.parametrize("name", ["xmin", "xmax", "ctid", "cmin", "cmax", "tableoid"])
def test_a_name_of_a_system_column_is_refused_before_anything_is_read(
    postgres: Place, name: str
) -> None:
    (told,) = problems_of(opened(postgres), with_column(name, pl.Int64()))
    found, _, expected = told.partition(" | ")
    assert found == f"target.options.table: a column {name!r}"
    assert expected == "a name that PostgreSQL does not use for columns of its own"


def test_a_name_that_only_looks_like_one_of_a_system_column_is_taken(postgres: Place) -> None:
    schema = with_column("XMIN", pl.Int64())
    schema["oid"] = pl.Int64()
    writer = opened(postgres)
    writer.check(IDENTITY, schema)
    writer.prepare(schema)


def test_types_that_a_table_has_not_are_refused(postgres: Place) -> None:
    schema = with_column("took", pl.Duration("us"))
    schema["deep"] = pl.List(pl.List(pl.Int64))
    assert [line.partition(" | ")[0] for line in problems_of(opened(postgres), schema)] == [
        "target.options.table: column 'took' of type Duration(time_unit='us')",
        "target.options.table: column 'deep' of type List(List(Int64))",
    ]
