"""State as people and scripts read it: tables without anything that steers a terminal, and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final

import msgspec
import polars as pl
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from tidegate.cli.state_keys import NULL
from tidegate.cli.telling import plain
from tidegate.state.catalog import KeyState
from tidegate.state.live_rows import LiveRows
from tidegate.targets.rowtext import readable, to_json_lines

_WIDEST: Final = 10_000
_CLOSING: Final = "it closes"


def print_table(console: Console, headers: Sequence[str], rows: Sequence[Sequence[Text]]) -> None:
    """A row in a line; on a terminal that is too narrow for it, a value in a line.

    Whoever reads it from a pipe gets lines, however long.
    """
    table = _table()
    for header in headers:
        table.add_column(Text(plain(header)), no_wrap=True)
    for row in rows:
        table.add_row(*row)
    wide = console.options.update(max_width=_WIDEST)
    width = Measurement.get(console, wide, table).maximum
    if not console.is_terminal:
        console.width = max(console.width, width)
    if width <= console.width:
        console.print(table)
    else:
        _print_by_value(console, headers, rows)


def _print_by_value(
    console: Console, headers: Sequence[str], rows: Sequence[Sequence[Text]]
) -> None:
    for row in rows:
        table = _table()
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")
        for header, value in zip(headers, row, strict=True):
            table.add_row(Text(plain(header)), value)
        table.show_header = False
        console.print(table)
        console.print()


def _table() -> Table:
    return Table(box=None, pad_edge=False, header_style="bold")


def live_table(rows: LiveRows, what: str) -> tuple[list[str], list[list[Text]]]:
    """Headers and cells: keys, values, and what becomes of each."""
    if what == "rows":
        shown = pl.DataFrame([*rows.values, rows.about["waits_until"].alias("waits until")])
    else:
        values = rows.values.drop("session_id", "revision", strict=False)
        shown = pl.DataFrame([*values, *_fate(rows.values["revision"], rows.about)])
    columns = [*map(_key_cells, rows.keys), *map(_cells, readable(shown))]
    return [*rows.keys.columns, *shown.columns], [list(row) for row in zip(*columns, strict=True)]


def _fate(revision: pl.Series, about: pl.DataFrame) -> Iterator[pl.Series]:
    """What becomes of windows, in words: of their rows, and of themselves."""
    due, held = _moments(about, "due_at"), _moments(about, "forgotten_at")
    told = zip(about["closed"], about["sent"], about["sent_before"], revision, due, strict=True)
    yield pl.Series("row", [_sending_text(*each) for each in told], dtype=pl.String)
    yield pl.Series("held until", [moment or "a flush" for moment in held], dtype=pl.String)


def _moments(about: pl.DataFrame, name: str) -> list[str | None]:
    """Watermarks as text; None for never."""
    texts = readable(about.select(name)).to_series()
    closing = about[name].eq(about["closes_at"])
    return [_CLOSING if closes else text for text, closes in zip(texts, closing, strict=True)]


def _sending_text(closed: bool, sent: bool, before: bool, revision: int, due: str | None) -> str:
    """Where a window stands.

    >>> _sending_text(True, True, True, 0, None)
    'closed, revision 0 is out'
    >>> _sending_text(False, False, True, 1, "12:00:05")
    'open, an earlier row is out, revision 1 is due at 12:00:05'
    >>> _sending_text(False, False, False, 0, "it closes")
    'open, due when it closes'
    """
    state = "closed" if closed else "open"
    if sent:
        return f"{state}, revision {revision} is out"
    which = f"revision {revision} is due" if revision else "due"
    when = "at a flush" if due is None else f"when {due}" if due == _CLOSING else f"at {due}"
    return f"{state}, {'an earlier row is out, ' if before else ''}{which} {when}"


def _cells(texts: pl.Series) -> list[Text]:
    return [_NOTHING if text is None else Text(text) for text in texts]


_NOTHING: Final = Text(NULL, style="dim")


def _key_cells(values: pl.Series) -> list[Text]:
    """Keys as they are written in a command."""
    if values.dtype != pl.String:
        return _cells(readable(values.to_frame()).to_series())
    return [_NOTHING if value is None else Text(_as_written(value)) for value in values]


def _as_written(text: str) -> str:
    r"""A text as `--key` takes it: as it is, or as JSON.

    >>> print(_as_written("it's"), _as_written("NULL"), _as_written("a\nb"))
    it's "NULL" "a\nb"
    """
    if not text.isprintable():
        return json.dumps(text)
    odd = text in ("", NULL) or text != text.strip() or text[0] == text[-1] == '"'
    return json.dumps(text, ensure_ascii=False) if odd else text


def live_json(rows: LiveRows, what: str) -> list[dict[str, Any]]:
    """Keys in order, each with its windows or rows."""
    keys = _lines(rows.keys, len(rows))
    values = _lines(rows.table().drop(rows.keys.columns), len(rows))
    pairs = zip(keys, values, strict=True)
    return [
        {"key": msgspec.Raw(key), what: [msgspec.Raw(value) for _, value in held]}
        for key, held in groupby(pairs, key=lambda pair: pair[0])
    ]


def _lines(frame: pl.DataFrame, height: int) -> list[bytes]:
    return to_json_lines(frame).splitlines() if frame.width else [b"{}"] * height


def folded_table(keys: Sequence[KeyState]) -> tuple[list[str], list[list[Text]]]:
    """Keys and what is held of them as the readable table has it: JSON."""
    rows = [
        [Text(plain(each.group_key)), Text(plain(held))] for each in keys for held in _held(each)
    ]
    return ["key", "held"], rows


def _held(key: KeyState) -> Iterator[str]:
    (held,) = msgspec.json.decode(key.state_blob).values()
    yield from (json.dumps(each, ensure_ascii=False) for each in held)


def folded_json(keys: Sequence[KeyState]) -> list[dict[str, Any]]:
    """As `live_json`, of the readable table."""
    return [
        {"key": msgspec.Raw(each.group_key.encode()), **msgspec.json.decode(each.state_blob)}
        for each in keys
    ]


def to_json(value: Any) -> str:
    """JSON for scripts, indented."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
