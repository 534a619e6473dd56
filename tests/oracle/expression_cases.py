"""Random typed expressions, and rows for them with NULL, NaN and the ends of every range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache
from typing import Any, Final

import polars as pl
from hypothesis import strategies as st

from tests.oracle.expressions import DAY_US, EPOCH, micros
from tidegate.core.compiling import polars_type
from tidegate.pipeline.datatypes import DataType
from tidegate.pipeline.expressions import Call, Cast, Column, Literal, Node
from tidegate.pipeline.functions import INTERVAL

TYPES: Final[Mapping[str, DataType]] = {
    name: DataType.parse(text)
    for name, text in {
        "yes": "boolean",
        "no": "boolean",
        "small": "byte",
        "whole": "int",
        "long": "long",
        "other": "long",
        "real": "double",
        "ratio": "double",
        "short_real": "float",
        "text": "string",
        "word": "string",
        "price": "decimal(10,2)",
        "rate": "decimal(15,5)",
        "day": "date",
        "since": "date",
        "at": "timestamp",
        "until": "timestamp",
        "local": "timestamp_ntz",
    }.items()
}
TEXTS: Final = (
    "",
    "a",
    "B",
    "aB a",
    "ä%",
    "1",
    " -3 ",
    "2.55",
    "1e3",
    "NaN",
    "true",
    "a_\\",
    "N.a.b",
)
DATES: Final = ("1969-12-31", "1970-01-01", "2024-02-29", "1900-03-01", "2099-12-31")
TIMES: Final = (
    *("1969-12-31T23:59:59.999999", "1970-01-01T00:00:00", "2024-02-29T13:14:15.5"),
    *("1900-03-01T00:00:00.000001", "2038-01-19T03:14:08"),
)
_WHEN: Final = tuple(micros(datetime.fromisoformat(each).replace(tzinfo=UTC)) for each in TIMES)
_DAYS: Final = tuple((date.fromisoformat(each) - EPOCH).days for each in DATES)


def _decimals(digits: int, scale: int) -> st.SearchStrategy[Decimal]:
    ends = st.sampled_from([10**digits - 1, -(10**digits) + 1, 0, 5, -5, 15, 25])
    units = st.integers(-999, 999) | ends
    return units.map(lambda each: Decimal(each).scaleb(-scale))


_ODD_DOUBLES: Final = (
    *(0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -7.25, 0.1, 1e20, -1e300, 5e-324, 2.0**53),
    *(float("nan"), float("inf"), float("-inf")),
)
_DOUBLES: Final = st.sampled_from(_ODD_DOUBLES) | st.integers(-9, 9).map(float)
_LONGS: Final = st.integers(-9, 9) | st.sampled_from([2**63 - 1, -(2**63), 2**53 + 1, 10**12])
VALUES: Final[Mapping[str, st.SearchStrategy[Any]]] = {
    "boolean": st.booleans(),
    "byte": st.integers(-9, 9) | st.sampled_from([127, -128]),
    "int": st.integers(-9, 9) | st.sampled_from([2**31 - 1, -(2**31)]),
    "long": _LONGS,
    "double": _DOUBLES,
    "float": st.sampled_from([0.0, 0.5, -2.5, 0.10000000149011612, float("nan"), float("inf")]),
    "string": st.sampled_from(TEXTS),
    "decimal(10,2)": _decimals(10, 2),
    "decimal(15,5)": _decimals(15, 5),
    "date": st.sampled_from(_DAYS),
    "timestamp": st.sampled_from(_WHEN),
    "timestamp_ntz": st.sampled_from(_WHEN),
}
ROWS: Final = st.fixed_dictionaries(
    {name: st.none() | VALUES[str(kind)] for name, kind in TYPES.items()}
)


def frame_of(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Rows as columns; times and days come as numbers."""
    series = []
    for name, kind in TYPES.items():
        values = [row[name] for row in rows]
        plain = pl.Int64() if kind.temporal else polars_type(kind)
        found = pl.Series(name, values, dtype=plain)
        if kind.temporal:
            found = found.cast(pl.Int32 if kind.name == "date" else pl.Int64)
        series.append(found.cast(polars_type(kind)))
    return pl.DataFrame(series)


# --- expressions --------------------------------------------------------------------------------

Expressions = st.SearchStrategy[Node]


