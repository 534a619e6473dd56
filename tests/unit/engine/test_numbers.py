"""The table of numbers: it has all that a run counts, and all outputs follow from it."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.pipeline.examples import session, tumbling
from tests.unit.spark.examples import NOON_US, epoch
from tidegate.cli.progress import Lines
from tidegate.core import admission
from tidegate.core.local import LocalJoin, LocalRun
from tidegate.core.watermark import PipelineWatermark, SourceWatermark
from tidegate.engine import numbers
from tidegate.engine.epoch import _counts
from tidegate.engine.notebook import line_of
from tidegate.engine.numbers import NUMBERS, Number, cells, numbers_dict, phrase_of, phrases
from tidegate.engine.status import RunStatus
from tidegate.pipeline import Join, Window
from tidegate.tasks.orders import Saw, Seen, ShardReport

COLUMNS = {"user": "string"}
JOIN = {"left": "a", "right": "b", "on": "user"}
STATUS = RunStatus(
    pipeline="p",
    state="running",
    epoch=8,
    epochs=2,
    counts={
        **{"rows": 3_000, "accepted": 2_990, "late": 10, "reassigned": 0, "left_out": 1},
        **{"rejected": 3, "rejected.unparsable": 2, "rejected.future": 1, "lost": 4},
        **{"sent": 14, "retracted": 0},
    },
    rows_per_second=1777.777,
    seconds=65.4321,
    watermark_us=NOON_US,
    lag_us={"clicks": 3_100_000, "orders": None},
    state_rows=2_000,
    state_bytes=3_000_000,
    worker_cache_bytes=5,
    last=epoch(
        8,
        rows=1_000,
        parts={"plan": 0.02, "job": 0.2, "kernel": 0.1},
        watermarks=PipelineWatermark(
            sources={
                "clicks": SourceWatermark(watermark_us=NOON_US),
                "orders": SourceWatermark(),
            },
            watermark_us=NOON_US,
            idle_since_us={"orders": 0},
        ),
    ),
)


def test_every_count_of_the_engine_is_in_the_table() -> None:
    windows = [Window.from_dict(session()), Window.from_dict(tumbling(group_by=["user"]))]
    joins = [
        Join.from_dict({**JOIN, "time_window_ms": 10}),
        Join.from_dict(
            {**JOIN, "kind": "session_session", "gap_ms": 10, "max_session_duration_ms": 99}
        ),
    ]
    steps = [LocalRun(each, COLUMNS).flush() for each in windows]
    steps += [LocalJoin(each, COLUMNS, COLUMNS).flush() for each in joins]
    reasons = [*admission.OF_THE_EVENT_TIME, admission.FUTURE]
    seen = Seen(
        slice=0,
        source=0,
        partition=0,
        rows=1,
        highest_us=0,
        rejected=dict.fromkeys(reasons, 1),
    )
    saw = Saw(seen_digest="", watermarks_digest="", seen=(seen,))
    feeds = {"clicks": SimpleNamespace(polled=SimpleNamespace(lost=1))}
    report = ShardReport(shard=0, attempt="a", saw=saw)
    counted = set(_counts(cast("Any", SimpleNamespace(feeds=feeds)), [report]))
    counted |= {name for each in steps for name in each.counts}
    by_reason = {f"rejected.{reason}" for reason in reasons}
    known = {each.field[1] for each in NUMBERS if each.field[0] == "counts"}
    assert counted - by_reason == known - {"rejected.{}"}
    assert by_reason <= counted


def test_a_number_has_a_name_that_is_its_own_and_one_sentence_of_help() -> None:
    assert len({each.name for each in NUMBERS}) == len(NUMBERS)
    assert len({each.field for each in NUMBERS}) == len(NUMBERS)
    for each in NUMBERS:
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", each.name)
        assert re.fullmatch(r"[A-Z][^.]*\.", each.help), each.name
        assert bool(each.label) == any("{}" in part for part in each.field), each.name
        assert each.title or not each.on + each.if_any, each.name
        assert not (each.label and each.on + each.if_any), each.name


def test_a_name_ends_with_its_unit() -> None:
    units = {each.name: each.unit for each in NUMBERS}
    for suffix, unit in (("_rows", "rows"), ("_bytes", "bytes"), ("_seconds", "seconds")):
        assert {name for name in units if name.endswith(suffix)} == {
            name for name, each in units.items() if each == unit and not name.endswith("_by_reason")
        }
    assert {unit for name, unit in units.items() if name.endswith("_us")} == {"us", "us since 1970"}


def test_a_status_as_json_has_all_numbers() -> None:
    assert STATUS.to_dict() == {
        "pipeline": "p",
        "state": "running",
        "epoch": 8,
        "epochs": 2,
        "run_seconds": 65.4321,
        "rows": 1_000,
        "seconds": 0.25,
        "counts": STATUS.counts,
        "rows_per_second": 1777.8,
        "watermark_us": NOON_US,
        "lag_us": 3_100_000,
        "sources": {
            "clicks": {"watermark_us": NOON_US, "lag_us": 3_100_000, "idle": False},
            "orders": {"watermark_us": None, "lag_us": None, "idle": True},
        },
        "open": 3,
        "state_rows": 2_000,
        "state_bytes": 3_000_000,
        "worker_cache_bytes": 5,
        "parts": {"plan": 0.02, "kernel": 0.1},
        "error": None,
    }


def test_before_the_first_epoch_what_is_not_known_is_null() -> None:
    status = RunStatus(pipeline="p", state="failed", error=OSError("postgresql://ann:pw@db/x"))
    assert status.to_dict() == {
        **{"pipeline": "p", "state": "failed", "epoch": 0, "epochs": 0, "run_seconds": 0.0},
        **{"rows": None, "seconds": None, "counts": {}, "rows_per_second": 0.0},
        **{"watermark_us": None, "lag_us": None, "sources": {}, "open": None, "state_rows": 0},
        **{"state_bytes": 0, "worker_cache_bytes": 0, "parts": {}},
        "error": "postgresql://***@db/x",
    }


def test_a_source_may_have_any_name() -> None:
    name = "{}.{0.__class__}"
    status = RunStatus(pipeline="p", lag_us={name: 7})
    assert numbers_dict(status)["sources"] == {name: {"lag_us": 7}}


def test_a_line_has_what_is_not_usual_only_where_there_is_any() -> None:
    assert phrases(STATUS, "line") == [
        "1,778 rows/s",
        "watermark 2026-01-05T12:00:00.000Z",
        "lag 3.1 s",
        "10 late",
        "1 left out",
        "3 rejected (1 future, 2 unparsable)",
        "4 lost",
        "3 open",
        "state 3 MB",
    ]
    assert phrases(RunStatus(pipeline="p"), "line") == [
        "0 rows/s",
        "watermark none yet",
        "state 0 bytes",
    ]


def test_a_table_has_what_is_not_known_too() -> None:
    assert cells(STATUS, "live") == {
        **{"epoch": "8", "rows": "3,000", "rows/s": "1,778", "late": "10", "rejected": "3"},
        **{"sent": "14", "open": "3", "state": "3 MB"},
    }
    assert cells(RunStatus(pipeline="p"), "live")["open"] == "-"


def test_a_row_of_the_table_is_all_that_a_new_number_needs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A step counts `held_back`: this row makes a number of it, wherever people look."""
    row = Number(
        name="held_back_rows",
        unit="rows",
        kind="counter",
        help="Rows that wait for others.",
        field=("counts", "held_back"),
        read=lambda status: status.counts.get("held_back"),
        title="held back",
        on=("live", "line", "notebook", "status"),
    )
    monkeypatch.setattr(numbers, "NUMBERS", (*NUMBERS, row))
    monkeypatch.setitem(cast("Any", numbers.NUMBER), row.name, row)
    status = RunStatus(pipeline="p", counts={"held_back": 5}, last=epoch(1))
    assert status.to_dict()["counts"] == {"held_back": 5}
    assert cells(status, "live")["held back"] == "5"
    assert phrase_of("held_back_rows", status) == "5 held back"
    assert line_of(status).endswith(" · 5 held back")
    assert "held back" in status._repr_html_()
    Lines().epoch(epoch(1), status)
    assert ", 5 held back" in capsys.readouterr().err
