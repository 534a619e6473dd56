"""Decimals of any exponent, brought to the digits of their column before Arrow sees them.

Arrow rescales by a table of 38 powers of ten and does not look where the table ends: `1e-99999999`
would end the process, and `5e-41` be 0.00.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, Inexact, InvalidOperation
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.core.arrays import Bools
from tidegate.pipeline import DataType
from tidegate.sources.columns import arrow_type

_FAR_BEHIND_THE_POINT: Final = r"[eE]-0*[1-9][0-9]|\.[0-9]{30}"
"""What every decimal has that Arrow would rescale by more than 38: without it there are at most
29 digits behind the point, and nine more by the exponent.
"""
_ESCAPED: Final = r"\\u00(2[dDeE]|3[0-9]|[46]5)"
"""The signs of a decimal as JSON may have them in text."""
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def holds_decimals(kind: DataType) -> bool:
    """Whether it is a decimal, or an array of them."""
    return kind.decimal if kind.element is None else holds_decimals(kind.element)


def fitted_decimals(cells: Sequence[Any], kind: DataType) -> tuple[pa.Array, Bools]:
    """Decimals, or lists of them, in their type; and which have no place in it, and are NULL."""
    fitted = _fitting(kind)
    unfit = np.zeros(len(cells), np.bool_)
    found: list[Any] = []
    for place, cell in enumerate(cells):
        try:
            found.append(None if cell is None else fitted(cell))
        except ArithmeticError:
            found.append(None)
            unfit[place] = True
    return pa.array(found, arrow_type(kind)), unfit


@lru_cache(maxsize=64)
def _fitting(kind: DataType) -> Callable[[Any], Any]:
    """How a cell gets the digits of its type; raises `ArithmeticError` where it has others."""
    if kind.element is not None:
        fitted = _fitting(kind.element)
        return lambda cells: [None if cell is None else fitted(cell) for cell in cells]
    strict = Context(
        prec=kind.precision, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[InvalidOperation, Inexact]
    )
    last_digit = Decimal((0, (1,), -(kind.scale or 0)))

    def scaled(cell: Decimal) -> Decimal:
        found = strict.quantize(cell, last_digit)
        if found.is_nan():
            raise InvalidOperation(cell)
        return found

    return scaled


def text_decimals(
    text: pa.ChunkedArray, kind: DataType
) -> tuple[pa.Array | pa.ChunkedArray, Bools | None]:
    """Decimals that are written as text, blanks around them; and which are none, unless all are."""
    trimmed = pc.ascii_trim(text, " \t")
    if not pc.any(pc.match_substring_regex(trimmed, _FAR_BEHIND_THE_POINT)).as_py():
        try:
            return trimmed.cast(arrow_type(kind)), None
        except pa.ArrowInvalid:
            pass
    numbers = [None if cell is None else _number(cell) for cell in trimmed.to_pylist()]
    column, unfit = fitted_decimals(numbers, kind)
    return column, unfit if unfit.any() else None


def _number(text: str) -> Decimal:
    """The number that a text is; NaN, which has no place in any type, if it is none."""
    try:
        return Decimal(text) if _NUMBER.fullmatch(text) else Decimal("NaN")
    except InvalidOperation:  # of an exponent that nothing has
        return Decimal("NaN")


def beyond_arrow(lines: bytes) -> bool:
    """Whether there may be a number among lines of JSON that Arrow must not be given as decimal."""
    there = pa.array([lines], pa.large_binary())
    pattern = f"{_FAR_BEHIND_THE_POINT}|{_ESCAPED}"
    return bool(pc.match_substring_regex(there, pattern)[0].as_py())
