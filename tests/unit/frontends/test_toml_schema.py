"""The schema that editors use: shipped, current, and right about what is right and wrong."""

from __future__ import annotations

import json
import tomllib
from importlib import resources
from typing import Any

import jsonschema
import pytest

from tests.unit.frontends.test_toml import GRAPH, SESSIONS
from tidegate.frontends.toml_schema import toml_schema

SHIPPED = resources.files("tidegate.frontends")


def valid(data: dict[str, Any]) -> bool:
    checker = jsonschema.Draft202012Validator(toml_schema())
    return not [*checker.iter_errors(data)]


def test_the_shipped_schema_is_current() -> None:
    """`scripts/write-schema` writes it."""
    assert json.loads((SHIPPED / "tidegate.schema.json").read_text()) == toml_schema()


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(toml_schema())


@pytest.mark.parametrize("text", [SESSIONS, GRAPH, (SHIPPED / "pipeline.toml").read_text()])
def test_a_right_file_is_valid(text: str) -> None:
    assert valid(tomllib.loads(text))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("gap_ms = 30_000", 'gap_ms = "30s"'),
        ("[transform.window]", "[window]"),
        ("group_by", "group_bu"),
        ('kind = "session"', 'kind = "sessions"'),
        ("shards = 4", "shards = 0"),
        ('name = "sessions"', ""),
        ('name = "sessions"', 'name = "../sessions"'),
    ],
)
def test_a_wrong_file_is_not(old: str, new: str) -> None:
    assert not valid(tomllib.loads(SESSIONS.replace(old, new, 1)))


@pytest.mark.parametrize(
    ("old", "new"),
    [("[[operators]]", "[[operator]]"), ('from = "clicks"', "from = 5"), ("where", "when")],
)
def test_a_wrong_graph_is_not(old: str, new: str) -> None:
    assert not valid(tomllib.loads(GRAPH.replace(old, new)))


def test_a_number_and_a_part_of_a_name_may_come_from_the_environment() -> None:
    assert valid(tomllib.loads(SESSIONS.replace("30_000", '"${GAP:-30000}"')))
    assert valid(tomllib.loads(SESSIONS.replace('name = "sessions"', 'name = "visits-${SITE}"')))
