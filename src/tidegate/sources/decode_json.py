"""Values that are JSON objects, one each.

msgspec reads each value by itself, which takes less time than Arrow's or Polars' reader needs for
all of them as lines, and no value can run into its neighbour. What is JSON is decided strictly, as
RFC 8259 has it: UTF-8 without a byte order mark, no NaN, no comma behind the last, nothing before
or behind the object but blanks; also in keys that nobody asked for. Of a key that is there twice
the last counts, though both must be of its type. What is nested too deep is not read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from operator import attrgetter
from typing import Annotated, Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from tidegate.core.arrays import Bools
from tidegate.errors import Problem
from tidegate.pipeline import DataType
from tidegate.sources.columns import arrow_type
from tidegate.sources.decode_decimals import fitted_decimals, holds_decimals
from tidegate.sources.decode_times import text_times
from tidegate.sources.decoding import Decoded, chunks_of, joined, table_of, without

NOT_JSON: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What reading a value raises that is no JSON, or of other types than asked for."""

_DEEPEST: Final = 200
"""So many objects and arrays may lie within each other: far less than the stack of any caller has
room for, or who asks would decide what is JSON.
"""
_OTHERS: Final = bytes({*range(256)} - {*b"[]{}"})
_STEPS: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
"""One level down, and one up again as a signed byte."""

_UNREADABLE_KEY: Final = re.compile(r'[\\"\x00-\x1f]')
_BEYOND_FLOATS: Final = 3.4028235677973366e38
"""The least number that is rounded to infinity. The largest float is less than 3.4028235e38, which
is how it is written.
"""


def _whole(bits: int) -> Any:
    return Annotated[int, msgspec.Meta(ge=-(2 ** (bits - 1)), le=2 ** (bits - 1) - 1)]


_PYTHON: Final[Mapping[str, Any]] = {
    "boolean": bool,
    "byte": _whole(8),
    "short": _whole(16),
    "int": _whole(32),
    "long": _whole(64),
    "float": Annotated[float, msgspec.Meta(gt=-_BEYOND_FLOATS, lt=_BEYOND_FLOATS)],
    "double": float,
    "decimal": Decimal,
    "string": str,
    "date": str,
    "timestamp": str,
    "timestamp_ntz": str,
}


@dataclass(frozen=True, slots=True)
class JsonDecoder:
    """One object a value; a key that is not there is NULL, one nobody asked for is skipped.

    A value of another type than its column's makes the record undecodable: text is no number,
    5.0 no whole one. Decimals may be text, so that no digit is lost on the way; times are text.
    """

    def refused(self, columns: Mapping[str, str]) -> Iterator[Problem]:
        """JSON has no bytes."""
        hint = "declare it as string, and decode it in the transform"
        for name, kind in columns.items():
            if "binary" in str(DataType.parse(kind)):
                yield Problem(f"columns.{name}", kind, "a type that JSON has", hint)
            if not readable_key(name):
                expected = "a name without quotes, backslashes and control characters"
                yield Problem("columns", repr(name), expected)

    def decode(self, values: Sequence[bytes | None], wanted: Mapping[str, DataType]) -> Decoded:
        """The values of the keys wanted."""
        form = _form(tuple(wanted.items()))
        return joined([_decoded(part, form, wanted) for part in chunks_of(values)])


def readable_key(name: str) -> bool:
    """Whether a key can be asked for: those that must be written with escapes can not."""
    return _UNREADABLE_KEY.search(name) is None


def nested_too_deep(value: bytes) -> bool:
    """Whether a JSON text has more objects and arrays within each other than are read."""
    if len(value) <= 2 * _DEEPEST or value.count(b"[") + value.count(b"{") <= _DEEPEST:
        return False
    without_escapes = value.replace(rb"\\", b"").replace(rb"\"", b"")
    outside_text = b"".join(without_escapes.split(b'"')[::2])
    steps = np.frombuffer(outside_text.translate(_STEPS, _OTHERS), np.int8)
    return bool(np.cumsum(steps, dtype=np.int64).max(initial=0) > _DEEPEST)


class _Form(NamedTuple):
    """How the keys wanted are read: into an object, and out of it again."""

    read: Callable[[bytes], Any]
    nothing: Any
    """What stands for a value that has none of the keys."""
    cells: tuple[Callable[[Any], Any], ...]


@lru_cache(maxsize=64)
def _form(wanted: tuple[tuple[str, DataType], ...]) -> _Form:
    fields = [f"column_{place}" for place, _ in enumerate(wanted)]
    record = msgspec.defstruct(
        "Record",
        [(f, _python(kind) | None, None) for f, (_, kind) in zip(fields, wanted, strict=True)],
        rename=dict(zip(fields, (name for name, _ in wanted), strict=True)),
        gc=False,
    )
    cells = tuple(attrgetter(field) for field in fields)
    return _Form(msgspec.json.Decoder(record).decode, record(), cells)


def _python(kind: DataType) -> Any:
    return _PYTHON[kind.name] if kind.element is None else list[_python(kind.element) | None]  # type: ignore[misc]  # a type made at run time


def _decoded(
    values: Sequence[bytes | None], form: _Form, wanted: Mapping[str, DataType]
) -> Decoded:
    undecodable = np.zeros(len(values), np.bool_)
    objects = _objects(values, form, undecodable)
    columns = [
        _column([*map(cell, objects)], kind, undecodable)
        for cell, kind in zip(form.cells, wanted.values(), strict=True)
    ]
    return without(table_of(columns, wanted, len(values)), undecodable)


def _objects(values: Sequence[bytes | None], form: _Form, undecodable: Bools) -> list[Any]:
    """The object of each value; one that has none is marked."""
    read, nothing = form.read, form.nothing
    objects: list[Any] = []
    for place, value in enumerate(values):
        try:
            if value is None:
                objects.append(nothing)
                continue
            if not value.isascii():
                value.decode()  # what is skipped is not looked at by msgspec
            if nested_too_deep(value):
                raise RecursionError("nested too deep")
            objects.append(read(value))
        except NOT_JSON:
            objects.append(nothing)
            undecodable[place] = True
    return objects


def _column(cells: list[Any], kind: DataType, undecodable: Bools) -> pa.Array:
    """The cells in their type; rows whose cell has no place in it are marked."""
    if holds_decimals(kind):
        column, unfit = fitted_decimals(cells, kind)
        undecodable |= unfit
        return column
    return _with_times(pa.array(cells, _as_read(kind)), kind, undecodable)


def _as_read(kind: DataType) -> pa.DataType:
    """Times are text at first."""
    if kind.element is not None:
        return pa.list_(_as_read(kind.element))
    return pa.string() if kind.temporal else arrow_type(kind)


def _with_times(column: pa.Array, kind: DataType, undecodable: Bools) -> pa.Array:
    if kind.temporal:
        times, unparsable = text_times(column, kind)
        if unparsable is not None:
            undecodable |= unparsable
        return times
    if kind.element is None or column.type == arrow_type(kind):
        return column
    wrong = np.zeros(len(column.values), np.bool_)
    elements = _with_times(column.values, kind.element, wrong)
    if wrong.any():
        undecodable[column.value_parent_indices().to_numpy()[wrong]] = True
    if isinstance(elements, pa.ChunkedArray):
        elements = elements.combine_chunks()
    return pa.ListArray.from_arrays(column.offsets, elements, mask=column.is_null())
