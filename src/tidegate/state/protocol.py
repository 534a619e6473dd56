"""What a state store must do: keep what tasks staged, and commit it with the offsets.

    step -> [stage] in tasks -> check -> [commit] on the driver -> publish -> [published]

State is a stack of immutable segments for each shard. Tasks stage segments (and output) as
named parts: durable, and seen by nobody. A commit names the parts that count from now on, in
one small transaction with offsets and watermarks. What no committed manifest names does not
exist, whoever staged it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec
import pyarrow as pa

from tidegate.transaction import Transaction


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A staged blob: written once, under a name that nobody else uses."""

    name: str
    """`<token>-<epoch>-<attempt>-<what>`: under which token and for which epoch it was staged;
    the attempt is a uuid drawn in the task that staged it."""
    bytes: int
    checksum: int
    """CRC-32 of the bytes."""
    rows: int = 0


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A segment in a stack: the part, in force for the key groups [first_group, end_group)."""

    part: Part
    first_group: int
    end_group: int


def entry_of(part: Part, owned: range) -> Entry:
    """A new segment of the shard that owns these key groups."""
    return Entry(part=part, first_group=owned.start, end_group=owned.stop)


class Stacks(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one operator: for each shard its segments, from the oldest to the newest."""

    shards: tuple[tuple[Entry, ...], ...]


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """Rows staged for a target: still to publish until `published` says otherwise."""

    operator: str
    channel: str
    kind: str
    """`sent` or `retracted`."""
    part: Part
    in_target: bool
    """Whether the part lies in the target's own staging folder, not in the store."""
    in_commit: bool = False
    """Whether the commit itself brings the rows out: there is nothing left to publish."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """One epoch as it is committed: all that a run needs to go on behind it."""

    epoch: int
    offsets: Mapping[str, Mapping[str, Any]]
    """By source; a source that was never read is not in it."""
    watermarks: Mapping[str, Any]
    """`PipelineWatermark.to_dict()`."""
    state: Mapping[str, Stacks]
    """By operator id."""
    outputs: tuple[Output, ...] = ()
    targets: Mapping[str, Mapping[str, Any]] = {}
    """By channel: which place has the rows of all epochs so far, where that can be told."""
    discovered: Mapping[str, tuple[Mapping[str, Any], ...]] = {}
    """By source: entries to append to its log."""
    counts: Mapping[str, int] = {}
    committed_us: int = 0
    """The clock of the epoch."""
    arrival_us: int | None = None
    """The event time of rows by `event_time = "arrival"`; None: no source has it, or not known."""


class Recovered(msgspec.Struct, frozen=True, kw_only=True):
    """What is committed of a pipeline, for the driver that has just taken it over."""

    token: int
    incarnation: str
    epoch: int
    """The last committed one; 0: none."""
    plan: Mapping[str, Any] | None
    """`Pipeline.fingerprint_fields()` of the pipeline that the state belongs to."""
    last: Manifest | None
    to_publish: tuple[Manifest, ...]
    """Committed epochs whose output may not be out yet, in order."""
    logs: Mapping[str, Sequence[Mapping[str, Any]]]
    """By source: everything it has discovered, read from the store when it is asked for."""
    folded_epoch: int = 0
    """The epoch to which the readable table was brought last; 0: never."""
    folded_us: int = 0
    """When that was, by the clock of the store."""


class Depot(Protocol):
    """The side of a store that tasks use. A value that can be pickled."""

    @property
    def far(self) -> bool:
        """Whether to fetch a part moves its bytes, as from a server."""
        ...

    @property
    def local_folder(self) -> Path | None:
        """The folder of files that the driver and all tasks must share; None: a server has them."""
        ...

    def stage(
        self, token: int, epoch: int, attempt: str, parts: Mapping[str, tuple[pa.Buffer, int]]
    ) -> dict[str, Part]:
        """Write blobs durably under `attempt`; nobody sees them until a manifest names them.

        `parts` maps what each is to its bytes and its number of rows.
        """
        ...

    def fetch(self, part: Part) -> pa.Buffer:
        """The bytes of a part, mapped into memory where they are a file of this machine.

        Raises `StateLost` if they are not there, or not the bytes that were staged.
        """
        ...

    def fetch_all(self, parts: Sequence[Part]) -> list[pa.Buffer]:
        """As `fetch`, of several parts, by one question where a server is asked."""
        ...


class Store(Protocol):
    """Durable state of one pipeline: staged by tasks, committed by whoever holds the token.

    Whatever takes a token raises `LostLease` when it is not current; then nothing has changed.
    """

    @property
    def depot(self) -> Depot:
        """For tasks."""
        ...

    def open(self) -> Recovered:
        """Take the pipeline over and return what is committed.

        Raises the token, so an older holder can no longer commit, and `PipelineInUse` while
        another driver has it.
        """
        ...

    def adopt(self, token: int, plan: Mapping[str, Any]) -> None:
        """Remember to which plan the state belongs, from the next commit on."""
        ...

    def check_token(self, token: int) -> None:
        """Raise `LostLease` unless the token is current."""
        ...

    def commit(
        self, token: int, manifest: Manifest, also: Callable[[Transaction], object] | None = None
    ) -> None:
        """Make the named parts the truth, with offsets and watermarks, in one transaction.

        `also` writes rows in the same transaction; whatever it raises, nothing has changed. Stores
        in whose database no target can be refuse it.

        Raises `EpochTaken` when the last epoch is not the one before, `StateLost` when a part
        was not staged; in each case nothing has changed.
        """
        ...

    def published(self, token: int, epoch: int) -> None:
        """The output of all epochs up to this one is out."""
        ...

    def fold(self, token: int, tables: Sequence[Folded]) -> None:
        """Bring the readable table up to date: the keys in `tables`, without those forgotten."""
        ...

    def collect_garbage(self, token: int) -> int:
        """Delete parts that no manifest needs, and say how many.

        That is what was staged under an older token, or for an epoch that is committed, and
        is not named; and what was named, but was replaced before the last commit.
        """
        ...

    def reset(self, token: int, then: Manifest | None = None) -> None:
        """Forget state, offsets and logs, and begin a new incarnation; epochs go on counting.

        With `then` it begins with that epoch and the plan that was adopted: in one transaction,
        so nobody finds it begun without. Raises as `commit` does; then nothing was forgotten.
        """
        ...

    def close(self) -> None:
        """Let another driver have the pipeline."""
        ...

    def resume(self, token: int) -> None:
        """Take the pipeline again after `close`, under the same token: nothing is recovered.

        Raises `LostLease` where another driver had it in between, so that everything known of it
        may be out of date, and `PipelineInUse` while another driver has it.
        """
        ...


class Folded(msgspec.Struct, frozen=True, kw_only=True):
    """The state of some keys of one operator, for people and tools to read."""

    operator: str
    as_of_epoch: int
    watermark_us: int
    keys: pa.Table
    """Columns `group_key` (JSON text), `key_group` (int), `state_blob` (binary, JSON), `forget_at`
    (microseconds). A key with an empty blob has no state any more."""
