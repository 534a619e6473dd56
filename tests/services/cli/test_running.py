"""`tidegate init`, `check`, `explain` and `run`: what people and scripts see."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from tidegate.cli import app
from tidegate.frontends.toml import load_pipeline

PIPELINE = """\
name = "sessions"

[[sources]]
name = "clicks"
format = "json"
event_time = "at"
options = { path = "clicks" }

[transform.window]
kind = "session"
gap_ms = 30_000
max_session_duration_ms = 3_600_000
group_by = ["user"]
aggregations = [{ kind = "count", output_name = "clicks" }]

[state_store]

[target]
format = "parquet"
options = { path = "sessions" }
"""


def tidegate(*arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments])


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> Path:
    """A folder with a pipeline and its clicks; commands use the session of the tests."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pipeline.toml").write_text(PIPELINE)
    folder = tmp_path / "clicks"
    folder.mkdir()
    clicks(folder / "1.json", [("ann", 0), ("bob", 5), ("ann", 25)])
    return tmp_path


def clicks(path: Path, rows: list[tuple[str, int]]) -> None:
    lines = [json.dumps({"user": user, "at": f"2026-01-05T12:00:{at:02}Z"}) for user, at in rows]
    path.write_text("\n".join(lines) + "\n")


def change(old: str, new: str) -> None:
    path = Path("pipeline.toml")
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


# --- run ---


def test_a_run_says_what_each_epoch_came_to(home: Path) -> None:
    result = tidegate("run", "--on-end", "flush")
    assert result.exit_code == 0, result.output
    lines = result.stderr.splitlines()
    assert lines[0] == "sessions: starting"
    assert re.match(
        r"epoch 1, 3 rows in .* watermark 2026-01-05T12:00:25.000Z, lag .*2 open", lines[1]
    )
    assert re.fullmatch(
        r"sessions: ended: 3 rows in 2 epochs, [\d.]+ m?s, 2 sent to parquet sessions, 0 open",
        lines[-1],
    )
    assert result.stdout == ""
    found = pl.read_parquet(home / "sessions").sort("user")
    assert found.select("user", "clicks").rows() == [("ann", 2), ("bob", 1)]


def test_a_run_goes_on_where_the_last_one_ended(home: Path) -> None:
    assert tidegate("run").exit_code == 0
    again = tidegate("run")
    assert again.stderr.splitlines()[-1] == "sessions: ended: nothing new to read"
    clicks(home / "clicks" / "2.json", [("ann", 40)])
    assert "epoch 2, 1 row in" in tidegate("run").stderr


def test_json_lines_are_for_machines() -> None:
    result = tidegate("run", "--json", "--on-end", "flush", "--shards", "1")
    assert result.exit_code == 0
    said = [json.loads(line) for line in result.stdout.splitlines()]
    assert [each["event"] for each in said] == ["started", "epoch", "epoch", "ended"]
    epoch = said[1]
    assert epoch["rows"] == 3
    assert epoch["open"] == 2
    assert epoch["counts"]["accepted"] == 3
    assert epoch["watermark_us"] == epoch["sources"]["clicks"]["watermark_us"]
    assert epoch["sources"]["clicks"]["lag_us"] > 0
    assert epoch["parts"]["kernel"] > 0
    assert said[-1]["counts"]["sent"] == 2
    assert result.stderr == ""


def test_options_win_over_the_file() -> None:
    Path("pipeline.toml").write_text(PIPELINE + '[run]\non_end = "keep"\nshards = 1\n')
    result = tidegate("run", "--on-end", "flush", "--json")
    assert json.loads(result.stdout.splitlines()[-1])["counts"]["sent"] == 2


def test_a_mistake_has_its_line_and_exit_code_2() -> None:
    change("gap_ms = 30_000", 'gap_ms = "30s"')
    change('format = "parquet"', 'fromat = "parquet"')
    result = tidegate("run")
    assert result.exit_code == 2
    assert result.stderr.startswith(
        "tidegate: 3 problems\npipeline.toml:11: transform.window.gap_ms"
    )
    assert "did you mean 'format'?" in result.stderr
    assert "Traceback" not in result.output


