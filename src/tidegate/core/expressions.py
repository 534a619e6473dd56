"""Expressions on whole columns: a typed tree becomes one `pl.Expr`, with the meaning of Spark SQL.

    Typed -> [compiled] -> pl.Expr -> `where`, `select`, conditions of joins

No value of a row stops a pipeline. The rules, where they are not those of Spark with its defaults
(`spark.sql.ansi.enabled`, which lets a row fail the job):

- An integer that is computed is a long and a float a double. Longs wrap around, as in Spark
  without ANSI mode; a decimal that needs more than 38 digits, on the way or at the end, is NULL.
- `1.5` is a double (in Spark a decimal); `1.5BD` is a decimal. `/` gives doubles, of decimals too.
- What is divided by zero is NULL (`/`, `%`, `div`). `div` and `%` cut towards zero, so a remainder
  has the sign of the dividend.
- CAST is TRY_CAST: a value that the type does not have gives NULL. Only a constant that cannot be
  cast is refused, before a row is read. `ceil` and `floor` that no long can hold are NULL too.
- Times are UTC. Dates and timestamps without a zone are midnight, and the same clock, in UTC.
- NULL is unknown (three-valued logic). NaN equals NaN and is greater than every number, and 0.0
  equals -0.0, as in Spark.
- Regular expressions are those of Rust, with linear time: no look-around, no back references.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, Final

import numpy as np
import polars as pl
import polars.selectors as cs

from tidegate.core.casts import cast, from_digits, instant, scale_of, whole
from tidegate.core.compiling import polars_type
from tidegate.errors import ConfigError, Problem
from tidegate.pipeline.datatypes import LONG, STRING, DataType
from tidegate.pipeline.expressions import Call, Cast, Column, Literal
from tidegate.pipeline.functions import CONSTANTS, FUNCTIONS, INTERVAL, NULL, UNITS, Type
from tidegate.pipeline.masking import shown
from tidegate.pipeline.typed_expressions import Typed

_DURATION: Final = pl.Duration("us")


def compiled(tree: Typed) -> pl.Expr:
    """The expression of a tree; `ConfigError` if a constant in it cannot be what it has to be."""
    if isinstance(tree.node, Literal):
        return pl.lit(tree.node.value, dtype=_dtype(tree.type))
    return _constant_of(tree) if _is_constant(tree) else _expression(tree)


def _is_constant(tree: Typed) -> bool:
    return next(tree.columns(), None) is None


def _constant_of(tree: Typed) -> pl.Expr:
    """What is the same for all rows is computed once."""
    value = pl.select(_expression(tree)).to_series()
    node = tree.node
    meant = isinstance(node, Cast) and not node.safe and isinstance(node.operand, Literal)
    if meant and value[0] is None and tree.operands[0].type != NULL:
        found, expected = shown(str(tree)), f"a constant that is a {tree.type}"
        raise ConfigError([Problem("", found, expected, "write TRY_CAST for NULL")])
    plain = value.to_physical() if value.dtype.is_temporal() else value
    return pl.lit(plain[0], dtype=plain.dtype).cast(value.dtype)


def _expression(tree: Typed) -> pl.Expr:
    node = tree.node
    if isinstance(node, Column):
        return _column(f"{node.qualifier}.{node.name}" if node.qualifier else node.name)
    if isinstance(node, Cast):
        return _cast(tree)
    assert isinstance(node, Call)
    if node.function in _MIRRORED:
        return _comparison(node.function, *tree.operands)
    if node.function == "in":
        return _in(tree)
    special = _BY_TYPE.get((node.function, tree.operands[0].type.name))
    if special is not None:
        return special(tree)
    kinds = FUNCTIONS[node.function].kinds(len(tree.operands)) or ()
    pairs = zip(kinds, tree.operands, strict=True)
    return COMPUTED[node.function](
        *(_constant(each) if kind in CONSTANTS else compiled(each) for kind, each in pairs)
    )


def where(frame: pl.DataFrame, tree: Typed) -> pl.DataFrame:
    """The rows for which it is true; NULL is not."""
    return frame.filter(compiled(tree))


def select(frame: pl.DataFrame, trees: Mapping[str, Typed]) -> pl.DataFrame:
    """The columns of `trees` by name, with as many rows as before."""
    found = frame.select(
        compiled(tree).cast(polars_type(tree.datatype)).alias(name) for name, tree in trees.items()
    )
    if found.height == frame.height:
        return found
    return pl.DataFrame([each.new_from_index(0, frame.height) for each in found])


def _cast(tree: Typed) -> pl.Expr:
    (operand,) = tree.operands
    assert isinstance(tree.type, DataType)
    if isinstance(operand.type, DataType) and operand.type != tree.type:
        return cast(compiled(operand), operand.type, tree.type)
    return compiled(operand).cast(polars_type(tree.type))


def _column(name: str) -> pl.Expr:
    """Polars takes some names for patterns."""
    if name == "*" or name.startswith("^"):
        return cs.by_name(name).as_expr()
    return pl.col(name)


def _dtype(found: Type) -> pl.DataType:
    if isinstance(found, DataType):
        return polars_type(found)
    return _DURATION if found == INTERVAL else pl.Null()


def _constant(operand: Typed) -> Any:
    assert isinstance(operand.node, Literal)
    return operand.node.value


# --- decimals: digits in 128 bits, so that too many are NULL and never an error ------------------


def _digits(tree: Typed, scale: int) -> pl.Expr:
    """The digits of a decimal with so many behind the point; NULL if those are too many."""
    return compiled(tree).cast(pl.Decimal(38, scale), strict=False).to_physical()


def _aligned(tree: Typed) -> tuple[int, list[pl.Expr]]:
    """The digits of all operands, with as many behind the point."""
    scale = max(scale_of(each.type) for each in tree.operands)
    return scale, [_digits(each, scale) for each in tree.operands]


def _fitting(digits: pl.Expr, about: pl.Expr) -> pl.Expr:
    """Digits that did not wrap around: 128 bits hold up to 1.7e38."""
    return pl.when(about.abs() < 1.6e38).then(digits)


def _sum_of(sign: int) -> Callable[[Typed], pl.Expr]:
    def computed(tree: Typed) -> pl.Expr:
        assert isinstance(tree.type, DataType)
        scale, (left, right) = _aligned(tree)
        about = left.cast(pl.Float64) + sign * right.cast(pl.Float64)
        return from_digits(_fitting(left + sign * right, about), scale, tree.type)

    return computed


def _product(tree: Typed) -> pl.Expr:
    assert isinstance(tree.type, DataType)
    scales = [scale_of(each.type) for each in tree.operands]
    left, right = (_digits(*each) for each in zip(tree.operands, scales, strict=True))
    about = left.cast(pl.Float64) * right.cast(pl.Float64)
    return from_digits(_fitting(left * right, about), sum(scales), tree.type)


def _decimal_rest(tree: Typed) -> pl.Expr:
    assert isinstance(tree.type, DataType)
    scale, (left, right) = _aligned(tree)
    return from_digits(_remainder(left, right), scale, tree.type)


def _decimal_quotient(tree: Typed) -> pl.Expr:
    _, (left, right) = _aligned(tree)
    return _quotient(left, right)


def _decimal_rounded(tree: Typed) -> pl.Expr:
    assert isinstance(tree.type, DataType)
    scale = scale_of(tree.operands[0].type)
    return from_digits(_digits(tree.operands[0], scale), scale, tree.type)


def _decimal_whole(sign: int) -> Callable[[Typed], pl.Expr]:
    """Cut down, or the same of what has the other sign."""

    def computed(tree: Typed) -> pl.Expr:
        assert isinstance(tree.type, DataType)
        scale = scale_of(tree.operands[0].type)
        digits = _digits(tree.operands[0], scale) * sign
        return from_digits(digits // whole(10**scale) * sign, 0, tree.type)

    return computed


# --- comparisons --------------------------------------------------------------------------------

_MIRRORED: Final = {
    **{"=": "=", "<>": "<>", "<=>": "<=>"},
    **{"<": ">", "<=": ">=", ">": "<", ">=": "<="},
}


def _comparison(name: str, left: Typed, right: Typed) -> pl.Expr:
    """Constants stand on the right: with one on the left Polars loses count of some rows."""
    if _is_constant(left):
        name, left, right = _MIRRORED[name], right, left
    return COMPUTED[name](compiled(left), compiled(right))


def _in(tree: Typed) -> pl.Expr:
    """Equal to one of a list, in which longs and texts are looked up."""
    value, *listed = tree.operands
    plain = [
        each
        for each in listed
        if isinstance(each.node, Literal) and isinstance(each.node.value, int | str)
    ]
    if len(plain) < 2 or _is_constant(value) or value.type not in (LONG, STRING):
        plain = []
    found = [_comparison("=", value, each) for each in listed if each not in plain]
    if plain:
        found.append(compiled(value).is_in([_constant(each) for each in plain]))
    return reduce(pl.Expr.or_, found)


# --- what is computed in another way for a type -------------------------------------------------


def _double_rest(tree: Typed) -> pl.Expr:
    """As Java and C; Polars rounds on the way."""
    a, b = map(compiled, tree.operands)
    rest = pl.map_batches([a, b], _fmod, return_dtype=pl.Float64())
    return pl.when(a.is_not_null() & (b != 0)).then(rest)


def _double_quotient(tree: Typed) -> pl.Expr:
    a, b = map(compiled, tree.operands)
    return _long(((a - _double_rest(tree)) / b).round())


def _fmod(pair: Sequence[pl.Series]) -> pl.Series:
    with np.errstate(invalid="ignore"):
        return pl.Series(np.fmod(pair[0].to_numpy(), pair[1].to_numpy()))


_BY_TYPE: Final[Mapping[tuple[str, str], Callable[[Typed], pl.Expr]]] = {
    ("+", "decimal"): _sum_of(1),
    ("-", "decimal"): _sum_of(-1),
    ("*", "decimal"): _product,
    ("%", "decimal"): _decimal_rest,
    ("%", "double"): _double_rest,
    ("div", "decimal"): _decimal_quotient,
    ("div", "double"): _double_quotient,
    ("round", "decimal"): _decimal_rounded,
    ("floor", "decimal"): _decimal_whole(1),
    ("ceil", "decimal"): _decimal_whole(-1),
}


# --- operators and functions --------------------------------------------------------------------


def _not_zero(divisor: pl.Expr) -> pl.Expr:
    return pl.when(divisor != 0).then(divisor)


def _remainder(a: pl.Expr, b: pl.Expr) -> pl.Expr:
    """With the sign of the dividend; Polars gives that of the divisor."""
    floored = a % _not_zero(b)
    return pl.when((floored != 0) & ((a < 0) != (b < 0))).then(floored - b).otherwise(floored)


def _quotient(a: pl.Expr, b: pl.Expr) -> pl.Expr:
    return ((a - _remainder(a, b)) // _not_zero(b)).cast(pl.Int64, strict=False)


def _case(*operands: pl.Expr) -> pl.Expr:
    *pairs, last = [*operands] if len(operands) % 2 else [*operands, pl.lit(None)]
    for condition, value in zip(pairs[-2::-2], pairs[::-2], strict=True):
        last = pl.when(condition).then(value).otherwise(last)
    return last


def _extreme(better: Callable[[pl.Expr, pl.Expr], pl.Expr]) -> Callable[..., pl.Expr]:
    """Without what is NULL; by the order that NaN ends."""

    def of_two(best: pl.Expr, other: pl.Expr) -> pl.Expr:
        return pl.when(best.is_null() | better(other, best)).then(other).otherwise(best)

    return lambda *operands: reduce(of_two, operands)


def _logarithm(base: float) -> Callable[[pl.Expr], pl.Expr]:
    return lambda a: pl.when(a > 0).then(a).log(base)


def _power(a: pl.Expr, b: pl.Expr) -> pl.Expr:
    """As Java: NaN where C says 1."""
    odd = b.is_nan() | ((a.abs() == 1) & b.is_infinite())
    return pl.when(odd).then(float("nan")).otherwise(a.pow(b))


def _substring(text: pl.Expr, place: pl.Expr, length: pl.Expr | None = None) -> pl.Expr:
    size = text.str.len_chars().cast(pl.Int64)
    first = pl.when(place > 0).then(place - 1).when(place < 0).then(size + place).otherwise(0)
    start = first.clip(0, size)
    end = size if length is None else (first + length.clip(-(2**32), 2**32)).clip(start, size)
    known = place if length is None else place + length
    return pl.when(known.is_not_null()).then(text.str.slice(start, end - start))


def _replaced(text: pl.Expr, old: str, new: pl.Expr | None = None) -> pl.Expr:
    new = pl.lit("") if new is None else new
    text = pl.when(new.is_not_null()).then(text)  # a constant gets the length of the other column
    return text.str.replace_all(old, new.fill_null(""), literal=True) if old else text


def _nth_part(text: pl.Expr, separator: str, nth: int) -> pl.Expr:
    parts = text.str.split(separator) if separator else pl.concat_list(text)
    found = parts.list.get(nth - 1 if nth > 0 else nth, null_on_oob=True)
    return pl.when(text.is_not_null()).then(found.fill_null(""))


def _matching(text: pl.Expr, pattern: str) -> pl.Expr:
    """Whether a pattern, tried here once, matches a part."""
    try:
        pl.select(pl.lit("").str.contains(pattern))
    except pl.exceptions.PolarsError as error:
        said = " ".join(line for line in str(error).splitlines() if "error: " in line)
        expected = "a regular expression without look-around and back references"
        raise ConfigError([Problem("", shown(pattern), expected, said)]) from None
    return text.str.contains(pattern)


def _like(flags: str) -> Callable[..., pl.Expr]:
    def computed(text: pl.Expr, pattern: str, escape: str = "\\") -> pl.Expr:
        tokens = re.findall(rf"(?s){re.escape(escape)}.|.", pattern)
        return _matching(text, f"(?{flags})^{''.join(_like_part(t, escape) for t in tokens)}$")

    return computed


def _like_part(token: str, escape: str) -> str:
    if token == escape or (len(token) == 2 and token[1] not in ("%", "_", escape)):
        expected, hint = f"{escape} before %, _ or {escape}", f"write {escape}{escape} for one"
        raise ConfigError([Problem("", f"{shown(token)} in LIKE", expected, hint)])
    return {"%": ".*", "_": "."}.get(token) or re.escape(token[-1])


def _days_later(day: pl.Expr, days: pl.Expr) -> pl.Expr:
    later = day.to_physical().cast(pl.Int64) + days
    return later.cast(pl.Int32, strict=False).cast(pl.Date)


def _long(found: pl.Expr) -> pl.Expr:
    return found.cast(pl.Int64, strict=False)


COMPUTED: Final[Mapping[str, Callable[..., pl.Expr]]] = {
    "or": lambda *a: reduce(pl.Expr.or_, a),
    "and": lambda *a: reduce(pl.Expr.and_, a),
    "not": lambda a: ~a,
    "=": pl.Expr.eq,
    "<>": pl.Expr.ne,
    "<=>": pl.Expr.eq_missing,
    "<": pl.Expr.lt,
    "<=": pl.Expr.le,
    ">": pl.Expr.gt,
    ">=": pl.Expr.ge,
    "is null": lambda a: a.is_null(),
    "like": _like("s"),
    "ilike": _like("si"),
    "rlike": _matching,
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / _not_zero(b),
    "%": _remainder,
    "div": _quotient,
    "neg": lambda a: -a,
    "case": _case,
    "coalesce": pl.coalesce,
    "greatest": _extreme(lambda a, b: a > b),
    "least": _extreme(lambda a, b: a < b),
    "isnan": lambda a: a.is_nan().fill_null(value=False),
    "abs": lambda a: a.abs(),
    "sign": lambda a: a.sign(),
    "ceil": lambda a: _long(a.ceil()),
    "floor": lambda a: _long(a.floor()),
    "round": lambda a, digits=0: a.round(digits, mode="half_away_from_zero"),
    "sqrt": lambda a: a.sqrt(),
    "exp": lambda a: a.exp(),
    "ln": _logarithm(np.e),
    "log10": _logarithm(10),
    "log2": _logarithm(2),
    "power": _power,
    "lower": lambda a: a.str.to_lowercase(),
    "upper": lambda a: a.str.to_uppercase(),
    "length": lambda a: _long(a.str.len_chars()),
    "trim": lambda a: a.str.strip_chars(" "),
    "ltrim": lambda a: a.str.strip_chars_start(" "),
    "rtrim": lambda a: a.str.strip_chars_end(" "),
    "substring": _substring,
    "left": lambda a, n: _substring(a, pl.lit(1), n),
    "right": lambda a, n: _substring(a, pl.when(n > 0).then(-n).otherwise(n * 0 + 2**40)),
    "concat": lambda *a: pl.concat_str(a),
    "replace": _replaced,
    "startswith": lambda a, b: a.str.starts_with(b),
    "endswith": lambda a, b: a.str.ends_with(b),
    "contains": lambda a, b: a.str.contains(b, literal=True),
    "split_part": _nth_part,
    "year": lambda a: _long(a.dt.year()),
    "quarter": lambda a: _long(a.dt.quarter()),
    "month": lambda a: _long(a.dt.month()),
    "weekofyear": lambda a: _long(a.dt.week()),
    "day": lambda a: _long(a.dt.day()),
    "dayofyear": lambda a: _long(a.dt.ordinal_day()),
    "dayofweek": lambda a: _long(a.dt.weekday()) % 7 + 1,
    "weekday": lambda a: _long(a.dt.weekday()) - 1,
    "hour": lambda a: _long(a.dt.hour()),
    "minute": lambda a: _long(a.dt.minute()),
    "second": lambda a: _long(a.dt.second()),
    "unix_seconds": lambda a: a.to_physical() // 1_000_000,
    "unix_millis": lambda a: a.to_physical() // 1_000,
    "unix_micros": lambda a: a.to_physical(),
    "unix_date": lambda a: _long(a.to_physical()),
    "timestamp_seconds": lambda a: instant(a, 1_000_000),
    "timestamp_millis": lambda a: instant(a, 1_000),
    "timestamp_micros": lambda a: instant(a, 1),
    "date_trunc": lambda unit, a: a.dt.truncate(UNITS[unit.lower()]),
    "date_add": _days_later,
    "date_sub": lambda day, days: _days_later(day, -days),
    "datediff": lambda a, b: _long(a.to_physical()) - _long(b.to_physical()),
}
"""How Polars computes each function of `pipeline/functions.py`; constants come as values."""
