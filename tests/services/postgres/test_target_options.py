"""The options of a table of PostgreSQL."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pytest

from tests.postgres_server import Place
from tests.services.postgres.postgres_tables import SCHEMA, opened
from tidegate.errors import ConfigError
from tidegate.pipeline import StateStore, Target
from tidegate.targets import open_target
from tidegate.targets.postgres import PostgresWriter, same_database
from tidegate.testing.target_contract import (
    IDENTITY,
)


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
    told = refused_options(tabel="x", schema=7, zero_bytes="keep", url="")
    assert [line.partition(": ")[0] for line in told] == [
        "target.options.tabel",
        "target.options.table",
        "target.options.schema",
        "target.options.zero_bytes",
        "target.options.url",
    ]


def test_a_point_in_the_name_of_a_table_is_rather_a_schema() -> None:
    (told,) = refused_options(table="marts.sessions", url="postgresql://h/d")
    assert "hint: options={'schema': 'marts', 'table': 'sessions'}" in told


def test_an_address_that_cannot_be_read_is_not_shown() -> None:
    (told,) = refused_options(table="t", url="postgresql://ann:s3cret@[::1/x")
    assert told.startswith("target.options.url: found ***")
    assert "s3cret" not in told


def test_an_address_of_the_store_is_blamed_where_it_is_written(postgres: Place) -> None:
    store = StateStore(kind="postgres", url=postgres.url.replace("/tidegate", "/nothing"))
    writer = open_target(
        Target(format="postgres", options={"table": "t"}),
        pipeline="orders",
        channel="main",
        identity=IDENTITY,
        store=store,
    )
    assert writer is not None
    with pytest.raises(ConfigError) as caught:
        writer.check(IDENTITY, SCHEMA)
    assert [problem.at for problem in caught.value.problems] == ["state_store.url"]


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
