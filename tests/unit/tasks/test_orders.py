"""A worker runs an order only with the library and the packages that the driver has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.fix_packages import Packages
from tests.unit.tasks.test_map_task import context
from tidegate.core.operators.spec import OperatorSpec, operator_spec
from tidegate.errors import TidegateError
from tidegate.pipeline import Window, bind
from tidegate.tasks.orders import JobContext, unpacked


def growing(kind: str = "geometric_mean") -> OperatorSpec:
    aggregation = {"kind": kind, "input_column": "factor"}
    parts = {"kind": "tumbling", "width_ms": 9, "aggregations": [aggregation]}
    return operator_spec(bind(Window.from_dict(parts), {"factor": "double"}), ["factors"])


def of_version(number: str) -> JobContext:
    packages = {"geometric_mean": {"package": "tidegate-geometric-mean", "version": number}}
    return replace(context(), operators=(growing(),), aggregate_packages=packages)


def test_a_worker_of_another_version_of_tidegate_is_refused() -> None:
    older = replace(context(), library_version="0.0.1")
    with pytest.raises(TidegateError, match=r"the driver has tidegate 0\.0\.1, a worker "):
        unpacked(older.packed)


def test_a_worker_with_the_same_packages_is_fine(packages: Packages) -> None:
    packages.install_geometric_mean()
    driver = of_version("1")
    assert driver.operators[0].operator is not None
    assert unpacked(driver.packed).operators == (growing(),)


def test_a_worker_without_the_package_is_refused(packages: Packages) -> None:
    packages.install_geometric_mean()
    driver = of_version("1.")
    assert driver.operators[0].operator is not None
    order = driver.packed
    packages.uninstall("tidegate-geometric-mean")
    with pytest.raises(TidegateError) as refused:
        unpacked(order)
    assert str(refused.value) == (
        "a worker lacks aggregates of the driver: aggregate 'geometric_mean', version '1.' "
        "of package tidegate-geometric-mean: not installed here\n"
        "  hint: install the same packages on every machine, or give them to Spark as a zip"
    )


def test_a_worker_with_another_version_of_the_package_is_refused(packages: Packages) -> None:
    packages.install_geometric_mean()
    with pytest.raises(TidegateError, match="here it is version '1' of package tidegate-geo"):
        unpacked(of_version("2").packed)


@pytest.mark.parametrize(("kind", "kept"), [("sum", False), ("first", True), ("last", True)])
def test_positions_are_kept_where_an_aggregate_needs_them(kind: str, kept: bool) -> None:
    assert growing(kind).keeps_positions is kept
