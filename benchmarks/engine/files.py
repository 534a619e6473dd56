"""Workloads as parquet files, made once and kept in the temporary folder."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.engine import workloads
from benchmarks.engine.workloads import Workload

FIRST_MTIME = 1_704_067_200


def work_folder() -> Path:
    """Where everything of the benchmark is written."""
    folder = Path(tempfile.gettempdir()) / f"tidegate-bench-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    return folder


def written(workload: Workload) -> Path:
    """The folder with the files of `workload`; written under another name, then renamed."""
    maker = Path(workloads.__file__).read_bytes()
    name = hashlib.sha256(repr(workload).encode() + maker).hexdigest()[:16]
    folder = work_folder() / "data" / name
    if not folder.exists():
        unfinished = folder.with_suffix(f".{os.getpid()}")
        unfinished.mkdir(parents=True)
        _write(workload, unfinished)
        unfinished.rename(folder)
    return folder


def empty_folder(name: str) -> Path:
    """A folder of this name with nothing in it."""
    folder = work_folder() / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def data_files(folder: Path) -> list[str]:
    """The parquet files a reader sees: none in a place that begins with a dot or underscore."""
    found = (path.relative_to(folder) for path in folder.rglob("*.parquet"))
    seen = (path for path in found if not any(part[0] in "._" for part in path.parts))
    return sorted(str(folder / path) for path in seen)


def _write(workload: Workload, folder: Path) -> None:
    for nth, table in enumerate(workload.tables()):
        path = folder / workload.folders[nth % len(workload.folders)] / f"clicks-{nth:04}.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(table, path)
        os.utime(path, (FIRST_MTIME + nth, FIRST_MTIME + nth))
