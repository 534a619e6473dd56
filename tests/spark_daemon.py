"""PySpark's daemon with everything loaded that a worker of Tidegate needs.

A worker takes two seconds to load it. Those of tests live for a few tests, or until one ends them:
they are forked from a process that has it already. Where there is a fork server, so is the daemon.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

from tests.fork_server import FORKS, forked, wait_for_threads


def run() -> None:
    """Load all of it, and fork workers until the input ends."""
    os.environ.setdefault("POLARS_MAX_THREADS", "1")  # before Polars is loaded, as a worker does
    for module in ("pyspark.worker", "tidegate.tasks.map_task", "tidegate.tasks.step_task"):
        import_module(module)
    wait_for_threads()
    from pyspark.daemon import manager  # noqa: PLC0415 - whoever is forked has it

    manager()


if __name__ == "__main__":
    if (server := os.environ.pop(FORKS, None)) is None:
        run()
    else:
        sys.exit(forked(server, ["tests.spark_daemon", *sys.argv[1:]], os.environ).wait())
