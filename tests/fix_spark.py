"""A Spark session for tests: small, local, quiet, and in UTC whatever the machine says."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[1]
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Tests are over before the best code of a JVM would pay for its compilation."""


def settings(folder: Path) -> dict[str, str]:
    """Return Spark's settings, with everything it writes in `folder`; imports it, as `spark`."""
    from tidegate.spark.class_archive import archive_options  # noqa: PLC0415
    from tidegate.spark.session import OWN_SETTINGS, quiet_option  # noqa: PLC0415

    return {
        **OWN_SETTINGS,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"{quiet_option()} {archive_options()} {QUICK_START}",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": str(folder / "local"),
        "spark.python.daemon.module": "tests.spark_daemon",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Start Spark once per run; imported here, so that tests without it do not pay for it."""
    from pyspark.sql import SparkSession  # noqa: PLC0415

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
        patch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        builder = SparkSession.builder.master("local[2]").appName("tidegate-tests")
        for key, value in settings(tmp_path_factory.mktemp("spark")).items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        yield session
        session.stop()


@pytest.fixture(autouse=True)
def _active_session(request: pytest.FixtureRequest) -> Iterator[None]:
    """Make the session of the tests the active one again: `createDataFrame` of another one ends it.

    Code that asks Spark for a session, as documents do, would get the settings of that other one.
    """
    used = request.getfixturevalue("spark") if "spark" in request.fixturenames else None
    yield
    if used is not None:
        activate(used)


def activate(session: SparkSession) -> None:
    """Let `SparkSession.builder.getOrCreate()` return this session, in Python and in the JVM."""
    type(session)._activeSession = session
    jvm: Any = session._jvm
    jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session._jsparkSession)
