"""Parts as rows of the journal: staged by tasks with COPY, fetched by tasks.

step -> [stage] -> manifest -> commit: the same rows, named -> [fetch] in the next epoch
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeVar

import pyarrow as pa

from tidegate.errors import StateLost, StoreUnavailable
from tidegate.postgres.address import Address
from tidegate.postgres.connecting import Connection, transaction
from tidegate.postgres.pool import pooled
from tidegate.state.parts import parts_of
from tidegate.state.postgres_schema import queries
from tidegate.state.protocol import Part

SESSION: Final = "tidegate task"
_PIECE: Final = 32 << 20
"""Bytes of a row: a value of PostgreSQL cannot have more than a gigabyte."""
_TYPES: Final = ("text", "text", "int4", "int8", "int8", "int8", "int8", "int8", "bytea")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PostgresDepot:
    """The journal of a pipeline. Each process keeps a connection of its own to it."""

    address: Address
    pipeline: str
    far: ClassVar[bool] = True
    local_folder: ClassVar[None] = None

    def stage(
        self, token: int, epoch: int, attempt: str, parts: Mapping[str, tuple[pa.Buffer, int]]
    ) -> dict[str, Part]:
        """Write all blobs in one transaction, and none where one of the names is taken."""
        staged = parts_of(token, epoch, attempt, parts)
        if not staged:
            return {}
        rows = [
            (self.pipeline, part.name, nth, token, epoch, *_facts(part), piece)
            for what, part in staged.items()
            for nth, piece in enumerate(_pieces(parts[what][0]))
        ]
        self._tried(
            lambda connection: _copy(connection, rows),
            unless=lambda connection: _all_there(connection, self.pipeline, [*staged.values()]),
        )
        return staged

    def fetch(self, part: Part) -> pa.Buffer:
        """The bytes of the part, in memory."""
        return self.fetch_all([part])[0]

    def fetch_all(self, parts: Sequence[Part]) -> list[pa.Buffer]:
        """The bytes of each part: one statement, one snapshot."""
        if not parts:
            return []
        names = [*{part.name for part in parts}]
        found = self._tried(lambda connection: _blobs(connection, self.pipeline, names)) or {}
        return [pa.py_buffer(_checked(part, found.get(part.name))) for part in parts]

    def _tried(
        self, act: Callable[[Connection], T], unless: Callable[[Connection], bool] | None = None
    ) -> T | None:
        """Try twice: a connection that was kept may have died since it was used.

        The second time only `unless` the first one came to its end, although nobody heard of it.
        """
        try:
            with pooled(self.address, SESSION) as connection:
                return act(connection)
        except StoreUnavailable:
            with pooled(self.address, SESSION) as connection:
                done = unless is not None and unless(connection)
                return None if done else act(connection)


def _facts(part: Part) -> tuple[int, int, int]:
    return part.bytes, part.rows, part.checksum


def _pieces(data: pa.Buffer) -> Iterator[memoryview]:
    """At least one, also of nothing."""
    view = memoryview(data)
    for begin in range(0, max(1, len(view)), _PIECE):
        yield view[begin : begin + _PIECE]


def _copy(connection: Connection, rows: Sequence[tuple[Any, ...]]) -> None:
    with (
        transaction(connection),
        connection.cursor() as cursor,
        cursor.copy(queries()["stage"]) as copy,
    ):
        copy.set_types(_TYPES)
        for row in rows:
            copy.write_row(row)


def staged(connection: Connection, pipeline: str, names: Sequence[str]) -> dict[str, Any]:
    """What is there of some parts: their sizes and checksums; no blob is read."""
    values = {"pipeline": pipeline, "parts": [*names]}
    rows = connection.execute(queries()["find_staged"], values).fetchall()
    return {name: (size, checksum) for name, size, checksum, there in rows if size == there}


def _all_there(connection: Connection, pipeline: str, parts: Sequence[Part]) -> bool:
    found = staged(connection, pipeline, [part.name for part in parts])
    return all(found.get(part.name) == (part.bytes, part.checksum) for part in parts)


def _blobs(connection: Connection, pipeline: str, names: Sequence[str]) -> dict[str, bytes]:
    values = {"pipeline": pipeline, "parts": names}
    pieces: dict[str, list[bytes]] = {}
    with connection.cursor() as cursor:
        for name, piece in cursor.stream(queries()["fetch"], values, binary=True):
            pieces.setdefault(name, []).append(piece)
    return {name: each[0] if len(each) == 1 else b"".join(each) for name, each in pieces.items()}


def _checked(part: Part, data: bytes | None) -> bytes:
    if data is None:
        raise StateLost(f"part {part.name!r} is not in the journal")
    if len(data) != part.bytes:
        raise StateLost(f"part {part.name!r} has {len(data)} bytes, {part.bytes} were staged")
    if (found := zlib.crc32(data)) != part.checksum:
        said = f"its checksum is {found:08x}, not {part.checksum:08x}"
        raise StateLost(f"part {part.name!r} is damaged: {said}")
    return data
