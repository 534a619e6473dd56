"""The example of a package with an aggregate prints what it says."""

from __future__ import annotations

import runpy

import pytest

from tests.fix_packages import GEOMETRIC_MEAN, Packages


def test_the_example_prints_its_expected_output(
    packages: Packages, capsys: pytest.CaptureFixture[str]
) -> None:
    packages.install_geometric_mean()
    runpy.run_path(str(GEOMETRIC_MEAN / "growth.py"), run_name="__main__")
    assert capsys.readouterr().out == (GEOMETRIC_MEAN / "expected_output.txt").read_text()
