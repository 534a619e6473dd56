"""Publishing: what is committed becomes visible, epoch after epoch.

A target may be given an epoch again that it has already: after a crash nobody knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate import faults
from tidegate.errors import StateLost
from tidegate.state.protocol import Depot, Manifest, Output
from tidegate.targets.protocol import EpochKey, StagedRows, TargetWriter, in_commit


@dataclass(frozen=True, kw_only=True)
class Publisher:
    """Brings the output of committed epochs to the targets of their channels."""

    pipeline: str
    incarnation: str
    depot: Depot
    writers: Mapping[str, TargetWriter]

    def publish(self, manifest: Manifest) -> None:
        """Bring out an epoch: every channel, in the order of their names.

        What was in the commit is out.
        """
        outputs_left = [output for output in manifest.outputs if not output.in_commit]
        for (operator, channel), outputs in _by_channel(outputs_left):
            key = EpochKey(
                pipeline=self.pipeline,
                incarnation=self.incarnation,
                operator=operator,
                channel=channel,
                epoch=manifest.epoch,
            )
            writer = self.writers[channel]
            writer.publish(key, [self._staged(writer, output) for output in outputs])
            faults.reached("publishing")

    def beside(self, manifest: Manifest) -> Callable[[Any], None] | None:
        """What writes the rows that are to be in the commit, in its transaction; None: none are.

        All that can be done before the transaction is done when this returns.
        """
        outputs_now = [output for output in manifest.outputs if output.in_commit]
        acts = []
        for (_, channel), outputs in _by_channel(outputs_now):
            writer = self.writers[channel]
            if not in_commit(writer):
                raise StateLost(f"rows of {channel!r} were staged for the database of the store")
            acts.append(writer.beside([self._staged(writer, output) for output in outputs]))

        def write(connection: Any) -> None:
            for act in acts:
                act(connection)

        return write if acts else None

    def discard_garbage(self, unpublished: Sequence[Manifest], token: int) -> None:
        """Delete what was staged beside targets under older tokens and never committed."""

        def over(file: str) -> bool:
            stamp, _, _ = file.partition("-")
            return stamp.isdigit() and int(stamp) < token

        for channel, writer in self.writers.items():
            if writer.staging is not None:
                outputs = [each for manifest in unpublished for each in manifest.outputs]
                named = {each.part.name for each in outputs if each.channel == channel}
                writer.staging.discard_unnamed(named, over)

    def _staged(self, writer: TargetWriter, output: Output) -> StagedRows:
        path = _staged_file(writer, output) if output.in_target else None
        return StagedRows(
            kind="retracted" if output.kind == "retracted" else "sent",
            name=output.part.name,
            rows=output.part.rows,
            read=path.read_bytes if path else lambda: self.depot.fetch(output.part).to_pybytes(),
            path=path,
        )


def _by_channel(
    outputs: Sequence[Output],
) -> list[tuple[tuple[str, str], list[Output]]]:
    """The outputs of each operator and channel, in the order of their names."""
    found: dict[tuple[str, str], list[Output]] = {}
    for output in outputs:
        found.setdefault((output.operator, output.channel), []).append(output)
    return sorted(found.items())


def _staged_file(writer: TargetWriter, output: Output) -> Path:
    if writer.staging is None:
        raise StateLost(
            f"part {output.part.name} was staged beside a target of {output.channel!r} that is "
            "no more\n  hint: run the pipeline once with the target that it had"
        )
    return writer.staging.file(output.part.name)
