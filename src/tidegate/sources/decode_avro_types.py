"""The types of Avro, each of which reads, or skips, its values for many rows at once."""

# ruff: noqa: D102  what the methods of all types do is said once, in AvroType

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from tidegate.core.arrays import Int64s
from tidegate.pipeline import DataType
from tidegate.sources.columns import arrow_type
from tidegate.sources.decode_avro_bytes import (
    Block,
    Rows,
    bytes_of,
    jumped,
    long_at,
    longs,
    moved,
    refused,
)
from tidegate.sources.decode_avro_decimals import decimals_of
from tidegate.sources.decode_avro_items import Item, Places, past_items, read_items, skip_items
from tidegate.sources.decode_plain import text_of

_BOOLEAN: Final = DataType("boolean")
_BINARY: Final = DataType("binary")
_STRING: Final = DataType("string")


class AvroType(Item, Protocol):
    """A type in a schema."""

    @property
    def kind(self) -> DataType | None:
        """The type of a column that holds its values; None: Tidegate has none."""
        ...

    def read(self, block: Block, rows: Rows) -> tuple[pa.Array, Int64s]:
        """The values, as `kind` has it, and the positions behind them."""
        ...


@dataclass(frozen=True, slots=True)
class Null:
    """No byte at all."""

    kind: None = None
    width: int = 0

    def past(self, data: bytes, at: int) -> int:
        return at

    def skip(self, block: Block, rows: Rows) -> Int64s:
        return rows.at.copy()

    def read(self, block: Block, rows: Rows) -> tuple[pa.Array, Int64s]:
        return pa.nulls(len(rows.at)), rows.at.copy()


@dataclass(frozen=True, slots=True)
class Boolean:
    """A byte that is 0 or 1."""

    kind: DataType = _BOOLEAN
    width: int = 1

    def past(self, data: bytes, at: int) -> int:
        _within(data[at], 0, 1)
        return at + 1

    def skip(self, block: Block, rows: Rows) -> Int64s:
        return self.read(block, rows)[1]

    def read(self, block: Block, rows: Rows) -> tuple[pa.Array, Int64s]:
        found = block.peeked(rows.at, "u1")
        return pa.array(found == 1), refused(block, moved(block, rows, 1), found > 1)


@dataclass(frozen=True, slots=True)
class Whole:
    """An int or a long, or a time that is counted: in the unit of its column, or `factor` of it."""

    kind: DataType
    bits: int
    factor: int = 1
    width: None = None

    def past(self, data: bytes, at: int) -> int:
        number, at = long_at(data, at)
        _within(number, *_bounds(self.bits, self.factor))
        return at

    def skip(self, block: Block, rows: Rows) -> Int64s:
        return self._numbers(block, rows)[1]

    def read(self, block: Block, rows: Rows) -> tuple[pa.Array, Int64s]:
        values, at = self._numbers(block, rows)
        sized = (values * self.factor).astype(f"i{self.bits // 8}")
        return pa.array(sized).view(arrow_type(self.kind)), at

    def _numbers(self, block: Block, rows: Rows) -> tuple[Int64s, Int64s]:
        values, at = longs(block, rows)
        least, most = _bounds(self.bits, self.factor)
        return values, refused(block, at, (values > most) | (values < least))