def test_a_failure_is_a_json_line_too() -> None:
    change("gap_ms = 30_000", "gap_ms = 0")
    result = tidegate("run", "--json")
    (line,) = result.stdout.splitlines()
    said = json.loads(line)
    assert (said["event"], said["code"]) == ("failed", 2)
    assert "pipeline.toml:11" in said["error"]


@pytest.mark.parametrize("command", ["run", "check"])
@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('event_time = "at"', 'event_time = "att"', ":6: sources[0].event_time: found 'att'"),
        ('group_by = ["user"]', 'group_by = ["usr"]', ":13: transform.window.group_by[0]"),
        ('path = "clicks" }', 'path = "nowhere" }', ":7: sources[0].options.path"),
        (
            'kind = "count"',
            'kind = "sum", input_column = "user"',
            ":14: transform.window.aggregations[0].input_column: found 'user' of type string",
        ),
        ('format = "json"\n', 'format = "jsn"\n', ":5: sources[0].format"),
        ('{ path = "sessions" }', '{ path = "clicks/1.json" }', ":20: target.options.path"),
        ('{ path = "sessions" }', '{ pth = "sessions" }', ":20: target.options.pth"),
        ("[state_store]", '[state_store]\nurl = "/proc/none"', "state_store.url"),
    ],
)
def test_what_a_source_or_a_target_lacks_is_told_with_its_line(
    command: str, old: str, new: str, told: str
) -> None:
    change(old, new)
    result = tidegate(command)
    assert result.exit_code == 2, result.output
    assert told in result.stderr
    assert "Traceback" not in result.output


def test_a_topic_for_what_is_turned_away_that_is_read_again_is_told_with_its_line() -> None:
    change('format = "json"\n', 'format = "kafka"\n')
    change('path = "clicks" }', 'bootstrap_servers = "b:9092", topic_pattern = "clicks.*" }')
    change(
        "[state_store]",
        """\
[rejected]
format = "kafka"
options = { bootstrap_servers = "b:9092", topic = "clicks.rejected" }

[state_store]""",
    )
    result = tidegate("check")
    assert result.exit_code == 2
    assert (
        "pipeline.toml:18: rejected.options.topic: found 'clicks.rejected', which source 'clicks' "
        "reads by its topic_pattern 'clicks.*', expected a topic that the pipeline does not read"
    ) in result.stderr
    assert "  hint: write to a topic with a name that the pattern does not match" in result.stderr


def test_another_gap_is_refused_with_exit_code_4() -> None:
    assert tidegate("run").exit_code == 0
    change("gap_ms = 30_000", "gap_ms = 10_000")
    for command in ("run", "check"):
        result = tidegate(command)
        assert result.exit_code == 4
        assert "gap_ms changed from 30000 to 10000" in result.stderr
        assert "tidegate state reset" in result.stderr


def test_a_pipeline_that_somebody_runs_is_refused_with_exit_code_3(home: Path) -> None:
    pipeline = load_pipeline("pipeline.toml").pipeline
    from tidegate.state import open_store  # noqa: PLC0415

    store = open_store(pipeline.state_store, pipeline.name)
    store.open()
    try:
        result = tidegate("run")
    finally:
        store.close()
    assert result.exit_code == 3
    assert f"is run by process {os.getpid()}" in result.stderr


def test_a_row_that_cannot_be_read_is_counted(home: Path) -> None:
    """With the reason; one that is ahead of the clock makes no other row late."""
    times = ("{}", '{"at": "noon"}', '{"at": "2200-01-01T00:00:00Z"}')
    (home / "clicks" / "2.json").write_text("\n".join(times) + "\n")
    assert tidegate("run").exit_code == 0
    clicks(home / "clicks" / "3.json", [("ann", 26)])
    (home / "clicks" / "4.json").write_text("\n".join(times) + "\n")
    result = tidegate("run")
    assert result.exit_code == 0
    assert "3 rejected (1 future, 1 no_event_time, 1 unparsable)" in result.stderr
    assert "late" not in result.stderr


