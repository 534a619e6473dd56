"""Figures as tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from benchmarks.engine.measuring import Measured

WIDTH = 120


def show(measured: Sequence[Measured]) -> None:
    """Print systems on one case beside each other: rates, memory, and where the time goes."""
    console = Console(width=WIDTH)
    console.print()
    console.print(_rates(measured))
    for each in measured:
        parts = sorted(each.warm.parts_s().items(), key=lambda part: -part[1])
        told = "  ".join(f"{name} {seconds:.3f}" for name, seconds in parts)
        console.print(f"{each.system}, warm batch, median s per part: {told or 'not reported'}")


def show_summary(lines: Sequence[tuple[str, str, str]]) -> None:
    """Print each bound with what was found."""
    table = Table("what", "found", "bound", title="bounds", title_justify="left")
    for line in lines:
        table.add_row(*line)
    Console(width=WIDTH).print("\n", table)


def _rates(measured: Sequence[Measured]) -> Table:
    case = measured[0].case
    title = f"{case.name}: {measured[0].cold.rows:,} events, {case.rows_per_batch:,} per batch"
    table = Table(title=title, title_justify="left")
    for column in ("system", "cold events/s", "warm events/s", "cold s", "warm s"):
        table.add_column(column, justify="left" if column == "system" else "right")
    for column in ("warm batch s", "batches", "sessions", "late", "peak PSS MB"):
        table.add_column(column, justify="right")
    for each in measured:
        table.add_row(*_row(each))
    if len(measured) == 2:
        cold, warm = ratios(*measured)
        table.add_row("ratio", f"{cold:.2f}", f"{warm:.2f}")
    return table


def _row(each: Measured) -> tuple[str, ...]:
    cold, warm = each.cold, each.warm
    return (
        each.system,
        f"{cold.events_per_s:,.0f}",
        f"{warm.events_per_s:,.0f}",
        f"{cold.seconds:.1f}",
        f"{warm.seconds:.1f}",
        f"{warm.batch_s:.3f}",
        f"{len(warm.batches)}",
        f"{warm.sessions:,}",
        f"{warm.late:,}",
        f"{each.peak_bytes / 2**20:,.0f}",
    )


def ratios(spark: Measured, tidegate: Measured) -> tuple[float, float]:
    """How many times Spark's rate, cold and warm."""
    return (
        tidegate.cold.events_per_s / spark.cold.events_per_s,
        tidegate.warm.events_per_s / spark.warm.events_per_s,
    )
