"""A table on standard output for each epoch that has rows: to see what a pipeline does."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import polars as pl
from rich.console import Console, JustifyMethod
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from tidegate.errors import Problem
from tidegate.pipeline.masking import shown
from tidegate.targets.blobs import count_of, rows_of, table_to_bytes
from tidegate.targets.options import identity_problems, refuse, unknown_options
from tidegate.targets.protocol import EpochKey, StagedRows, TargetOpening, WriterDefaults
from tidegate.targets.rowtext import readable

_MOST_ROWS: Final = 20
_LONGEST_CELL: Final = 48
_WIDEST: Final = 100_000

_Channel = tuple[str, str, str, str]
_printed: Final[dict[_Channel, int]] = {}
"""The last epoch of each channel that this process has printed."""
_printing: Final = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleWriter(WriterDefaults):
    """Prints the first `most_rows` rows of an epoch and says how many more there are."""

    channel: str
    most_rows: int = _MOST_ROWS

    takes_retractions: ClassVar = True
    """They are printed too."""

    def check(self, identity: Sequence[str], schema: pl.Schema) -> None:
        """Rows of any schema can be printed."""
        refuse(identity_problems(identity, schema), self.channel)

    def encode(self, rows: pl.DataFrame) -> bytes:
        """An Arrow stream."""
        return table_to_bytes(rows)

    def publish(self, key: EpochKey, parts: Sequence[StagedRows]) -> None:
        """Print the epoch, unless this process has printed it or a later one."""
        if not any(part.rows for part in parts):
            return
        channel = (key.pipeline, key.incarnation, key.operator, key.channel)
        with _printing:
            if _printed.get(channel, -1) >= key.epoch:
                return
            self._print(_title(key), parts)
            _printed[channel] = key.epoch

    def _print(self, title: Text, parts: Sequence[StagedRows]) -> None:
        sent, retracted = (rows_of(parts, kind, self.most_rows) for kind in ("sent", "retracted"))
        console = Console(file=sys.stdout, highlight=False)
        console.print(title, soft_wrap=True)
        if sent is not None:
            table = _table(sent)
            free = console.options.update(width=_WIDEST)
            console.width = max(console.width, Measurement.get(console, free, table).maximum)
            console.print(table)
            _print_rest(console, count_of(parts, "sent") - self.most_rows)
        if retracted is not None:
            console.print(_taken_back(retracted), soft_wrap=True)
            _print_rest(console, count_of(parts, "retracted") - self.most_rows)
        console.file.flush()


def open_console(opening: TargetOpening) -> ConsoleWriter:
    """The writer of a target; raises `ConfigError` with all that is wrong with its options."""
    target = opening.target
    rows = target.options.get("rows", _MOST_ROWS)
    problems = [*unknown_options(target, ("rows",))]
    if type(rows) is not int or rows < 1:
        hint = f"how many rows of an epoch are printed; {_MOST_ROWS} unless told"
        problems.append(Problem("options.rows", shown(rows), "a whole number from 1", hint))
    refuse(problems, opening.channel)
    return ConsoleWriter(channel=opening.channel, most_rows=rows)


def _title(key: EpochKey) -> Text:
    return _line(f"{key.pipeline} · {key.channel} · epoch {key.epoch}", style="bold")


def _line(text: str, style: str = "") -> Text:
    """A name as `readable` shows values: whoever chose it, it cannot steer the terminal."""
    return Text(readable(pl.DataFrame({"text": [text]})).item(), style=style)


def _table(rows: pl.DataFrame) -> Table:
    texts = readable(rows)
    table = Table()
    for name, dtype in rows.schema.items():
        justify: JustifyMethod = "right" if dtype.is_numeric() else "left"
        table.add_column(_line(name), justify=justify, no_wrap=True)
    for row in texts.iter_rows():  # the few that are shown
        table.add_row(*map(_cell, row))
    return table


def _cell(value: str | None) -> Text:
    if value is None:
        return Text("NULL", style="dim")
    return Text(value if len(value) <= _LONGEST_CELL else f"{value[: _LONGEST_CELL - 1]}…")


def _taken_back(rows: pl.DataFrame) -> Text:
    texts = readable(rows).fill_null("NULL")
    listed = [", ".join(f"{k}={v}" for k, v in row.items()) for row in texts.to_dicts()]
    return _line(f"taken back: {'; '.join(listed)}", style="dim")


def _print_rest(console: Console, rest: int) -> None:
    if rest > 0:
        console.print(f"… and {rest} more", style="dim")
