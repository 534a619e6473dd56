"""PySpark's daemon with everything loaded that a worker of Tidegate needs.

A worker takes two seconds to load it. Those of tests live for a few tests, or until one ends them:
they are forked from a process that has it already.
"""

from __future__ import annotations

import os
from importlib import import_module

from pyspark.daemon import manager

if __name__ == "__main__":
    os.environ.setdefault("POLARS_MAX_THREADS", "1")  # before Polars is loaded, as a worker does
    for module in ("pyspark.worker", "tidegate.spark.map_task", "tidegate.spark.step_task"):
        import_module(module)
    manager()
