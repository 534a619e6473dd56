"""Drivers in processes of their own that share the JVM of the tests.

    [test] gateway of its Spark -> environment -> [driver] attached() -> SparkSession

A JVM takes as long to start as ten epochs do. What Tidegate makes durable is made so by Python, in
the driver and its workers: these are its own, and are killed; of a JVM nobody would find anything.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil

from tests.fork_server import DRIVER, sessions_of

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

ROOT: Final = Path(__file__).parents[2]
_PORT: Final = "PYSPARK_GATEWAY_PORT"
_SECRET: Final = "PYSPARK_GATEWAY_SECRET"


def active_context() -> SparkContext | None:
    """The Spark of this process, if it has one."""
    from pyspark import SparkContext  # noqa: PLC0415 - tests without it do not pay for it

    return SparkContext._active_spark_context


def to_attach(context: SparkContext) -> dict[str, str]:
    """What a new driver has to know to use that Spark."""
    gateway = context._gateway
    assert gateway is not None
    parameters = gateway.gateway_parameters
    return {
        _PORT: str(parameters.port),
        _SECRET: str(parameters.auth_token),
        DRIVER: str(uuid.uuid4()),
    }


def attached() -> SparkSession | None:
    """A session in the JVM that the environment names; None: the driver is to start its own."""
    if _PORT not in os.environ:
        return None
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    gateway = launch_gateway()  # type: ignore[no-untyped-call]  # PySpark says no types here
    there = gateway.jvm.org.apache.spark.SparkContext.getOrCreate()
    context = SparkContext(
        gateway=gateway,
        jsc=gateway.jvm.JavaSparkContext.fromSparkContext(there),
        conf=SparkConf(_jconf=there.conf()),
    )
    planted = {name: each for name, each in os.environ.items() if name.startswith("TIDEGATE_")}
    context.environment.update(planted, PYTHONPATH=str(ROOT))
    session = SparkSession(context)
    gateway.jvm.SparkSession.setActiveSession(session._jsparkSession)  # also for who asks Spark
    return session


def processes_of(environment: Mapping[str, str]) -> list[psutil.Process]:
    """The driver that was started with this, its workers, and whoever forks them."""
    found, sessions = [], sessions_of(environment)
    for each in psutil.Process(os.getpid()).children(recursive=True):
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied, ProcessLookupError):
            ours = each.environ().get(DRIVER) == environment[DRIVER]
            if ours or os.getsid(each.pid) in sessions:
                found.append(each)
    return found
