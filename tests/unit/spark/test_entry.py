"""Errors on their way from a task through Spark, which passes on nothing but text."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from tidegate import errors
from tidegate.errors import (
    AggregateOverflow,
    ConfigError,
    PlanChanged,
    Problem,
    StateLimitReached,
    TidegateError,
    WatermarkViolation,
)
from tidegate.spark import entry
from tidegate.spark.entry import TaskError, told_error

PARTS: dict[type[TidegateError], tuple[Any, ...]] = {
    ConfigError: (
        [Problem("window.gap_ms", "0", "a positive number", "gap_ms=1"), Problem("", "x", "y")],
    ),
    PlanChanged: (["gap_ms: 1 became 2"], "reset it"),
    WatermarkViolation: ("window", 5, 3),
    AggregateOverflow: ("n", {"user": "bob", "day": None}, "bigint"),
    StateLimitReached: ("max_keys", 5, 3, "raise it"),
}
CLASSES = [
    found
    for _, found in inspect.getmembers(errors, inspect.isclass)
    if issubclass(found, TidegateError)
]


def told_by_a_task(error: Exception) -> str:
    """The text that the driver is given."""

    def fails() -> Iterator[pa.RecordBatch]:
        raise error
        yield

    with pytest.raises(TaskError) as raised:
        list(entry._telling(fails()))
    return f"[PYTHON_EXCEPTION] Traceback:\n  File x\nTaskError: {raised.value}\n SQLSTATE: 38000"


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_error_of_ours_arrives_as_it_was_raised(kind: type[TidegateError]) -> None:
    error = kind(*PARTS.get(kind, ("something with 'quotes', ümlauts\nand lines",)))
    told = told_error(told_by_a_task(error))
    assert type(told) is kind
    assert (str(told), told.args) == (str(error), error.args)
    assert vars(told) == vars(error)


def test_there_is_an_example_of_every_error_with_parts_of_its_own() -> None:
    own = {kind for kind in CLASSES if "__init__" in vars(kind)}
    assert own == set(PARTS)


@pytest.mark.parametrize(
    "text", ["", "java.lang.OutOfMemoryError", "<tidegate error>abc", "ValueError: x"]
)
def test_what_a_task_did_not_tell_is_no_error_of_ours(text: str) -> None:
    assert told_error(text) is None


def test_an_error_of_somebody_else_passes_as_it_is() -> None:
    def fails() -> Iterator[pa.RecordBatch]:
        raise ValueError("not ours")
        yield

    with pytest.raises(ValueError, match="not ours"):
        list(entry._telling(fails()))


def test_results_before_an_error_come_through() -> None:
    batch = pa.RecordBatch.from_pydict({"a": [1]})
    assert list(entry._telling(iter([batch, batch]))) == [batch, batch]