def _calls(name: str, *operands: Expressions) -> Expressions:
    return st.tuples(*operands).map(lambda found: Call(name, found))


def _any_call(names: Sequence[str], *operands: Expressions) -> Expressions:
    return st.tuples(st.sampled_from(names), *operands).map(
        lambda found: Call(str(found[0]), tuple(found[1:]))
    )


def _cast(operand: Expressions, *types: str) -> Expressions:
    return st.tuples(operand, st.sampled_from(types)).map(
        lambda found: Cast(found[0], DataType.parse(found[1]), safe=True)
    )


def _columns(*kinds: str) -> Expressions:
    return st.sampled_from([Column(name) for name, kind in TYPES.items() if kind.name in kinds])


def _literals(values: st.SearchStrategy[Any]) -> Expressions:
    return values.map(Literal.of)


def _leaves(kind: str) -> Expressions:
    nothing = st.just(Literal.of(None))
    match kind:
        case "boolean":
            return _columns("boolean") | _literals(st.booleans())
        case "long":
            small = st.integers(-9, 9) | st.sampled_from([2**63 - 1, 2**31])
            return _columns("byte", "int", "long") | _literals(small) | _columns("long")
        case "double":
            numbers = st.sampled_from([0.0, 0.5, -2.5, 1e300, 0.1, 3.0])
            return _columns("double", "float") | _literals(numbers)
        case "decimal":
            return _columns("decimal") | _cast(
                _literals(st.sampled_from(["2.5", "-0.01"])), "decimal(5,2)"
            )
        case "string":
            return _columns("string") | _literals(st.sampled_from(TEXTS)) | nothing.map(_text)
        case "date":
            return _columns("date") | _cast(_literals(st.sampled_from(DATES)), "date")
        case "timestamp":
            return _columns("timestamp") | _cast(_literals(st.sampled_from(TIMES)), "timestamp")
        case _:
            spans = st.integers(-3, 3).map(lambda n: n * DAY_US) | st.integers(-(10**7), 10**7)
            return spans.map(lambda us: Literal(us, INTERVAL))


def _text(nothing: Node) -> Node:
    return Cast(nothing, DataType("string"), safe=True)


KINDS: Final = ("boolean", "long", "double", "decimal", "string", "date", "timestamp")
_ORDER: Final = ("=", "<>", "<", "<=", ">", ">=", "<=>")
_UNITS: Final = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")
_PARTS: Final = (
    *("year", "quarter", "month", "weekofyear", "day", "dayofyear", "dayofweek", "weekday"),
    *("hour", "minute", "second", "unix_seconds", "unix_millis", "unix_micros"),
)
_PATTERNS: Final = st.sampled_from(["%", "a%", "%a", "_", "_%_", "%\\%", "", "a_\\\\", "%B%a"])


@cache
def expressions(kind: str, depth: int = 3) -> Expressions:
    """Expressions of about that type: of any width, where it is a number."""
    leaves = _leaves(kind)
    if depth == 0:
        return leaves
    return st.deferred(lambda: leaves | _general(kind, depth - 1) | _SPECIAL[kind](depth - 1))


def _general(kind: str, depth: int) -> Expressions:
    """What every type has."""
    own, truth = expressions(kind, depth), expressions("boolean", depth)
    choices = _calls("case", truth, own, own) | _calls("case", truth, own)
    extremes = choices if kind == "interval" else _any_call(["greatest", "least"], own, own)
    return choices | extremes | _calls("coalesce", own, own)


def _booleans(depth: int) -> Expressions:
    def of(kind: str) -> Expressions:
        return expressions(kind, depth)

    alike = [_any_call(_ORDER, of(kind), of(kind)) for kind in (*KINDS, "interval")]
    number = of("long") | of("double") | of("decimal")
    text = of("string")
    return st.one_of(
        *alike,
        _any_call(_ORDER, number, number),
        _any_call(_ORDER, of("date"), of("timestamp")),
        _any_call(_ORDER, _columns("timestamp_ntz"), of("timestamp")),
        _calls("and", of("boolean"), of("boolean")),
        _calls("or", of("boolean"), of("boolean"), of("boolean")),
        _calls("not", of("boolean")),
        *(_calls("is null", of(kind)) for kind in KINDS),
        _calls("in", number, number, number),
        _calls("in", of("long"), *[_leaves("long")] * 3),
        _calls("in", text, *[_leaves("string")] * 3),
        _calls("like", text, _literals(_PATTERNS)),
        _any_call(["startswith", "endswith", "contains"], text, text),
        _calls("isnan", of("double")),
        _cast(text | number, "boolean"),
    )


