"""Expressions as trees: what is read, how it is written, what is refused and in which words."""

from __future__ import annotations

import pytest
import sqlglot
from sqlglot.dialects.spark import Spark

from tidegate.errors import ConfigError, Problem
from tidegate.pipeline.datatypes import DOUBLE, LONG, STRING, TIMESTAMP, DataType
from tidegate.pipeline.expression_text import LONGEST, from_sqlglot, parse
from tidegate.pipeline.expressions import Call, Cast, Column, Literal, Node, columns, conjuncts
from tidegate.pipeline.functions import BOOLEAN, FUNCTIONS, INTERVAL, NAMES
from tidegate.pipeline.typed_expressions import check

A, B, V = Column("a"), Column("b"), Column("v", "left")
ONE, TWO = Literal.of(1), Literal.of(2)


def call(name: str, *operands: Node) -> Call:
    return Call(name, operands)


# --- text to tree -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a = b", call("=", A, B)),
        ("a == 1", call("=", A, ONE)),
        ("LEFT.v <> 1.5", call("<>", V, Literal.of(1.5))),
        ("a != 'x'", call("<>", A, Literal.of("x"))),
        ('a != "x"', call("<>", A, Literal.of("x"))),
        ("a <=> b", call("<=>", A, B)),
        ("a is not distinct from b", call("<=>", A, B)),
        ("a is distinct from b", call("not", call("<=>", A, B))),
        ("a is null", call("is null", A)),
        ("a is not null", call("not", call("is null", A))),
        ("a is true", call("<=>", A, Literal.of(True))),
        ("(a)", A),
        ("-a < 0", call("<", call("neg", A), Literal.of(0))),
        ("-1", Literal.of(-1)),
        ("-9223372036854775808", Literal.of(-(2**63))),
        ("- (1)", call("neg", ONE)),
        ("a % 2", call("%", A, TWO)),
        ("mod(a, 2)", call("%", A, TWO)),
        ("a div 2", call("div", A, TWO)),
        ("a in (1)", call("in", A, ONE)),
        ("a not in (1, null)", call("not", call("in", A, ONE, Literal.of(None)))),
        ("a between 1 and 2", call("and", call(">=", A, ONE), call("<=", A, TWO))),
        ("nvl(a, 1)", call("coalesce", A, ONE)),
        ("nullif(a, 1)", call("case", call("=", A, ONE), Literal.of(None), A)),
        ("if(a, 1, 2)", call("case", A, ONE, TWO)),
        ("case when a then 1 end", call("case", A, ONE)),
        ("case a when 1 then 2 else b end", call("case", call("=", A, ONE), TWO, B)),
        ("a and b and a", call("and", A, B, A)),
        ("a and (b and a)", call("and", A, call("and", B, A))),
        ("a || b || 'x'", call("concat", A, B, Literal.of("x"))),
        ("a like 'x%' escape '!'", call("like", A, Literal.of("x%"), Literal.of("!"))),
        ("a regexp 'x'", call("rlike", A, Literal.of("x"))),
        ("cast(a as decimal(5, 2))", Cast(A, DataType("decimal", 5, 2))),
        ("try_cast(a as int)", Cast(A, DataType("int"), safe=True)),
        ("a::timestamp", Cast(A, TIMESTAMP)),
        ("to_date(a)", Cast(A, DataType("date"))),
        ("bigint(a)", Cast(A, LONG)),
        ("1.5BD", Cast(Literal.of("1.5"), DataType("decimal", 2, 1))),
        ("timestamp '2026-01-01'", Cast(Literal.of("2026-01-01"), TIMESTAMP)),
        ("interval '5' minute", Literal(300_000_000, INTERVAL)),
        ("interval -1.5 seconds", Literal(-1_500_000, INTERVAL)),
        ("left(a, 2)", call("left", A, TWO)),
        ("left.`odd name`", Column("odd name", "left")),
        ("'it\\'s'", Literal.of("it's")),
        ("r'\\d'", Literal.of("\\d")),
    ],
)
def test_sql_becomes_a_tree_of_few_kinds(text: str, tree: Node) -> None:
    assert parse(text) == tree


