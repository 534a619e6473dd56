"""`tidegate state` on state that is kept in PostgreSQL: the same commands, through a TOML file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from tests.postgres_server import Place, Server
from tidegate import (
    Aggregation,
    Pipeline,
    Source,
    StateStore,
    Target,
    Watermark,
    Window,
    memory_stream,
)
from tidegate.cli import app
from tidegate.postgres.pool import close_idle
from tidegate.state import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

NAME = "visits.of-today"
TOML = """
name = {name}
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
kind = "postgres"
url = "{url}"
schema = {schema}
"""


def ran(place: Place, spark: SparkSession, stream: str) -> None:
    """Run a pipeline that keeps three sessions there."""
    memory_stream(stream).put(
        pl.DataFrame({"at": [0, 5, 90, 100], "user": ["ann", "ann", "bob", None]})
    )
    Pipeline(
        name=NAME,
        sources=Source(
            name="clicks",
            format="memory",
            event_time="at",
            event_time_unit="s",
            options={"name": stream},
        ),
        window=Window(
            kind="session",
            gap_ms=30_000,
            max_session_duration_ms=3_600_000,
            group_by="user",
            aggregations=[Aggregation(kind="count", output_name="clicks")],
        ),
        target=Target(format="memory"),
        watermark=Watermark(max_out_of_order_ms=600_000),
        state_store=StateStore(kind="postgres", url=place.url, schema=place.schema),
    ).run(spark=spark)


@pytest.fixture(scope="module")
def place(postgres_server: Server, spark: SparkSession) -> Iterator[Place]:
    """The state of a pipeline that ran once; nobody may change it."""
    place = postgres_server.new_place('state of "Ünï"')
    ran(place, spark, "state-postgres")
    yield place
    close_idle()
    postgres_server.drop(place)


@pytest.fixture
def file(place: Place, tmp_path: Path) -> Path:
    return written(tmp_path, place.url, place.schema)


def written(folder: Path, url: str, schema: str) -> Path:
    path = folder / "pipeline.toml"
    path.write_text(TOML.format(name=json.dumps(NAME), url=url, schema=json.dumps(schema)))
    return path


def said(*arguments: str | Path, code: int = 0) -> Result:
    result = CliRunner().invoke(app, ["state", *map(str, arguments)])
    assert result.exit_code == code, result.output
    assert "pw-" not in result.output
    return result


def told(*arguments: str | Path) -> Any:
    return json.loads(said(*arguments, "--json").stdout)


def test_where_it_stands_is_listed(file: Path) -> None:
    (found,) = told("list", file)
    assert (found["pipeline"], found["epoch"], found["run_by"]) == (NAME, 1, None)


def test_what_keys_hold_is_shown(file: Path) -> None:
    assert told("show", file, "-k", "user=ann")["keys"][0]["windows"][0]["clicks"] == 2
    assert "ann" in said("show", file).stdout


def test_state_is_exported(file: Path, tmp_path: Path) -> None:
    said("export", file, "--to", tmp_path / "state.parquet")
    found = pl.read_parquet(tmp_path / "state.parquet")
    assert found.select("user", "clicks").sort("user").rows() == [
        (None, 1),
        ("ann", 2),
        ("bob", 1),
    ]


def test_a_run_beside_is_told_and_refuses_changes(file: Path, place: Place) -> None:
    spec = StateStore(kind="postgres", url=place.url, schema=place.schema)
    store = open_store(spec, NAME)
    store.open()
    try:
        assert told("list", file)[0]["run_by"].startswith("process ")
        assert "is run by process" in said("reset", file, "--yes", code=3).stderr
        assert "is run by process" in said("fold", file, code=3).stderr
    finally:
        store.close()


def test_a_server_that_is_not_there_is_told(tmp_path: Path) -> None:
    path = written(tmp_path, "postgresql://ann:pw-1@127.0.0.1:1/x", "s")
    assert "Connection refused" in said("list", path, code=1).stderr


def test_a_password_that_is_wrong_is_told(place: Place, tmp_path: Path) -> None:
    path = written(tmp_path, place.url.replace("pw-", "pw-not-"), place.schema)
    assert "password authentication failed" in said("list", path, code=2).stderr


def test_a_schema_without_tables_has_no_state(postgres: Place, tmp_path: Path) -> None:
    path = written(tmp_path, postgres.url, postgres.schema)
    assert "no state in postgres 127.0.0.1" in said("list", path, code=2).stderr


def test_state_is_folded_and_forgotten(
    postgres: Place, spark: SparkSession, tmp_path: Path
) -> None:
    ran(postgres, spark, "state-postgres-reset")
    file = written(tmp_path, postgres.url, postgres.schema)
    assert "3 keys, already as of epoch 1" in said("fold", file).stdout
    again = ("rewind", file, "--source", "clicks", "--to", "earliest", "--yes")
    assert "--reset-state" in said(*again, code=2).stderr
    said(*again, "--reset-state")
    assert told("list", file)[0]["epoch"] == 2
    ran(postgres, spark, "state-postgres-reset")
    assert said("reset", file, "--yes").stdout.endswith("forgotten\n")
    assert "holds nothing" in said("reset", file, "--yes").stdout


def test_a_source_is_read_again_from_an_offset_and_somebody_is_asked(
    postgres: Place, spark: SparkSession, tmp_path: Path
) -> None:
    stream = "state-postgres-rewind"
    ran(postgres, spark, stream)
    file = written(tmp_path, postgres.url, postgres.schema)
    assert told("list", file)[0]["sources"]["clicks"] == {"row": 4}
    again = ("rewind", file, "--source", "clicks", "--to", '{"row": 2}', "--reset-state")
    for unasked in (again, ("reset", file)):
        assert "nobody is there to be asked" in said(*unasked, code=2).stderr
    assert told("list", file)[0]["sources"]["clicks"] == {"row": 4}
    said(*again, "--yes")
    assert told("list", file)[0]["sources"]["clicks"] == {"row": 2}
    ran(postgres, spark, stream)
    held = {each["key"]["user"]: each["windows"] for each in told("show", file)["keys"]}
    assert {user: windows[0]["clicks"] for user, windows in held.items()} == {
        "ann": 2,  # of the second run
        "bob": 2,  # of both
        None: 2,
    }
