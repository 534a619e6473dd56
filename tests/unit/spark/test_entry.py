"""Errors on their way from a task through Spark, which passes on nothing but text."""

from __future__ import annotations

import base64
import hashlib
import inspect
import pickle
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from tidegate import errors
from tidegate.errors import (
    AggregateOverflow,
    ConfigError,
    InconsistentEpoch,
    LostLease,
    PlanChanged,
    Problem,
    StateLimitReached,
    TidegateError,
    WatermarkViolation,
)
from tidegate.spark import entry
from tidegate.spark.entry import TaskError, told_error
from tidegate.spark.native_tasks import Elsewhere, Orders, read_orders
from tidegate.spark.told_errors import told
from tidegate.state.protocol import Part

PARTS: dict[type[TidegateError], tuple[Any, ...]] = {
    ConfigError: (
        [Problem("window.gap_ms", "0", "a positive number", "gap_ms=1"), Problem("", "x", "y")],
    ),
    PlanChanged: (["gap_ms: 1 became 2"], "reset it"),
    WatermarkViolation: ("window", 5, 3),
    AggregateOverflow: (
        "n",
        {
            "user": "bob",
            "day": date(2026, 1, 5),
            "at": datetime(2026, 1, 5, 12, 0, 0, 1, tzinfo=UTC),
            "amount": Decimal("1.50"),
            "id": b"\x00\xff",
            "site": None,
            "paid": True,
        },
        "bigint",
    ),
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
        list(entry._telling(fails(), entry._KEY))
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
    "text",
    [
        *("", "java.lang.OutOfMemoryError", "ValueError: x", "<tidegate error>abc"),
        *(f"<tidegate error {'0' * 64} YWJj>", f"<tidegate error {'0' * 64} Y>"),
    ],
)
def test_what_a_task_did_not_tell_is_no_error_of_ours(text: str) -> None:
    assert told_error(text) is None


def test_an_error_of_somebody_else_passes_as_it_is() -> None:
    def fails() -> Iterator[pa.RecordBatch]:
        raise ValueError("not ours")
        yield

    with pytest.raises(ValueError, match="not ours"):
        list(entry._telling(fails(), entry._KEY))


def test_results_before_an_error_come_through() -> None:
    batch = pa.RecordBatch.from_pydict({"a": [1]})
    assert list(entry._telling(iter([batch, batch]), entry._KEY)) == [batch, batch]


class Planted:
    """What somebody who writes rows would have the driver do."""

    def __init__(self, witness: Path) -> None:
        self._witness = witness

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self._witness,)


@pytest.mark.parametrize(
    "mark", ["<tidegate error>{0}<tidegate error>", "<tidegate error {1} {0}>", "{0}"]
)
def test_nothing_that_a_row_holds_is_run(tmp_path: Path, mark: str) -> None:
    witness = tmp_path / "was here"
    packed = base64.b64encode(pickle.dumps(Planted(witness))).decode()
    row = mark.format(packed, "0" * 64)
    quoted = f"[CAST_INVALID_INPUT] The value '{row}' of the type STRING cannot be cast to INT"
    assert told_error(quoted) is None
    assert not witness.exists()


def test_what_another_run_has_told_is_not_believed_in_this_one() -> None:
    mine, other = LostLease("mine"), LostLease("of another driver")
    text = f"'{told(other, b'another key')}' {told(mine, entry._KEY)}"
    assert str(told_error(text)) == "mine"


def test_an_error_of_a_class_that_is_not_ours_is_told_as_what_it_is_of_ours() -> None:
    class OfAPlugin(LostLease):
        pass

    heard = told_error(told(OfAPlugin("gone"), entry._KEY))
    assert (type(heard), str(heard)) == (LostLease, "gone")


# --- orders -------------------------------------------------------------------------------------


class Session:
    """A session of which only the settings matter, and the job that runs with them."""

    def __init__(self) -> None:
        self.settings: dict[str, str] = {}
        self.conf = SimpleNamespace(set=self.settings.__setitem__)

    def get(self) -> Session:
        return self

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802 - as Spark calls it
        return self.settings.get(name)


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    made = Session()
    monkeypatch.setattr("pyspark.TaskContext", made)
    return made


def test_a_task_finds_the_orders_of_its_run(session: Session) -> None:
    entry.post_orders(session, "one", b"epoch 7")
    entry.post_orders(session, "other", b"epoch 1")
    task = entry.RunTask("native_tasks:step_shard", "one", b"context")
    assert task._orders() == b"epoch 7"
    session.settings.clear()
    with pytest.raises(TidegateError, match="run one has no orders"):
        task._orders()


def test_orders_that_the_driver_did_not_sign_are_not_read(session: Session) -> None:
    entry.post_orders(session, "one", b"epoch 7")
    (name, text), *_ = session.settings.items()
    data = base64.b64decode(text)
    task = entry.RunTask("native_tasks:step_shard", "one", b"context")
    for forged in (data[:-1] + b"8", bytes(32) + data[32:], b""):
        session.settings[name] = base64.b64encode(forged).decode()
        with pytest.raises(TidegateError, match="are not signed by its driver"):
            task._orders()


def test_large_orders_are_read_from_the_store() -> None:
    step: Any = None
    parts: dict[str, bytes] = {}

    class InMemory:
        def fetch(self, part: Part) -> pa.Buffer:
            return pa.py_buffer(parts[part.name])

    orders = Orders(map=None, step=step)
    parts["1-1-a-orders"] = pickle.dumps(orders)
    part = Part(name="1-1-a-orders", bytes=len(parts["1-1-a-orders"]), checksum=0)
    depot: Any = InMemory()
    digest = hashlib.sha256(parts[part.name]).hexdigest()
    assert read_orders(pickle.dumps(Elsewhere(part, digest)), depot) == orders
    parts[part.name] = pickle.dumps("forged")
    with pytest.raises(InconsistentEpoch, match="are not those of the driver"):
        read_orders(pickle.dumps(Elsewhere(part, digest)), depot)
    assert read_orders(pickle.dumps(orders), depot) == orders
