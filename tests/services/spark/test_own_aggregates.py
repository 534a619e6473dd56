"""An aggregate of a package, computed by workers that get it as a zip; and by none without it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from tests.fix_packages import Packages
from tests.services.home import Home, clicks, sessions
from tidegate.cli import app
from tidegate.errors import TidegateError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GROWTH = {"kind": "geometric_mean", "input_column": "factor", "output_name": "growth"}


@contextmanager
def shipped(spark: SparkSession, archive: str) -> Iterator[None]:
    """Workers have the zip on their path, as `addPyFile` puts it there, for a time."""
    spark.sparkContext.addPyFile(archive)
    yield
    name = Path(archive).name
    (spark.sparkContext._python_includes or []).remove(name)
    sys.path[:] = [each for each in sys.path if Path(each).name != name]


def test_an_aggregate_of_a_package_is_computed_and_shown_where_the_package_is(
    home: Home, packages: Packages
) -> None:
    """In one test, since a worker that has had the zip once may keep it."""
    folder = packages.install_geometric_mean()
    archive = shutil.make_archive(str(home.folder / f"growth-{home.name}"), "zip", folder)
    first = clicks(("ann", 1), ("bob", 2), factor=[2.0, 3.0])
    pipeline = home.pipeline(home.memory(first), window=sessions(aggregations=[GROWTH]))

    with pytest.raises(TidegateError, match=r"geometric_mean.*: not installed here"):
        home.run(pipeline, shards=2)
    with shipped(home.spark, archive):
        home.run(pipeline, shards=2)
        home.put(clicks(("ann", 5), ("cat", 50), factor=[8.0, 1.0]))
        home.run(pipeline, shards=1)

    assert dict(home.table().select("user", "growth").rows()) == {
        "ann": pytest.approx(4.0),
        "bob": pytest.approx(3.0),
    }
    assert '"growth": 1.0' in shown(home)
    packages.uninstall("tidegate-geometric-mean")
    assert "of package tidegate-geometric-mean: not installed here" in shown(home)


def shown(home: Home) -> str:
    """What `tidegate state show` prints of all keys."""
    return CliRunner().invoke(app, ["state", "show", str(home.folder / "state"), "--json"]).output
