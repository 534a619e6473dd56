"""Figures without bounds: `python -m benchmarks.engine W1 --system spark`."""

from __future__ import annotations

import argparse

from benchmarks.engine.cases import CASES, SYSTEMS
from benchmarks.engine.measuring import measure
from benchmarks.engine.report import show


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", nargs="+", choices=CASES)
    parser.add_argument("--system", choices=SYSTEMS["sessions"], action="append")
    arguments = parser.parse_args()
    for case in (CASES[name] for name in arguments.cases):
        asked = arguments.system or SYSTEMS[case.query]
        if unknown := {*asked} - {*SYSTEMS[case.query]}:
            parser.error(f"{case.name} is not measured with {', '.join(unknown)}")
        show([measure(system, case) for system in asked])


if __name__ == "__main__":
    main()
