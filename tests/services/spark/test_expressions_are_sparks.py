"""Spark is the judge of expressions: hundreds of them, in one job, over one table.

What differs on purpose is written into the text that Spark gets, by `spark_sql`:

- an integer that is computed is a BIGINT and a float a DOUBLE, so every cast of the typed tree is
  in the text, and what Spark counts as an INT is cast;
- `1.5` is a DOUBLE, so constants have the letter of their type;
- CAST is TRY_CAST;
- `ceil` and `floor` that no long can hold are NULL, and not the largest long;
- ANSI mode is off: longs wrap around, and what is divided by zero is NULL.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.oracle.expression_cases import ANY, ROWS, TYPES, frame_of
from tidegate.core.expressions import select
from tidegate.errors import ConfigError
from tidegate.pipeline.datatypes import DOUBLE, LONG
from tidegate.pipeline.expression_text import parse
from tidegate.pipeline.expressions import Call, Cast, Literal, Node, operands_of
from tidegate.pipeline.functions import FUNCTIONS, INTERVAL
from tidegate.pipeline.typed_expressions import Typed, check

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HAND_PICKED = """
    exp(ratio / 1e18) | ln(real) | log10(real) | log2(real) | power(real, ratio) | power(1, real)
    sqrt(real) | sign(real) | sign(price) | round(price, 1) | round(ratio / 3, 2) | ceil(rate)
    floor(-rate) | price * price * rate | price + long | rate % price | price div rate | -price
    price / rate | price = 0.05BD | price > rate | rate <= long | price < real | abs(long) | -long
    long + other | long * other | long div other | long % other | whole / small | real % ratio
    greatest(real, ratio, null) | least(real, ratio) | real = ratio | real <=> ratio | real < ratio
    real in (1, 0.5, null) | long in (1, 2, null) | long not in (1, 2) | text in ('a', 'B', null)
    text like '_%' | text like '%\\\\%' | text like '%!_%' escape '!' | text not like 'a%'
    text ilike 'AB%' | text rlike '^a' | text rlike '[0-9]+' | text regexp 'a|B'
    substring(text, 0, 2) | substring(text, -2, 1) | substring(text, -9, 8) | substr(text, 2)
    left(text, 0) | left(text, -1) | right(text, 2) | right(text, 0) | right(text, -3)
    concat(text, word, 'x') | text || word | replace(text, 'a') | replace(text, 'a', word)
    replace(text, '', 'x') | split_part(text, 'a', 1) | split_part(text, '.', -2)
    split_part(text, 'aB', 5) | contains(text, word) | startswith(text, '') | endswith(text, 'a')
    upper(text) | lower(text) | length(text) | trim(text) | ltrim(text) | rtrim(text)
    nvl(text, word) | nullif(long, other) | nullif(real, ratio) | if(yes, 1, 2.5)
    case long when 1 then 'one' when 2 then 'two' else 'many' end | case when yes then price end
    yes and no | yes or no | not yes | yes is true | yes is not false | yes is null | yes <=> no
    long between other and 5 | long not between 1 and other | yes < no | yes is distinct from no
    long <> other
    year(at) | quarter(at) | month(day) | weekofyear(day) | day(at) | dayofyear(day)
    dayofweek(day) | weekday(at) | hour(at) | minute(at) | second(at) | hour(local) | year(local)
    unix_seconds(at) | unix_millis(at) | unix_micros(at) | unix_date(day)
    timestamp_seconds(small) | timestamp_millis(whole) | timestamp_micros(whole)
    date_trunc('hour', at) | date_trunc('WEEK', at) | date_trunc('millisecond', at)
    date_trunc('quarter', day) | date_add(day, 3) | date_sub(day, small) | datediff(day, since)
    at + interval '5' minute | at - interval '1.5' second | at - until > interval '1' day
    at - until | abs(at - until) = interval 0 second | at > day | day = since | local < at
    interval '1' hour + at >= until | at = timestamp '2024-02-29 13:14:15.5'
    day = date '2024-02-29' | cast(at as date) | cast(day as timestamp) | cast(local as timestamp)
    cast(at as string) | cast(local as string) | cast(day as string) | cast(yes as string)
    cast(price as string) | cast(long as string) | cast(text as int) | cast(text as double)
    cast(text as decimal(5,1)) | cast(text as boolean) | cast(text as date) | cast(real as int)
    cast(long as int) | cast(whole as tinyint) | cast(real as float)
    cast(real as decimal(20,2))
    cast(price as decimal(5,1)) | cast(price as int)
    cast(price as double) | cast(yes as int)
    cast(real as boolean) | cast(price as boolean) | cast(long as boolean)
    cast(small as timestamp)
    cast(at as bigint) | cast(at as double) | cast(yes as decimal(3,1)) | cast(word as binary)
    cast('2024-1-2 3:4:5.678+01:30' as timestamp) | cast('2024-01-02T03:04' as timestamp)
    cast('2024' as date) | cast(' 2024-05-06 ' as date) | try_cast('2024-02-30' as date)
    try_cast('x' as timestamp) | cast('2024-01-02 03:04:05' as timestamp_ntz) | isnan(real)
    cast('-1.005' as decimal(5,2)) | cast(0.125 as decimal(5,2)) | cast(-2.5 as decimal(3,0))
