"""Rows as records, without a broker: keys, values, schemas, options."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tests.services.kafka.kafka_topics import Registry, running_registry
from tidegate.errors import BrokerUnavailable, ConfigError
from tidegate.kafka.registry import number_in, prefix_of, register, schema_by_id
from tidegate.pipeline import Target
from tidegate.targets import open_target
from tidegate.targets.kafka_avro import datums_of, polars_schema, rows_of_datums, schema_text
from tidegate.targets.kafka_rows import (
    headers_of,
    keys_of,
    places_of,
    records_of,
    told_columns,
    values_of,
)
from tidegate.targets.rowtext import to_json, to_json_lines
from tidegate.testing.target_contract import all_types

ADDRESS = {"bootstrap_servers": "127.0.0.1:9", "topic": "results"}


def told_of(channel: str = "main", **options: Any) -> list[str]:
    target = Target(format="kafka", mode="append", options={**ADDRESS, **options})
    with pytest.raises(ConfigError) as caught:
        open_target(target, pipeline="orders", channel=channel)
    return [str(problem) for problem in caught.value.problems]


def records(table: pl.DataFrame, *identity: str, **parts: Any) -> pl.DataFrame:
    told = [name for name in ("revision", "op") if name in table.columns]
    usual = {"told": told, "value_format": "json", "name": "t"}
    return records_of(table, identity=identity, **{**usual, **parts})


# --- options ---


def test_all_that_is_wrong_with_the_options_is_told_at_once() -> None:
    told = told_of(topic="a b", partitions=0, value_format="xml", kye=True, bootstrap_servers="")
    assert {line.partition(": ")[0] for line in told} == {
        "target.options.topic",
        "target.options.partitions",
        "target.options.value_format",
        "target.options.kye",
        "target.options.bootstrap_servers",
    }


def test_a_registry_is_for_avro() -> None:
    (told,) = told_of(schema_registry="http://registry:8081")
    assert told.startswith("target.options.schema_registry: found one for JSON")
    (told,) = told_of(schema_registry="u:s3cret@registry", value_format="avro")
    assert "an address such as http://" in told
    assert "s3cret" not in told


@pytest.mark.parametrize("address", ["http://ann:s3cret@", "http://ann:s3@host:s3cret"])
def test_a_registry_without_a_host_and_a_port_is_refused(address: str) -> None:
    (told,) = told_of(schema_registry=address, value_format="avro")
    assert "s3cret" not in told
    assert ("percent-encode what is odd in the user or the password" in told) == ("host" in address)


def test_rows_that_are_turned_away_have_no_key() -> None:
    (told,) = told_of("late", key=True)
    assert told.startswith("channels.late.options.key: found true, expected no key")


def test_what_tidegate_sets_itself_is_refused() -> None:
    (told,) = told_of(client={"transactional.id": "mine"})
    assert told.startswith("target.options.client.transactional.id")


def test_keys_have_a_place_that_nobody_else_chooses() -> None:
    client = {"partitioner": "consistent"}
    options = {**ADDRESS, "client": client}
    open_target(Target(format="kafka", options=options), pipeline="orders", channel="main")
    keyed = Target(format="kafka", options={**options, "key": True})
    with pytest.raises(ConfigError) as caught:
        open_target(keyed, pipeline="orders", channel="main")
    (problem,) = caught.value.problems
    assert problem.at == "target.options.client.partitioner"


def test_nothing_shows_a_password() -> None:
    client = {"sasl.password": "s3cret", "sasl.username": "ann"}
    registry = "http://ann:s3cret@registry:8081"
    options = {**ADDRESS, "client": client, "value_format": "avro", "schema_registry": registry}
    target = Target(format="kafka", options=options)
    assert "s3cret" not in repr(open_target(target, pipeline="orders", channel="main"))
    assert "s3cret" not in repr(target)


def test_changes_have_a_place_that_nobody_else_chooses() -> None:
    target = Target(format="kafka", options={**ADDRESS, "client": {"partitioner": "random"}})
    with pytest.raises(ConfigError) as caught:
        open_target(target, pipeline="orders", channel="main", identity=["user"], changes=True)
    (problem,) = caught.value.problems
    assert problem.at == "target.options.client.partitioner"


def test_records_of_earlier_versions_go_where_they_were_meant_to() -> None:
    """Changes were staged without a key, and with the hash of their identity."""
    staged = pl.DataFrame({"key": [None, None], "hash": [7, 9]}).cast({"hash": pl.Int32})
    assert places_of(staged, 4) == [3, 1]
    assert places_of(staged.drop("hash"), 4) == [-1, -1]


def test_two_names_never_share_a_transactional_id() -> None:
    names = [
        ("a.b", "c"),
        ("a", "b.c"),
        ("A", "b.c"),
        ("a-b", "c"),
        ("x" * 40, "c"),
        ("x" * 41, "c"),
    ]
    made = [
        open_target(Target(format="kafka", options=ADDRESS), pipeline=one, channel=other)
        for one, other in names
    ]
    assert len({getattr(each, "transactional_id") for each in made}) == len(names)  # noqa: B009


# --- records ---


def test_each_row_is_a_line_of_json() -> None:
    table = all_types()
    assert to_json(table).to_list() == to_json_lines(table).splitlines()


def test_a_key_is_the_same_wherever_it_is_made() -> None:
    """From a whole row, or from an identity that is taken back, whatever the order of columns."""
    table = all_types()
    identity = ("raw", "user", "window_start", "price")
    whole = keys_of(records(table, *identity))
    assert whole == keys_of(records(table.select(reversed(identity)), *identity))
    assert json.loads(whole[2] or b"") == {
        "raw": "",
        "user": "",
        "window_start": "2026-01-01T12:00:01.000001Z",
        "price": "-0.01",
    }


def test_an_identity_alone_has_no_value() -> None:
    made = records(all_types().select("user", "n"), "n", "user", value_format="avro")
    assert values_of(made) == [None, None, None]


def test_rows_without_an_identity_have_no_key() -> None:
    assert keys_of(records(all_types())) == [None, None, None]


def test_rows_that_say_the_same_share_their_headers() -> None:
    made = records(pl.DataFrame({"revision": [0, 1, 0], "op": ["+I", "+U", "+I"]}))
    first, second, third = headers_of(made, [("tidegate.epoch", "7")])
    assert first is third
    assert first == [("tidegate.epoch", "7"), ("tidegate.revision", b"0"), ("tidegate.op", b"+I")]
    assert second[1:] == [("tidegate.revision", b"1"), ("tidegate.op", b"+U")]


def test_columns_of_rows_that_were_turned_away_are_not_ours() -> None:
    theirs = pl.DataFrame({"revision": ["x"], "op": ["y"]})
    told = told_columns(theirs.columns, channel="late", changes=False)
    assert [*headers_of(records(theirs, told=told), [])] == [[]]


def test_a_column_of_results_is_a_change_only_where_changes_are_planned() -> None:
    columns = ["op", "revision"]
    assert told_columns(columns, channel="main", changes=True) == ["revision", "op"]
    assert told_columns(columns, channel="main", changes=False) == ["revision"]


# --- avro ---


def test_every_type_comes_back_from_avro() -> None:
    table = all_types()
    schema = schema_text("t", table.schema)
    expected = table.with_columns(pl.col("small").cast(pl.Int32))
    assert_frame_equal(rows_of_datums(datums_of(table, schema).to_list(), schema), expected)
    assert polars_schema(schema) == expected.schema


def test_times_that_python_has_not_come_back_from_avro() -> None:
    years = pl.Series([-(2**62), 2**62], dtype=pl.Int64).cast(pl.Datetime("us", "UTC"))
    table = pl.DataFrame({"at": years, "nan": [float("nan"), float("inf")]})
    schema = schema_text("t", table.schema)
    assert_frame_equal(rows_of_datums(datums_of(table, schema).to_list(), schema), table)


@pytest.mark.parametrize("items", ["null", {"type": "record", "name": "r", "fields": []}])
def test_a_schema_whose_items_take_no_bytes_is_not_read_by(items: Any) -> None:
    """The header of a record may name any schema, and ten bytes claim 2^62 items."""
    field = {"name": "n", "type": {"type": "array", "items": items}}
    schema = json.dumps({"type": "record", "name": "t", "fields": [field]})
    with pytest.raises(ValueError, match="a type that no row of ours has"):
        rows_of_datums([b"\xfe" + b"\xff" * 8 + b"\x01"], schema)


def test_other_readers_of_avro_find_times_and_decimals() -> None:
    import io  # noqa: PLC0415

    from fastavro import parse_schema, schemaless_reader  # noqa: PLC0415

    table = all_types().select("window_start", "price", "day")[:1]
    schema = schema_text("my topic", table.schema)
    (datum,) = datums_of(table, schema).to_list()
    found: Any = schemaless_reader(io.BytesIO(datum), parse_schema(json.loads(schema)), None)
    assert found == table.row(0, named=True)
    assert found["window_start"] == datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_a_column_that_avro_cannot_name_is_refused() -> None:
    target = Target(format="kafka", options={**ADDRESS, "value_format": "avro", "timeout_ms": 1})
    writer = open_target(target, pipeline="orders", channel="main")
    assert writer is not None
    with pytest.raises((ConfigError, BrokerUnavailable)):
        writer.check((), pl.Schema({"a b": pl.Int64()}))


# --- a registry ---


ODD_PASSWORDS = ["s3/cret", "s3#cret", "s3?cret", "12/s3cret", "s3@cret", "s3 cret"]


@pytest.mark.parametrize("password", ODD_PASSWORDS)
def test_a_password_may_hold_anything_and_is_shown_nowhere(
    password: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.kafka.registry._PAUSES_S", ())
    address = f"http://ann:{password}@127.0.0.1:9"
    options = {**ADDRESS, "value_format": "avro", "schema_registry": address}
    target = Target(format="kafka", mode="append", options=options)
    assert "cret" not in repr(target)
    assert open_target(target, pipeline="orders", channel="main") is not None
    with pytest.raises(
        BrokerUnavailable, match=r"registry at http://127\.0\.0\.1:9 does"
    ) as caught:
        register(address, "t", '"long"')
    assert "cret" not in str(caught.value)


@pytest.fixture
def registry() -> Iterator[str]:
    with running_registry() as address:
        yield address


def test_a_schema_gets_a_number(registry: str) -> None:
    Registry.answers = {
        "/base/subjects/t%2Fx-value/versions": (200, {"id": 7}),
        "/base/schemas/ids/7": (200, {"schema": '"long"'}),
    }
    assert register(registry, "t/x-value", '"long"', "target.options") == 7
    assert schema_by_id(registry, 7, "target.options") == '"long"'
    (_, user, body), _ = Registry.asked
    assert user == "Basic YW5uOnMzY3JldA=="
    assert json.loads(body) == {"schema": '"long"'}
    assert number_in(prefix_of(7) + b"datum") == 7
    assert number_in(b"\x01....") is number_in(b"") is None


def test_a_registry_is_asked_once_for_the_number_of_a_schema(registry: str) -> None:
    """From then on it may be away."""
    Registry.answers = {"/base/subjects/once/versions": (200, {"id": 8})}
    assert register(registry, "once", '"long"') == 8
    Registry.answers = {"/base/subjects/once/versions": (503, {})}
    assert register(registry, "once", '"long"') == 8
    assert len(Registry.asked) == 1
    with pytest.raises(BrokerUnavailable):
        register(registry, "once", '"int"')


def test_a_password_is_sent_as_it_is_meant(registry: str) -> None:
    Registry.answers = {"/base/subjects/t/versions": (200, {"id": 7})}
    for written in ("s3/c:ret", "s3%2Fc%3Aret"):
        assert register(registry.replace("s3cret", written), "t", '"long"') == 7
    assert {user for _, user, _ in Registry.asked} == {"Basic YW5uOnMzL2M6cmV0"}


def test_a_registry_that_disagrees_is_told_without_its_password(registry: str) -> None:
    Registry.answers = {"/base/subjects/t/versions": (409, {"message": "incompatible schema"})}
    with pytest.raises(ConfigError, match="409 incompatible schema") as caught:
        register(registry, "t", '"long"', "target.options")
    assert "s3cret" not in str(caught.value)


def test_a_registry_that_is_away_is_told_without_its_password(registry: str) -> None:
    Registry.answers = {"/base/subjects/t/versions": (503, {})}
    with pytest.raises(BrokerUnavailable, match=r"does not answer: .*503") as caught:
        register(registry, "t", '"long"', "target.options")
    assert "s3cret" not in str(caught.value)
    assert len(Registry.asked) == 3


def test_a_registry_that_sends_elsewhere_gets_no_second_question(registry: str) -> None:
    """Nobody else gets to see the password."""
    Registry.answers = {"/base/subjects/t/versions": (302, {})}
    with pytest.raises(ConfigError, match="HTTP 302"):
        register(registry, "t", '"long"', "target.options")
    assert len(Registry.asked) == 1
