"""JSON and CSV: from lines of text to typed columns, strictly.

A value that is not of its type stops the run; nothing becomes NULL in silence. Times are read as
text first and then like event times: with a zone or as UTC, as far as a microsecond. Decimals may
have any exponent, as long as their column has all their digits.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.json as arrow_json

from tidegate.errors import Problem
from tidegate.pipeline import DataType
from tidegate.pipeline.masking import shown
from tidegate.sources.columns import arrow_type
from tidegate.sources.decode_decimals import beyond_arrow, holds_decimals, text_decimals
from tidegate.sources.decode_json import JsonDecoder, nested_too_deep
from tidegate.sources.decode_times import text_times

_ENDS: Final = b"\r\n"
_BLANKS: Final = b" \t\r\n"
"""Of JSON; Python has more."""
"""A line of other blanks than these is a row of CSV."""
_OBJECT: Final = re.compile(rb"[ \t\r\n]*\{")


@dataclass(frozen=True, slots=True)
class JsonLines:
    """One object per line; a key that is not there is NULL, one nobody asked for is skipped."""

    def refused(self, columns: Mapping[str, str]) -> Iterator[Problem]:
        """JSON has no bytes."""
        hint = "declare it as string, and decode it in the transform"
        for name, kind in columns.items():
            if kind == "binary":
                yield Problem(f"columns.{name}", kind, "a type that JSON has", hint)

    def header_bytes(self, head: bytes) -> int:
        """There is none."""
        return 0

    def inferred(self, lines: bytes, header: bytes) -> dict[str, str]:
        """Keys of the first lines; numbers are long or double, times stay text."""
        if nested_too_deep(lines):  # Arrow would run out of stack, and end the process
            raise ValueError("found objects and arrays nested too deep, expected columns")
        return _inferred(_read_json(lines, None).schema) if lines.strip(_BLANKS) else {}

    def parsed(self, lines: bytes, header: bytes, wanted: Mapping[str, DataType]) -> pa.Table:
        """The values of the keys wanted."""
        if not lines.strip(_BLANKS):
            return _schema(wanted).empty_table()
        columns = _json_columns(lines, wanted)
        return pa.table([columns[name] for name in wanted], schema=_schema(wanted))


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvLines:
    """Values between delimiters, in quotes where needed; nothing between two of them is NULL.

    With a header columns are found by their names, else by their order.
    """

    header: bool = True
    delimiter: str = ","
    names: tuple[str, ...] | None = None
    """The columns in their order, where there is no header to say it."""

    def refused(self, columns: Mapping[str, str]) -> Iterator[Problem]:
        """CSV has only single values."""
        hint = "declare it as string, and split it in the transform"
        for name, kind in columns.items():
            if kind.startswith("array"):
                yield Problem(f"columns.{name}", kind, "a type that CSV has", hint)

    def header_bytes(self, head: bytes) -> int:
        """The first line."""
        if not self.header:
            return 0
        return head.find(b"\n") + 1 or len(head)

    def inferred(self, lines: bytes, header: bytes) -> dict[str, str]:
        """Columns of the first lines; without a header they are `_c0`, `_c1`, as in Spark."""
        names = self._names(header)
        if not lines.strip(_ENDS):
            return dict.fromkeys(names, "string")
        if not names:
            names = [f"_c{place}" for place, _ in enumerate(self._cells(lines.lstrip(_ENDS)))]
        return _inferred(self._read(lines, names, None).schema)

    def parsed(self, lines: bytes, header: bytes, wanted: Mapping[str, DataType]) -> pa.Table:
        """The values of the columns wanted."""
        names = self._names(header)
        for name in wanted:
            if names.count(name) != 1:
                found = f"{names.count(name)} columns {name!r} in {', '.join(names)}"
                raise ValueError(f"found {found}, expected one of type {wanted[name]}")
        if not lines.strip(_ENDS):
            return _schema(wanted).empty_table()
        if lines.count(b'"') % 2:  # cut inside a value: the parser would make two rows of it
            raise ValueError(
                "found a quote that is not closed, expected values without line ends "
                "and quotes inside a value written twice"
            )
        types = {
            name: pa.string() if kind.temporal or kind.decimal else arrow_type(kind)
            for name, kind in wanted.items()
        }
        columns = _typed(self._read(lines, names, types), wanted)
        return pa.table([*columns.values()], schema=_schema(wanted))

    def _names(self, header: bytes) -> list[str]:
        return self._cells(header) if self.header else [*(self.names or ())]

    def _cells(self, lines: bytes) -> list[str]:
        first = lines.split(b"\n", 1)[0].decode().removesuffix("\r")
        try:
            return next(csv.reader([first], delimiter=self.delimiter), [])
        except csv.Error as error:  # which is no ValueError
            raise ValueError(f"found a first line that is no CSV: {error}") from error

    def _read(
        self, lines: bytes, names: Sequence[str], types: Mapping[str, pa.DataType] | None
    ) -> pa.Table:
        return arrow_csv.read_csv(
            pa.BufferReader(lines),
            read_options=arrow_csv.ReadOptions(
                column_names=[*names], use_threads=False, block_size=len(lines) + 1
            ),
            parse_options=arrow_csv.ParseOptions(delimiter=self.delimiter),
            convert_options=arrow_csv.ConvertOptions(
                column_types=types,
                include_columns=None if types is None else [*types],
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )


def _read_json(lines: bytes, schema: pa.Schema | None) -> pa.Table:
    if _OBJECT.match(lines) is None:  # a null in its place would make Arrow end the process
        raise ValueError("found a first line that is no JSON object, expected one object a line")
    rest = "infer" if schema is None else "ignore"
    return arrow_json.read_json(
        pa.BufferReader(lines),
        read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(lines) + 1),
        parse_options=arrow_json.ParseOptions(
            explicit_schema=schema, unexpected_field_behavior=rest
        ),
    )


def _json_type(kind: DataType) -> pa.DataType:
    return pa.string() if kind.temporal else arrow_type(kind)


def _schema(wanted: Mapping[str, DataType]) -> pa.Schema:
    return pa.schema([(name, arrow_type(kind)) for name, kind in wanted.items()])


def _typed(table: pa.Table, wanted: Mapping[str, DataType]) -> dict[str, Any]:
    """The columns, with times and decimals made of the text that was read for them."""
    return {name: _typed_column(name, table[name], kind) for name, kind in wanted.items()}


def _typed_column(name: str, column: pa.ChunkedArray, kind: DataType) -> Any:
    if column.type == arrow_type(kind):
        return column
    made, wrong = (text_times if kind.temporal else text_decimals)(column, kind)
    if wrong is not None:
        raise _misfit(column.filter(pa.array(wrong))[0].as_py(), name, kind)
    return made


def _json_columns(lines: bytes, wanted: Mapping[str, DataType]) -> dict[str, Any]:
    """The columns; decimals are read by themselves where Arrow cannot, or must not, be asked.

    It also refuses some that fit, such as 1.500 of type decimal(3,2).
    """
    decimals = {name: kind for name, kind in wanted.items() if holds_decimals(kind)}
    if not decimals or not beyond_arrow(lines):
        try:
            return _columns_by_arrow(lines, wanted)
        except pa.ArrowInvalid:
            if not decimals:
                raise
    rest = {name: kind for name, kind in wanted.items() if name not in decimals}
    columns = _columns_by_arrow(lines, rest)  # first, to tell what is no JSON at all
    objects = [line for line in lines.split(b"\n") if line.strip(_BLANKS)]
    return columns | {name: _decimals(objects, name, kind) for name, kind in decimals.items()}


def _columns_by_arrow(lines: bytes, wanted: Mapping[str, DataType]) -> dict[str, Any]:
    schema = pa.schema([(name, _json_type(kind)) for name, kind in wanted.items()])
    return _typed(_read_json(lines, schema), wanted)


def _decimals(objects: Sequence[bytes], name: str, kind: DataType) -> pa.ChunkedArray:
    found = JsonDecoder().decode(objects, {name: kind})
    if found.undecodable is not None:
        raise _misfit(objects[int(found.undecodable.argmax())].decode(errors="replace"), name, kind)
    return found.rows.column(name)


def _misfit(found: str, name: str, kind: DataType) -> ValueError:
    return ValueError(f"found {shown(found)} in column {name!r}, expected a {kind}")


def _inferred(schema: pa.Schema) -> dict[str, str]:
    kinds = {field.name: _inferred_type(field.type) for field in schema}
    return {name: kind for name, kind in kinds.items() if kind is not None}


def _inferred_type(found: pa.DataType) -> str | None:
    if pa.types.is_list(found):
        element = _inferred_type(found.value_type)
        return None if element is None else f"array<{element}>"
    if pa.types.is_nested(found):
        return None
    if pa.types.is_integer(found):
        return "long"
    if pa.types.is_floating(found):
        return "double"
    return "boolean" if pa.types.is_boolean(found) else "string"
