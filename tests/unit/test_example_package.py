"""The example of a package with an aggregate prints what it says, and registers what is there."""

from __future__ import annotations

import runpy
import tomllib

import pytest

from tests.fix_packages import GEOMETRIC_MEAN, Packages
from tidegate.pipeline.aggregate_lookup import GROUP


def test_the_example_prints_its_expected_output(
    packages: Packages, capsys: pytest.CaptureFixture[str]
) -> None:
    packages.install_geometric_mean()
    runpy.run_path(str(GEOMETRIC_MEAN / "growth.py"), run_name="__main__")
    assert capsys.readouterr().out == (GEOMETRIC_MEAN / "expected_output.txt").read_text()


def test_the_package_registers_its_aggregate_as_the_tests_do() -> None:
    project = tomllib.loads((GEOMETRIC_MEAN / "pyproject.toml").read_text())["project"]
    assert project["entry-points"] == {
        GROUP: {"geometric_mean": "tidegate_geometric_mean:GEOMETRIC_MEAN"}
    }
    assert project["name"] == "tidegate-geometric-mean"
