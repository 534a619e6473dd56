"""`tidegate state rewind`: let the next run read a source again, from an offset that is named.

Rows that are read again would count twice in what is held, so state goes with it: what is held is
forgotten, and a new incarnation begins behind the offsets that remain.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tidegate.cli.state_changing import taken_over
from tidegate.core.watermark import (
    PipelineWatermark,
    SourceWatermark,
    partition_key,
    partitions_in,
)
from tidegate.errors import ConfigError, EpochTaken, Problem
from tidegate.eventtime import BEGINNING
from tidegate.pipeline.masking import listed
from tidegate.pipeline.wording import did_you_mean
from tidegate.state.catalog import Catalog, Committed
from tidegate.state.protocol import Manifest, Recovered, Stacks

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


def rewind(
    catalog: Catalog, pipeline: str, source: str, to: Offset | None, confirmed_epoch: int | None
) -> int:
    """Forget what is held and put the source back, in one transaction; the epoch that says so
    comes back.
    """
    with taken_over(catalog, pipeline) as (store, recovered):
        if confirmed_epoch is not None and recovered.epoch != confirmed_epoch:
            raise EpochTaken(
                f"pipeline {pipeline!r} was at epoch {confirmed_epoch} when you were asked and "
                f"is at {recovered.epoch} now: nothing was changed; ask again"
            )
        last, token = recovered.last, recovered.token
        if last is None:
            raise ConfigError([Problem("--source", repr(source), "a source that was read")])
        offsets = {name: offset for name, offset in last.offsets.items() if name != source}
        if to is not None:
            offsets[source] = to
        manifest = _begun_anew(source, last, recovered, offsets)
        store.adopt(token, recovered.plan or {})
        store.reset(token, then=manifest)
        store.published(token, manifest.epoch)
        store.collect_garbage(token)
        return manifest.epoch


def _begun_anew(
    source: str, last: Manifest, recovered: Recovered, offsets: Mapping[str, Offset]
) -> Manifest:
    """An epoch in which nothing is held, and each source stands where it is to.

    Which partitions the one has that is rewound, the next run sees.
    """
    known = last.watermarks["sources"]
    left = {partition_key(source, each) for each in partitions_in(source, known)}
    watermarks = PipelineWatermark(
        sources={name: SourceWatermark() for name in known if name not in left}
    )
    return Manifest(
        epoch=recovered.epoch + 1,
        offsets=offsets,
        watermarks=dict(watermarks.to_dict()),
        state={name: Stacks(shards=((),) * len(each.shards)) for name, each in last.state.items()},
        discovered={name: tuple(entries) for name, entries in recovered.logs.items()},
        committed_us=last.committed_us,
        arrival_us=BEGINNING,
    )


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