def test_a_first_run_without_usable_times_is_a_mistake_and_commits_nothing(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bad = '{"at": "05.01.2026 12:00:00"}\n' * 3
    (home / "clicks" / "1.json").write_text('{"user": "ann"}\n' + bad)
    result = tidegate("run")
    assert result.exit_code == 2
    assert (
        "pipeline.toml:6: sources[0].event_time: found all 4 rows rejected: 3 unparsable event "
        "time, e.g. at = '05.01.2026 12:00:00'; 1 no event time, column 'at' is NULL or missing, "
        "expected at most 50% of the first rows, by max_rejected_share\n"
        "  hint: times are ISO 8601: make one in the transform"
    ) in result.stderr
    assert not (home / "sessions").exists()

    change('event_time = "at"', 'event_time = "at"\nmax_rejected_share = "unbounded"')
    (home / "clicks" / "2.json").write_text('{"at": "2026-01-05T12:00:00Z"}\n')
    with caplog.at_level("WARNING", "tidegate"):
        first = tidegate("run")
    assert "epoch 1, 1 row" in first.stderr
    assert caplog.messages == [
        "source clicks: key column 'user' is NULL or missing in all of the first 1 rows; "
        "hint: `tidegate check` names declared columns that no row has"
    ]

    change('max_rejected_share = "unbounded"', "")
    (home / "clicks" / "3.json").write_text(bad)
    (home / "clicks" / "4.json").write_text(bad)
    caplog.clear()
    with caplog.at_level("WARNING", "tidegate"):
        later = tidegate("run", "--max-rows-per-epoch", "3")
    assert "epoch 3, 0 rows" in later.stderr
    assert [each.split("; hint")[0] for each in caplog.messages] == [
        "source clicks: all 3 rows rejected: unparsable event time, e.g. at = '05.01.2026 12:00:00'"
    ]


def test_a_broken_file_ends_the_run_by_its_name(home: Path) -> None:
    change('format = "json"', 'format = "parquet"')
    (home / "clicks" / "1.json").rename(home / "clicks" / "1.parquet")
    result = tidegate("run")
    assert result.exit_code in (1, 2)
    assert "1.parquet" in result.stderr
    assert "Traceback" not in result.output


def test_a_folder_without_files_is_told(home: Path) -> None:
    (home / "clicks" / "1.json").unlink()
    result = tidegate("check")
    assert result.exit_code == 2
    assert "put a first file there" in result.stderr


def test_a_stopped_run_says_so_by_its_exit_code(home: Path) -> None:
    change('{ path = "clicks" }', '{ path = "clicks", settle_ms = 0 }')
    command = [sys.executable, "-m", "tidegate.cli", "run", "--mode", "continuous", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        assert run.stdout is not None
        for line in run.stdout:
            if json.loads(line)["event"] == "epoch":
                break
        run.send_signal(signal.SIGTERM)
        rest, said = run.communicate(timeout=60)
    assert run.returncode == 128 + signal.SIGTERM, said
    assert json.loads(rest.splitlines()[-1])["event"] == "stopped"
    assert said == b""  # Spark is quiet, to the end


# --- check and explain ---


def test_check_says_what_would_be_read_and_sent() -> None:
    result = tidegate("check")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "sessions: can be run",
        "  source clicks: user string, at string",
        "  sends: user string, window_start timestamp, window_end timestamp, session_id long,"
        " clicks long, revision long",
        "  state: none yet, the first run begins at the beginning",
    ]


def test_check_names_a_key_that_no_row_has() -> None:
    change('event_time = "at"', 'event_time = "at"\ncolumns = { usr = "string", at = "string" }')
    change('group_by = ["user"]', 'group_by = ["usr"]')
    result = tidegate("check")
    assert result.exit_code == 2
    assert result.stderr == (
        "tidegate: pipeline.toml:7: sources[0].columns.usr: found a column that none of 3 sampled "
        "rows has, expected a column of the rows\n  hint: did you mean 'user'?\n"
    )


def test_check_writes_nothing(home: Path) -> None:
    before = sorted(home.rglob("*"))
    assert tidegate("check").exit_code == 0
    assert sorted(home.rglob("*")) == before


def test_check_tells_all_problems_together(home: Path) -> None:
    change("[state_store]", '[state_store]\nurl = "/proc/none"')
    change('{ path = "sessions" }', '{ path = "clicks/1.json" }')
    said = tidegate("check").stderr
    assert "state_store.url" in said
    assert "target.options.path" in said
    change('event_time = "at"', 'event_time = "att"')
    said = tidegate("check").stderr
    assert "state_store.url" in said
    assert "sources[0].event_time" in said


@pytest.mark.parametrize("command", ["check", "run"])
def test_a_changed_pipeline_is_told_with_what_its_target_needs(command: str) -> None:
    """Whoever takes the change back need not alter the target for it."""
    assert tidegate("run").exit_code == 0
    change('kind = "count"', 'kind = "count_col", input_column = "user"')
    change('{ path = "sessions" }', '{ path = "clicks/1.json" }')
    result = tidegate(command)
    assert result.exit_code == 2
    assert "aggregations.clicks.kind changed from 'count' to 'count_col'" in result.stderr
    assert ": target.options.path: " in result.stderr


def test_check_says_where_the_state_stands() -> None:
    assert tidegate("run").exit_code == 0
    assert "at epoch 1, the next run goes on behind it" in tidegate("check").stdout


def test_check_goes_by_the_columns_that_were_found_once(home: Path) -> None:
    """As a run does: what the files are like now may be another thing."""
    first = home / "clicks" / "1.json"
    first.write_text('{"user": "ann", "at": "2026-01-01T00:00:00Z", "n": 1}\n')
    change('kind = "count"', 'kind = "sum", input_column = "n"')
    assert tidegate("run").exit_code == 0
    first.unlink()
    for rows in ("", '{"user": "ann", "at": "2026-01-01T00:00:00Z", "n": 1.5}\n'):
        (home / "clicks" / "2.json").write_text(rows)
        result = tidegate("check")
        assert result.exit_code == 0, result.stderr
        assert "n long" in result.stdout


def test_check_looks_at_transforms_with_spark() -> None:
    change('event_time = "at"', 'event_time = "at"\ntransform = "SELECT usr FROM source"')
    result = tidegate("check")
    assert result.exit_code == 2
    assert "usr" in result.stderr


def test_explain_says_what_it_does() -> None:
    result = tidegate("explain")
    assert result.exit_code == 0
    assert "session, over after 30 s of silence" in result.stdout


# --- init ---


def test_init_writes_a_pipeline_that_can_be_run(tmp_path: Path) -> None:
    folder = tmp_path / 'my "own" pipeline'
    result = tidegate("init", str(folder))
    assert result.exit_code == 0
    text = (folder / "pipeline.toml").read_text()
    assert text.startswith("#:schema ./tidegate.schema.json\n")
    assert json.loads((folder / "tidegate.schema.json").read_text())["title"] == "Tidegate pipeline"
    assert load_pipeline(folder / "pipeline.toml").pipeline.name == "my-own-pipeline"
    assert tidegate("check", str(folder / "pipeline.toml")).exit_code == 0


def test_init_overwrites_nothing() -> None:
    result = tidegate("init")
    assert result.exit_code == 2
    assert "--force" in result.stderr
    assert Path("pipeline.toml").read_text() == PIPELINE
    assert tidegate("init", "--force", "--name", "fresh").exit_code == 0
    assert load_pipeline("pipeline.toml").pipeline.name == "fresh"


# --- the shell ---


def test_the_shell_completes_commands() -> None:
    environment = {
        **os.environ,
        "_TIDEGATE_COMPLETE": "complete_bash",
        "COMP_WORDS": "tidegate ex",
        "COMP_CWORD": "1",
    }
    command = Path(sys.executable).with_name("tidegate")
    done = subprocess.run([command], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["explain"]