@cache
def _bounds(bits: int, factor: int) -> tuple[int, int]:
    """The least and the highest number that, times `factor`, has so many bits."""
    limit = 2 ** (bits - 1)
    return -(limit // factor), (limit - 1) // factor


@dataclass(frozen=True, slots=True)
class Real:
    """A float or a double."""

    kind: DataType
    width: int

    def past(self, data: bytes, at: int) -> int:
        return jumped(data, at, self.width)

    def skip(self, block: Block, rows: Rows) -> Int64s:
        return moved(block, rows, self.width)

    def read(self, block: Block, rows: Rows) -> tuple[pa.Array, Int64s]:
        return pa.array(block.peeked(rows.at, f"<f{self.width}")), moved(block, rows, self.width)


@dataclass(frozen=True, slots=True)
class Bytes:
    """Text, bytes or a decimal in bytes; behind their number, unless that is always `width`."""

    kind: DataType
    width: int | None = None

    def past(self, data: bytes, at: int) -> int:
        length, at = long_at(data, at) if self.width is None else (self.width, at)
        return jumped(data, at, length)

    def skip(self, block: Block, rows: Rows) -> Int64s:
        return self._spans(block, rows)[2]

    def read(self, block: Block, rows: Rows) -> tuple[pa.Array, Int64s]:
        start, length, at = self._spans(block, rows)
        gone = at == block.nowhere
        start[gone], length[gone] = rows.end[gone], 0
        if self.kind.decimal:
            column, long = decimals_of(block, start, length, arrow_type(self.kind))
            return column, refused(block, at, long)
        raw = bytes_of(block, start, length)
        if self.kind.name == "binary":
            return raw, at
        text, wrong = text_of(raw)
        return text, at if wrong is None else refused(block, at, wrong)

    def _spans(self, block: Block, rows: Rows) -> tuple[Int64s, Int64s, Int64s]:
        if self.width is not None:
            length = np.full(len(rows.at), self.width)
            return rows.at.copy(), length, moved(block, rows, self.width)
        length, start = longs(block, rows)
        wrong = (length < 0) | (length > rows.end - start)
        return start, length, refused(block, start + length, wrong)


@dataclass(frozen=True, slots=True)
class Enum:
    """The place of a symbol."""

    symbols: tuple[str, ...]
    kind: DataType = _STRING
    width: None = None

    def past(self, data: bytes, at: int) -> int:
        place, at = long_at(data, at)
        _within(place, 0, len(self.symbols) - 1)
        return at

    def skip(self, block: Block, rows: Rows) -> Int64s:
        return self._places(block, rows)[1]

    def read(self, block: Block, rows: Rows) -> tuple[pa.Array, Int64s]:
        place, at = self._places(block, rows)
        place[at == block.nowhere] = 0
        return pa.array(self.symbols, pa.string()).take(pa.array(place)), at

    def _places(self, block: Block, rows: Rows) -> tuple[Int64s, Int64s]:
        place, at = longs(block, rows)
        return place, refused(block, at, (place < 0) | (place >= len(self.symbols)))


@dataclass(frozen=True, slots=True)
class Union:
    """The place of a branch, and a value of it; a column if one branch has one, the others null."""

    branches: tuple[AvroType, ...]
    width: None = None

    @property
    def kind(self) -> DataType | None:
        return self.valued[0].kind if len(self.valued) == 1 else None

    @property
    def valued(self) -> list[AvroType]:
        """The branches but for null."""
        return [branch for branch in self.branches if not isinstance(branch, Null)]

    def past(self, data: bytes, at: int) -> int:
        place, at = long_at(data, at)
        _within(place, 0, len(self.branches) - 1)
        return self.branches[place].past(data, at)

    def skip(self, block: Block, rows: Rows) -> Int64s:
        return self._each(block, rows, lambda branch, some, _: branch.skip(block, some))

    def read(self, block: Block, rows: Rows) -> tuple[pa.Array, Int64s]:
        [valued] = self.valued
        column = pa.nulls(len(rows.at), arrow_type(valued.kind or _STRING))

        def taken(branch: AvroType, some: Rows, chosen: Places) -> Int64s:
            nonlocal column
            if branch is not valued:
                return branch.skip(block, some)
            found, at = branch.read(block, some)
            column = found if len(chosen) == len(rows.at) else _placed(found, chosen, len(rows.at))
            return at

        at = self._each(block, rows, taken)
        return column, at

    def _each(
        self, block: Block, rows: Rows, step: Callable[[AvroType, Rows, Places], Int64s]
    ) -> Int64s:
        place, at = longs(block, rows)
        refused(block, at, (place < 0) | (place >= len(self.branches)))
        behind, there = Rows(at, rows.end), at != block.nowhere
        for number, branch in enumerate(self.branches):
            chosen = np.flatnonzero((place == number) & there)
            at[chosen] = step(branch, behind.only(chosen), chosen)
        return at


@dataclass(frozen=True, slots=True)
class Array:
    """Runs of items, each behind the number of its items; one without items is the last."""

    items: AvroType
    width: None = None

    @property
    def kind(self) -> DataType | None:
        element = self.items.kind
        return None if element is None else DataType("array", element=element)

    def past(self, data: bytes, at: int) -> int:
        return past_items(self.items, data, at)

    def skip(self, block: Block, rows: Rows) -> Int64s:
        return skip_items(block, rows, self.items)

    def read(self, block: Block, rows: Rows) -> tuple[pa.Array, Int64s]:
        owners: list[Places] = [np.empty(0, np.intp)]
        items = [pa.array([], arrow_type(self.items.kind or _STRING))]

        def taken(some: Rows, places: Places) -> Int64s:
            found, at = self.items.read(block, some)
            owners.append(places)
            items.append(found)
            return at

        at = read_items(block, rows, self.items, taken)
        owner = np.concatenate(owners)
        order = np.argsort(owner, kind="stable")
        ends = np.cumsum(np.bincount(owner, minlength=len(rows.at)))
        offsets = pa.array(np.concatenate([[0], ends]).astype(np.int32))
        return pa.ListArray.from_arrays(offsets, pa.concat_arrays(items).take(pa.array(order))), at


@dataclass(frozen=True, slots=True)
class Map:
    """Like an array, of keys and values."""

    values: AvroType
    kind: None = None
    width: None = None

    @property
    def _pair(self) -> Record:
        return Record((("key", Bytes(_BINARY)), ("value", self.values)))

    def past(self, data: bytes, at: int) -> int:
        return past_items(self._pair, data, at)

    def skip(self, block: Block, rows: Rows) -> Int64s:
        return skip_items(block, rows, self._pair)

    def read(self, block: Block, rows: Rows) -> tuple[pa.Array, Int64s]:
        raise NotImplementedError("maps are no columns")


@dataclass(frozen=True, slots=True)
class Record:
    """The values of its fields, one behind the other."""

    fields: tuple[tuple[str, AvroType], ...]
    kind: None = None

    @property
    def width(self) -> int | None:
        widths = [field.width for _, field in self.fields]
        return None if None in widths else sum(each or 0 for each in widths)

    def past(self, data: bytes, at: int) -> int:
        for _, field in self.fields:
            at = field.past(data, at)
        return at

    def skip(self, block: Block, rows: Rows) -> Int64s:
        return self.columns(block, rows, frozenset())[1]

    def read(self, block: Block, rows: Rows) -> tuple[pa.Array, Int64s]:
        raise NotImplementedError("records within records are no columns")

    def columns(
        self, block: Block, rows: Rows, wanted: frozenset[str]
    ) -> tuple[dict[str, pa.Array], Int64s]:
        """The columns of the fields wanted."""
        found: dict[str, pa.Array] = {}
        at = rows.at.copy()
        for name, field in self.fields:
            if name in wanted:
                found[name], at = field.read(block, Rows(at, rows.end))
            else:
                at = field.skip(block, Rows(at, rows.end))
        return found, at


def _within(number: int, least: int, most: int) -> None:
    if not least <= number <= most:
        raise ValueError("a number that cannot be")


def _placed(values: pa.Array, places: Places, rows: int) -> pa.Array:
    """A column of so many rows with the values at their places, and NULL elsewhere."""
    nth = np.zeros(rows, np.int64)
    nth[places] = np.arange(len(places))
    missing = np.ones(rows, np.bool_)
    missing[places] = False
    return values.take(pa.array(nth, mask=missing))
