"""Transforms: what a user makes of the rows of a source before anything else sees them.

A transform looks at one row at a time and gives the same for it whenever it is run: a task
may run twice. So what Spark would have to shuffle, and what depends on a clock or on chance,
is refused before any data is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.errors import ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from tidegate.errors import ConfigError, Problem

_ROW_BY_ROW = frozenset(
    {"Project", "Filter", "Generate", "SubqueryAlias", "View", "MapInArrow", "MapInPandas"}
    | {"WithCTE", "CTERelationDef", "CTERelationRef", "PipeOperator"}
)
"""Nodes of a Spark plan that need no other row."""

_IN_SQL = {
    "Aggregate": "an aggregate",
    "Distinct": "DISTINCT",
    "GlobalLimit": "LIMIT",
    "Join": "a join",
    "LocalLimit": "LIMIT",
    "Sort": "ORDER BY",
    "Union": "UNION",
    "Window": "a window function",
}
"""What users call the nodes that they write most."""


@dataclass(frozen=True, kw_only=True)
class Transform:
    """A SELECT over `source`, or a function of the DataFrame, or neither."""

    sql: str | None = None
    function: Callable[[DataFrame], DataFrame] | None = None

    @property
    def empty(self) -> bool:
        """Whether rows stay as they are."""
        return self.sql is None and self.function is None

    def __call__(self, rows: DataFrame) -> DataFrame:
        """The rows, transformed."""
        if self.sql is not None:
            with _as_source(rows) as spark:
                rows = spark.sql(self.sql)
        return rows if self.function is None else self.function(rows)


@contextmanager
def _as_source(rows: DataFrame) -> Iterator[SparkSession]:
    """A session in which `source` is these rows, until the end; then it is what it was before."""
    spark = rows.sparkSession
    views: Any = spark._jsparkSession.sessionState().catalog()  # noqa: SLF001 - Python has no door to it
    before = views.getRawTempView("source")
    rows.createOrReplaceTempView("source")
    try:
        yield spark
    finally:
        views.dropTempView("source")
        if before.isDefined():
            views.createTempView("source", before.get(), True)


def checked_transform(transform: Transform, sample: DataFrame) -> DataFrame:
    """The sample, transformed; raises `ConfigError` where the transform cannot be used."""
    hint = f"the columns of source are {', '.join(sample.columns)}"
    try:
        is_query = transform.sql is None or _is_query(transform.sql, sample)
        made = transform(sample) if is_query else sample
        _ = made.schema
    except PySparkException as error:
        told = str(error).strip().splitlines()[0]
        raise ConfigError([Problem("transform", told, "a SELECT over source", hint)]) from None
    except Exception as error:  # of the user's function
        told = f"{type(error).__name__}: {error}"
        raise ConfigError([Problem("transform", told, "a DataFrame", hint)]) from error
    if not is_query:
        found = "a statement that is no query, or more than one"
        raise ConfigError([Problem("transform", found, "a SELECT over source", hint)])
    problems = [] if transform.empty else [*_problems(made, sample)]
    if problems := [*problems, *_odd_names(made)]:
        raise ConfigError(problems)
    return made


def _is_query(sql: str, rows: DataFrame) -> bool:
    """Whether this is one query over `source`: any other statement Spark runs when it is given it.

    Only a query can be a common table expression, so nothing is run here. Raises what Spark says
    of a text that it cannot parse.
    """
    query = sql.rstrip("; \t\r\n")
    with _as_source(rows) as spark:
        try:
            spark.sql(f"WITH query AS (\n{query}\n) SELECT * FROM query")
        except ParseException:
            spark._jsparkSession.sessionState().sqlParser().parsePlan(sql)  # noqa: SLF001 - as above
            return False
        except PySparkException:
            return True  # what is wrong with it is told when it is analyzed as it is written
    return True


def _odd_names(made: DataFrame) -> Iterator[Problem]:
    """Spark cannot give such columns to Python."""
    for name in made.columns:
        if "." in name or "`" in name:
            hint = "rename it in the transform: SELECT `" + name.replace("`", "``") + "` AS ..."
            yield Problem("columns", f"column {name!r}", "a name without dots and backticks", hint)


def _problems(made: DataFrame, sample: DataFrame) -> Iterator[Problem]:
    plan = _analyzed(made)
    below = {_id(node) for node in _nodes(_analyzed(sample))}
    nodes = [node for node in _nodes(plan) if _id(node) not in below]
    if not plan.deterministic() or _has(made, nodes, "CURRENT_LIKE"):
        found = "something that is not the same each time it is computed, such as rand() or now()"
        hint = "a task may run twice; take time and chance from columns of the source"
        yield Problem("transform", found, "a deterministic SELECT", hint)
    names = {str(node.nodeName()) for node in nodes if node.children().size()} - _ROW_BY_ROW
    names |= {"a subquery"} if _has(made, nodes, "PLAN_EXPRESSION") else set()
    for name in sorted({_IN_SQL.get(name, name) for name in names}):
        found = f"{name}, which needs more than one row"
        hint = "aggregate, order and join in operators of the pipeline, not in a transform"
        yield Problem("transform", found, "a SELECT that looks at one row at a time", hint)
    others = {str(node.nodeName()) for node in nodes if not node.children().size()} - _ROW_BY_ROW
    if others and not names:
        found, hint = "rows of its own or of another table", "SELECT ... FROM source"
        yield Problem("transform", found, "a SELECT over source alone", hint)
    for name in sorted({name for name in made.columns if made.columns.count(name) > 1}):
        found, expected = f"{made.columns.count(name)} columns {name!r}", "one column of each name"
        yield Problem("transform", found, expected, f"rename one of them: {name} AS ...")


def check_gives_rows(made: DataFrame) -> None:
    """Refuse what Spark knows to be empty whatever the rows are: it would not even read them."""
    if str(made._jdf.queryExecution().optimizedPlan().nodeName()) == "LocalRelation":  # noqa: SLF001
        found, expected = "a condition that no row can fulfil", "a SELECT that can give rows"
        hint = "correct what is behind WHERE"
        raise ConfigError([Problem("transform", found, expected, hint)])


def _has(frame: DataFrame, nodes: Sequence[Any], pattern: str) -> bool:
    """Whether an expression in the nodes, but not below them, has something of this kind in it."""
    jvm: Any = frame.sparkSession._jvm  # noqa: SLF001 - Python has no door to it
    kind = getattr(jvm.org.apache.spark.sql.catalyst.trees.TreePattern, pattern)()
    return any(each.containsPattern(kind) for node in nodes for each in _list(node.expressions()))


def _analyzed(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - Python has no door to it


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    for child in _list(plan.children()):
        yield from _nodes(child)


def _list(items: Any) -> list[Any]:
    return [items.apply(nth) for nth in range(items.size())]


def _id(node: Any) -> int:
    return int(node.hashCode())
