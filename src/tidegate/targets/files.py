"""Files in a folder: parquet, json lines, csv.

    <parent>/<name>/                                    what people read: whole files only
    <parent>/.<name>.tidegate/<pipeline and channel>/   what tasks stage
    <parent>/.<name>.tidegate/<pipeline and channel>.owner  whose rows these are

Both are on one file system, so publishing is a rename for each staged file.
"""

from __future__ import annotations

import errno
import filecmp
import io
import os
import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

import polars as pl
import pyarrow as pa

from tidegate.durability import make_folder, replace_durably, sync_folder, write_new
from tidegate.errors import Problem, StateLost, UnreadableSource
from tidegate.pipeline import Target
from tidegate.pipeline.masking import shown
from tidegate.targets.names import digest, safe_name
from tidegate.targets.options import (
    choice_problems,
    is_address,
    path_problems,
    refuse,
    unknown_options,
)
from tidegate.targets.ownership import refuse_unless_owner
from tidegate.targets.protocol import EpochKey, StagedRows, TargetOpening, WriterDefaults
from tidegate.targets.rowreading import from_csv, from_json_lines
from tidegate.targets.rowtext import to_csv, to_json_lines
from tidegate.targets.staging import StagingFolder

Compression = Literal["zstd", "snappy", "gzip", "lz4", "brotli", "uncompressed"]
"""How parquet files may be compressed; the first one is the default."""

_COMPRESSIONS: Final[tuple[Compression, ...]] = get_args(Compression)
_EXAMPLE: Final = "/data/sessions"
_EPOCH_DIGITS: Final = 12

HIDDEN: Final = (".", "_")
"""Names of files that readers of tables pass over begin so: they are being written, or no rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesWriter(WriterDefaults):
    """One file for each staged part that has rows; files are added, never changed."""

    format: str
    folder: Path
    pipeline: str
    channel: str
    compression: Compression = _COMPRESSIONS[0]

    @property
    def staging(self) -> StagingFolder:
        """A hidden folder beside the target's, of this pipeline and channel alone."""
        label = f"{safe_name(self.pipeline)}-{digest(self.pipeline, self.channel)}"
        folder = self.folder.with_name(f".{self.folder.name}.tidegate") / label
        return StagingFolder(folder=folder, suffix=f".{self.format}")

    def check(self, identity: Sequence[str], schema: pl.Schema) -> None:
        """Files take rows of any schema; both folders must be such that can be written to."""
        problems = [*_folder_problems(self.folder), *_folder_problems(self.staging.folder)]
        refuse(dict.fromkeys(problems), self.channel)

    def encode(self, rows: pl.DataFrame) -> bytes:
        """The file."""
        if self.format == "json":
            return to_json_lines(rows)
        if self.format == "csv":
            return to_csv(rows)
        sink = io.BytesIO()
        rows.write_parquet(sink, compression=self.compression)
        return sink.getvalue()

    def publish(self, key: EpochKey, parts: Sequence[StagedRows]) -> None:
        """Rename the staged files that have rows; those that are out already stay."""
        sent = [part for part in parts if part.kind == "sent" and part.rows]
        if not sent:
            return
        refuse_unless_owner(self.owner(), key, str(self.folder))
        make_folder(self.folder)
        for part in sent:
            make_visible(part, self.folder / self.final_name(key, part.name))
        sync_folder(self.folder)

    def last_epoch(self, key: EpochKey) -> int | None:
        """The last epoch by the names of files; those of an older incarnation count as well."""
        begins = self._begins(key)
        epochs = (
            file.name.removeprefix(begins)[:_EPOCH_DIGITS]
            for file in self.visible_files()
            if file.name.startswith(begins)
        )
        return max((int(epoch) for epoch in epochs if epoch.isdigit()), default=None)

    def owner(self) -> str | None:
        """As noted beside what is staged."""
        try:
            return self._note.read_text("utf-8")
        except FileNotFoundError:
            return None

    def is_empty(self) -> bool:
        """Whether no file is that of the pipeline's channel: others may have some here."""
        names = safe_name(self.pipeline), safe_name(self.channel)
        pipeline, channel = map(re.escape, names)
        ours = re.compile(rf"{pipeline}-.+-{channel}-\d{{{_EPOCH_DIGITS}}}-")
        return not any(ours.match(file.name) for file in self.visible_files())

    def claim(self, incarnation: str) -> None:
        """The note outlives a power cut, as rows do."""
        if self.owner() != incarnation:
            replace_durably(self._note, incarnation.encode())

    @property
    def _note(self) -> Path:
        return self.staging.folder.with_name(f"{self.staging.folder.name}.owner")

    def visible_files(self) -> list[Path]:
        """The files that people read, of whatever pipeline, in the order of their names."""
        there = self.folder.glob(f"*.{self.format}")
        return sorted(file for file in there if not file.name.startswith(HIDDEN))

    def rows(self, schema: pl.Schema | None = None) -> pl.DataFrame:
        """The rows of all files; a column that a file does not have is NULL there."""
        files = self.visible_files()
        if not files:
            return pl.DataFrame()
        try:
            frames = [self._scanned(file, schema) for file in files]
            return pl.concat(frames, how="diagonal").collect()
        except pl.exceptions.PolarsError as error:
            raise UnreadableSource(
                f"{self.folder}: files that are not rows of one table: {error}\n"
                "  hint: pipelines whose columns differ in type need a folder each"
            ) from error

    def _scanned(self, file: Path, schema: pl.Schema | None) -> pl.LazyFrame:
        if self.format == "parquet":
            return pl.scan_parquet(file, glob=False)
        decode = from_json_lines if self.format == "json" else from_csv
        return decode(file.read_bytes(), schema).lazy()

    def final_name(self, key: EpochKey, part_name: str) -> str:
        """The name under which people see a part."""
        part = self.staging.file(part_name).name
        return f"{self._begins(key)}{key.epoch:0{_EPOCH_DIGITS}d}-{part}"

    def _begins(self, key: EpochKey) -> str:
        names = (safe_name(name) for name in (key.pipeline, key.operator, key.channel))
        return f"{'-'.join(names)}-"