def test_a_tree_knows_its_columns_and_the_parts_that_must_all_hold() -> None:
    tree = parse("left.a = right.b and (left.c > 1 and (right.d or left.e))")
    assert [str(each) for each in columns(tree)] == [
        *("left.a", "right.b", "left.c", "right.d", "left.e"),
    ]
    assert [str(part) for part in conjuncts(tree)] == [
        *("left.a = right.b", "left.c > 1", "right.d OR left.e"),
    ]


def test_a_part_of_a_query_is_read_as_the_same_text_is() -> None:
    text = "year(at) > 1 and substring(a, 2) like 'x%' and date_trunc('hour', at) = at"
    query = sqlglot.parse_one(f"SELECT * FROM t WHERE {text}", dialect="spark")
    tree = from_sqlglot(query.find(sqlglot.exp.Where).this)  # type: ignore[union-attr]
    assert str(tree) == str(parse(text)).replace("'hour'", "'HOUR'")


# --- tree to text -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "(a + b) * 2 - a / (b - 1)",
        "a - b - (a - b)",
        "NOT (a AND b) OR a",
        "(a = 1) = b",
        "NOT a IS NULL",
        "(a OR b) IS NULL",
        "-(-a)",
        "a IN (1, -2, NULL)",
        "CASE WHEN a THEN 'it\\'s' ELSE 'a\\\\b' END",
        "`select` + left.`odd ``name`",
        "INTERVAL '90' SECOND + INTERVAL '-1' DAY",
        "CAST(a AS BIGINT) <=> TRY_CAST(b AS DECIMAL(5,2))",
        "a LIKE 'x!%' ESCAPE '!'",
        "concat(a, b)",
    ],
)
def test_a_tree_is_written_with_the_parentheses_it_needs(text: str) -> None:
    assert str(parse(text)) == text


@pytest.mark.parametrize("name", [*sorted(Spark.Tokenizer.KEYWORDS), "a b", "a`b", "ä", "1a", "*"])
@pytest.mark.parametrize("qualifier", ["", "left"])
def test_a_column_of_any_name_is_read_as_it_is_written(name: str, qualifier: str) -> None:
    column = Column(name, qualifier)
    assert parse(str(column)) == column


@pytest.mark.parametrize("value", ["", "'", '"', "\\", "\\\\'", "\\%", "a\nb\t", "%s {x} $1", "☃"])
def test_a_text_is_read_as_it_is_written(value: str) -> None:
    assert parse(str(Literal.of(value))) == Literal.of(value)


def test_constants_of_two_types_differ() -> None:
    assert len({Literal.of(1), Literal.of(True), Literal.of(1.0), Literal(1, INTERVAL)}) == 4


# --- what is refused ----------------------------------------------------------------------------

EXPECTED = "an expression of columns, operators and functions"
SEE = "compare, compute, CASE, CAST; what there is stands in docs/reference/expressions.md"


@pytest.mark.parametrize(
    ("text", "found", "expected", "hint"),
    [
        ("(select 1) = 1", "'(SELECT 1)' at character 9 of '(select 1) = 1'", EXPECTED, SEE),
        (
            "a in (select 1)",
            "'a IN (SELECT 1)' at character 1 of 'a in (select 1)'",
            "a list of values",
            "x in (1, 2, 3)",
        ),
        (
            "count(*) > 1",
            "'count(...)' at character 1 of 'count(*) > 1'",
            "a function of expressions",
            "an expression sees one row; aggregations see many",
        ),
        (
            "a or lenght(b)",
            "'lenght(...)' at character 6 of 'a or lenght(b)'",
            "a function of expressions",
            "did you mean 'length'?",
        ),
        (
            "9223372036854775808",
            "'9223372036854775808'",
            "whole numbers up to 9223372036854775807",
            "longer ones fit into no column",
        ),
        ("1e999", "'1e999'", "numbers up to 1.8e308", "longer ones fit into no column"),
        (
            "a = = 1",
            "'a = = 1'",
            "an SQL expression",
            "Required keyword: 'expression' missing at character 5",
        ),
        ("a = 'open", '"a = \'open"', "an SQL expression", "Error tokenizing 'a = 'ope'"),
        ("a.b.c", "'a.b.c'", "a column, with one name in front at most", ""),
        (
            "a as b",
            "'a as b'",
            "an SQL expression",
            "Invalid expression / Unexpected token at character 4",
        ),
        (
            "interval '1' month",
            "\"INTERVAL '1' MONTH\" at character 10 of \"interval '1' month\"",
            "an interval of days, hours, minutes or seconds",
            "INTERVAL '5' MINUTE",
        ),
        ("a\0", "a NUL byte or half a character in 'a\\x00'", "an SQL expression", ""),
        ("", "''", "an SQL expression", "No expression was parsed from ''"),
    ],
)
def test_what_is_not_understood_is_refused_in_words(
    text: str, found: str, expected: str, hint: str
) -> None:
    assert problems_of(text) == [Problem("", found, expected, hint)]


