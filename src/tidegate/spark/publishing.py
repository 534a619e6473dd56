"""Publishing: what is committed becomes visible, epoch after epoch.

A target may be given an epoch again that it has already: after a crash nobody knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegate import faults
from tidegate.spark.staging import staged_path
from tidegate.state.protocol import Depot, Manifest, Output
from tidegate.targets import FilesWriter
from tidegate.targets.protocol import EpochKey, StagedRows, TargetWriter


@dataclass(frozen=True, kw_only=True)
class Publisher:
    """Brings the output of committed epochs to the targets of their channels."""

    pipeline: str
    incarnation: str
    depot: Depot
    writers: Mapping[str, TargetWriter]

    def publish(self, manifest: Manifest) -> None:
        """Bring out an epoch: every channel, in the order of their names."""
        by_channel: dict[tuple[str, str], list[Output]] = {}
        for output in manifest.outputs:
            by_channel.setdefault((output.operator, output.channel), []).append(output)
        for (operator, channel), outputs in sorted(by_channel.items()):
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

    def discard_garbage(self, unpublished: Sequence[Manifest], token: int) -> None:
        """Delete what was staged beside targets under older tokens and never committed."""

        def over(file: str) -> bool:
            stamp, _, _ = file.partition("-")
            return stamp.isdigit() and int(stamp) < token

        for channel, writer in self.writers.items():
            if isinstance(writer, FilesWriter):
                outputs = [each for manifest in unpublished for each in manifest.outputs]
                named = {each.part.name for each in outputs if each.channel == channel}
                writer.discard_unnamed(named, over)

    def _staged(self, writer: TargetWriter, output: Output) -> StagedRows:
        path = staged_path(writer, output.part.name) if output.in_target else None
        return StagedRows(
            kind="retracted" if output.kind == "retracted" else "sent",
            name=output.part.name,
            rows=output.part.rows,
            read=path.read_bytes if path else lambda: self.depot.fetch(output.part).to_pybytes(),
            path=path,
        )
