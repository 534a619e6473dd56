"""An archive of classes is used where somebody has made it, and nowhere else."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tidegate.spark.class_archive import archive, archive_options


def test_without_an_archive_there_are_no_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert archive_options() == ""


def test_an_archive_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    archive().parent.mkdir(parents=True)
    archive().touch()
    assert archive_options().startswith(f"-XX:SharedArchiveFile={tmp_path}/share/tidegate/spark-")
    assert "-Xshare:auto" in archive_options()  # one that does not fit costs time only
