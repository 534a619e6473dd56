"""Pipeline files, options and addresses of strangers: a value, or an error with a place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.nights import examples
from tests.properties.test_hostile_input_files import WORDS
from tests.unit.frontends.test_toml import SESSIONS
from tidegate.errors import ConfigError, TidegateError
from tidegate.frontends.toml import load_pipeline
from tidegate.kafka.registry import address_flaw
from tidegate.pipeline import Source, Target
from tidegate.postgres.address import Address
from tidegate.sources import open_source
from tidegate.sources.kafka_options import KafkaOptions
from tidegate.targets import open_target

TEXTS = WORDS | st.text(max_size=8) | st.text(st.characters(), max_size=4)
SCALARS = (
    TEXTS
    | st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.integers(0, 1).map(lambda _: 10**5000)
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile") / "pipeline.toml"


def outcome(attempt: Callable[[], Any]) -> Any:
    """What comes of it: a value, or an error that Tidegate raises on purpose."""
    try:
        return attempt()
    except TidegateError as error:
        return error


VALUES = st.sampled_from(
    [
        *(
            "1" * 5000,
            "-1",
            "1e999",
            "nan",
            "0x" + "f" * 5000,
            "2026-01-01",
            "[" * 3000 + "]" * 3000,
        ),
        *(
            "{a=" * 500 + "1" + "}" * 500,
            '"${HOME}"',
            '"${NOT_SET}"',
            '"${BIG}"',
            '"\\u0000"',
            "''",
        ),
        *('"try/../x"', "[]", "{}", "true", '"\\uD800"', "[1, 'a', {b = []}]", '"${X:-${Y:-1}}"'),
    ]
) | TEXTS.map(lambda text: f"'''{text}'''")
KEYS = st.sampled_from(
    ["a.b.c", "''", '"a.b"', "name", "[x]", "[[sources]]", "\u2028", "=", "\x00"]
)


@st.composite
def pipeline_files(draw: st.DrawFn) -> bytes:
    """A right file in which some values, keys, lines or bytes are others."""
    lines = SESSIONS.splitlines()
    for _ in range(draw(st.integers(1, 3))):
        nth = draw(st.integers(0, len(lines) - 1))
        key = lines[nth].partition("=")[0] or "name "
        whole = st.tuples(KEYS | st.just(key), VALUES).map(" = ".join)
        lines[nth] = draw(whole | TEXTS)
    data = "\n".join(lines).encode(errors="surrogatepass")
    if draw(st.integers(0, 4)) == 0:
        at = draw(st.integers(0, len(data)))
        data = data[:at] + draw(st.binary(max_size=6)) + data[at:]
    return data


@examples(2 / 3)
@given(data=pipeline_files())
def test_a_file_is_a_pipeline_or_every_mistake_has_its_place(file: Path, data: bytes) -> None:
    file.write_bytes(data)
    with patch.dict("os.environ", {"BIG": "9" * 5000}, clear=True):
        found = outcome(lambda: load_pipeline(file))
    if isinstance(found, ConfigError):
        assert found.problems
        assert all(str(problem).startswith(str(file)) for problem in found.problems)
    else:
        assert found.pipeline.explain()
        assert found.pipeline._repr_html_()
        assert len(found.pipeline.fingerprint()) == 64


SECRET = "hunter2"
HOSTS = st.sampled_from(
    ["db", "[::1]", "[", "a b", "db:99999999", "db:²", "x" * 300, "\x00", "\ud800", ""]
)
PATHS = st.sampled_from(["", "/x", "/x?a=b", "#", "/%zz", "/../..", f"?password={SECRET}"])
SCHEMES = st.sampled_from(["postgresql://", "http://", "https://"])
USERS = st.sampled_from(["", f"ann:{SECRET}@", f"ann:{SECRET}/@:@", "@", ":@"])
ADDRESSES = st.one_of(
    TEXTS,
    st.tuples(SCHEMES, USERS, HOSTS, PATHS).map("".join),
    st.tuples(st.sampled_from(["file://", "host=", "://"]), HOSTS, PATHS).map("".join),
)
OPTIONS: dict[str, tuple[str, ...]] = {
    "kafka": (
        "topic",
        "topics",
        "topic_pattern",
        "starting",
        "client",
        "schema",
        "group_id",
        "key",
    ),
    "files": ("path", "format", "delimiter", "header", "settle_ms"),
    "parquet": ("path", "compression"),
    "csv": ("path", "delimiter"),
    "delta": ("path", "storage"),
    "postgres": ("url", "table", "schema", "zero_bytes"),
    "memory": ("name",),
    "generator": ("rows", "seed", "keys", "start"),
    "console": ("rows",),
}
PATTERNS = st.sampled_from(["a{99999999999}", "(" * 200, "[", "(?P<", "\\", "(?i", "*"])


@st.composite
def options(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    format_ = draw(st.sampled_from([*OPTIONS]))
    names = draw(st.lists(st.sampled_from([*OPTIONS[format_], "unknown"]), unique=True, max_size=4))
    values = ANYTHING | ADDRESSES | PATTERNS | st.integers(0, 1).map(lambda _: {"9" * 5000: 1})
    given_ = {name: draw(values) for name in names}
    if format_ == "kafka":
        given_["bootstrap_servers"] = draw(ADDRESSES)
    return format_, given_


@examples(2 / 3)
@given(chosen=options())
def test_options_are_taken_or_refused(chosen: tuple[str, dict[str, Any]]) -> None:
    format_, given_ = chosen
    for attempt in (
        lambda: KafkaOptions.of_source(
            Source(name="s", format="kafka", event_time="ts", options=given_)
        ),
        lambda: (
            format_ != "kafka"
            and open_source(Source(name="s", format=format_, event_time="ts", options=given_), [])
        ),
        lambda: (
            format_ not in ("kafka", "postgres")
            and open_target(
                Target(format=format_, options=given_),
                pipeline="p",
                channel="main",
                identity=("k",),
            )
        ),
    ):
        found = outcome(attempt)
        assert not isinstance(found, TidegateError) or SECRET not in str(found)


@examples(1 / 3)
@given(address=ADDRESSES, schema=st.none() | TEXTS | st.just("\ud800"))
def test_an_address_is_taken_or_refused_and_never_shown(address: str, schema: str | None) -> None:
    flaw = address_flaw(address)
    assert SECRET not in str(flaw)
    found = outcome(lambda: Address(address, schema))
    assert SECRET not in str(found)
    if isinstance(found, Address):
        assert SECRET not in found.place
        assert SECRET not in found.without_secrets(f"no connection to {address}")
