"""Publishing: what is committed becomes visible, epoch after epoch.

A target may be given an epoch again that it has already: after a crash nobody knows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidegate import faults
from tidegate.errors import StateLost
from tidegate.state.protocol import Depot, Manifest, Output
from tidegate.targets.protocol import EpochKey, StagedRows, TargetWriter
from tidegate.transaction import Transaction

_STAMPED: Final = re.compile(r"(?P<token>\d+)-(?P<epoch>\d+)-", re.ASCII)
"""How names of parts begin."""


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

    def check_staged(self, manifest: Manifest) -> None:
        """Before a commit: raise `StateLost` unless the driver has all that lies beside targets.

        The store looks after what it has itself.
        """
        for output in manifest.outputs:
            if output.in_target:
                _check_staged(_staged_file(self.writers[output.channel], output), output)

    def beside(self, manifest: Manifest) -> Callable[[Transaction], None] | None:
        """What writes the rows that are to be in the commit, in its transaction; None: none are.

        All that can be done before the transaction is done when this returns.
        """
        outputs_now = [output for output in manifest.outputs if output.in_commit]
        acts = []
        for (_, channel), outputs in _by_channel(outputs_now):
            writer = self.writers[channel]
            if not writer.in_commit:
                raise StateLost(f"rows of {channel!r} were staged for the database of the store")
            acts.append(writer.beside([self._staged(writer, output) for output in outputs]))

        def write(transaction: Transaction) -> None:
            for act in acts:
                act(transaction)

        return write if acts else None

    def discard_garbage(self, unpublished: Sequence[Manifest], token: int, epoch: int) -> None:
        """Delete what lies staged beside targets and no manifest still to publish names.

        As the store does: what is of an older token, or of an epoch up to this one.
        """

        def over(file: str) -> bool:
            stamped = _STAMPED.match(file)
            if stamped is None:
                return False
            return int(stamped["token"]) < token or int(stamped["epoch"]) <= epoch

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
            read=path.read_bytes if path else lambda: self._fetched(output),
            path=path,
        )

    def _fetched(self, output: Output) -> bytes:
        try:
            data: bytes = self.depot.fetch(output.part).to_pybytes()
        except StateLost as error:
            if output.in_commit:  # nothing is committed yet
                raise
            hint = "bring the store back from a copy; or go on without these rows"
            told = f"{error}\n  hint: {hint}: `tidegate state skip-publish`"
            raise StateLost(told) from error
        return data


def _by_channel(
    outputs: Sequence[Output],
) -> list[tuple[tuple[str, str], list[Output]]]:
    """The outputs of each operator and channel, in the order of their names."""
    found: dict[tuple[str, str], list[Output]] = {}
    for output in outputs:
        found.setdefault((output.operator, output.channel), []).append(output)
    return sorted(found.items())


def _check_staged(path: Path, output: Output) -> None:
    try:
        found = path.stat().st_size
    except FileNotFoundError:
        found = None
    if found == output.part.bytes:
        return
    there = "not there" if found is None else f"{found} bytes long"
    raise StateLost(
        f"a task staged rows of {output.channel!r} as {path}, {output.part.bytes} bytes; for the "
        f"driver this file is {there}: nothing of the epoch was committed\n"
        "  hint: the folder of a target must be on a file system that the driver and all Spark "
        "tasks share"
    )


def _staged_file(writer: TargetWriter, output: Output) -> Path:
    if writer.staging is None:
        raise StateLost(
            f"part {output.part.name} was staged beside a target of {output.channel!r} that is "
            "no more\n  hint: run the pipeline once with the target that it had; or give the rows "
            "up: `tidegate state skip-publish`"
        )
    return writer.staging.file(output.part.name)
