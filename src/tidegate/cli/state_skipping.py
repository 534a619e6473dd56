"""`tidegate state skip-publish`: going on without output that can never be published."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from tidegate.cli.state_changing import taken_over
from tidegate.errors import EpochTaken
from tidegate.state.catalog import Catalog
from tidegate.state.protocol import Manifest
from tidegate.text import count_text


def unpublished(catalog: Catalog, pipeline: str) -> tuple[Manifest, ...]:
    """The committed epochs whose output may not be out yet."""
    with taken_over(catalog, pipeline) as (_, recovered):
        return recovered.to_publish


def given_up(pipeline: str, manifests: Sequence[Manifest]) -> Iterator[str]:
    """What is lost when these epochs are not published, in sentences."""
    epochs = count_text(len(manifests), "epochs")
    yield f"pipeline {pipeline} gives up what is not in its targets yet of {epochs}:"
    for manifest in manifests:
        rows, parts = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
        for output in manifest.outputs:
            if not output.in_commit:
                what = (output.channel, output.kind)
                rows[what] += output.part.rows
                parts[what] += 1
        for (channel, kind), count in sorted(rows.items()):
            taken_back = " to be taken back" if kind == "retracted" else ""
            yield (
                f"epoch {manifest.epoch}, channel {channel}: {count_text(count, 'rows')}"
                f"{taken_back} in {count_text(parts[channel, kind], 'parts')}"
            )
        if not rows:
            yield f"epoch {manifest.epoch}: no rows"
    yield "state and offsets stay as they are: these rows do not come again"


def skip_publish(catalog: Catalog, pipeline: str, agreed: Sequence[Manifest]) -> None:
    """Note that these epochs are out, whatever of them is; what was staged for them goes.

    Raises `EpochTaken` if there are others by now.
    """
    with taken_over(catalog, pipeline) as (store, recovered):
        if [each.epoch for each in recovered.to_publish] != [each.epoch for each in agreed]:
            raise EpochTaken(
                f"pipeline {pipeline!r} went on while you were asked: nothing was given up; "
                "ask again"
            )
        store.published(recovered.token, agreed[-1].epoch)
        store.collect_garbage(recovered.token)
