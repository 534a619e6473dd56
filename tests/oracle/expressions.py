"""What an expression gives for one row, in plain Python: the rules, one by one.

Times are microseconds since 1970, dates are days, intervals are microseconds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal
from typing import Any, Final

import numpy as np

from tidegate.pipeline.datatypes import DataType
from tidegate.pipeline.expressions import Call, Cast, Column, Literal
from tidegate.pipeline.typed_expressions import Typed

EXACT: Final = Context(prec=300)
EPOCH: Final = date(1970, 1, 1)
DAY_US: Final = 86_400_000_000
RANGES: Final = {"byte": 8, "short": 16, "int": 32, "long": 64}


def value_of(tree: Typed, row: Mapping[str, Any]) -> Any:
    """The value of a typed tree for a row."""
    node = tree.node
    if isinstance(node, Column):
        return row[node.name]
    if isinstance(node, Literal):
        return node.value
    values = [value_of(each, row) for each in tree.operands]
    if isinstance(node, Cast):
        kind = tree.operands[0].type
        return None if values[0] is None else cast(values[0], str(kind), node.to)
    assert isinstance(node, Call)
    if node.function in THREE_VALUED:
        return THREE_VALUED[node.function](values)
    if None in values:
        return None
    kinds = [each.type for each in tree.operands]
    if isinstance(kinds[0], DataType) and kinds[0].decimal and node.function in DECIMAL:
        assert isinstance(tree.type, DataType)
        scales = [each.scale or 0 for each in kinds if isinstance(each, DataType)]
        return DECIMAL[node.function](values, scales, tree.type)
    found = STRICT[node.function](*values)
    return wrapped(found) if tree.type == DataType("long") and type(found) is int else found


def wrapped(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63


# --- NULL means something -----------------------------------------------------------------------


def both(values: Sequence[Any]) -> Any:
    if False in values:
        return False
    return None if None in values else True


def either(values: Sequence[Any]) -> Any:
    if True in values:
        return True
    return None if None in values else False


def same(a: Any, b: Any) -> bool:
    return bool(a == b or (a != a and b != b))  # noqa: PLR0124  # NaN


def less(a: Any, b: Any) -> bool:
    """Whether a < b, where NaN is the greatest."""
    if isinstance(a, str):
        return bool(a.encode() < b.encode())
    if a != a or b != b:  # noqa: PLR0124
        return bool(a == a and b != b)  # noqa: PLR0124
    return bool(a < b)


def among(values: Sequence[Any]) -> Any:
    value, *listed = values
    return either([None if None in (value, each) else same(value, each) for each in listed])


def chosen(values: Sequence[Any]) -> Any:
    pairs, rest = values[: len(values) // 2 * 2], values[len(values) // 2 * 2 :]
    for condition, value in zip(pairs[::2], pairs[1::2], strict=True):
        if condition is True:
            return value
    return rest[0] if rest else None


def best(values: Sequence[Any], better: Callable[[Any, Any], bool]) -> Any:
    found = None
    for value in values:
        if value is not None and (found is None or better(value, found)):
            found = value
    return found


THREE_VALUED: Final[Mapping[str, Callable[[Sequence[Any]], Any]]] = {
    "and": both,
    "or": either,
    "<=>": lambda v: (v[0] is None) == (v[1] is None) and (v[0] is None or same(*v)),
    "is null": lambda v: v[0] is None,
    "in": among,
    "case": chosen,
    "coalesce": lambda v: next((each for each in v if each is not None), None),
    "greatest": lambda v: best(v, lambda a, b: less(b, a)),
    "least": lambda v: best(v, less),
    "isnan": lambda v: v[0] is not None and math.isnan(v[0]),
}


# --- decimals -----------------------------------------------------------------------------------


def as_decimal(number: Decimal, to: DataType, rounding: str = ROUND_HALF_UP) -> Decimal | None:
    step = Decimal((0, (1,), -(to.scale or 0)))
    found = EXACT.plus(number.quantize(step, rounding, EXACT))  # no minus zero
    limit = Decimal(10) ** ((to.precision or 0) - (to.scale or 0))
    return found if abs(found) < limit else None


def digits(number: Decimal, scale: int) -> int | None:
    found = int(number.scaleb(scale, EXACT))
    return found if abs(found) < 10**38 else None


def arithmetic(
    compute: Callable[[int, int], int], scale_of: Callable[[int, int], int], *, align: bool
) -> Callable[[Sequence[Decimal], Sequence[int], DataType], Decimal | None]:
    def computed(values: Sequence[Decimal], scales: Sequence[int], to: DataType) -> Decimal | None:
        scale = scale_of(*scales)
        places = [scale] * 2 if align else scales
        pair = [digits(value, place) for value, place in zip(values, places, strict=True)]
        if None in pair:
            return None
        found = compute(*(each or 0 for each in pair))
        return as_decimal(Decimal(found).scaleb(-scale, EXACT), to) if abs(found) < 1.6e38 else None

    return computed


def remainder(values: Sequence[Decimal], scales: Sequence[int], to: DataType) -> Decimal | None:
    fits = values[1] and None not in [digits(value, max(scales)) for value in values]
    return as_decimal(EXACT.remainder(*values), to) if fits else None


def quotient(values: Sequence[Decimal], scales: Sequence[int], _: DataType) -> int | None:
    if not values[1] or None in [digits(value, max(scales)) for value in values]:
        return None
    found = int(EXACT.divide_int(*values))
    return found if -(2**63) <= found < 2**63 else None


DECIMAL: Final[Mapping[str, Callable[[Sequence[Any], Sequence[int], DataType], Any]]] = {
    "+": arithmetic(lambda a, b: a + b, max, align=True),
    "-": arithmetic(lambda a, b: a - b, max, align=True),
    "*": arithmetic(lambda a, b: a * b, lambda a, b: a + b, align=False),
    "%": remainder,
    "div": quotient,
    "round": lambda values, _, to: as_decimal(values[0], to),
    "floor": lambda values, _, to: as_decimal(values[0], to, ROUND_FLOOR),
    "ceil": lambda values, _, to: as_decimal(values[0], to, ROUND_CEILING),
}


# --- numbers, texts, times ----------------------------------------------------------------------


def cut(a: Any, b: Any) -> Any:
    if b == 0:
        return None
    if isinstance(a, int):
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    found = (a - fmod(a, b)) / b
    return long_or_none(found if math.isnan(found) or math.isinf(found) else float(round(found)))


def rest(a: Any, b: Any) -> Any:
    if b == 0:
        return None
    return a - b * cut(a, b) if isinstance(a, int) else fmod(a, b)


def fmod(a: float, b: float) -> float:
    return math.nan if math.isinf(a) else math.fmod(a, b)


def divided(a: float, b: float) -> float | None:
    with np.errstate(all="ignore"):
        return float(np.float64(a) / np.float64(b)) if b != 0 else None


def floats(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Overflow is infinity."""

    def computed(a: Any, b: Any) -> Any:
        if isinstance(a, float):
            with np.errstate(all="ignore"):
                return float(operation(np.float64(a), np.float64(b)))
        return operation(a, b)

    return computed


