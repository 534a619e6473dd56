from __future__ import annotations

import pickle

import pytest

from tidegate.errors import ConfigError
from tidegate.postgres.address import Address

SECRET = "hunter2"


@pytest.mark.parametrize(
    ("url", "place"),
    [
        (f"postgresql://ann:{SECRET}@db/x", "postgres db/x"),
        (f"postgresql://ann:{SECRET}@a:1,b:2/x?sslmode=require", "postgres a:1,b:2/x"),
        (f"host=db port=6432 dbname=x password='{SECRET} @ home'", "postgres db:6432/x"),
        (f"postgresql://ann:p%40{SECRET}@db/x?sslpassword={SECRET}", "postgres db/x"),
        ("postgresql:///x?host=/run/postgresql", "postgres /run/postgresql/x"),
        (f"host=db?password={SECRET}", "postgres db?password=***"),
    ],
)
def test_a_place_is_shown_without_secrets(url: str, place: str) -> None:
    address = Address(url)
    assert (address.place, repr(address)) == (place, "Address(schema=None, at='state_store')")
    assert pickle.loads(pickle.dumps(address)) == address


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://ann:p@{SECRET}@db/x",
        f"postgresql://ann:{SECRET}/p@db/x",
        f"postgresql://ann:{SECRET}%zz@db/x",
        f"nonsense {SECRET}",
        f"host=db passwort={SECRET}",
        f"postgresql://db/x?passwort={SECRET}",
        f"postgresql://ann:{SECRET}\ud800@db/x",
    ],
)
def test_a_url_that_is_not_what_it_seems_is_refused_unseen(url: str) -> None:
    with pytest.raises(ConfigError, match=r"state_store\.url: found \*\*\*, expected") as refused:
        Address(url)
    assert SECRET not in repr(refused.value)


@pytest.mark.parametrize(
    "schema", ["", "x" * 64, "ü" * 32, "zero\0byte", "$user", "pg_temp", "\ud800"]
)
def test_a_schema_has_a_name_that_can_be_kept_whole(schema: str) -> None:
    with pytest.raises(ConfigError, match=r"state_store\.schema"):
        Address("postgresql://db/x", schema)


def test_what_others_say_is_told_without_secrets() -> None:
    url = f"postgresql://ann:{SECRET}@db/x?sslpassword=other-{SECRET}"
    said = f"{url} could not use {SECRET} nor other-{SECRET}, password={SECRET}"
    assert SECRET not in Address(url).without_secrets(said)
