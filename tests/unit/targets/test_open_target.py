from __future__ import annotations

import subprocess
import sys

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tidegate.pipeline import Target
from tidegate.targets import NATIVE_FORMATS, open_target
from tidegate.targets.blobs import table_of_bytes, table_to_bytes
from tidegate.targets.names import safe_name
from tidegate.testing.target_contract import NAMES, all_types


@pytest.mark.parametrize("format", ["iceberg", "orc"])
def test_other_formats_are_written_by_others(format: str) -> None:
    spec = Target(format=format, options={"anything": 1})
    assert open_target(spec, pipeline="orders", channel="main") is None


@pytest.mark.parametrize("format", NATIVE_FORMATS)
def test_every_native_format_has_a_writer(format: str) -> None:
    options = {} if format in ("memory", "console") else {"path": "somewhere"}
    options = {"table": "t", "url": "postgresql://h/d"} if format == "postgres" else options
    options = {"topic": "t", "bootstrap_servers": "h:9"} if format == "kafka" else options
    assert open_target(Target(format=format, options=options), pipeline="o", channel="main")


def test_importing_targets_loads_nothing_that_only_some_need() -> None:
    program = (
        "import sys, tidegate.targets;"
        "heavy = {'pyspark', 'deltalake', 'psycopg', 'confluent_kafka', 'fastavro'};"
        "assert not heavy & set(sys.modules), 'loaded'"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("table", [all_types(), all_types().clear(), all_types()[2:]])
def test_what_is_encoded_comes_back(table: pl.DataFrame) -> None:
    assert_frame_equal(table_of_bytes(table_to_bytes(table)), table)


def test_safe_names_are_short_and_different() -> None:
    names = [*NAMES, "a_b", "a.b", "A", "a", "x" * 36, "x" * 37]
    safe = [safe_name(name) for name in names]
    assert len({*safe}) == len(names)
    assert max(map(len, safe)) == 45
