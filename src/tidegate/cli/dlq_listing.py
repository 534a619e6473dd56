"""`tidegate dlq list`: rows that were turned away, by channel and reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import polars as pl
from rich.console import Console
from rich.text import Text

from tidegate.cli.state_text import counted, print_table
from tidegate.cli.telling import plain
from tidegate.errors import ConfigError, Problem
from tidegate.kafka import need_confluent_kafka
from tidegate.pipeline import Pipeline, Target
from tidegate.pipeline.masking import listed
from tidegate.pipeline.wording import did_you_mean, whereabouts
from tidegate.targets.reading import READABLE_FORMATS, read_target
from tidegate.targets.rowtext import readable, to_json_lines


@dataclass(frozen=True, slots=True)
class Letters:
    """What is in the target of a channel."""

    channel: str
    target: str
    """Format and place."""
    rows: int | None
    """How many; None where they cannot be read back."""
    reasons: Mapping[str, int] = field(default_factory=dict)
    """How many rows for each, the most frequent first."""
    newest: pl.DataFrame = field(default_factory=pl.DataFrame)
    """Some of them, the newest last."""
    unreadable: int = 0
    """Records of the topic that are no rows, or nobody's."""

    def to_dict(self) -> dict[str, Any]:
        """For scripts."""
        lines = to_json_lines(self.newest).splitlines() if self.newest.width else []
        return {
            "channel": self.channel,
            "target": self.target,
            "rows": self.rows,
            "reasons": self.reasons,
            "unreadable": self.unreadable,
            "newest": [msgspec.Raw(line) for line in lines],
        }


def letters_of(pipeline: Pipeline, channel: str | None, limit: int) -> list[Letters]:
    """What is in the target of a channel, or of each, with `limit` rows of it.

    Raises `ConfigError` if there is none.
    """
    channels = {channel: channel_of(pipeline, channel)} if channel else pipeline.channels
    if not channels:
        raise ConfigError([_no_channels(pipeline)])
    return [_letters(pipeline, name, target, limit) for name, target in sorted(channels.items())]


def _letters(pipeline: Pipeline, channel: str, target: Target, limit: int) -> Letters:
    place = whereabouts(target.format, target.options)
    if target.format == "kafka":
        need_confluent_kafka(f"{channel}.format")
        from tidegate.cli.dlq_tallying import tally  # noqa: PLC0415

        found = tally(target, pipeline.name, channel, limit)
        reasons = dict(found.reasons.most_common())
        return Letters(channel, place, found.rows, reasons, found.newest(), found.unreadable)
    if target.format not in READABLE_FORMATS:
        return Letters(channel, place, None)
    store = pipeline.state_store
    rows = read_target(target, pipeline=pipeline.name, channel=channel, store=store)
    return Letters(channel, place, rows.height, _reasons(rows), rows.tail(limit))


def _reasons(rows: pl.DataFrame) -> dict[str, int]:
    column = reason_column(rows.columns)
    if column is None:
        return {}
    return dict(rows[column].value_counts(sort=True).drop_nulls().iter_rows())


def channel_of(pipeline: Pipeline, channel: str) -> Target:
    """The target of a channel; `ConfigError` if the pipeline has none."""
    if channel in pipeline.channels:
        return pipeline.channels[channel]
    if not pipeline.channels:
        raise ConfigError([_no_channels(pipeline)])
    there = [*pipeline.channels]
    hint = did_you_mean(channel, there) or f"there is {listed(there, 'and')}"
    expected = f"a channel of {pipeline.name!r} that has a target"
    raise ConfigError([Problem("--channel", repr(channel), expected, hint)])


def _no_channels(pipeline: Pipeline) -> Problem:
    hint = "give it [rejected] or [late], with a format and options as of a target"
    return Problem(
        "", f"{pipeline.name!r}, which only counts such rows", "one that keeps them", hint
    )


def reason_column(columns: Sequence[str]) -> str | None:
    """The column that says why; a column of the user's that has its name has fewer underscores.

    >>> reason_column(["reason", "n", "_reason"])
    '_reason'
    """
    return max((each for each in columns if each.lstrip("_") == "reason"), key=len, default=None)


def print_letters(console: Console, found: Sequence[Letters]) -> None:
    """For people: a line a channel, its reasons, and the newest rows."""
    for nth, each in enumerate(found):
        if nth:
            console.print()
        for line in _lines(each):
            console.print(Text(plain(line)))
        if each.newest.height:
            newest = readable(each.newest)
            cells = [
                [Text("" if value is None else value) for value in row] for row in newest.rows()
            ]
            console.print()
            print_table(console, newest.columns, cells)


def _lines(letters: Letters) -> Iterator[str]:
    place = f"{letters.channel} ({plain(letters.target)})"
    if letters.rows is None:
        yield f"{place}: rows there cannot be read back"
        return
    yield f"{place}: {counted(letters.rows, 'rows')}"
    for reason, count in letters.reasons.items():
        yield f"  {count:>10,}  {plain(reason)}"
    if letters.unreadable:
        yield f"  besides {counted(letters.unreadable, 'records')} that cannot be read as rows"
