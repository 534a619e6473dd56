"""Figures without bounds: `python -m benchmarks.engine W1 --system spark`."""

from __future__ import annotations

import argparse

from benchmarks.engine.cases import CASES
from benchmarks.engine.measuring import measure
from benchmarks.engine.report import show
from benchmarks.engine.sides import SYSTEMS


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", nargs="+", choices=CASES)
    parser.add_argument("--system", choices=SYSTEMS, action="append")
    arguments = parser.parse_args()
    for name in arguments.cases:
        show([measure(system, CASES[name]) for system in arguments.system or SYSTEMS])


if __name__ == "__main__":
    main()
