"""The Spark session: the one that is there, or one with settings that suit Tidegate."""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from tidegate.engine.signals import held_back
from tidegate.errors import ConfigError, Problem, SparkUnavailable
from tidegate.pipeline import KEY_GROUPS
from tidegate.spark.class_archive import archive_options
from tidegate.spark.jvm_output import silence, without_noise

OWN_SETTINGS: Mapping[str, str] = {
    # A lost shuffle file makes Spark forget the only executor there is, in this very process.
    # Jobs go on all the same; but its heartbeats fail, and after sixty of them the JVM would exit.
    "spark.executor.heartbeat.maxFailures": str(2**31 - 1),
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
    "spark.sql.execution.arrow.maxBytesPerBatch": str(1 << 20),  # a row of the shuffle is a blob
}
"""Of the session that epochs run in; none of them is needed for a right result."""


def spark_session() -> SparkSession:
    """The active session; where there is none, one on this machine."""
    check_not_remote()
    active = SparkSession.getActiveSession()
    return active if active is not None else _new_session()


def _new_session() -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("tidegate")
    for name, value in OWN_SETTINGS.items():
        builder = builder.config(name, value)
    if "SPARK_CONF_DIR" not in os.environ:
        options = f"{OWN_JVM_OPTIONS} {quiet_option()} {archive_options()}".strip()
        builder = builder.config("spark.driver.extraJavaOptions", options)
    if "MASTER" not in os.environ:
        builder = builder.master("local[*]")
        for name in ("spark.driver.host", "spark.driver.bindAddress"):
            builder = builder.config(name, "127.0.0.1")  # whatever the name of this machine is
    log_no_query_errors()
    _check_java()
    with held_back():  # PySpark, interrupted here, would leave a JVM behind that nobody ends
        session = _started(builder)
        atexit.register(_end, session)
    return session


def log_no_query_errors() -> None:
    """Keep PySpark from logging each error of a query, with the JVM's stack, as well as raising it.

    What is raised says it all, and one row with a value that a transform cannot compute with is
    no reason to print 15 kB. A program that makes its own session decides that itself.
    """
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)


def _started(builder: SparkSession.Builder) -> SparkSession:
    try:
        with without_noise():
            return builder.getOrCreate()
    except Exception as error:
        first, *_ = str(error).strip().splitlines() or [type(error).__name__]
        raise SparkUnavailable(
            f"Spark did not start: {first}\n  hint: `tidegate doctor` looks at what it needs"
        ) from error


def _end(session: SparkSession) -> None:
    """Stop Spark before Python ends: workers would complain of a driver that vanished.

    A signal to all processes of a terminal may have ended the JVM before.
    """
    silence()
    with suppress(Exception):
        session.stop()


def _check_java() -> None:
    """Spark's own launcher says in many lines what one says."""
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else "java"
    if shutil.which(java) is None:
        found = f"JAVA_HOME is {home}, and has no bin/java" if home else "no java on the PATH"
        hint = "install Java 17 (Debian: apt-get install openjdk-17-jre-headless)"
        way = f"{hint}, or set JAVA_HOME to where it is"
        raise SparkUnavailable(f"Spark needs Java 17 or later, found {found}\n  hint: {way}")


def quiet_option() -> str:
    """The option of a JVM that says errors only."""
    settings = Path(__file__).with_name("log4j2.properties")
    return f"-Dlog4j2.configurationFile={settings.as_uri()}"


def epoch_session(spark: SparkSession) -> SparkSession:
    """A clone of the caller's session for epochs to run in, as Spark makes for a streaming query.

    It has the settings, the current catalog and database, the temporary views and the functions
    that the caller's session has now. A change of one of the two is not seen in the other.
    Raises `ConfigError` for a session of Spark Connect.
    """
    if not isinstance(spark, SparkSession):
        raise _remote()
    clone = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())  # noqa: SLF001 - Python has no door to it
    for name, value in _EPOCH_SETTINGS.items():
        clone.conf.set(name, value)
    with _active(spark):
        # Spark does not clone the current catalog.
        clone.catalog.setCurrentCatalog(spark.catalog.currentCatalog())
        if clone.catalog.currentDatabase() != spark.catalog.currentDatabase():
            clone.catalog.setCurrentDatabase(spark.catalog.currentDatabase())
    return clone


@contextmanager
def _active(spark: SparkSession) -> Iterator[None]:
    """Make Spark look settings up in this session, for example of catalogs, in this thread."""
    jvm: Any = spark._jvm  # noqa: SLF001 - as above
    sessions = jvm.org.apache.spark.sql.classic.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)  # noqa: SLF001 - as above
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def check_not_remote() -> None:
    """Refuse to start where sessions are those of Spark Connect; raises `ConfigError`."""
    if is_remote() or "SPARK_REMOTE" in os.environ:
        raise _remote()


def _remote() -> ConfigError:
    found, expected = "Spark Connect", "a classic session, whose driver is this process"
    hint = (
        "run where the driver of the cluster runs (spark-submit), without SPARK_REMOTE and "
        ".remote(...); serverless compute has Spark Connect only, and cannot run pipelines"
    )
    return ConfigError([Problem("spark", found, expected, hint)])


def cores(spark: SparkSession) -> int:
    """How many tasks Spark runs at once, as far as it says."""
    return max(1, spark.sparkContext.defaultParallelism)


def default_shards(spark: SparkSession) -> int:
    """A shard for each task that runs at once when all executors are there."""
    there = cores(spark)
    if on_this_machine(spark):
        return min(there, KEY_GROUPS)
    settings = dict(spark.sparkContext.getConf().getAll())
    return min(max(there, configured_slots(settings)), KEY_GROUPS)


def configured_slots(settings: Mapping[str, str]) -> int:
    """How many tasks the executors that Spark may start run at once; 0: nothing is said of that.

    When a run begins few of them may be there. `spark.default.parallelism` is what the user says
    of it, which Spark reports by itself.
    """
    if "spark.default.parallelism" in settings:
        return 0
    dynamic = settings.get("spark.dynamicAllocation.enabled", "").lower() == "true"
    most = "spark.dynamicAllocation.maxExecutors" if dynamic else "spark.executor.instances"
    cores_of_each = int(settings.get("spark.executor.cores", 1))
    return int(settings.get(most, 0)) * (cores_of_each // int(settings.get("spark.task.cpus", 1)))


def on_this_machine(spark: SparkSession) -> bool:
    """Whether tasks run in the processes of this machine for sure."""
    return str(spark.conf.get("spark.master", "")).startswith("local")
