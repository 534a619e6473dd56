"""Figures as tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from benchmarks.engine.measuring import Measured, Pass
from benchmarks.summary import WIDTH


def show(measured: Sequence[Measured]) -> None:
    """Print systems on one case beside each other: rates, memory, and where the time goes."""
    console = Console(width=WIDTH)
    console.print()
    console.print(_rates(measured))
    for each in measured:
        parts = sorted(each.passes[-1].parts_s().items(), key=lambda part: -part[1])
        told = "  ".join(f"{name} {seconds:.3f}" for name, seconds in parts)
        console.print(f"{each.system}, last pass, median s per part: {told or 'not reported'}")


def _rates(measured: Sequence[Measured]) -> Table:
    case = measured[0].case
    title = f"{case.name}: {measured[0].passes[0].rows:,} events"
    table = Table("system", "pass", title=title, title_justify="left")
    for column in ("events/s", "s", "batches", "batch s", "results", "late", "peak PSS MB"):
        table.add_column(column, justify="right")
    for each in measured:
        for nth, (label, one) in enumerate(zip(each.labels(), each.passes, strict=True)):
            peak = "" if nth else f"{each.peak_bytes / 2**20:,.0f}"
            table.add_row(each.system, label, *_figures(one), peak)
    if len(measured) == 2:
        for label, ratio in ratios(*measured).items():
            table.add_row("ratio", label, f"{ratio:.2f}")
    return table


def _figures(one: Pass) -> tuple[str, ...]:
    return (
        f"{one.events_per_s:,.0f}",
        f"{one.seconds:.1f}",
        f"{len(one.batches)}",
        f"{one.batch_s:.3f}",
        f"{one.results:,}",
        f"{one.late:,}",
    )


def ratios(spark: Measured, tidegate: Measured) -> dict[str, float]:
    """How many times Spark's rate, pass by pass."""
    passes = zip(tidegate.labels(), tidegate.passes, spark.passes, strict=True)
    return {label: ours.events_per_s / theirs.events_per_s for label, ours, theirs in passes}
