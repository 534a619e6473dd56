"""The Spark session: the one that is there, or one with settings that suit Tidegate."""

from __future__ import annotations

import atexit
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

# What a task fails of, the driver raises again: nobody has to read it in Java too.
_QUIET = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
logger.executor.name = org.apache.spark.executor.Executor
logger.executor.level = off
logger.tasks.name = org.apache.spark.scheduler.TaskSetManager
logger.tasks.level = off
"""

OWN_SETTINGS: Mapping[str, str] = {
    "spark.python.unix.domain.socket.enabled": "true",  # half the latency of a Python stage
    "spark.shuffle.compress": "false",  # Arrow blobs on a local disk: compressing costs more
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""Of a session that Tidegate makes itself, on this machine."""

OWN_JVM_OPTIONS = "-XX:TieredStopAtLevel=1"
"""As well. The JVM only moves blobs: what its second compiler would take of the cores, in the
first minutes more than the pipeline itself, it never gives back."""

_EPOCH_SETTINGS: Mapping[str, str] = {
    "spark.sql.adaptive.enabled": "false",  # the number of shards is ours to choose
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",  # a row is a blob: pass each on at once
    "spark.sql.session.timeZone": "UTC",
}
"""Of the session that epochs run in; none of them is needed for a right result."""


def spark_session() -> SparkSession:
    """The active session; where there is none, one on this machine."""
    active = SparkSession.getActiveSession()
    return active if active is not None else _new_session()


def _new_session() -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("tidegate")
    for name, value in OWN_SETTINGS.items():
        builder = builder.config(name, value)
    if "SPARK_CONF_DIR" not in os.environ:
        quiet = quiet_option(Path(tempfile.mkdtemp(prefix="tidegate-")))
        options = f"{OWN_JVM_OPTIONS} {quiet}"
        builder = builder.config("spark.driver.extraJavaOptions", options)
    if "MASTER" not in os.environ:
        builder = builder.master("local[*]")
    session = builder.getOrCreate()
    atexit.register(session.stop)  # else workers complain of a driver that vanished
    return session


def quiet_option(folder: Path) -> str:
    """The option of a JVM that says errors only, by a file that this writes to `folder`."""
    settings = folder / "log4j2.properties"
    settings.write_text(_QUIET)
    return f"-Dlog4j2.configurationFile={settings.as_uri()}"


def epoch_session(spark: SparkSession) -> SparkSession:
    """A session beside the user's for the jobs of epochs: same cluster, settings of its own."""
    session = spark.newSession()
    for name, value in _EPOCH_SETTINGS.items():
        session.conf.set(name, value)
    return session


def cores(spark: SparkSession) -> int:
    """How many tasks Spark runs at once, as far as it says."""
    return max(1, spark.sparkContext.defaultParallelism)


def on_this_machine(spark: SparkSession) -> bool:
    """Whether tasks run in the processes of this machine for sure."""
    return str(spark.conf.get("spark.master", "")).startswith("local")
