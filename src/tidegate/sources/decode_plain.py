"""Values that are one column, `value`: text, or bytes as they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidegate.core.arrays import Bools
from tidegate.errors import Problem
from tidegate.pipeline import DataType
from tidegate.sources.decoding import VALUE, Decoded, chunks_of, joined, table_of, without


@dataclass(frozen=True, slots=True)
class BinaryDecoder:
    """The bytes themselves; all of them decode."""

    def refused(self, columns: Mapping[str, str]) -> Iterator[Problem]:
        """Columns other than `value binary`."""
        return _refused(columns, "binary")

    def decode(self, values: Sequence[bytes | None], wanted: Mapping[str, DataType]) -> Decoded:
        """The values as they are."""
        columns = [pa.array(values, pa.binary())] if VALUE in wanted else []
        return Decoded(table_of(columns, wanted, len(values)))


@dataclass(frozen=True, slots=True)
class StringDecoder:
    """UTF-8 text; what is not does not decode."""

    def refused(self, columns: Mapping[str, str]) -> Iterator[Problem]:
        """Columns other than `value string`."""
        return _refused(columns, "string")

    def decode(self, values: Sequence[bytes | None], wanted: Mapping[str, DataType]) -> Decoded:
        """The text of each value."""
        return joined([_text(part, wanted) for part in chunks_of(values)])


def _refused(columns: Mapping[str, str], kind: str) -> Iterator[Problem]:
    for name, declared in columns.items():
        if name != VALUE:
            yield Problem(f"columns.{name}", f"column {name!r}", f"one column, {VALUE!r}")
        elif DataType.parse(declared) != DataType(kind):
            yield Problem(f"columns.{name}", declared, kind)


def _text(values: Sequence[bytes | None], wanted: Mapping[str, DataType]) -> Decoded:
    text, wrong = text_of(pa.array(values, pa.binary()))
    table = table_of([text] if VALUE in wanted else [], wanted, len(values))
    return Decoded(table) if wrong is None else without(table, wrong)


def text_of(raw: pa.Array) -> tuple[pa.Array, Bools | None]:
    """Bytes as text, NULL where they are not UTF-8; and which are not, unless all are."""
    try:
        return raw.cast(pa.string()), None
    except pa.ArrowInvalid:
        values = raw.to_pylist()
    wrong = np.array([not _is_text(value) for value in values], np.bool_)
    kept = [None if bad else value for value, bad in zip(values, wrong, strict=True)]
    return pa.array(kept, pa.binary()).cast(pa.string()), wrong


def _is_text(value: bytes | None) -> bool:
    try:
        (value or b"").decode()
    except UnicodeDecodeError:
        return False
    return True
