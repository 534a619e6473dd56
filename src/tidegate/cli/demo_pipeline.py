"""What the demo runs, as a file that its user can change, and the folder that it is in."""

from __future__ import annotations

import json
import shutil
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidegate.errors import ConfigError, Problem
from tidegate.pipeline.masking import listed
from tidegate.sources.click_stream import ClickStream
from tidegate.sources.generator import GeneratorOptions

NAME: Final = "click-sessions"
USERS: Final = 4_000
EPOCHS: Final = 20
GAP_MS: Final = 30_000
DISORDER_MS: Final = 60_000
LATE_SHARE: Final = 0.01
LATE_BY_MS: Final = 360_000
_MARK: Final = ".tidegate-demo"
"""The file that says that a folder is one of ours."""

_TEXT: Final = """\
# Sessions of clicks, by user. Change it, and see what happens:
#
#   tidegate explain {file}
#   tidegate run {file}
#
# A run goes on where the last one stopped: with more rows it reads those that are new.

name = "{name}"

[[sources]]
name = "clicks"
format = "generator"
event_time = "event_time"

[sources.options]
rows = {rows}
keys = {users}                 # users
events_per_second = 400     # of event time
start = "2026-03-02T09:00:00Z"
disorder_ms = {disorder_ms}         # clicks come up to a minute out of order,
late_share = {late_share}           # and one in a hundred comes
late_by_ms = {late_by_ms}         # six minutes late
seed = 7

[watermark]
max_out_of_order_ms = {disorder_ms}

[transform.window]
kind = "session"
gap_ms = {gap_ms}
max_session_duration_ms = 3600000
group_by = "user_id"
late_data = "side_output"   # late rows go to [late]

[[transform.window.aggregations]]
kind = "count"
output_name = "clicks"

[[transform.window.aggregations]]
kind = "sum"
input_column = "duration_ms"
output_name = "reading_ms"

[[transform.window.aggregations]]
kind = "first"
input_column = "page"
output_name = "entry"

[[transform.window.aggregations]]
kind = "last"
input_column = "page"
output_name = "exit"

[target]
format = "parquet"
options.path = {sessions}

[late]
format = "parquet"
options.path = {late}

[state_store]
url = {state}

[run]
max_rows_per_epoch = {rows_per_epoch}
shards = 2
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoPlan:
    """How many clicks, and where everything is."""

    folder: Path
    """As the user wrote it: what is said to the user begins with it."""
    rows: int

    @property
    def rows_per_epoch(self) -> int:
        """So many that there are about 20 epochs."""
        return max(1, self.rows // EPOCHS)

    @property
    def file(self) -> Path:
        """The pipeline."""
        return self.folder / "pipeline.toml"

    @property
    def sessions(self) -> Path:
        """The folder that sessions are written to."""
        return self.folder / "sessions"

    @property
    def late(self) -> Path:
        """The folder that late clicks are written to."""
        return self.folder / "late"

    @property
    def state(self) -> Path:
        """The folder of the embedded store."""
        return self.folder / "state"

    @property
    def report(self) -> Path:
        """The page to look at in the end."""
        return self.folder / "report.html"

    @property
    def log(self) -> Path:
        """What Spark says on the way."""
        return self.folder / "spark.log"

    @property
    def clicks(self) -> ClickStream:
        """The clicks themselves, for whoever wants to count them again."""
        options = tomllib.loads(self.text())["sources"][0]["options"]
        return GeneratorOptions.from_dict(options).click_stream

    def text(self) -> str:
        """The file; its paths are absolute, so that it runs from anywhere."""
        return _TEXT.format(
            file=self.file,
            name=NAME,
            rows=self.rows,
            users=USERS,
            rows_per_epoch=self.rows_per_epoch,
            disorder_ms=DISORDER_MS,
            late_share=LATE_SHARE,
            late_by_ms=LATE_BY_MS,
            gap_ms=GAP_MS,
            sessions=_quoted(self.sessions),
            late=_quoted(self.late),
            state=_quoted(self.state),
        )

    def prepare(self) -> None:
        """Make the folder, with the pipeline in it, in place of an older demo.

        Raises `ConfigError` if it holds other things.
        """
        if problems := [*self._problems()]:
            raise ConfigError(problems)
        for each in self._ours():
            if each.is_dir() and not each.is_symlink():
                shutil.rmtree(each)
            else:
                each.unlink(missing_ok=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        said = "made by `tidegate demo`, which replaces what is here\n"
        (self.folder / _MARK).write_text(said, encoding="utf-8")
        self.file.write_text(self.text(), encoding="utf-8")

    def _problems(self) -> Iterator[Problem]:
        folder, at = self.folder, "--folder"
        hint = "choose a folder that is not there yet: tidegate demo --folder NAME"
        if "${" in str(folder.absolute()):
            yield Problem(at, f"{folder} with '${{'", "a name that a pipeline file can hold", hint)
        if folder.exists() and not folder.is_dir():
            yield Problem(at, f"the file {folder}", "a folder", hint)
        elif folder.exists():
            names = {each.name for each in folder.iterdir()}
            others = names - {each.name for each in self._ours()}
            if others or (names and _MARK not in names):
                found = f"{folder} with {listed(sorted(others or names)[:3], 'and')}"
                yield Problem(at, found, "a new folder, or one of an older demo", hint)

    def staged_files(self, epoch: int) -> int:
        """Count the files that tasks of an epoch staged; no reader sees them before the commit."""
        pattern = f"*-{epoch}-*.parquet"
        return sum(len([*folder.rglob(pattern)]) for folder in self._staging())

    def _staging(self) -> tuple[Path, ...]:
        return tuple(
            each.with_name(f".{each.name}.tidegate") for each in (self.sessions, self.late)
        )

    def _ours(self) -> tuple[Path, ...]:
        """All that a demo leaves."""
        made = (self.sessions, self.late, self.state, self.report, self.log, self.file)
        return (*made, *self._staging(), self.folder / _MARK)


def _quoted(path: Path) -> str:
    return json.dumps(str(path.absolute()), ensure_ascii=False)
