"""Offsets as people write them in a command, read by the form of the offset that is committed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tidegate.errors import ConfigError, Problem
from tidegate.pipeline.masking import listed
from tidegate.pipeline.wording import did_you_mean
from tidegate.state.catalog import Committed

EARLIEST = "earliest"

Offset = Mapping[str, Any]


def offset_of(committed: Committed, source: str, to: str) -> Offset | None:
    """The offset that `to` means for a source; None: its beginning."""
    there = committed.offsets
    if source not in there:
        expected = f"a source that was read: {listed(there) if there else 'there is none'}"
        hint = did_you_mean(source, there)
        raise ConfigError([Problem("--source", repr(source), expected, hint)])
    if to == EARLIEST:
        return None
    known = there[source]
    wanted = _completed(_parsed(to, known), known)
    if wanted is None:
        example = json.dumps(known)
        expected = f"{EARLIEST}, or an offset such as {example}, where it stands now"
        raise ConfigError([Problem("--to", repr(to), expected)])
    if not _before(wanted, known):
        expected = f"no offset behind {json.dumps(known)}, where it stands now"
        hint = "to leave rows out, filter them in the transform of the source"
        raise ConfigError([Problem("--to", repr(to), expected, hint)])
    return wanted


def _parsed(to: str, known: Offset) -> dict[str, Any] | None:
    """An offset as JSON; a number is enough where an offset is one."""
    try:
        wanted = json.loads(to)
    except ValueError:
        return None
    if isinstance(wanted, int) and not isinstance(wanted, bool) and len(known) == 1:
        wanted = dict.fromkeys(known, wanted)
    return wanted if isinstance(wanted, dict) else None


def _completed(wanted: Offset | None, known: Offset) -> Offset | None:
    """An offset with all parts that a source has; None: it has others, or not all of them."""
    nested = any(isinstance(part, Mapping) for part in known.values())
    if wanted is None or nested:
        return None if wanted is None else _with_rest(wanted, known)
    return wanted if wanted.keys() == known.keys() else None


def _with_rest(wanted: Any, known: Offset) -> dict[str, Any] | None:
    """Parts in parts, as Kafka has them: those that are not named stay as they are.

    What is no number says what was read, and cannot be another.

    >>> _with_rest({"b": {"x": 1}}, {"a": "id", "b": {"x": 5, "y": 7}})
    {'a': 'id', 'b': {'x': 1, 'y': 7}}
    """
    if not (isinstance(wanted, dict) and wanted.keys() <= known.keys()):
        return None
    whole = dict(known)
    for name, part in wanted.items():
        at = known[name]
        whole[name] = _with_rest(part, at) if isinstance(at, Mapping) else part
        if whole[name] is None or not (isinstance(at, Mapping | int) or part == at):
            return None
    return whole


def _before(wanted: Offset, known: Offset) -> bool:
    """Whether all parts of an offset are such, and none is behind where the source stands."""
    return all(_part_before(wanted[name], at) for name, at in known.items())


def _part_before(wanted: Any, known: Any) -> bool:
    if isinstance(known, Mapping):
        return _before(wanted, known)
    if isinstance(known, int):
        return type(wanted) is type(known) and 0 <= wanted <= known
    return type(wanted) is type(known)
