"""An archive of classes is used where somebody has made it, and nowhere else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tidegate.spark.class_archive import archive, archive_options, make_archive


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment without an archive."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    return tmp_path


def test_without_an_archive_there_are_no_options(prefix: Path) -> None:
    assert archive_options() == ""


def test_an_archive_is_used(prefix: Path) -> None:
    archive().parent.mkdir(parents=True)
    archive().touch()
    assert archive_options().startswith(f"-XX:SharedArchiveFile={prefix}/share/tidegate/spark-")
    assert "-Xshare:auto" in archive_options()  # one that does not fit costs time only


def plant(monkeypatch: pytest.MonkeyPatch, code: int, *, made: bool) -> list[bool]:
    """A JVM that ends with `code`; whether each one that was started saw an archive."""
    saw: list[bool] = []

    def run(command: list[str], *, env: Mapping[str, str], **_: Any) -> Any:
        saw.append(archive().exists())
        if made:
            options = env["JDK_JAVA_OPTIONS"].split()
            Path(options[0].removeprefix("-XX:ArchiveClassesAtExit=")).write_text("classes")
        return subprocess.CompletedProcess(command, code, "what Java said")

    monkeypatch.setattr(subprocess, "run", run)
    return saw


def test_an_archive_is_made_anew_by_a_jvm_that_uses_none(
    prefix: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saw = plant(monkeypatch, 0, made=True)
    assert make_archive() == make_archive() == archive()
    assert saw == [False, False]
    assert archive().read_text() == "classes"
    assert [*archive().parent.iterdir()] == [archive()]


@pytest.mark.parametrize(("code", "made"), [(1, False), (1, True), (0, False)])
def test_an_archive_that_cannot_be_made_is_told_with_what_java_said(
    prefix: Path, monkeypatch: pytest.MonkeyPatch, code: int, made: bool
) -> None:
    plant(monkeypatch, code, made=made)
    with pytest.raises(RuntimeError, match=r"no archive of Spark's classes.*\n.*what Java said"):
        make_archive()
    assert archive_options() == ""
