"""Spark's own Kafka connector reads the same topic, with `from_json`, as one batch.

    python -m benchmarks.kafka.spark_reading SETTINGS

Runs beside another Spark than Tidegate's: imports nothing but that, and Python.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from benchmarks.kafka.sums import BEGIN_US, Sums


def main(settings: dict[str, Any]) -> None:
    builder = SparkSession.builder.master("local[2]").appName("tidegate-bench")
    for key, value in settings["spark"].items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    passes = [_timed(spark, settings) for _ in range(settings["passes"])]
    print(json.dumps({"passes": passes}))
    sys.stdout.flush()
    spark.stop()


def _timed(spark: SparkSession, settings: dict[str, Any]) -> dict[str, Any]:
    began = time.perf_counter()
    sums = _read(spark, settings)
    return {"seconds": time.perf_counter() - began, "sums": asdict(sums)}


def _read(spark: SparkSession, settings: dict[str, Any]) -> Sums:
    records = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", settings["servers"])
        .option("subscribe", settings["topic"])
        .option("startingOffsets", "earliest")
        .option("endingOffsets", "latest")
        .load()
    )
    schema = ", ".join(f"{name} {kind}" for name, kind in settings["columns"].items())
    clicks = records.select(f.from_json(f.col("value").cast("string"), schema).alias("click"))
    summed = clicks.select("click.*").agg(
        f.count("*").alias("rows"),
        f.sum("user_id").alias("users"),
        f.sum(f.unix_micros("event_time") - BEGIN_US).alias("event_us"),
        f.sum("amount").alias("amount"),
        f.sum(f.length("page")).alias("letters"),
    )
    return Sums(**summed.collect()[0].asDict())


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
