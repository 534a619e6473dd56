"""The folder of the demo: new, or that of an older demo, which is replaced."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from tidegate.cli.demo_pipeline import DemoPlan
from tidegate.errors import ConfigError, Problem

_AT = "--folder"


def prepare(plan: DemoPlan) -> None:
    """Make the folder with the pipeline in it; raises `ConfigError` if it holds other things."""
    if problems := [*_problems(plan)]:
        raise ConfigError(problems)
    for each in _ours(plan):
        _remove(each)
    plan.folder.mkdir(parents=True, exist_ok=True)
    plan.mark.write_text("made by `tidegate demo`, which replaces what is here\n", encoding="utf-8")
    plan.file.write_text(plan.text(), encoding="utf-8")


def _problems(plan: DemoPlan) -> Iterator[Problem]:
    folder = plan.folder
    hint = "choose a folder that is not there yet: tidegate demo --folder NAME"
    if "${" in str(folder.absolute()):
        yield Problem(_AT, f"{folder} with '${{'", "a name that a pipeline file can hold", hint)
    if not folder.exists():
        return
    if not folder.is_dir():
        yield Problem(_AT, f"the file {folder}", "a folder", hint)
        return
    names = sorted(each.name for each in folder.iterdir())
    others = sorted({*names} - {each.name for each in _ours(plan)})
    if others or (names and not plan.mark.exists()):
        shown = ", ".join((others or names)[:3]) + (", ..." if len(others or names) > 3 else "")
        yield Problem(_AT, f"{folder} with {shown}", "a new folder, or one of an older demo", hint)


def staged_files(plan: DemoPlan, epoch: int) -> int:
    """How many files the tasks of an epoch have written that nobody sees yet."""
    return sum(
        each.is_file() for folder in _staging(plan) for each in folder.rglob(f"*-{epoch}-*.parquet")
    )


def _staging(plan: DemoPlan) -> tuple[Path, ...]:
    return tuple(each.with_name(f".{each.name}.tidegate") for each in (plan.sessions, plan.late))


def _ours(plan: DemoPlan) -> tuple[Path, ...]:
    """All that a demo leaves."""
    made = (plan.sessions, plan.late, plan.state, plan.report, plan.log, plan.file)
    return (*made, *_staging(plan), plan.mark)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