def long_or_none(number: float) -> int | None:
    if math.isnan(number) or math.isinf(number):
        return None
    return int(number) if -(2**63) <= int(number) < 2**63 else None


def whole(direction: Callable[[Any], int]) -> Callable[[Any], int | None]:
    def computed(number: Any) -> int | None:
        if isinstance(number, float) and not math.isfinite(number):
            return None
        found = direction(number)
        return found if -(2**63) <= found < 2**63 else None

    return computed


def half_up(number: Any) -> Any:
    if isinstance(number, int) or not math.isfinite(number):
        return number
    return math.copysign(math.floor(abs(number) + 0.5) if abs(number) < 2**52 else number, number)


def substring(text: str, place: int, length: int | None = None) -> str:
    first = place - 1 if place > 0 else len(text) + place if place < 0 else 0
    last = len(text) if length is None else first + length
    return text[max(first, 0) : max(last, 0)]


def like(text: str, pattern: str, escape: str = "\\") -> bool:
    """One character of the pattern after the other."""
    if not pattern:
        return not text
    head, tail = pattern[0], pattern[1:]
    if head == escape:
        return text[:1] == tail[:1] and like(text[1:], tail[1:], escape)
    if head == "%":
        return any(like(text[nth:], tail, escape) for nth in range(len(text) + 1))
    return bool(text) and head in ("_", text[0]) and like(text[1:], tail, escape)


def split_part(text: str, separator: str, nth: int) -> str:
    parts = text.split(separator)
    inside = 0 < nth <= len(parts) or -len(parts) <= nth < 0
    return parts[nth - 1 if nth > 0 else nth] if inside else ""


def moment(us: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)