def test_all_that_is_not_understood_is_told_at_once() -> None:
    assert [each.found for each in problems_of("foo(a) + bar(b) + a.b.c")] == [
        "'foo(...)' at character 1 of 'foo(a) + bar(b) + a.b.c'",
        "'bar(...)' at character 10 of 'foo(a) + bar(b) + a.b.c'",
        "'a.b.c' at character 19 of 'foo(a) + bar(b) + a.b.c'",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "(" * 3000 + "a" + ")" * 3000,
        "(" * 3000,
        "not " * 3000 + "a",
        "- " * 3000 + "a",
        "a + " * 3000 + "a",
        "lower(" * 300 + "a" + ")" * 300,
        "case when " * 300 + "a" + " then b end" * 300,
        "a" * (LONGEST + 1),
        "'" * 99_999,
        "`" * 99_999,
        "/*" * 40_000,
        "1" * 99_999,
        "a = \x1b[31m1",
        "a; drop table b",
        "drop table b",
        "{{ a }}",
        "a -> b",
        "\ud800",
    ],
    ids=range(18),
)
def test_hostile_text_is_refused_in_few_words(text: str) -> None:
    for problem in problems_of(text):
        assert len(str(problem)) < 700
        assert str(problem).replace("\n  hint", "").isprintable()


def test_a_long_list_and_a_long_chain_are_read() -> None:
    numbers = ", ".join(map(str, range(9000)))
    assert len(list(conjuncts(parse("a > 1 and " * 5000 + "b")))) == 5001
    assert str(parse(f"a in ({numbers})")) == f"a IN ({numbers})"


def problems_of(text: str) -> list[Problem]:
    with pytest.raises(ConfigError) as caught:
        parse(text)
    return list(caught.value.problems)


# --- types --------------------------------------------------------------------------------------

COLUMNS = {
    "number": LONG,
    "small": DataType("byte"),
    "ratio": DataType("float"),
    "price": DataType("decimal", 10, 2),
    "text": STRING,
    "at": TIMESTAMP,
    "day": DataType("date"),
    "tags": DataType("array", element=STRING),
    "yes": BOOLEAN,
}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("small", "byte"),
        ("small + small", "long"),
        ("coalesce(small, small)", "byte"),
        ("coalesce(small, 1)", "long"),
        ("ratio", "float"),
        ("ratio * 2", "double"),
        ("number / 2", "double"),
        ("price + price", "decimal(11,2)"),
        ("price * price", "decimal(21,4)"),
        ("price * number", "decimal(31,2)"),
        ("price * 1.5", "double"),
        ("cast(price as decimal(38,18)) * 2", "decimal(38,6)"),
        ("greatest(price, number)", "decimal(22,2)"),
        ("round(price)", "decimal(9,0)"),
        ("at + interval 1 hour", "timestamp"),
        ("at - at", "interval"),
        ("greatest(at, day)", "timestamp"),
        ("case when yes then null else 1 end", "long"),
        ("null", "void"),
        ("null + 1", "long"),
        ("length(null)", "long"),
        ("tags = tags", "boolean"),
        ("text like 'a' or null", "boolean"),
    ],
)
def test_every_expression_has_a_type(text: str, kind: str) -> None:
    assert str(check(parse(text), {"": COLUMNS}).type) == kind


