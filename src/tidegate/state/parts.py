"""Parts as files: staged by tasks, mapped by tasks, counted and collected by the driver.

    step -> [stage] -> manifest -> commit -> [fetch] in the next epoch

A file is named after its part and its checksum, so a commit sees that the bytes it names were
staged without reading them. A name also says under which token and for which epoch it was
staged: what a task writes right now can be told from what nobody needs.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from tidegate.durability import private_opener, sync_folder
from tidegate.errors import ConfigError, Problem, StateLost
from tidegate.state.protocol import Part

_STAMPED = re.compile(r"(?P<token>\d+)-(?P<epoch>\d+)-[A-Za-z0-9._-]+", re.ASCII)
_SUFFIX = ".part"
_REMEMBERED = 65_536


@dataclass(frozen=True, slots=True)
class SqliteDepot:
    """A folder of parts on this machine. Tasks use it without the database beside it.

    What is named counts only once a manifest says so, so a file may be written under its final
    name: whoever dies before `stage` returns has told nobody of it.
    """

    folder: Path
    durable: bool = True
    """Whether parts must outlive a power cut."""
    far: ClassVar[bool] = False

    @property
    def local_folder(self) -> Path:
        """See `Depot`."""
        return self.folder

    def stage(
        self, token: int, epoch: int, attempt: str, parts: Mapping[str, tuple[pa.Buffer, int]]
    ) -> dict[str, Part]:
        """Write each blob to a file of its own; raises `FileExistsError` rather than replace one.

        Raises `ConfigError` where the driver's folder is not: on another machine.
        """
        staged = parts_of(token, epoch, attempt, parts)
        try:
            for what, part in staged.items():
                self._write(part, parts[what][0])
            if self.durable and staged:
                sync_folder(self.folder)
        except FileNotFoundError as error:
            raise ConfigError([_not_here(self.folder)]) from error
        return staged

    def fetch(self, part: Part) -> pa.Buffer:
        """The file, mapped into memory; its checksum is computed once per process."""
        path = self._path_of(part)
        try:
            with pa.memory_map(path) as mapped:
                data = mapped.read_buffer()
        except OSError as error:
            raise StateLost(f"part {part.name} cannot be read: {error}") from error
        if data.size != part.bytes:
            raise StateLost(f"{path} has {data.size} bytes, {part.bytes} were staged")
        _check_once(path, part.checksum)
        return data

    def fetch_all(self, parts: Sequence[Part]) -> list[pa.Buffer]:
        """Each file, mapped."""
        return [self.fetch(part) for part in parts]

    @property
    def depot(self) -> SqliteDepot:
        """Itself: driver and tasks see the same folder."""
        return self

    def check_staged(self, parts: Sequence[Part]) -> None:
        """Raise `StateLost` unless files of these names, sizes and checksums were staged."""
        for part in parts:
            self._check_file(part)

    def _check_file(self, part: Part) -> None:
        path = self._path_of(part)
        try:
            size = os.stat(path).st_size
        except OSError as error:
            raise StateLost(f"part {part.name} was not staged: {error}") from error
        if size != part.bytes:
            raise StateLost(f"part {part.name} has {size} bytes, the manifest says {part.bytes}")

    def remove_garbage(self, needed: Collection[Part], token: int, epoch: int) -> int:
        """Delete what is not needed and was staged under an older token or up to this epoch.

        Files that no task has written are left alone.
        """
        keep = {_file_of(part) for part in needed}
        with os.scandir(self.folder) as entries:
            garbage = [
                entry.path
                for entry in entries
                if entry.name not in keep and _is_over(entry.name, token, epoch)
            ]
        for path in garbage:
            with suppress(FileNotFoundError):
                os.unlink(path)
        return len(garbage)

    def _write(self, part: Part, data: pa.Buffer) -> None:
        with open(self._path_of(part), "xb", buffering=0, opener=private_opener) as file:
            rest = memoryview(data)
            while rest:
                rest = rest[file.write(rest) :]
            if self.durable:
                os.fsync(file.fileno())

    def _path_of(self, part: Part) -> str:
        if _STAMPED.fullmatch(part.name) is None:
            raise StateLost(f"part {part.name!r} was not staged here: this is not a name of ours")
        return str(self.folder / _file_of(part))


def parts_of(
    token: int, epoch: int, attempt: str, parts: Mapping[str, tuple[pa.Buffer, int]]
) -> dict[str, Part]:
    """What a task is about to stage, each with its name, size and checksum."""
    return {
        what: Part(
            name=f"{token}-{epoch}-{attempt}-{what}",
            bytes=data.size,
            checksum=zlib.crc32(data),
            rows=rows,
        )
        for what, (data, rows) in parts.items()
    }


def _file_of(part: Part) -> str:
    return f"{part.name}.{part.checksum:08x}{_SUFFIX}"


def _is_over(file: str, token: int, epoch: int) -> bool:
    stamped = _STAMPED.fullmatch(file)
    if stamped is None or not file.endswith(_SUFFIX):
        return False
    return int(stamped["token"]) < token or int(stamped["epoch"]) <= epoch


@lru_cache(maxsize=_REMEMBERED)
def _check_once(path: str, checksum: int) -> None:
    """Raise `StateLost` if the bytes are not those; a file that was right is not read again."""
    with pa.memory_map(path) as mapped:
        found = zlib.crc32(mapped.read_buffer())
    if found != checksum:
        raise StateLost(f"{path} is damaged: its checksum is {found:08x}, not {checksum:08x}")


def _not_here(folder: Path) -> Problem:
    return Problem(
        "state_store.kind",
        f"no folder {folder} where a task runs",
        "all tasks on the machine of the driver",
        "run Spark with master local[*], or use kind='postgres'",
    )
