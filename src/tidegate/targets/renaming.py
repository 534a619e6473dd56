"""Staged files become visible: whole, once, never instead of another.

A rename is one step: whoever lists the folder sees the whole file or none. After a crash
nobody knows which files have moved already, so every move may be asked for again.
"""

from __future__ import annotations

import errno
import filecmp
import uuid
from pathlib import Path

import pyarrow as pa

from tidegate.durability import write_new
from tidegate.errors import StateLost
from tidegate.targets.protocol import StagedRows


def make_visible(part: StagedRows, final: Path) -> None:
    """Give the staged rows their final name, or see that they have it.

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
            raise _lost(staged, final) from error
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


def _lost(staged: Path, final: Path) -> StateLost:
    return StateLost(
        f"rows of a committed epoch are gone: neither the staged file {staged} "
        f"nor the published file {final} is there\n"
        "  hint: put the file back where it was moved from; nothing else has these rows. To go on "
        "without them: `tidegate state skip-publish`"
    )
