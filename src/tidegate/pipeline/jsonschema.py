"""The form of a pipeline in files, for editors that complete and check while one types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate.pipeline.pipeline import Pipeline


def schema_for_editors(cls: type[Pipeline]) -> dict[str, Any]:
    """Describe what `Pipeline.from_dict` takes, shorthands included, as JSON schema."""
    schema = _without_null_defaults(cls.model_json_schema())
    properties = schema["properties"]
    source, target, window, join = (
        {"$ref": f"#/$defs/{name}"} for name in ("Source", "Target", "Window", "Join")
    )
    properties["sources"]["anyOf"] = [source, {"type": properties["sources"].pop("type")}]
    properties["sources"]["anyOf"][1]["items"] = properties["sources"].pop("items")
    properties["window"] = {**window, "description": "Short for operators with this one window."}
    properties["join"] = {**join, "description": "Short for operators with this one join."}
    properties["late"] = {**target, "description": "Short for channels.late."}
    properties["rejected"] = {**target, "description": "Short for channels.rejected."}
    either = [{"required": [name]} for name in ("window", "join", "operators")]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "anyOf": either}


def _without_null_defaults(node: Any) -> Any:
    """Drop `default: null`, which would make editors offer a value that is none."""
    if isinstance(node, dict):
        return {
            key: _without_null_defaults(item)
            for key, item in node.items()
            if not (key == "default" and item is None)
        }
    return [_without_null_defaults(item) for item in node] if isinstance(node, list) else node