def micros(when: datetime) -> int:
    return (when - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def truncated(unit: str, us: int) -> int:
    when = moment(us).replace(microsecond=0)
    midnight = when.replace(hour=0, minute=0, second=0)
    starts = {
        "second": when,
        "minute": when.replace(second=0),
        "hour": when.replace(minute=0, second=0),
        "day": midnight,
        "week": midnight - timedelta(days=midnight.weekday()),
        "month": midnight.replace(day=1),
        "quarter": midnight.replace(month=(when.month - 1) // 3 * 3 + 1, day=1),
        "year": midnight.replace(month=1, day=1),
    }
    return micros(starts[unit])


def part(read: Callable[[datetime], int]) -> Callable[[int], int]:
    return lambda us: read(moment(us))


STRICT: Final[Mapping[str, Callable[..., Any]]] = {
    "not": lambda a: not a,
    "=": same,
    "<>": lambda a, b: not same(a, b),
    "<": less,
    "<=": lambda a, b: less(a, b) or same(a, b),
    ">": lambda a, b: less(b, a),
    ">=": lambda a, b: less(b, a) or same(a, b),
    "like": like,
    "+": floats(lambda a, b: a + b),
    "-": floats(lambda a, b: a - b),
    "*": floats(lambda a, b: a * b),
    "/": divided,
    "%": rest,
    "div": cut,
    "neg": lambda a: -a,
    "abs": abs,
    "sign": lambda a: a if a != a else float((a > 0) - (a < 0)),  # noqa: PLR0124
    "ceil": whole(math.ceil),
    "floor": whole(math.floor),
    "round": half_up,
    "sqrt": lambda a: math.nan if a != a or a < 0 else math.sqrt(a),  # noqa: PLR0124
    "lower": str.lower,
    "upper": str.upper,
    "length": len,
    "trim": lambda a: a.strip(" "),
    "ltrim": lambda a: a.lstrip(" "),
    "rtrim": lambda a: a.rstrip(" "),
    "substring": substring,
    "left": lambda a, n: substring(a, 1, n),
    "right": lambda a, n: substring(a, -n) if n > 0 else "",
    "concat": lambda *a: "".join(a),
    "replace": lambda a, old, new="": a.replace(old, new) if old else a,
    "startswith": str.startswith,
    "endswith": str.endswith,
    "contains": lambda a, b: b in a,
    "split_part": split_part,
    "year": part(lambda when: when.year),
    "quarter": part(lambda when: (when.month + 2) // 3),
    "month": part(lambda when: when.month),
    "weekofyear": part(lambda when: when.isocalendar().week),
    "day": part(lambda when: when.day),
    "dayofyear": part(lambda when: when.timetuple().tm_yday),
    "dayofweek": part(lambda when: when.isoweekday() % 7 + 1),
    "weekday": part(lambda when: when.weekday()),
    "hour": part(lambda when: when.hour),
    "minute": part(lambda when: when.minute),
    "second": part(lambda when: when.second),
    "unix_seconds": lambda us: us // 1_000_000,
    "unix_millis": lambda us: us // 1_000,
    "unix_micros": lambda us: us,
    "unix_date": lambda days: days,
    "date_trunc": truncated,
    "date_add": lambda day, days: day + days,
    "date_sub": lambda day, days: day - days,
    "datediff": lambda a, b: a - b,
}


# --- casts --------------------------------------------------------------------------------------


def cast(value: Any, kind: str, to: DataType) -> Any:
    """The value as another type, None if that cannot be."""
    if kind == str(to):
        return value
    if to.integral:
        found = to_whole(value, kind)
        bits = RANGES[to.name]
        return (
            found if found is not None and -(2 ** (bits - 1)) <= found < 2 ** (bits - 1) else None
        )
    return TO[to.name](value, kind, to)


def to_whole(value: Any, kind: str) -> int | None:
    if isinstance(value, str):
        return int(value) if re.fullmatch(r"\s*[+-]?\d+\s*", value) else None
    if kind.startswith("timestamp"):
        return int(value // 1_000_000)
    return long_or_none(value) if isinstance(value, float) else int(value)


def to_double(value: Any, kind: str, to: DataType) -> float | None:
    if kind.startswith("timestamp"):
        return float(value / 1_000_000)
    try:
        number = float(value)
    except ValueError:
        return None
    with np.errstate(all="ignore"):
        return float(np.float32(number)) if to.name == "float" else number


def to_decimal(value: Any, kind: str, to: DataType) -> Decimal | None:
    text = (
        repr(value)
        if isinstance(value, float)
        else str(
            int(value) if value in (True, False) and not isinstance(value, str | Decimal) else value
        )
    )
    if not re.fullmatch(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", text):
        return None
    return as_decimal(Decimal(text.strip()), to)


def to_text(value: Any, kind: str, _: DataType) -> str:
    if kind == "boolean":
        return "true" if value else "false"
    if kind == "date":
        return (EPOCH + timedelta(days=value)).isoformat()
    if kind.startswith("timestamp"):
        text = moment(value).strftime("%Y-%m-%d %H:%M:%S.%f")
        return re.sub(r"\.?0+$", "", text)
    return format(value, "f") if isinstance(value, Decimal) else str(value)


def to_truth(value: Any, kind: str, _: DataType) -> bool | None:
    if kind != "string":
        return bool(value != 0)
    words = {**dict.fromkeys(("t", "true", "y", "yes", "1"), True)}
    words |= dict.fromkeys(("f", "false", "n", "no", "0"), False)
    return words.get(value.strip().lower())


def to_date(value: Any, kind: str, _: DataType) -> int | None:
    if kind.startswith("timestamp"):
        return int(value // DAY_US)
    found = re.fullmatch(r"\s*(\d{4})-(\d{1,2})-(\d{1,2})(?:[ T].*)?\s*", value)
    try:
        return (date(*map(int, found.groups())) - EPOCH).days if found else None
    except ValueError:
        return None


def to_time(value: Any, kind: str, _: DataType) -> int | None:
    if kind == "date":
        return int(value * DAY_US)
    if kind != "string":
        return int(value)
    try:
        return micros(datetime.fromisoformat(value).replace(tzinfo=UTC))
    except ValueError:
        return None


TO: Final[Mapping[str, Callable[[Any, str, DataType], Any]]] = {
    "float": to_double,
    "double": to_double,
    "decimal": to_decimal,
    "string": to_text,
    "boolean": to_truth,
    "date": to_date,
    "timestamp": to_time,
    "timestamp_ntz": to_time,
}