def open_files(opening: TargetOpening) -> FilesWriter:
    """The writer of a target; raises `ConfigError` with all that is wrong with its options."""
    target = opening.target
    refuse(_option_problems(target), opening.channel)
    return FilesWriter(
        format=target.format,
        folder=Path(os.path.realpath(target.options["path"])),
        pipeline=opening.pipeline,
        channel=opening.channel,
        compression=target.options.get("compression", _COMPRESSIONS[0]),
    )


def _option_problems(target: Target) -> Iterator[Problem]:
    known = ("path", "compression") if target.format == "parquet" else ("path",)
    yield from unknown_options(target, known)
    problems = [*path_problems(target, _EXAMPLE)]
    yield from problems or _place_problems(str(target.options["path"]))
    if "compression" in known:
        yield from choice_problems(target, "compression", _COMPRESSIONS)


def _place_problems(path: str) -> Iterator[Problem]:
    """The path is that of a folder, which has a folder above it."""
    if is_address(path) or not Path(os.path.realpath(path)).name:
        hint = "for object stores use format='delta', or a mounted folder"
        yield Problem("options.path", shown(path), "a folder of this file system", hint)


def _folder_problems(folder: Path) -> Iterator[Problem]:
    """The folder, or the nearest one above it that is there, takes new files."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if not there.is_dir():
        yield Problem("options.path", f"the file {there}", "a folder", "choose another path")
    elif not os.access(there, os.W_OK | os.X_OK):
        found = f"{there}, which this user cannot write to"
        hint = "allow it: tasks stage files beside the folder that people read"
        yield Problem("options.path", found, "a folder to write to", hint)


# --- staged files become visible: whole, once, never instead of another ---


def make_visible(part: StagedRows, final: Path) -> None:
    """Give the staged rows their final name, or see that they have it.

    A rename is one step: whoever lists the folder sees the whole file or none. After a crash nobody
    knows which files have moved already, so every move may be asked for again.
    Raises `StateLost` if they are nowhere, or if the name is taken by other rows.
    """
    if final.exists():
        _settle_twin(part, final)
    elif part.path is None:
        _write_whole(part.read(), final)
    else:
        _move(part.path, final)


def _move(staged: Path, final: Path) -> None:
    try:
        staged.rename(final)
    except FileNotFoundError as error:
        if not final.exists():  # else somebody else has just moved it
            raise StateLost(
                f"rows of a committed epoch are gone: neither the staged file {staged} "
                f"nor the published file {final} is there\n"
                "  hint: put the file back where it was moved from; nothing else has these rows. "
                "To go on without them: `tidegate state skip-publish`"
            ) from error
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        with pa.memory_map(str(staged)) as mapped:
            _write_whole(mapped.read_buffer(), final)
        staged.unlink(missing_ok=True)


def _write_whole(data: bytes | pa.Buffer, final: Path) -> None:
    """Write a hidden file beside the final one, then rename it.

    The hidden name is used once: two drivers that publish the same never write one file.
    """
    hidden = final.with_name(f".{final.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        write_new(hidden, data)
        hidden.rename(final)
    finally:
        hidden.unlink(missing_ok=True)


def _settle_twin(part: StagedRows, final: Path) -> None:
    """Both are there: a copy whose original was not removed any more, else two different files."""
    try:
        same = _same(part, final)
    except FileNotFoundError:
        return
    if not same:
        raise StateLost(
            f"{final} is there with other rows than those staged as {part.path or part.name!r}; "
            "it was not replaced\n  hint: move it away and start the pipeline again"
        )
    if part.path is not None:
        part.path.unlink(missing_ok=True)


def _same(part: StagedRows, final: Path) -> bool:
    if part.path is None:
        return part.read() == final.read_bytes()
    return filecmp.cmp(part.path, final, shallow=False)
