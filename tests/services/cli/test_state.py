"""`tidegate state`: on stores that small runs have left, without Spark and beside a run."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from tidegate import (
    Aggregation,
    Join,
    Pipeline,
    RunSettings,
    Source,
    StateStore,
    Target,
    Watermark,
    Window,
    memory_stream,
)
from tidegate.cli import app
from tidegate.engine.recover import open_engine
from tidegate.eventtime import now_us
from tidegate.spark.backend import SparkBackend
from tidegate.state import sqlite_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECOND = 1_000_000
NOON = 1_767_614_400 * SECOND
COLUMNS = {"at": "long", "user": "string", "site": "int", "amount": "decimal(12,2)"}
SCHEMA = {"at": pl.Int64(), "user": pl.String(), "site": pl.Int32(), "amount": pl.Decimal(12, 2)}
HOSTILE = (
    *(None, "NULL", "", " blank ", "it's", '"quoted"', "ünï ☃", "42", "a=b", "[bold]x[/bold]"),
    *("line\nbreak", "\x1b[31mred", "'; DROP TABLE x; --", "{}", "null"),
)
LATE = Watermark(max_out_of_order_ms=60_000)


def source(name: str, **parts: Any) -> Source:
    usual = {"event_time": "at", "event_time_unit": "us", "columns": COLUMNS}
    return Source.from_dict(
        {"name": name, "format": "memory", "options": {"name": f"state-{name}"}, **usual, **parts}
    )


def put(name: str, *rows: tuple[int, str | None, int | None, str | None]) -> None:
    in_us = [
        (NOON + at * SECOND, user, site, None if amount is None else Decimal(amount))
        for at, user, site, amount in rows
    ]
    memory_stream(f"state-{name}").put(pl.DataFrame(in_us, schema=SCHEMA, orient="row"))


def kept(folder: Path, name: str, sources: Source | list[Source], **parts: Any) -> Pipeline:
    usual = {"target": Target(format="memory"), "watermark": LATE}
    store = StateStore(url=str(folder))
    return Pipeline(name=name, sources=sources, state_store=store, **{**usual, **parts})


COUNT = Aggregation(kind="count", output_name="clicks")
SESSIONS = Window(
    kind="session",
    gap_ms=30_000,
    max_session_duration_ms=3_600_000,
    group_by="user",
    aggregations=[COUNT, Aggregation(kind="sum", input_column="amount", output_name="spent")],
)
PANES = Window(
    kind="tumbling",
    width_ms=10_000,
    group_by=["user", "site"],
    late_data="reopen",
    allowed_lateness_ms=60_000,
    aggregations=[COUNT, Aggregation(kind="collect", input_column="amount", output_name="due_us")],
)
JOIN = Join(left="views", right="orders", on="user", time_window_ms=10_000, type="left")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """A folder with the state of three pipelines, of which nobody may change anything."""
    folder = tmp_path_factory.mktemp("states") / "state"
    put("clicks", *((at, user, 1, "1.50") for at, user in enumerate(HOSTILE)))
    put("clicks", (0, "ann", 1, "1.50"), (5, "ann", 1, "2.25"), (50, "ann", 1, None))
    kept(folder, "sessions", source("clicks"), window=SESSIONS).run(spark=spark)
    put("sales", (0, "ann", 1, "1.50"), (1, "ann", 2, "2.00"), (2, "bob", 1, None))
    put("sales", (15, "ann", None, "9.99"))
    exact = Watermark(max_out_of_order_ms=0)
    panes = kept(folder, "panes", source("sales"), window=PANES, watermark=exact)
    panes.run(spark=spark)
    put("views", (0, "ann", 1, "1.50"), (1, None, 2, None))
    put("orders", (3, "ann", 1, "7.00"))
    kept(folder, "joined", [source("views"), source("orders")], join=JOIN).run(spark=spark)
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(made, tmp_path / "state"))


def said(*arguments: str | Path, code: int = 0, answer: str | None = None) -> Result:
    result = CliRunner().invoke(app, ["state", *map(str, arguments)], input=answer)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


def told(*arguments: str | Path, code: int = 0) -> Any:
    return json.loads(said(*arguments, "--json", code=code).stdout)


def changed(folder: Path, statement: str, *values: Any) -> None:
    with closing(sqlite3.connect(folder / "tidegate.db")) as database, database:
        database.execute(statement, values)


@contextmanager
def in_use(folder: Path, pipeline: str) -> Iterator[None]:
    store = sqlite_store(folder, pipeline)
    store.open()
    try:
        yield
    finally:
        store.close()


# --- list ---


def test_a_list_says_where_each_pipeline_stands(made: Path) -> None:
    found = {each.pop("pipeline"): each for each in told("list", made)}
    assert list(found) == ["joined", "panes", "sessions"]
    assert all(each.pop("bytes") > 0 and each.pop("segments") > 0 for each in found.values())
    assert all(0 <= each.pop("committed_s_ago") < 3_600 for each in found.values())
    assert found["panes"] == {
        "epoch": found["panes"]["epoch"],
        "published_epoch": found["panes"]["epoch"],
        "folded_epoch": found["panes"]["epoch"],
        "watermark": "2026-01-05T12:00:15.000Z",
        "keys": 4,
        "windows": 4,
        "run_by": None,
        "sources": {"sales": {"row": 4}},
        "problem": None,
    }
    assert (found["sessions"]["keys"], found["sessions"]["windows"]) == (16, 17)
    assert (found["joined"]["keys"], found["joined"]["rows"]) == (2, 3)


def test_a_list_is_a_line_for_each_pipeline_and_one_for_each_source(made: Path) -> None:
    header, *lines = said("list", made).stdout.splitlines()
    assert header.split() == [
        *("pipeline", "epoch", "published", "folded", "watermark"),
        *("keys", "holds", "segments", "size", "last", "commit"),
    ]
    assert [line.split()[0] for line in lines[:3]] == ["joined", "panes", "sessions"]
    assert "16    17 windows" in lines[2]
    assert "kB" in lines[2]
    assert lines[3:] == [
        'joined: views read to {"row": 2}',
        'joined: orders read to {"row": 1}',
        'panes: sales read to {"row": 4}',
        'sessions: clicks read to {"row": 18}',
    ]


def test_a_narrow_terminal_gets_a_value_in_a_line(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "tidegate.cli.state.console",
        lambda: Console(width=60, force_terminal=True, no_color=True, color_system=None),
    )
    lines = [line.rstrip() for line in said("list", made).stdout.splitlines()]
    assert lines[0] == "pipeline     joined"
    assert "holds        17 windows" in lines
    assert max(map(len, lines)) <= 60


def test_a_list_may_be_of_one_pipeline(made: Path) -> None:
    assert [each["pipeline"] for each in told("list", made, "--pipeline", "panes")] == ["panes"]


def test_a_list_says_who_runs_a_pipeline(folder: Path) -> None:
    with in_use(folder, "panes"):
        by_name = {each["pipeline"]: each["run_by"] for each in told("list", folder)}
        text = said("list", folder).stdout
    assert by_name["panes"].startswith(f"process {os.getpid()} on ")
    assert (by_name["joined"], by_name["sessions"]) == (None, None)
    assert f"panes: run by process {os.getpid()} on " in text
    assert told("list", folder, "-p", "panes")[0]["run_by"] is None


def test_a_pipeline_of_a_later_version_does_not_hide_the_others(folder: Path) -> None:
    change = "UPDATE tidegate_streaming_pipeline SET min_reader_version = 99, state_version = 99"
    changed(folder, f"{change} WHERE pipeline_name = 'panes'")
    found = {each["pipeline"]: each for each in told("list", folder)}
    assert found["sessions"]["windows"] == 17
    assert (found["panes"]["keys"], found["panes"]["windows"]) == (4, None)
    assert "needs a Tidegate that reads state version 99" in found["panes"]["problem"]
    assert "panes: cannot be read: " in said("list", folder).stdout


# --- show ---


def test_sessions_of_a_key_are_shown_with_their_aggregates(made: Path) -> None:
    shown = told("show", made, "-p", "sessions", "--key", "user=ann")
    (key,) = shown.pop("keys")
    assert shown["as_of"] == "commit"
    assert shown["watermark"] == "2026-01-05T11:59:50.000Z"
    assert (shown["keys_found"], shown["windows_found"]) == (1, 2)
    assert key["key"] == {"user": "ann"}
    first, second = key["windows"]
    assert isinstance(first.pop("session_id"), int)
    assert first == {
        "window_start": "2026-01-05T12:00:00.000000Z",
        "window_end": "2026-01-05T12:00:35.000000Z",
        "clicks": 2,
        "spent": "3.75",
        "revision": 0,
        "closes_at": "2026-01-05T12:00:35.000001Z",
        "closed": False,
        "sent": False,
        "sent_before": False,
        "due_at": "2026-01-05T12:00:35.000001Z",
        "forgotten_at": "2026-01-05T12:00:35.000001Z",
    }
    assert (second["window_start"], second["spent"]) == ("2026-01-05T12:00:50.000000Z", None)


@pytest.mark.parametrize("value", HOSTILE)
def test_every_key_can_be_asked_for(made: Path, value: str | None) -> None:
    written = "NULL" if value is None else json.dumps(value)
    (key,) = told("show", made, "-p", "sessions", "--key", f"user={written}")["keys"]
    assert key["key"] == {"user": value}
    assert len(key["windows"]) == 1


@pytest.mark.parametrize(
    "value", [each for each in HOSTILE if each not in (None, "NULL", '"quoted"')]
)
def test_most_keys_need_no_quotes(made: Path, value: str) -> None:
    (key,) = told("show", made, "-p", "sessions", "--key", f"user={value}")["keys"]
    assert key["key"] == {"user": value}


def test_a_table_shows_keys_as_they_are_written_in_a_command(made: Path) -> None:
    lines = said("show", made, "-p", "sessions").stdout.splitlines()
    assert lines[0].startswith("sessions, as of epoch ")
    assert lines[0].endswith(", watermark 2026-01-05T11:59:50.000Z")
    assert lines[-1] == "16 keys with 17 windows"
    begins = [line.partition("  ")[0] for line in lines[2:-1]]
    assert sorted(begins) == sorted(
        [
            *("NULL", '"NULL"', '""', '" blank "', "it's", r'"\"quoted\""', "ünï ☃", "42", "a=b"),
            *("[bold]x[/bold]", r'"line\nbreak"', r'"\u001b[31mred"', "'; DROP TABLE x; --", "{}"),
            *("null", "ann", "ann"),
        ]
    )
    ann = next(line for line in lines if line.startswith("ann "))
    assert ann.split() == [
        *("ann", "2026-01-05", "12:00:00", "2026-01-05", "12:00:35", "2", "3.75"),
        *("open,", "due", "when", "it", "closes", "it", "closes"),
    ]


def test_fixed_windows_say_whether_their_row_is_out(made: Path) -> None:
    lines = said("show", made, "-p", "panes").stdout.splitlines()
    assert lines[1].split() == [
        *("user", "site", "window_start", "window_end", "clicks", "due_us", "row", "held", "until")
    ]
    assert [" ".join(line.split()) for line in lines[2:-1]] == [
        'ann NULL 2026-01-05 12:00:10 2026-01-05 12:00:20 1 ["9.99"] '
        "open, due when it closes 2026-01-05 12:01:20",
        'ann 1 2026-01-05 12:00:00 2026-01-05 12:00:10 1 ["1.50"] '
        "closed, revision 0 is out 2026-01-05 12:01:10",
        'ann 2 2026-01-05 12:00:00 2026-01-05 12:00:10 1 ["2.00"] '
        "closed, revision 0 is out 2026-01-05 12:01:10",
        "bob 1 2026-01-05 12:00:00 2026-01-05 12:00:10 1 [] "
        "closed, revision 0 is out 2026-01-05 12:01:10",
    ]


def test_a_key_may_be_known_in_part(made: Path) -> None:
    shown = told("show", made, "-p", "panes", "--key", "site=1")
    assert [each["key"] for each in shown["keys"]] == [
        {"user": "ann", "site": 1},
        {"user": "bob", "site": 1},
    ]


def test_a_key_of_several_columns_is_one_key(made: Path) -> None:
    shown = told("show", made, "-p", "panes", "-k", "user=ann", "-k", "site=NULL")
    (key,) = shown["keys"]
    assert key["key"] == {"user": "ann", "site": None}
    assert [each["due_us"] for each in key["windows"]] == [["9.99"]]


def test_rows_that_wait_in_a_join_are_shown_by_side(made: Path) -> None:
    shown = told("show", made, "-p", "joined")
    assert [
        (each["key"]["user"], [row["side"] for row in each["rows"]]) for each in shown["keys"]
    ] == [
        (None, ["left"]),
        ("ann", ["left", "right"]),
    ]
    right = shown["keys"][1]["rows"][1]
    assert right == {
        "side": "right",
        "event_ts": "2026-01-05T12:00:03.000000Z",
        "at": NOON + 3 * SECOND,
        "site": 1,
        "amount": "7.00",
        "waits_until": "2026-01-05T12:00:13.000001Z",
    }
    text = said("show", made, "-p", "joined", "-k", "user=ann").stdout
    assert "2026-01-05 12:00:13" in text
    assert text.splitlines()[-1] == "1 key with 2 rows"


def test_the_first_keys_are_those_that_come_first(made: Path) -> None:
    shown = told("show", made, "-p", "sessions", "--limit", "2")
    assert [each["key"]["user"] for each in shown["keys"]] == [None, ""]
    assert shown["keys_found"] == 16
    text = said("show", made, "-p", "sessions", "--limit", "2").stdout
    assert text.splitlines()[-1] == (
        "16 keys with 17 windows; these are the first 2 (--limit, --key)"
    )


def test_a_key_without_state_is_no_mistake(made: Path) -> None:
    assert told("show", made, "-p", "sessions", "-k", "user=nobody")["keys"] == []
    text = said("show", made, "-p", "sessions", "-k", "user=nobody").stdout
    assert text.splitlines()[-1] == "nothing is held of this key"


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (
            "site=one",
            "--key: found site='one', expected a whole number that fits int, as 'site' is int",
        ),
        ("site=2147483648", "a whole number that fits int"),
        ("site=1_0", "a whole number that fits int"),
        ("site= 1", "a whole number that fits int"),
        ("sit=1", "--key: found 'sit', expected a key column\n  hint: did you mean 'site'?"),
        ("clicks=1", "hint: key columns are user, site"),
        ("site", "--key: found 'site', expected COLUMN=VALUE"),
    ],
)
def test_a_key_that_cannot_be_one_is_a_mistake(made: Path, key: str, message: str) -> None:
    assert message in said("show", made, "-p", "panes", "-k", key, code=2).stderr


def test_all_mistakes_in_keys_are_told_at_once(made: Path) -> None:
    stderr = said("show", made, "-p", "panes", "-k", "site=x", "-k", "usr=y", code=2).stderr
    assert "2 problems" in stderr
    assert "site='x'" in stderr
    assert "did you mean 'user'?" in stderr


def test_state_is_shown_as_of_the_last_commit_not_of_the_last_fold(
    folder: Path, spark: SparkSession
) -> None:
    name = f"fresh-{folder.parent.name}"
    fresh = source("fresh", options={"name": name, "by_put": True})
    stream = memory_stream(name)
    rows = pl.DataFrame([(NOON, "ann", 1, None)], schema=SCHEMA, orient="row")
    stream.put(rows)
    pipeline = kept(folder, "fresh", fresh, window=SESSIONS)
    pipeline.run(spark=spark)
    changed(folder, "UPDATE tidegate_streaming_state SET state_blob = '{\"windows\":[]}'")
    stream.put(rows.with_columns(pl.lit(NOON + SECOND).alias("at")))
    engine = open_engine(pipeline, SparkBackend(spark), RunSettings())
    try:
        engine.run(engine.poll(now_us()))
        (key,) = told("show", folder, "-p", "fresh")["keys"]
        assert [each["clicks"] for each in key["windows"]] == [2]
        (listed,) = told("list", folder, "-p", "fresh")
        assert (listed["epoch"], listed["folded_epoch"]) == (2, 1)
        assert listed["run_by"] is not None
        assert "is run by process" in said("fold", folder, "-p", "fresh", code=3).stderr
    finally:
        engine.close()
    assert said("fold", folder, "-p", "fresh").stdout == "fresh: 1 key, as of epoch 2\n"
    query = "SELECT state_blob FROM tidegate_streaming_state WHERE pipeline_name = 'fresh'"
    with closing(sqlite3.connect(folder / "tidegate.db")) as database:
        ((blob,),) = database.execute(query).fetchall()
    assert json.loads(blob)["windows"][0]["clicks"] == 2
    assert said("fold", folder, "-p", "fresh").stdout == "fresh: 1 key, already as of epoch 2\n"


def test_to_look_takes_no_lock_and_loads_no_spark(made: Path) -> None:
    code = (
        "import sys; from tidegate.cli.state import state_app\n"
        "try: state_app(sys.argv[1:])\n"
        "finally: sys.stderr.write(str('pyspark' in sys.modules))"
    )
    with in_use(made, "sessions"):
        done = subprocess.run(
            [sys.executable, "-c", code, "show", str(made), "-p", "sessions", "-k", "user=ann"],
            capture_output=True,
            text=True,
            check=True,
        )
    assert done.stderr == "False"
    assert "1 key with 2 windows" in done.stdout


def test_where_the_plan_cannot_be_read_the_last_fold_is_shown(folder: Path) -> None:
    changed(folder, "UPDATE tidegate_streaming_pipeline SET plan = json_set(plan, '$.version', 9)")
    result = said("show", folder, "-p", "sessions", "-k", "user=ann")
    assert "the stored plan has version 9" in result.stderr
    assert "the last fold" in result.stdout
    assert '"clicks": 2' in result.stdout
    assert result.stdout.splitlines()[-1] == "1 key"
    shown = told("show", folder, "-p", "sessions", "-k", "user=NULL")
    assert (shown["as_of"], len(shown["keys"])) == ("fold", 1)
    assert shown["keys"][0]["key"] == {"user": None}


# --- export ---


def test_an_export_has_the_types_of_the_pipeline(made: Path, tmp_path: Path) -> None:
    target = tmp_path / "sessions.parquet"
    assert "17 rows, as of epoch" in said("export", made, "--to", target, "-p", "sessions").stdout
    found = pl.read_parquet(target)
    instant = pl.Datetime("us", "UTC")
    assert dict(found.schema) == {
        "user": pl.String(),
        "window_start": instant,
        "window_end": instant,
        "session_id": pl.Int64(),
        "clicks": pl.Int64(),
        "spent": pl.Decimal(22, 2),
        "revision": pl.Int64(),
        "closes_at": instant,
        "closed": pl.Boolean(),
        "sent": pl.Boolean(),
        "sent_before": pl.Boolean(),
        "due_at": instant,
        "forgotten_at": instant,
    }
    assert sorted(found.filter(pl.col("user") == "ann")["clicks"]) == [1, 2]
    assert set(found["user"]) == {*HOSTILE, "ann"}
    assert [each.name for each in tmp_path.iterdir() if "parquet" in each.name] == [target.name]


def test_an_export_of_a_join_has_the_columns_of_both_sides(made: Path, tmp_path: Path) -> None:
    target = tmp_path / "joined.parquet"
    said("export", made, "--to", target, "-p", "joined")
    found = pl.read_parquet(target).select("user", "side", "amount")
    assert found.rows() == [
        (None, "left", None),
        ("ann", "left", Decimal("1.50")),
        ("ann", "right", Decimal("7.00")),
    ]


def test_an_export_replaces_nothing_unless_it_is_told_to(made: Path, tmp_path: Path) -> None:
    target = tmp_path / "sessions.parquet"
    target.write_text("precious")
    stderr = said("export", made, "--to", target, "-p", "sessions", code=2).stderr
    assert "--force" in stderr
    assert target.read_text() == "precious"
    said("export", made, "--to", target, "-p", "sessions", "--force")
    assert pl.read_parquet(target).height == 17


@pytest.mark.parametrize("target", ["x.csv", "no/such/folder/x.parquet", "."])
def test_an_export_goes_to_a_parquet_file(made: Path, tmp_path: Path, target: str) -> None:
    said("export", made, "--to", tmp_path / target, "-p", "sessions", code=2)
    assert list(tmp_path.iterdir()) == []


# --- reset ---


def test_a_reset_says_what_it_forgets_and_forgets_it(folder: Path) -> None:
    result = said("reset", folder, "-p", "sessions", "--yes")
    assert "16 keys with 17 windows" in result.stdout
    assert "rows in the target (memory) stay" in result.stdout
    assert result.stdout.splitlines()[-1] == "forgotten"
    (listed,) = told("list", folder, "-p", "sessions")
    assert (listed["keys"], listed["sources"], listed["segments"]) == (0, {}, 0)
    assert "committed nothing" in said("show", folder, "-p", "sessions").stdout
    assert [each["pipeline"] for each in told("list", folder) if each["keys"]] == [
        *("joined", "panes")
    ]
    assert "nothing to forget" in said("reset", folder, "-p", "sessions", "--yes").stdout
    assert (
        "committed nothing"
        in said("export", folder, "--to", folder / "x.parquet", "-p", "sessions", code=1).stderr
    )


def test_a_reset_says_what_will_never_be_sent(folder: Path) -> None:
    changed(folder, "UPDATE tidegate_streaming_pipeline SET published_epoch = epoch - 1")
    epoch = told("list", folder, "-p", "panes")[0]["epoch"]
    lines = said("reset", folder, "-p", "panes", "--yes").stdout.splitlines()
    assert lines[1].startswith(f"output of the epochs after {epoch - 1} is not in the target yet")


def test_a_reset_warns_of_pairs_that_come_by_another_id(folder: Path) -> None:
    told = said("reset", folder, "-p", "joined", "--yes").stdout
    assert "pairs that come again replace them, but behind transforms" in told


def test_a_reset_warns_of_rows_that_come_twice(folder: Path) -> None:
    target = '{"format": "parquet", "mode": "append", "options": {"path": "out"}}'
    change = "UPDATE tidegate_streaming_pipeline SET plan = json_set(plan, '$.target', json(?))"
    changed(folder, change, target)
    assert "rows in the target (parquet out) stay, and come a second time: empty it first" in (
        said("reset", folder, "-p", "panes", "--yes").stdout
    )


def test_a_reset_leaves_no_segments_behind(folder: Path) -> None:
    said("reset", folder, "-p", "sessions", "--yes")
    (parts,) = folder.glob("parts/sessions-*")
    assert list(parts.iterdir()) == []


@pytest.mark.parametrize(("answer", "code", "keys"), [("y\n", 0, 0), ("n\n", 1, 16), ("\n", 1, 16)])
def test_a_reset_asks_first(
    folder: Path, monkeypatch: pytest.MonkeyPatch, answer: str, code: int, keys: int
) -> None:
    monkeypatch.setattr("tidegate.cli.state.at_a_terminal", lambda: True)
    said("reset", folder, "-p", "sessions", answer=answer, code=code)
    assert told("list", folder, "-p", "sessions")[0]["keys"] == keys


def test_a_reset_is_refused_where_nobody_can_be_asked(folder: Path) -> None:
    assert "--yes" in said("reset", folder, "-p", "sessions", code=2).stderr
    assert told("list", folder, "-p", "sessions")[0]["keys"] == 16


def test_a_reset_is_refused_while_somebody_runs_the_pipeline(folder: Path) -> None:
    with in_use(folder, "sessions"):
        stderr = said("reset", folder, "-p", "sessions", "--yes", code=3).stderr
        assert f"is run by process {os.getpid()} on " in stderr
        assert "nothing to forget" not in stderr
        said("reset", folder, "-p", "panes", "--yes")
    assert told("list", folder, "-p", "sessions")[0]["keys"] == 16


def test_what_was_committed_after_the_question_is_not_forgotten(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def meanwhile() -> bool:
        changed(folder, "UPDATE tidegate_streaming_pipeline SET epoch = epoch + 1")
        return True

    monkeypatch.setattr("tidegate.cli.state.at_a_terminal", meanwhile)
    stderr = said("reset", folder, "-p", "sessions", answer="y\n", code=1).stderr
    assert "nothing was forgotten" in stderr


# --- skip-publish ---


def unpublished(folder: Path) -> None:
    changed(folder, "UPDATE tidegate_streaming_pipeline SET published_epoch = epoch - 1")


def test_output_is_given_up_only_where_somebody_agrees(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpublished(folder)
    assert "--yes" in said("skip-publish", folder, "-p", "panes", code=2).stderr
    monkeypatch.setattr("tidegate.cli.state.at_a_terminal", lambda: True)
    said("skip-publish", folder, "-p", "panes", answer="n\n", code=1)
    (before,) = told("list", folder, "-p", "panes")
    assert before["published_epoch"] == before["epoch"] - 1
    asked = said("skip-publish", folder, "-p", "panes", answer="y\n").stdout
    assert f"epoch {before['epoch']}, channel main: 3 rows in " in asked
    (after,) = told("list", folder, "-p", "panes")
    assert after["published_epoch"] == after["epoch"] == before["epoch"]
    assert {**after, "published_epoch": 0, "committed_s_ago": 0} == {
        **before,
        "published_epoch": 0,
        "committed_s_ago": 0,
    }


def test_what_was_published_after_the_question_is_not_given_up(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def meanwhile() -> bool:
        changed(folder, "UPDATE tidegate_streaming_pipeline SET published_epoch = epoch")
        return True

    unpublished(folder)
    monkeypatch.setattr("tidegate.cli.state.at_a_terminal", meanwhile)
    stderr = said("skip-publish", folder, "-p", "panes", answer="y\n", code=1).stderr
    assert "nothing was given up" in stderr


# --- which pipeline ---


def test_a_folder_with_several_pipelines_asks_which(made: Path) -> None:
    for command in ("show", "reset", "fold"):
        stderr = said(command, made, code=2).stderr
        assert f"found 3 pipelines in {made}: 'joined', 'panes' and 'sessions'" in stderr
        assert "--pipeline" in stderr


def test_a_misspelt_pipeline_is_recognised(made: Path) -> None:
    stderr = said("show", made, "-p", "session", code=2).stderr
    assert "did you mean 'sessions'? There are 'joined', 'panes' and 'sessions'" in stderr


TOML = """
name = "{name}"
[[sources]]
name = "clicks"
format = "generator"
event_time = "event_time"
[transform.window]
kind = "tumbling"
width_ms = 10_000
aggregations = [{{ kind = "count" }}]
[target]
format = "console"
[state_store]
{store}
"""


def toml(folder: Path, name: str, store: str) -> Path:
    path = folder / "pipeline.toml"
    path.write_text(TOML.format(name=name, store=store))
    return path


def test_a_file_says_which_pipeline_and_where(made: Path, tmp_path: Path) -> None:
    path = toml(tmp_path, "sessions", f'url = "{made}"')
    assert told("show", path, "-k", "user=ann")["windows_found"] == 2
    stderr = said("show", path, "-p", "panes", code=2).stderr
    assert "found 'panes', expected 'sessions'" in stderr


def test_a_store_that_cannot_be_looked_into_is_told(tmp_path: Path) -> None:
    stderr = said("list", toml(tmp_path, "sessions", 'kind = "in_memory"'), code=2).stderr
    assert "state_store" in stderr
    assert "sqlite" in stderr


def test_a_file_whose_pipeline_never_ran_is_told(made: Path, tmp_path: Path) -> None:
    path = toml(tmp_path, "other", f'url = "{made}"')
    assert (
        "found 'other', expected a pipeline that has state in" in said("show", path, code=2).stderr
    )
    path = toml(tmp_path, "other", f'url = "{tmp_path / "nothing"}"')
    assert "no state in" in said("show", path, code=2).stderr
    assert not (tmp_path / "nothing").exists()


def test_without_state_there_is_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "run a pipeline first" in said("list", code=2).stderr
    assert "no such file or folder" in said("list", "nowhere", code=2).stderr
    assert list(tmp_path.iterdir()) == []


def test_the_folder_here_is_meant_where_none_is_given(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.rename(folder.parent / ".tidegate")
    monkeypatch.chdir(folder.parent)
    assert len(told("list")) == 3


# --- what is broken ---


@pytest.mark.parametrize("command", ["list", "show", "fold", "reset"])
def test_a_file_that_is_no_database_is_told(tmp_path: Path, command: str) -> None:
    (tmp_path / "tidegate.db").write_bytes(b"this is not a database" * 100)
    stderr = said(command, tmp_path, code=4).stderr
    assert f"{tmp_path / 'tidegate.db'} cannot be read: file is not a database" in stderr


def test_a_database_of_others_is_told(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "tidegate.db")) as database, database:
        database.execute("CREATE TABLE theirs (x)")
    assert "none of Tidegate's tables" in said("list", tmp_path, code=4).stderr


def test_a_broken_database_is_told(folder: Path) -> None:
    changed(folder, "PRAGMA wal_checkpoint(TRUNCATE)")
    path = folder / "tidegate.db"
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    path.write_bytes(data)
    assert "cannot be read" in said("list", folder, code=1).stderr


def test_tables_of_a_later_version_are_told(folder: Path) -> None:
    changed(folder, "INSERT INTO tidegate_streaming_schema VALUES (99, 'later')")
    for command in ("list", "show", "reset", "fold"):
        stderr = said(command, folder, "-p", "sessions", code=4).stderr
        assert "have version 99" in stderr
        assert "use the version that wrote them, or a later one" in stderr


def test_state_of_a_later_version_is_not_exported(folder: Path, tmp_path: Path) -> None:
    changed(folder, "UPDATE tidegate_streaming_pipeline SET min_reader_version = 99")
    stderr = said("export", folder, "--to", tmp_path / "x.parquet", "-p", "panes", code=4).stderr
    assert "state version 99" in stderr
    shown = told("show", folder, "-p", "panes")
    assert (shown["as_of"], shown["keys_found"]) == ("fold", 4)


def test_segments_that_are_lost_are_told(folder: Path) -> None:
    for part in folder.glob("parts/sessions-*/*segment*"):
        part.unlink()
    assert "cannot be read" in said("show", folder, "-p", "sessions", code=1).stderr
    assert "sessions: cannot be read: part " in said("list", folder).stdout
    assert "forgotten" in said("reset", folder, "-p", "sessions", "--yes").stdout


def test_a_lock_that_nobody_holds_any_more_is_nobodys(folder: Path) -> None:
    (lock,) = folder.glob("locks/sessions-*.lock")
    assert "process" in lock.read_text()
    assert told("list", folder, "-p", "sessions")[0]["run_by"] is None
    descriptor = os.open(lock, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        assert told("list", folder, "-p", "sessions")[0]["run_by"] == lock.read_text().strip()
    finally:
        os.close(descriptor)
