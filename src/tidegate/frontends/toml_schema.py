"""The form of a pipeline file as JSON schema, for editors that complete and check."""

from __future__ import annotations

from typing import Any, Final

from tidegate.frontends.toml import OPERATORS, RUN, TOP_KEYS, TRANSFORM, UNDER_TRANSFORM
from tidegate.pipeline import Pipeline, RunSettings

_REFERENCE: Final = {"type": "string", "pattern": r"\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\}"}
_SCALARS: Final = ("integer", "number", "boolean")


def toml_schema() -> dict[str, Any]:
    """Describe what `load_pipeline` takes."""
    schema = Pipeline.json_schema()
    properties = schema["properties"]
    run = RunSettings.model_json_schema()
    schema["$defs"] |= run.pop("$defs", {})
    operators = properties["operators"]
    transform = {name: properties.pop(name) for name in UNDER_TRANSFORM}
    sql = {"type": "string", "description": "A stateless SELECT over `source`: its transform."}
    properties[TRANSFORM] = {
        "type": "object",
        "description": "What is computed: a window or a join, and SQL in front of it.",
        "properties": {**transform, "sql": sql},
        "additionalProperties": False,
    }
    properties[OPERATORS] = operators
    computed = {"properties": {TRANSFORM: {"anyOf": schema.pop("anyOf")}}, "required": [TRANSFORM]}
    schema["anyOf"] = [computed, {"required": [OPERATORS]}]
    properties[RUN] = {**run, "description": "How it is run; options of the command win."}
    schema["properties"] = {name: properties[name] for name in TOP_KEYS}
    described = {
        "title": "Tidegate pipeline",
        "description": "A pipeline of Tidegate. ${NAME} and ${NAME:-default} in texts are taken "
        "from the environment.",
    }
    with_references: dict[str, Any] = _with_references({**schema, **described})
    return with_references


def _with_references(node: Any) -> Any:
    """Where not any text is expected, a reference to the environment may stand too."""
    if isinstance(node, list):
        return [_with_references(item) for item in node]
    if not isinstance(node, dict):
        return node
    changed = {key: _with_references(item) for key, item in node.items()}
    if changed.get("type") not in _SCALARS and "pattern" not in changed:
        return changed
    outside = {
        key: changed.pop(key) for key in ("title", "description", "default") if key in changed
    }
    return {**outside, "anyOf": [changed, _REFERENCE]}
