"""Columns that no sampled row has: a misspelt one is found before it makes a wrong table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tidegate import Aggregation, Join, Pipeline, Source, StateStore, Target, Window
from tidegate.engine.absent_columns import absent_columns
from tidegate.engine.plan import Plan, plan_of
from tidegate.errors import ConfigError
from tidegate.sources.protocol import SampledNames
from tidegate.spark.checking import checked

COLUMNS = {"usr_id": "string", "page": "string", "at": "string", "amout": "double"}
WINDOW: dict[str, Any] = {
    "kind": "tumbling",
    "width_ms": 1_000,
    "group_by": ["usr_id"],
    "aggregations": [Aggregation(kind="sum", input_column="amout")],
}


def pipeline(operator: Window | Join, *names: str, **parts: Any) -> Pipeline:
    usual = {"format": "json", "event_time": "at", "columns": COLUMNS, "options": {"path": "in"}}
    return Pipeline(
        name="p",
        sources=[Source.from_dict({"name": name, **usual, **parts}) for name in names],
        operators=[operator],
        target=Target(format="memory"),
        state_store=StateStore(),
    )


def plan(group_by: list[str], **parts: Any) -> Plan:
    made = pipeline(Window.from_dict({**WINDOW, "group_by": group_by}), "clicks", **parts)
    return plan_of(made, {"clicks": COLUMNS})


def found(plan: Plan, *names: str, rows: int = 1_000) -> list[tuple[str, str, bool]]:
    absent = absent_columns(plan, 0, SampledNames(rows, frozenset(names)))
    return [(each.problem.at.rpartition(".")[2], each.problem.hint, each.fatal) for each in absent]


def test_absent_columns_have_a_near_name() -> None:
    assert found(plan(["usr_id"]), "user_id", "at", "Amount") == [
        ("usr_id", "did you mean 'user_id'?", True),
        ("amout", "did you mean 'Amount'?", False),
    ]


def test_only_columns_that_are_read_matter() -> None:
    assert found(plan(["usr_id"]), "usr_id", "at", "amout") == []


def test_one_of_several_keys_may_be_rare() -> None:
    both = plan(["usr_id", "page"])
    assert found(both, "page", "at", "amout", "x") == [("usr_id", "rows also have 'x'", False)]
    assert [each[2] for each in found(both, "at", "amout")] == [True, True]


def test_without_an_event_time_nothing_can_be_computed() -> None:
    assert found(plan(["usr_id"]), "usr_id", "amout", "At") == [("at", "did you mean 'At'?", True)]


def test_a_transform_may_make_something_of_absent_columns() -> None:
    behind = plan(["usr_id"], transform="SELECT *, coalesce(usr_id, page) AS page FROM source")
    names = [name for name, _, fatal in found(behind, "user_id", "at", "amout") if not fatal]
    assert names == ["usr_id", "page"]


def test_without_rows_nothing_is_known() -> None:
    assert found(plan(["usr_id"]), rows=0) == []


def test_a_name_of_a_stranger_is_printed_without_its_control_characters() -> None:
    (absent,) = found(plan(["usr_id"]), "at", "amout", "\x1b[2Jusr_id")
    assert absent[1] == "did you mean '\\x1b[2Jusr_id'?"


def test_where_rows_have_many_other_names_a_few_are_listed() -> None:
    others = [f"\n{n:02}" for n in range(20)]
    (absent,) = found(plan(["usr_id"]), "at", "amout", *others)
    listed = ", ".join(repr(name) for name in others[:10])
    assert absent[1] == f"rows also have {listed} and ..."


def test_each_side_of_a_join_needs_its_keys() -> None:
    join = Join(left="clicks", right="views", on="usr_id", time_window_ms=1)
    made = plan_of(pipeline(join, "clicks", "views"), dict.fromkeys(["clicks", "views"], COLUMNS))
    assert ("usr_id", "did you mean 'user_id'?", True) in found(made, "user_id", "at")


# --- in a check of files ---


def test_a_check_looks_into_the_oldest_and_the_newest_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    made = pipeline(Window.from_dict(WINDOW), "clicks")
    assert checked(made).absent == []
    first = tmp_path / "in" / "1.json"
    first.write_text('{"user_id": "ann", "at": "2026-01-05", "amount": 1}\ngibberish\n')
    with pytest.raises(ConfigError) as error:
        checked(made)
    assert str(error.value) == (
        "sources[0].columns.usr_id: found a column that none of 1 sampled rows has, "
        "expected a column of the rows\n  hint: did you mean 'user_id'?"
    )
    (tmp_path / "in" / "2.json").write_text('{"usr_id": "ann", "at": "2026-01-05"}\n')
    *_, last = checked(made).lines()
    assert last == (
        "  warning: sources[0].columns.amout: a column that none of 2 sampled rows has; "
        "did you mean 'amount'?"
    )
