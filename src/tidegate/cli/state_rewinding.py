"""`tidegate state rewind`: let the next run read a source again, from an offset that is named.

Rows that are read again would count twice in what is held, so state goes with it: what is held is
forgotten, and a new incarnation begins behind the offsets that remain.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tidegate.cli.state_changing import taken_over
from tidegate.core.watermark import PipelineWatermark, SourceWatermark
from tidegate.errors import ConfigError, EpochTaken, Problem
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
    wanted, known = _parsed(to, there[source]), there[source]
    if wanted is None or wanted.keys() != known.keys():
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
    """Forget what is held and put the source back; the epoch that says so comes back."""
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
        manifest = _begun_anew(last, recovered, offsets)
        store.reset(token)
        store.adopt(token, recovered.plan or {})
        store.commit(token, manifest)
        store.published(token, manifest.epoch)
        store.collect_garbage(token)
        return manifest.epoch


def _begun_anew(last: Manifest, recovered: Recovered, offsets: Mapping[str, Offset]) -> Manifest:
    """An epoch in which nothing is held, and each source stands where it is to."""
    watermarks = PipelineWatermark(
        sources={name: SourceWatermark() for name in last.watermarks["sources"]}
    )
    return Manifest(
        epoch=recovered.epoch + 1,
        offsets=offsets,
        watermarks=dict(watermarks.to_dict()),
        state={name: Stacks(shards=((),) * len(each.shards)) for name, each in last.state.items()},
        discovered={name: tuple(entries) for name, entries in recovered.logs.items()},
        committed_us=last.committed_us,
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


def _before(wanted: Offset, known: Offset) -> bool:
    """Whether all parts of an offset are such, and none is behind where the source stands."""
    return all(
        type(wanted[name]) is type(at) and (not isinstance(at, int) or 0 <= wanted[name] <= at)
        for name, at in known.items()
    )
