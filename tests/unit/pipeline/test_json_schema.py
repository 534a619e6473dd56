from __future__ import annotations

import json
from typing import Any

from tidegate.pipeline import Pipeline
from tidegate.pipeline.aggregates import AGGREGATES

SCHEMA = Pipeline.json_schema()


def _properties(name: str) -> dict[str, Any]:
    return SCHEMA["$defs"][name]["properties"]  # type: ignore[no-any-return]  # JSON


def test_the_schema_is_json() -> None:
    assert json.loads(json.dumps(SCHEMA)) == SCHEMA


def test_every_key_has_a_description() -> None:
    parts = {"Pipeline": SCHEMA["properties"]}
    parts |= {name: part["properties"] for name, part in SCHEMA["$defs"].items()}
    silent = [
        (p, k) for p, keys in parts.items() for k, v in keys.items() if not v.get("description")
    ]
    assert silent == []


def test_choices_are_listed() -> None:
    assert _properties("Aggregation")["kind"]["anyOf"] == [
        {"type": "string", "enum": [*AGGREGATES]},
        {"type": "string", "pattern": "^[a-z][a-z0-9_]*$"},
    ]
    assert _properties("Window")["kind"]["enum"] == ["session", "tumbling", "hopping"]
    assert _properties("StateStore")["on_state_cap"]["enum"] == ["stop", "shed"]


def test_shorthands_are_part_of_the_schema() -> None:
    properties = SCHEMA["properties"]
    references = {name: properties[name]["$ref"] for name in ("window", "join", "late", "rejected")}
    assert references == {
        "window": "#/$defs/Window",
        "join": "#/$defs/Join",
        "late": "#/$defs/Target",
        "rejected": "#/$defs/Target",
    }
    assert properties["sources"]["anyOf"] == [
        {"$ref": "#/$defs/Source"},
        {"type": "array", "items": {"$ref": "#/$defs/Source"}},
    ]
    assert SCHEMA["anyOf"] == [{"required": [name]} for name in ("window", "join", "operators")]


def test_unknown_keys_are_refused_by_the_schema_too() -> None:
    parts = [SCHEMA, *SCHEMA["$defs"].values()]
    assert [part["additionalProperties"] for part in parts] == [False] * len(parts)


def test_keys_are_called_as_in_files() -> None:
    assert "schema" in _properties("StateStore")
    assert "schema_name" not in _properties("StateStore")
    assert _properties("Window")["group_by"]["anyOf"][0] == {"type": "string"}