@pytest.mark.parametrize(
    ("text", "found", "expected", "hint"),
    [
        (
            "nubmer + 1",
            "'nubmer' at character 1 of 'nubmer + 1'",
            "a column",
            "did you mean 'number'?",
        ),
        (
            "1 + left.number",
            "'left.number' at character 5 of '1 + left.number'",
            "a column without a qualifier",
            "write number",
        ),
        (
            "lower(number)",
            "'number' of type long at character 7 of 'lower(number)'",
            "texts in that place",
            "cast it, as in CAST(x AS STRING)",
        ),
        (
            "lower(text, text)",
            "'lower(text, text)', with string",
            "lower(string)",
            "cast it, as in CAST(x AS STRING)",
        ),
        (
            "day + 1",
            "'day + 1', with date and long",
            "numbers, or times and intervals",
            "date_add(day, 1), datediff(day, day), or cast the date to timestamp",
        ),
        (
            "tags < tags",
            "'tags' of type array<string> at character 1 of 'tags < tags'",
            "types with an order in that place",
            "cast it, as in CAST(x AS STRING)",
        ),
        (
            "cast(ratio as string)",
            "'CAST(ratio AS STRING)' of type float at character 6 of 'cast(ratio as string)'",
            "a type that can be cast to string",
            "cast it to decimal(p,s) first",
        ),
        (
            "text like text",
            "'text' of type string at character 11 of 'text like text'",
            "a text in quotes in that place",
            "it has to be the same for all rows",
        ),
        (
            "cast(price as decimal(38,20)) * cast(price as decimal(38,20))",
            "'CAST(price AS DECIMAL(38,20)) * CAST(price AS DECIMAL(38,20))', with decimal(38,20) "
            "at character 6 of 'cast(price as decimal(38,20)) * cast(price as decimal(38,20))'",
            "at most 38 digits behind the point of a product",
            "cast one of them to fewer digits, or to double",
        ),
    ],
)
def test_types_that_do_not_fit_are_refused_with_their_place(
    text: str, found: str, expected: str, hint: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        check(parse(text), {"": COLUMNS}, text=text)
    assert caught.value.problems == (Problem("", found, expected, hint),)


def test_all_types_that_do_not_fit_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        check(parse("lower(number) = 'a' and x > 1 or abs(text) = 1"), {"": COLUMNS})
    assert [each.found for each in caught.value.problems] == [
        *("'number' of type long", "'x'", "'text' of type string"),
    ]


def test_a_column_of_another_input_is_named() -> None:
    with pytest.raises(ConfigError) as caught:
        check(parse("v > 1"), {"left": {"v": LONG}, "right": {"w": LONG}})
    expected = Problem("", "'v'", "a column of left or right", "write left.v")
    assert caught.value.problems == (expected,)


def test_a_result_may_have_to_be_of_a_type() -> None:
    assert check(parse("null"), {}, wanted=BOOLEAN).type == BOOLEAN
    with pytest.raises(ConfigError, match="found '1' of type long, expected true or false"):
        check(parse("1"), {}, wanted=BOOLEAN)


@pytest.mark.parametrize("text", ["null", "at - at"])
def test_what_no_column_can_hold_is_no_column(text: str) -> None:
    typed = check(parse(text), {"": COLUMNS})
    with pytest.raises(ConfigError, match="expected a type that columns can have"):
        _ = typed.datatype


def test_operands_are_cast_to_what_is_computed_with() -> None:
    typed = check(parse("ratio < number"), {"": COLUMNS})
    assert [str(each) for each in typed.operands] == [
        *("TRY_CAST(ratio AS DOUBLE)", "TRY_CAST(number AS DOUBLE)"),
    ]
    assert {each.type for each in typed.operands} == {DOUBLE}


def test_no_name_means_two_functions() -> None:
    others = [name for row in FUNCTIONS.values() for name in row.also]
    assert len(NAMES) == len(FUNCTIONS) + len(others)
