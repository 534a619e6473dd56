"""Operators and functions of expressions: what each takes, and the type of what it gives.

One row a function. How it is computed stands under the same name in `core/expressions.py`.

An integer that is computed is a long and a float a double, so nothing overflows that users would
not expect to; columns, and values that already have one type, keep theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tidegate.pipeline.datatypes import DOUBLE, LONG, MAX_PRECISION, STRING, TIMESTAMP, DataType

BOOLEAN: Final = DataType("boolean")
DATE: Final = DataType("date")


@dataclass(frozen=True, slots=True)
class Internal:
    """A type that parts of expressions have, and columns do not."""

    name: str
    numeric = integral = fractional = decimal = temporal = False
    scalar = True

    def __str__(self) -> str:
        return self.name


NULL: Final = Internal("void")
"""Of NULL, which fits everywhere."""
INTERVAL: Final = Internal("interval")
"""Microseconds between two times."""

Type = DataType | Internal

UNITS: Final[Mapping[str, str]] = {
    "microsecond": "1us",
    "millisecond": "1ms",
    "second": "1s",
    "minute": "1m",
    "hour": "1h",
    "day": "1d",
    "week": "1w",
    "month": "1mo",
    "quarter": "1q",
    "year": "1y",
}
"""What `date_trunc` cuts to; a week begins on Monday."""


class Unfit(Exception):  # caught where the operands have places
    """Types that do not fit; `nth` is the operand at fault, None for all of them together."""

    def __init__(self, expected: str, hint: str = "", nth: int | None = None) -> None:
        super().__init__(expected, hint, nth)
        self.expected, self.hint, self.nth = expected, hint, nth


@dataclass(frozen=True, slots=True)
class Operand:
    """What a rule sees of an operand: its type, and its value if it is a constant."""

    type: Type
    constant: bool = False
    value: object = None


# --- types that meet ----------------------------------------------------------------------------


def widened(found: Type) -> Type:
    """The type that a number is computed in."""
    if found.integral:
        return LONG
    return DOUBLE if found.fractional else found


def common(types: Sequence[Type]) -> Type | None:
    """The type in which values of `types` meet, as in Spark; None if there is none.

    >>> str(common([DataType.parse("decimal(5,2)"), LONG]))
    'decimal(22,2)'
    """
    kinds = list(dict.fromkeys(each for each in types if each != NULL))
    if len(kinds) < 2:
        return kinds[0] if kinds else NULL
    if all(each.numeric for each in kinds):
        return _common_number(kinds)
    if all(each.temporal for each in kinds):
        return TIMESTAMP if TIMESTAMP in kinds else DataType("timestamp_ntz")
    return None


def _common_number(kinds: Sequence[Type]) -> Type:
    if any(each.fractional for each in kinds):
        return DOUBLE
    if not any(each.decimal for each in kinds):
        return LONG
    digits = [_digits(each) for each in kinds]
    scale = max(scale for _, scale in digits)
    precision = max(precision - scale for precision, scale in digits) + scale
    return DataType(
        "decimal", min(precision, MAX_PRECISION), max(0, scale - max(0, precision - MAX_PRECISION))
    )


def _digits(found: Type) -> tuple[int, int]:
    """Precision and scale; a long has up to 19 digits, and counts as 20 in Spark."""
    if isinstance(found, DataType) and found.decimal:
        return found.precision or 0, found.scale or 0
    return 20, 0


def _decimal(precision: int, scale: int) -> DataType:
    """A decimal of at most 38 digits: digits behind the point make room, down to 6 of them."""
    if precision <= MAX_PRECISION:
        return DataType("decimal", precision, scale)
    kept = max(MAX_PRECISION - (precision - scale), min(scale, 6))
    return DataType("decimal", MAX_PRECISION, kept)


# --- kinds of operands --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Kind:
    """What fits in a place, in words and as a rule, and what it becomes there."""

    words: str
    fits: Callable[[Operand], bool]
    becomes: Callable[[Type], Type] = lambda found: found


def _constant(words: str, fits: Callable[[object], bool]) -> Kind:
    return Kind(words, lambda each: each.constant and fits(each.value))


KINDS: Final[Mapping[str, Kind]] = {
    "boolean": Kind("true or false", lambda each: each.type == BOOLEAN, lambda _: BOOLEAN),
    "number": Kind("numbers", lambda each: each.type.numeric, widened),
    "signed": Kind("numbers", lambda each: each.type.numeric or each.type == INTERVAL, widened),
    "long": Kind("whole numbers", lambda each: each.type.integral, lambda _: LONG),
    "double": Kind("numbers", lambda each: each.type.numeric, lambda _: DOUBLE),
    "string": Kind("texts", lambda each: each.type == STRING, lambda _: STRING),
    "date": Kind("dates or times", lambda each: each.type.temporal, lambda _: DATE),
    "timestamp": Kind("dates or times", lambda each: each.type.temporal, lambda _: TIMESTAMP),
    "any": Kind("anything", lambda _: True),
    "same": Kind("types that can be compared", lambda _: True),
    "ordered": Kind("types with an order", lambda each: each.type.scalar),
    "constant": _constant("a text in quotes", lambda value: isinstance(value, str)),
    "character": _constant(
        "one character in quotes", lambda value: isinstance(value, str) and len(value) == 1
    ),
    "place": _constant("a whole number, not 0", lambda value: type(value) is int and value != 0),
    "digits": _constant(
        "a number of digits from 0 to 38",
        lambda value: type(value) is int and 0 <= value <= MAX_PRECISION,
    ),
    "unit": _constant(
        f"one of {', '.join(UNITS)}, in quotes",
        lambda value: isinstance(value, str) and value.lower() in UNITS,
    ),
}
"""`same` and `ordered` operands of a function become their common type."""
CONSTANTS: Final = ("constant", "character", "place", "digits", "unit")
_JOINT: Final = ("same", "ordered")

Resolved = tuple[Sequence[Type], Type]
"""The types that the operands become, and that of the result."""
Rule = Callable[[Sequence[Operand]], Resolved]
ATOM: Final = 10


@dataclass(frozen=True, slots=True)
class Function:
    """An operator or a function.

    `takes` lists kinds of operands: one in brackets may be left out, the last one may be repeated
    with `...`. `gives` is a type, or the kind whose common type it is, or `first`. What that cannot
    say is said by a `rule`. An operator has a `form`, and `binds` its operands that tightly.
    """

    name: str
    takes: str
    gives: Type | str
    about: str
    also: tuple[str, ...] = ()
    form: str = ""
    binds: int = ATOM
    rule: Rule | None = None

    def kinds(self, count: int) -> Sequence[str] | None:
        """The kinds of `count` operands; None if it does not take so many."""
        if self.name == "case":
            if count < 2:
                return None
            return [*(["boolean", "same"] * (count // 2)), *(["same"] * (count % 2))]
        listed = [each.strip() for each in self.takes.split(",")]
        least = sum(not each.startswith("[") for each in listed)
        kinds = [each.strip("[].") for each in listed]
        if listed[-1].endswith("..."):
            kinds += [kinds[-1]] * (count - len(kinds))
        return kinds[:count] if least <= count <= len(kinds) else None

    def resolve(self, operands: Sequence[Operand]) -> Resolved:
        """Check the types of operands; `Unfit` says which one is wrong, and how."""
        kinds = self.kinds(len(operands))
        if kinds is None:
            raise Unfit(self.call)
        if self.rule is not None:
            return self.rule(operands)
        for nth, (kind, each) in enumerate(zip(kinds, operands, strict=True)):
            constant = kind in CONSTANTS
            if (constant or each.type != NULL) and not KINDS[kind].fits(each):
                hint = "it has to be the same for all rows" if constant else ""
                raise Unfit(f"{KINDS[kind].words} in that place", hint, nth)
        meet = _meet(operands, kinds)
        becomes = [
            meet if kind in _JOINT else _became(kind, each.type)
            for kind, each in zip(kinds, operands, strict=True)
        ]
        if isinstance(self.gives, str):
            return becomes, becomes[0] if self.gives == "first" else meet
        return becomes, self.gives

    @property
    def call(self) -> str:
        """How it is written, as documents and errors show it.

        >>> FUNCTIONS["substring"].call, FUNCTIONS["+"].call
        ('substring(string, long, [long])', 'number + number')
        """
        if not self.form:
            return f"{self.name}({self.takes})"
        words = [each.strip(" .") for each in self.takes.split(",")]
        return self.form.format(*words)


def _meet(operands: Sequence[Operand], kinds: Sequence[str]) -> Type:
    joint = [each.type for kind, each in zip(kinds, operands, strict=True) if kind in _JOINT]
    meet = common(joint)
    if meet is None:
        raise Unfit(KINDS["same"].words)
    return meet


def _became(kind: str, found: Type) -> Type:
    """NULL takes the type of its place, where that has one."""
    if found == NULL and kind in ("number", "signed"):
        return LONG
    return found if found == NULL and kind == "any" else KINDS[kind].becomes(found)


# --- rules of their own -------------------------------------------------------------------------


def _numbers(operands: Sequence[Operand]) -> list[Type]:
    for nth, each in enumerate(operands):
        if each.type != NULL and not each.type.numeric:
            raise Unfit("numbers in that place", nth=nth)
    return [each.type for each in operands]


def _arithmetic(result: Callable[[int, int, int, int], DataType]) -> Rule:
    """Longs give longs and doubles doubles; `result` has the digits of two decimals."""

    def rule(operands: Sequence[Operand]) -> Resolved:
        types = _numbers(operands)
        meet = common(types)
        if not (isinstance(meet, DataType) and meet.decimal):
            meet = LONG if meet is None or meet == NULL else widened(meet)
            return [meet] * len(types), meet
        decimals = [DataType("decimal", *_digits(meet if t == NULL else t)) for t in types]
        left, right = decimals
        return decimals, result(*_digits(left), *_digits(right))

    return rule


def _sum(p: int, s: int, q: int, t: int) -> DataType:
    scale = max(s, t)
    return _decimal(max(p - s, q - t) + scale + 1, scale)


def _product(p: int, s: int, q: int, t: int) -> DataType:
    if s + t > MAX_PRECISION:
        hint = "cast one of them to fewer digits, or to double"
        raise Unfit("at most 38 digits behind the point of a product", hint)
    return _decimal(p + q + 1, s + t)


def _rest(p: int, s: int, q: int, t: int) -> DataType:
    scale = max(s, t)
    return _decimal(min(p - s, q - t) + scale, scale)


_MOMENTS: Final = (TIMESTAMP, DataType("timestamp_ntz"))


def _with_times(sign: str) -> Rule:
    """The same, and with times: time + interval, time - time."""
    numbers = _arithmetic(_sum)

    def rule(operands: Sequence[Operand]) -> Resolved:
        left, right = types = [each.type for each in operands]
        if right == INTERVAL and left in (*_MOMENTS, INTERVAL):
            return types, left
        if left == INTERVAL and right in _MOMENTS and sign == "+":
            return types, right
        if left == right and left in _MOMENTS and sign == "-":
            return types, INTERVAL
        if DATE in types:
            hint = "date_add(day, 1), datediff(day, day), or cast the date to timestamp"
            raise Unfit("numbers, or times and intervals", hint)
        if any(each.temporal or each == INTERVAL for each in types):
            hint = "time + INTERVAL '5' MINUTE; time - time is an interval"
            raise Unfit("two numbers, or times and intervals", hint)
        return numbers(operands)

    return rule


def _quotient(operands: Sequence[Operand]) -> Resolved:
    return _arithmetic(_rest)(operands)[0], LONG


def _whole(operands: Sequence[Operand]) -> Resolved:
    """`ceil` and `floor`: a long, and of a decimal one without digits behind the point."""
    (found,) = _numbers(operands)
    if not found.decimal:
        return [LONG if found == NULL else widened(found)], LONG
    precision, scale = _digits(found)
    return [found], _decimal(precision - scale + 1, 0)


def _rounded(operands: Sequence[Operand]) -> Resolved:
    found, digits = operands[0].type, 0
    _numbers(operands[:1])
    if len(operands) > 1:
        if not KINDS["digits"].fits(operands[1]):
            hint = "it has to be the same for all rows"
            raise Unfit(f"{KINDS['digits'].words} in that place", hint, nth=1)
        digits = int(str(operands[1].value))
    becomes = LONG if found == NULL else widened(found)
    result: Type = becomes
    if found.decimal:
        precision, scale = _digits(found)
        kept = min(scale, digits)
        result = _decimal(precision - scale + 1 + kept, kept)
    return [becomes, LONG][: len(operands)], result


# --- the table ----------------------------------------------------------------------------------


def _operator(
    name: str, takes: str, gives: Type | str, about: str, binds: int, rule: Rule | None = None
) -> Function:
    return Function(name, takes, gives, about, (), f"{{}} {name.upper()} {{}}", binds, rule)


def _part(name: str, about: str, *also: str, takes: str = "timestamp") -> Function:
    return Function(name, takes, LONG, about, also)


_ROWS: Final = (
    _operator("or", "boolean, boolean...", BOOLEAN, "true if one is; NULL is unknown", 1),
    _operator("and", "boolean, boolean...", BOOLEAN, "false if one is; NULL is unknown", 2),
    Function("not", "boolean", BOOLEAN, "NULL stays NULL", (), "NOT {}", 3),
    _operator("=", "same, same", BOOLEAN, "NULL beside anything is NULL; NaN equals NaN", 4),
    _operator("<>", "same, same", BOOLEAN, "also `!=`", 4),
    _operator(
        "<=>", "same, same", BOOLEAN, "never NULL: NULL equals NULL; `IS NOT DISTINCT FROM`", 4
    ),
    _operator("<", "ordered, ordered", BOOLEAN, "NaN is greater than every number", 4),
    _operator("<=", "ordered, ordered", BOOLEAN, "`BETWEEN` is made of `<=` and `>=`", 4),
    _operator(">", "ordered, ordered", BOOLEAN, "texts are ordered by their UTF-8 bytes", 4),
    _operator(">=", "ordered, ordered", BOOLEAN, "false comes before true", 4),
    Function("is null", "any", BOOLEAN, "never NULL; also `IS NOT NULL`", (), "{} IS NULL", 4),
    Function(
        "in",
        "same, same...",
        BOOLEAN,
        "equal to one of a list; NULL if to none and one is NULL",
        (),
        "{} IN ({}, ...)",
        4,
    ),
    Function(
        "like",
        "string, constant, [character]",
        BOOLEAN,
        r"`%` is any text, `_` any character; `\`, or that behind `ESCAPE`, makes them plain",
        (),
        "{} LIKE {}",
        4,
    ),
    Function(
        "ilike",
        "string, constant, [character]",
        BOOLEAN,
        "`LIKE` in any case",
        (),
        "{} ILIKE {}",
        4,
    ),
    Function(
        "rlike",
        "string, constant",
        BOOLEAN,
        "a regular expression matches a part; without look-around and back references",
        ("regexp", "regexp_like"),
        "{} RLIKE {}",
        4,
    ),
    _operator(
        "+",
        "number, number",
        "",
        "also time + interval; longs wrap around",
        6,
        _with_times("+"),
    ),
    _operator(
        "-",
        "number, number",
        "",
        "also time - interval, and time - time, an interval",
        6,
        _with_times("-"),
    ),
    _operator("*", "number, number", "", "longs wrap around", 7, _arithmetic(_product)),
    _operator("/", "double, double", DOUBLE, "always a double; NULL if divided by zero", 7),
    Function(
        "%",
        "number, number",
        "",
        "with the sign of the dividend; NULL if divided by zero",
        ("mod",),
        "{} % {}",
        7,
        _arithmetic(_rest),
    ),
    _operator(
        "div",
        "number, number",
        LONG,
        "cut towards zero, a long; NULL if divided by zero",
        7,
        _quotient,
    ),
    Function("neg", "signed", "first", "with the other sign", ("negative",), "-{}", 8),
    Function(
        "case",
        "boolean, same, ..., [same]",
        "same",
        "the value behind the first condition that is true; also `if(...)`, `CASE x WHEN`",
        (),
        "CASE WHEN {} THEN {} ... END",
    ),
    Function("coalesce", "same...", "same", "the first that is not NULL", ("nvl", "ifnull")),
    Function("greatest", "ordered, ordered...", "same", "the greatest that is not NULL"),
    Function("least", "ordered, ordered...", "same", "the least that is not NULL"),
    Function("isnan", "double", BOOLEAN, "false for NULL"),
    Function("abs", "signed", "first", "without its sign"),
    Function("sign", "double", DOUBLE, "-1.0, 0.0 or 1.0", ("signum",)),
    Function("ceil", "number", "", "the next whole number above", ("ceiling",), rule=_whole),
    Function("floor", "number", "", "the next whole number below", rule=_whole),
    Function("round", "number, [digits]", "", "to digits behind the point, half up", rule=_rounded),
    Function("sqrt", "double", DOUBLE, "NaN below zero"),
    Function("exp", "double", DOUBLE, "e to the power of it"),
    Function("ln", "double", DOUBLE, "NULL for zero and below", ("log",)),
    Function("log10", "double", DOUBLE, "NULL for zero and below"),
    Function("log2", "double", DOUBLE, "NULL for zero and below"),
    Function("power", "double, double", DOUBLE, "the first to the power of the second", ("pow",)),
    Function("lower", "string", STRING, "in small letters", ("lcase",)),
    Function("upper", "string", STRING, "in capital letters", ("ucase",)),
    Function(
        "length",
        "string",
        LONG,
        "its number of characters",
        ("len", "char_length", "character_length"),
    ),
    Function("trim", "string", STRING, "without blanks at both ends"),
    Function("ltrim", "string", STRING, "without blanks at its beginning"),
    Function("rtrim", "string", STRING, "without blanks at its end"),
    Function(
        "substring",
        "string, long, [long]",
        STRING,
        "from a place on, counted from 1, or back from the end if negative; then a length",
        ("substr",),
    ),
    Function("left", "string, long", STRING, "its first characters"),
    Function("right", "string, long", STRING, "its last characters"),
    Function("concat", "string...", STRING, "one behind the other, also `||`; NULL if one is"),
    Function(
        "replace",
        "string, constant, [string]",
        STRING,
        "the third, or nothing, for every place of the second",
    ),
    Function("startswith", "string, string", BOOLEAN, "whether it begins with the second"),
    Function("endswith", "string, string", BOOLEAN, "whether it ends with the second"),
    Function("contains", "string, string", BOOLEAN, "whether the second is in it"),
    Function(
        "split_part",
        "string, constant, place",
        STRING,
        "the nth part between separators, from the end if negative; empty if there is none",
    ),
    _part("year", "of a date or time, in UTC"),
    _part("quarter", "1 to 4"),
    _part("month", "1 to 12"),
    _part("weekofyear", "by ISO 8601"),
    _part("day", "of the month", "dayofmonth"),
    _part("dayofyear", "1 to 366"),
    _part("dayofweek", "1 is Sunday"),
    _part("weekday", "0 is Monday"),
    _part("hour", "0 to 23"),
    _part("minute", "0 to 59"),
    _part("second", "0 to 59"),
    _part("unix_seconds", "since 1970, rounded down"),
    _part("unix_millis", "since 1970, rounded down"),
    _part("unix_micros", "since 1970"),
    _part("unix_date", "days since 1970", takes="date"),
    Function("timestamp_seconds", "long", TIMESTAMP, "the time so long after 1970"),
    Function("timestamp_millis", "long", TIMESTAMP, "the time so long after 1970"),
    Function("timestamp_micros", "long", TIMESTAMP, "the time so long after 1970"),
    Function(
        "date_trunc", "unit, timestamp", TIMESTAMP, f"the time cut down to: {', '.join(UNITS)}"
    ),
    Function("date_add", "date, long", DATE, "so many days later", ("dateadd",)),
    Function("date_sub", "date, long", DATE, "so many days earlier"),
    Function(
        "datediff", "date, date", LONG, "the days from the second to the first", ("date_diff",)
    ),
)

FUNCTIONS: Final[Mapping[str, Function]] = {row.name: row for row in _ROWS}
NAMES: Final[Mapping[str, str]] = {
    **{other: row.name for row in _ROWS for other in row.also},
    **{row.name: row.name for row in _ROWS},
}
"""What each name of a function means."""
