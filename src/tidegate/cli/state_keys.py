r"""Keys as people write them in a command: `user_id=42`, read by the types of the key columns.

NULL is the NULL of SQL. A text in double quotes is read as JSON, so that every text can be
written: `"NULL"`, `""`, `"a \"quoted\" word"`.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from functools import partial
from typing import Any, Final

import polars as pl

from tidegate.core.compiling import polars_type
from tidegate.errors import ConfigError, Problem
from tidegate.pipeline import DataType
from tidegate.pipeline.masking import shown
from tidegate.pipeline.wording import did_you_mean
from tidegate.state.live import Looking

NULL: Final = "NULL"
_BITS: Final = {"byte": 8, "short": 16, "int": 32, "long": 64}
_WHOLE: Final = re.compile(r"[+-]?\d+", re.ASCII)
_TRUTH: Final = re.compile(r"true|false", re.IGNORECASE | re.ASCII)
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)", re.ASCII)


def looking_for(written: Sequence[str]) -> Looking:
    """What says which key is meant, once the key columns are known."""
    return partial(_key, written)


def _key(written: Sequence[str], columns: Mapping[str, DataType]) -> dict[str, pl.Series]:
    """The values by column; `ConfigError` names everything that is wrong."""
    key: dict[str, pl.Series] = {}
    problems = []
    for text in written:
        name, value = split_key(text, columns)
        try:
            if name in key:
                raise _Refused(shown(text), f"each column once, {name!r} came before")
            key[name] = _series(name, value, columns)
        except _Refused as refused:
            problems.append(refused.problem)
    if problems:
        raise ConfigError(problems)
    return key


class _Refused(Exception):
    """A value that cannot be one of its column."""

    def __init__(self, found: str, expected: str, hint: str = "") -> None:
        super().__init__(found, expected, hint)
        self.problem = Problem("--key", found, expected, hint)


def split_key(text: str, columns: Iterable[str]) -> tuple[str, str | None]:
    """Column and value; a name may hold an equals sign itself."""
    own = [name for name in columns if text.startswith(f"{name}=")]
    name = max(own, key=len) if own else text.partition("=")[0]
    return name, text[len(name) + 1 :] if text[len(name) :].startswith("=") else None


def _series(name: str, value: str | None, columns: Mapping[str, DataType]) -> pl.Series:
    if not columns:
        expected = "no --key: the windows of this pipeline are over all rows"
        raise _Refused(shown(name), expected, "leave it out")
    if value is None:
        raise _Refused(shown(name), "COLUMN=VALUE", f"--key {next(iter(columns))}=...")
    if name not in columns:
        listing = f"key columns are {', '.join(columns)}"
        raise _Refused(shown(name), "a key column", did_you_mean(name, columns, listing))
    kind = columns[name]
    parsed = None if value == NULL else _parsed(name, unquoted(value), kind)
    return pl.Series(name, [parsed], dtype=polars_type(kind))


def unquoted(value: str) -> str:
    """A text without the quotes that it may be written in."""
    if not (len(value) > 1 and value[0] == value[-1] == '"'):
        return value
    try:
        text = json.loads(value)
    except ValueError:
        return value
    return text if isinstance(text, str) else value


def _parsed(name: str, text: str, kind: DataType) -> Any:
    reader, expected = _READERS.get(kind.name, _READERS["string"])
    try:
        return reader(text, kind)
    except (ValueError, OverflowError, binascii.Error):
        what = expected.format(kind=kind)
        hint = f"NULL is written --key {name}=NULL"
        raise _Refused(f"{name}={text!r}", f"{what}, as {name!r} is {kind}", hint) from None


def _whole(text: str, kind: DataType) -> int:
    number = int(_matching(_WHOLE, text))
    bits = _BITS[kind.name]
    if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
        raise ValueError(text)
    return number


def _decimal(text: str, kind: DataType) -> Decimal:
    number = Decimal(_matching(_NUMBER, text))
    scaled = number.scaleb(kind.scale or 0, Context(prec=len(text) + 38))
    if scaled != scaled.to_integral_value() or abs(int(scaled)) >= 10 ** (kind.precision or 38):
        raise ValueError(text)
    return number


def _matching(pattern: re.Pattern[str], text: str) -> str:
    if pattern.fullmatch(text) is None:
        raise ValueError(text)
    return text


def _boolean(text: str, _: DataType) -> bool:
    return _matching(_TRUTH, text).lower() == "true"


def _instant(text: str, kind: DataType) -> datetime:
    moment = datetime.fromisoformat(text)
    if kind.name == "timestamp_ntz":
        if moment.tzinfo is not None:
            raise ValueError(text)
        return moment
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


def _text(text: str, _: DataType) -> str:
    text.encode()  # what a terminal sent may not be text at all
    return text


Reader = Callable[[str, DataType], Any]

_READERS: Final[Mapping[str, tuple[Reader, str]]] = {
    **dict.fromkeys(_BITS, (_whole, "a whole number that fits {kind}")),
    "boolean": (_boolean, "true or false"),
    "decimal": (_decimal, "a number that fits {kind}"),
    "string": (_text, "a text"),
    "binary": (lambda text, _: base64.b64decode(text, validate=True), "base64"),
    "date": (lambda text, _: date.fromisoformat(text), "a day such as 2026-01-31"),
    "timestamp": (_instant, "an instant such as 2026-01-31T12:00:00Z"),
    "timestamp_ntz": (_instant, "a time without zone such as 2026-01-31T12:00:00"),
}
