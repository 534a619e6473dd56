"""Reading a target back with Spark: by Spark itself where it can, else through the driver."""

from __future__ import annotations

import glob

import polars as pl
from pyspark.sql import DataFrame, SparkSession

from tidegate.pipeline import MAIN, Pipeline
from tidegate.spark.session import spark_session
from tidegate.targets import FilesWriter, open_target
from tidegate.targets.reading import read_target


def read_with_spark(
    spark: SparkSession | None, pipeline: Pipeline, schema: pl.Schema | None = None
) -> DataFrame:
    """As `read_target`, for Spark: parquet is read by its tasks, any other format by the driver."""
    spark = spark or spark_session()
    target, name, store = pipeline.target, pipeline.name, pipeline.state_store
    if target.format == "parquet":
        writer = open_target(target, pipeline=name, channel=MAIN)
        files = writer.visible_files() if isinstance(writer, FilesWriter) else []
        if files and not any(_looks_like_a_pattern(str(file)) for file in files):
            paths = [f"file://{file}" for file in files]  # Hadoop wants spaces as they are
            return spark.read.option("mergeSchema", "true").parquet(*paths)
    rows = read_target(target, pipeline=name, schema=schema, store=store)
    return spark.createDataFrame(rows.to_arrow())


def _looks_like_a_pattern(path: str) -> bool:
    """Whether Spark would not take the path literally."""
    return glob.has_magic(path) or any(each in path for each in "{}\\")