def _longs(depth: int) -> Expressions:
    long, text, at = (expressions(kind, depth) for kind in ("long", "string", "timestamp"))
    double, decimal = expressions("double", depth), expressions("decimal", depth)
    day = expressions("date", depth)
    return st.one_of(
        _any_call(["+", "-", "*", "%", "div"], long, long),
        _calls("div", decimal, decimal),
        _any_call(["neg", "abs", "ceil", "floor", "round"], long),
        _any_call(["ceil", "floor"], double),
        _calls("length", text),
        _any_call(_PARTS, at),
        _calls("datediff", day, day),
        _calls("unix_date", day),
        _cast(text | double | decimal, "bigint", "int", "smallint"),
    )


def _doubles(depth: int) -> Expressions:
    number = expressions("long", depth) | expressions("double", depth)
    double, decimal = expressions("double", depth), expressions("decimal", depth)
    return st.one_of(
        _any_call(["+", "-", "*", "%"], number, double),
        _calls("/", number | decimal, number),
        _any_call(["neg", "abs", "round", "sqrt", "sign"], double),
        _cast(expressions("string", depth) | number, "double", "float"),
    )


def _decimal_ones(depth: int) -> Expressions:
    decimal, long = expressions("decimal", depth), expressions("long", depth)
    number = decimal | long | expressions("double", depth)
    return st.one_of(
        _any_call(["+", "-", "*", "%"], decimal, decimal),
        _any_call(["+", "-", "*", "%"], decimal, _columns("int", "long")),
        _any_call(["neg", "abs", "ceil", "floor", "round"], decimal),
        _calls("round", decimal, _literals(st.integers(0, 3))),
        _cast(number | expressions("string", depth), "decimal(12,3)", "decimal(38,10)"),
    )


def _strings(depth: int) -> Expressions:
    text, small = expressions("string", depth), _literals(st.integers(-4, 4))
    others = [expressions(kind, depth) for kind in ("long", "decimal", "boolean", "date")]
    return st.one_of(
        _any_call(["lower", "upper", "trim", "ltrim", "rtrim"], text),
        _calls("substring", text, small) | _calls("substring", text, small, small),
        _any_call(["left", "right"], text, small),
        _calls("concat", text, text),
        _calls("replace", text, _literals(st.sampled_from(["a", "", "%"])), text),
        _calls(
            "split_part",
            text,
            _literals(st.sampled_from([".", "a"])),
            _literals(st.sampled_from([1, 2, 9, -1, -2])),
        ),
        _cast(st.one_of(*others, expressions("timestamp", depth)), "string"),
    )


def _dates(depth: int) -> Expressions:
    day, days = expressions("date", depth), _literals(st.integers(-99, 99))
    sources = expressions("timestamp", depth) | _literals(st.sampled_from([*DATES, *TEXTS, *TIMES]))
    return _any_call(["date_add", "date_sub"], day, days) | _cast(sources, "date")


def _timestamps(depth: int) -> Expressions:
    at, span = expressions("timestamp", depth), expressions("interval", min(depth, 1))
    units = _literals(st.sampled_from(_UNITS))
    sources = expressions("date", depth) | _columns("timestamp_ntz") | _leaves("date")
    return (
        _any_call(["+", "-"], at, _leaves("interval"))
        | _calls("+", _leaves("interval") | span, _columns("timestamp"))
        | _calls("date_trunc", units, at)
        | _cast(sources, "timestamp")
    )


def _intervals(depth: int) -> Expressions:
    span = expressions("interval", depth)
    between = _calls("-", _columns("timestamp"), _columns("timestamp"))
    return between | _any_call(["+", "-"], span, span) | _any_call(["neg", "abs"], span)


_SPECIAL: Final = {
    "boolean": _booleans,
    "long": _longs,
    "double": _doubles,
    "decimal": _decimal_ones,
    "string": _strings,
    "date": _dates,
    "timestamp": _timestamps,
    "interval": _intervals,
}
ANY: Final = st.one_of(*(expressions(kind) for kind in KINDS))
