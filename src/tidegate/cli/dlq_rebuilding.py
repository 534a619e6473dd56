"""The value of a record that is gone, written anew from the row that it was: as near as may be."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from tidegate.cli.dlq_letters import Unsendable
from tidegate.pipeline import Source
from tidegate.pipeline.source import KAFKA_COLUMNS


def rebuilt_value(row: Mapping[str, Any], source: Source, *, sided: bool) -> bytes | None:
    """The payload of a row as its source reads it; raises `Unsendable` where it is not all there.

    `sided` says that rows have a column with their side of a join.
    """
    if source.transform is not None:
        raise Unsendable("rows whose records are gone, of a source with a transform")
    written = source.options.get("value_format", "json")
    if written == "avro":
        raise Unsendable("rows of Avro that decoded, and whose records are gone")
    payload = _payload(row, source, _side_column(row) if sided else None)
    if written == "json":
        return _json(payload)
    return _plain(payload.get("value"), written)


def _payload(row: Mapping[str, Any], source: Source, side: str | None) -> dict[str, Any]:
    declared = source.columns or {}
    if any(name not in row for name in declared):
        raise Unsendable(f"rows whose records are gone, without all columns of {source.name!r}")
    return {
        name: value
        for name, value in row.items()
        if name != side and name not in KAFKA_COLUMNS and (not declared or name in declared)
    }


def _side_column(row: Mapping[str, Any]) -> str | None:
    """A column of the user's that has its name has fewer underscores."""
    return max((each for each in row if each.lstrip("_") == "side"), key=len, default=None)


def _json(payload: Mapping[str, Any]) -> bytes:
    if all(value is None for value in payload.values()):
        raise Unsendable("rows of NULLs whose records are gone, and may have been tombstones")
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()


def _plain(text: object, written: str) -> bytes | None:
    """The one value of text or bytes: NULL stays NULL."""
    if text is None:
        return None
    try:
        return (
            base64.b64decode(str(text), validate=True)
            if written == "binary"
            else str(text).encode()
        )
    except ValueError as error:
        raise Unsendable(f"rows that are not as they were written: {error}") from None
