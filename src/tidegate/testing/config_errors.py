"""Cases about configurations: which of them must be refused, and which must not.

A case names only what it is about. Everything else is filled in here such that it is valid
with what is named: then an error is an error of what the case is about.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

from tidegate.errors import ConfigError, ScenarioError
from tidegate.pipeline import Pipeline, Watermark
from tidegate.testing.compare import text_of_row
from tidegate.testing.forms import Row, read
from tidegate.testing.operator_case import GAP, KEY, aggregation_of, cap_beyond

_USUAL_MS = 1000
_PIPELINE_KEYS = frozenset({*Pipeline.model_fields, *Pipeline.shorthands}) - {"window"}
_WATERMARK_KEYS = frozenset(Watermark.model_fields)


def config_mismatches(configs: Sequence[Row]) -> list[str]:
    """Make a pipeline of each configuration: `ConfigError` must come exactly if it says so."""
    return [line for n, config in enumerate(configs) for line in _mismatches(n, config)]


def _mismatches(n: int, config: Row) -> list[str]:
    expected = config.get("error")
    if not isinstance(expected, bool):
        raise ScenarioError(f"configs[{n}].error: expected true or false, found {expected!r}")
    written = {name: value for name, value in config.items() if name != "error"}
    found = _problems(written)
    if expected == (found is not None):
        return []
    outcome = "an error, found none" if found is None else f"no error, found: {found}"
    return [f"configs[{n}] {text_of_row(written)}: expected {outcome}"]


def _problems(written: Row) -> str | None:
    try:
        Pipeline.from_dict(pipeline_of(written))
    except ConfigError as error:
        return " ".join(str(error).split())
    return None


def pipeline_of(written: Row) -> Row:
    """Fill a configuration up to a whole pipeline; keys of no other part are the window's."""
    of_pipeline = {name: written[name] for name in written if name in _PIPELINE_KEYS}
    of_watermark = {name: written[name] for name in written if name in _WATERMARK_KEYS}
    taken = {*of_pipeline, *of_watermark, "window"}
    of_window = {name: value for name, value in written.items() if name not in taken}
    of_window |= read(written.get("window", {}), Row, "window")
    channel = of_window.get("late_channel") or "late"
    filled: Row = {
        "name": "case",
        "sources": {"name": "rows", "format": "memory", "event_time": "ts"},
        "target": {"format": "memory"},
        "state_store": {},
        "watermark": of_watermark,
    }
    if not {"late", "channels"} & set(of_pipeline):
        filled["channels"] = {str(channel): {"format": "memory"}}
    return filled | {"window": window_of(of_window)} | of_pipeline


def window_of(written: Row) -> Row:
    """Fill the keys of a window up to a valid one, as far as what is written allows it."""
    said: Row = {"kind": "session"} | written
    if "aggregates" in said:
        said["aggregations"] = [aggregation_of(each) for each in said.pop("aggregates")]
    filled: Row = {"group_by": [KEY], "aggregations": [aggregation_of("count")]}
    if "max_lateness_ms" in said:
        filled["late_data"] = "reassign"
    elif said.get("late_data") == "reassign":
        filled["max_lateness_ms"] = _USUAL_MS
    if "every_ms" in said:
        filled["emit"] = "every"
    elif said.get("emit") == "every":
        filled["every_ms"] = _USUAL_MS
    return filled | _shape(said) | said


def _shape(said: Row) -> Row:
    """Fill in gap and cap, or width and hop, on the right side of whichever is written."""
    if said["kind"] == "session":
        cap = said.get("max_session_duration_ms")
        below_cap = min(_USUAL_MS, cap - 1) if _above_one(cap) else _USUAL_MS
        gap = {} if "gap_column" in said else {GAP: below_cap}
        return gap | {"max_session_duration_ms": cap_beyond(said.get(GAP))}
    hop, width = said.get("hop_ms"), said.get("width_ms")
    shape = {"width_ms": max(_USUAL_MS, hop) if _above_one(hop) else _USUAL_MS}
    if said["kind"] == "hopping":
        shape["hop_ms"] = min(_USUAL_MS, width) if _above_one(width) else 1
    return shape


def _above_one(value: Any) -> TypeGuard[int]:
    return type(value) is int and value > 1
