from __future__ import annotations

import pytest

from tests.unit.pipeline.examples import pipeline, problems_of
from tidegate.errors import ConfigError
from tidegate.pipeline import Pipeline, Source, StateStore, Target
from tidegate.pipeline.masking import listed, masked, masked_text, secret_name, shown

SECRET = "hunter2"


@pytest.mark.parametrize(
    "name",
    [
        *("password", "PASSWORD", "db_password", "passwd", "pwd", "secret", "client_secret"),
        *("token", "auth.token", "sasl.mechanism", "kafka.sasl.jaas.config", "sasl"),
        *("ssl.key.password", "fs.s3a.access.key", "fs.azure.account.key.x", "api_key", "apikey"),
        *("credentials", "private_key", "passphrase", "authorization"),
    ],
)
def test_options_of_these_names_are_secrets(name: str) -> None:
    assert secret_name(name)


@pytest.mark.parametrize(
    "name", ["path", "topic", "key", "keys", "max_keys", "table", "url", "compass", "author"]
)
def test_options_of_these_names_are_not(name: str) -> None:
    assert not secret_name(name)


@pytest.mark.parametrize(
    ("text", "shown_as"),
    [
        (f"postgresql://ann:{SECRET}@db:5432/x", "postgresql://***@db:5432/x"),
        (f"postgresql://ann:p@ss:{SECRET}@db/x", "postgresql://***@db/x"),
        (f"host=db user=ann password={SECRET} dbname=x", "host=db user=ann password=*** dbname=x"),
        (f"host=db password='it is {SECRET}' port=1", "host=db password=*** port=1"),
        (
            f"jdbc:postgresql://db/x?user=a&password={SECRET}&ssl=1",
            "jdbc:postgresql://db/x?user=a&password=***&ssl=1",
        ),
        (f"postgresql://ann:pa/{SECRET}@db/x", "postgresql://***@db/x"),
        (f"amqp://{SECRET}@db/x", "amqp://***@db/x"),
        (f"{{'db.password': '{SECRET}', 'n': 1}}", "{'db.password': ***, 'n': 1}"),
        ("/data/clicks", "/data/clicks"),
        ("hdfs://name:8020/data@v2", "hdfs://name:8020/data@v2"),
        ("s3a://bucket/path@2", "s3a://bucket/path@2"),
    ],
)
def test_credentials_are_taken_out_of_addresses(text: str, shown_as: str) -> None:
    assert masked_text(text) == shown_as


@pytest.mark.parametrize("pair", [["sasl.password", SECRET], ("sasl.password", SECRET)])
def test_a_mapping_that_is_written_as_pairs_shows_no_secret_either(pair: list[str]) -> None:
    source = Source(
        name="clicks", format="kafka", event_time="at", options={"client": [pair, ["acks", "all"]]}
    )
    assert SECRET not in repr(source)
    assert "all" in repr(source)
    assert SECRET not in shown([pair])


def test_secrets_are_masked_however_deep_they_are() -> None:
    options = {"a": [{"password": SECRET}, f"x://u:{SECRET}@h"], "sasl.username": "ann", "n": 5}
    assert masked("options", options) == {
        "a": [{"password": "***"}, "x://***@h"],
        "sasl.username": "***",
        "n": 5,
    }


@pytest.mark.parametrize("password", [SECRET, f"a {SECRET}", f"a?{SECRET}", f"a/b {SECRET}@c"])
def test_a_password_in_an_address_may_hold_anything(password: str) -> None:
    options = {"url": f"postgresql://ann:{password}@db:5432/x", "table": "t"}
    assert masked("options", options) == {"url": "postgresql://***@db:5432/x", "table": "t"}


def test_long_values_are_cut() -> None:
    assert len(shown("x" * 1000)) == 120


def test_words_are_listed_as_people_do() -> None:
    assert [listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"], "and")] == [
        "a",
        "a or b",
        "a, b and c",
    ]


def _secretive() -> Pipeline:
    options = {"password": SECRET, "url": f"postgresql://ann:{SECRET}@db/x", "table": "t"}
    return Pipeline(
        name="visits",
        sources=Source(name="clicks", format="kafka", event_time="ts", options=options),
        operators=Pipeline.from_dict(pipeline()).operators,
        target=Target(format="postgres", options=options),
        late=Target(format="postgres", options={"nested": options, "sasl.jaas.config": SECRET}),
        state_store=StateStore(kind="postgres", url=f"postgresql://ann:{SECRET}@db/x"),
    )


def test_no_secret_is_ever_printed() -> None:
    made = _secretive()
    parts = [made, *made.sources, made.target, *made.channels.values(), made.state_store]
    texts = [text for part in parts for text in (repr(part), str(part))]
    texts += [made.explain(), str(made.fingerprint_fields())]
    assert [text for text in texts if SECRET in text or "ann:" in text] == []


def test_no_secret_is_in_an_error() -> None:
    address = f"postgresql://ann:{SECRET}@db/x"
    data = pipeline(
        state_store=address,
        target=[address],
        late={"format": 5, "options": address, "mode": address},
        sources=[{"name": address, "passwrod": SECRET, "options": {"password": SECRET}}],
    )
    with pytest.raises(ConfigError) as caught:
        Pipeline.from_dict(data)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_a_secret_url_of_a_wrong_type_is_not_shown() -> None:
    problems = problems_of(lambda: StateStore.from_dict({"url": [SECRET], "kind": "postgres"}))
    assert [each.found for each in problems] == ["***"]
