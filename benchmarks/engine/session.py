"""The Spark session of a side: the same for both, two cores, a heap of 4 GB."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from tidegate.spark.session import OWN_SETTINGS, quiet_option


def start(folder: Path, jvm_options: str = "") -> SparkSession:
    """Start a session that writes nowhere but in `folder`."""
    os.environ.update(
        PYSPARK_PYTHON=sys.executable,
        PYSPARK_DRIVER_PYTHON=sys.executable,
        SPARK_LOCAL_IP="127.0.0.1",
    )
    builder = SparkSession.builder.master("local[2]").appName("tidegate-bench")
    for key, value in settings(folder, jvm_options).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def settings(folder: Path, jvm_options: str = "") -> dict[str, str]:
    """Those of both sides, but for options of the JVM."""
    return {
        **OWN_SETTINGS,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"{jvm_options} {quiet_option()}",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "4g",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