"""

OPERATORS = {"<>", "<=>", "=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "div"}


def spark_sql(tree: Typed) -> str:
    """The tree as Spark has to be asked for it."""
    node = tree.node
    parts = [spark_sql(each) for each in tree.operands]
    if isinstance(node, Literal):
        if type(node.value) is int and node.type != INTERVAL:
            return f"{node.value}L"
        if isinstance(node.value, float):
            return f"{node.value!r}D"
        return str(node)
    if isinstance(node, Cast):
        return str(Cast(parse("_"), node.to, safe=True)).replace("_ AS", f"{parts[0]} AS")
    if not isinstance(node, Call):
        return str(node)
    text = _call_sql(node.function, parts)
    if node.function in ("ceil", "floor") and tree.operands[0].type == DOUBLE:
        text = f"IF(abs({parts[0]}) < 9.2e18D, {text}, NULL)"
    return f"CAST({text} AS BIGINT)" if tree.type == LONG else text


def _call_sql(name: str, parts: Sequence[str]) -> str:
    first, *others = parts
    if name in OPERATORS or name in ("and", "or"):
        return f"({f' {name} '.join(parts)})"
    match name:
        case "not" | "neg":
            return f"({'NOT' if name == 'not' else '-'} ({first}))"
        case "is null":
            return f"({first} IS NULL)"
        case "in":
            return f"({first} IN ({', '.join(others)}))"
        case "case":
            return _case_sql(parts)
        case "like" | "ilike" | "rlike":
            escape = f" ESCAPE {others[1]}" if len(others) > 1 else ""
            return f"({first} {name} {others[0]}{escape})"
        case "round" | "split_part" | "left" | "right" | "substring" | "date_add" | "date_sub":
            # these take an INT
            return f"{name}({', '.join([first, *map(_int, others)])})"
        case _:
            return f"{name}({', '.join(parts)})"


def _int(text: str) -> str:
    if text.startswith("'"):
        return text
    return text.removesuffix("L") if text.endswith("L") else f"CAST({text} AS INT)"


def _case_sql(parts: Sequence[str]) -> str:
    pairs = zip(parts[::2], parts[1::2], strict=False)
    branches = " ".join(f"WHEN {condition} THEN {value}" for condition, value in pairs)
    return f"CASE {branches}{f' ELSE {parts[-1]}' if len(parts) % 2 else ''} END"


def generated() -> tuple[list[Node], list[dict[str, Any]]]:
    """The same expressions and rows in every run."""
    trees: list[Node] = []
    rows: list[dict[str, Any]] = []

    @settings(
        max_examples=300, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(ANY, st.lists(ROWS, max_size=1))
    def collect(tree: Node, row: list[dict[str, Any]]) -> None:
        trees.append(tree)
        rows.extend(row)

    collect()
    return list(dict.fromkeys(trees)), rows[:100]


@pytest.fixture
def judge(spark: SparkSession) -> Iterator[SparkSession]:
    spark.conf.set("spark.sql.ansi.enabled", "false")
    yield spark
    spark.conf.unset("spark.sql.ansi.enabled")


def test_expressions_mean_what_they_mean_in_spark(judge: SparkSession) -> None:
    trees, rows = generated()
    typed = {
        f"c{nth}": shown(each)
        for nth, tree in enumerate([*hand_picked(), *trees])
        if (each := typed_or_none(tree)) is not None
    }
    frame = frame_of(rows)
    ours, sparks = select(frame, typed), by_spark(judge, frame, typed)
    wrong = [
        f"{tree}: ours {mine!r}, Spark's {theirs!r}, where {used(str(tree), row)}"
        for name, tree in typed.items()
        for row, mine, theirs in zip(rows, ours[name], sparks[name], strict=True)
        if not alike(mine, theirs)
    ]
    assert wrong == []
    assert {str(typed[name]): dtype for name, dtype in ours.schema.items()} == {
        str(typed[name]): dtype for name, dtype in sparks.schema.items()
    }


def test_spark_is_asked_for_every_function() -> None:
    asked = {name for tree in hand_picked() for name in functions_in(tree)}
    assert asked >= FUNCTIONS.keys()


def by_spark(judge: SparkSession, frame: pl.DataFrame, typed: Mapping[str, Typed]) -> pl.DataFrame:
    numbered = frame.with_row_index("@row").cast({"@row": pl.Int64})
    asked = [f"{spark_sql(tree)} AS {name}" for name, tree in typed.items()]
    found = judge.createDataFrame(numbered.to_arrow()).selectExpr("`@row`", *asked)
    return pl.DataFrame(found.toArrow()).sort("@row").drop("@row")


def hand_picked() -> list[Node]:
    """The expressions above; `||` is one of their operators."""
    lines = HAND_PICKED.replace("||", "\0").strip().splitlines()
    return [parse(each.replace("\0", "||")) for line in lines for each in line.split(" | ")]


def functions_in(tree: Node) -> Iterator[str]:
    if isinstance(tree, Call):
        yield tree.function
    for operand in operands_of(tree):
        yield from functions_in(operand)


def typed_or_none(tree: Node) -> Typed | None:
    """Leave out products of decimals with too many digits, which are refused."""
    try:
        return check(tree, {"": TYPES})
    except ConfigError as error:
        if all("38 digits" in each.expected for each in error.problems):
            return None
        raise


def shown(tree: Typed) -> Typed:
    """An interval is no column: whether it is more than a second is."""
    if tree.type != INTERVAL:
        return tree
    return check(Call(">", (tree.node, Literal(1_000_000, INTERVAL))), {"": TYPES})


def used(text: str, row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name in text}


def alike(ours: Any, sparks: Any) -> bool:
    if isinstance(ours, float) and isinstance(sparks, float):
        return math.isclose(ours, sparks, rel_tol=1e-14) or (ours != ours and sparks != sparks)  # noqa: PLR0124
    return type(ours) is type(sparks) and bool(ours == sparks)
