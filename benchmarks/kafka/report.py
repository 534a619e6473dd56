"""Figures as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

from benchmarks.kafka.cases import PARTITIONS
from benchmarks.kafka.latency import Latency
from benchmarks.kafka.measuring import Drained, Read
from benchmarks.summary import WIDTH


def show_drained(values: str, passes: Sequence[Drained], peak_bytes: int) -> None:
    """Rates from the topic to the table, and the share of each part in the passes."""
    title = f"{values} in {PARTITIONS} partitions, to PostgreSQL: {passes[0].rows:,} events"
    table = _table(title, "pass", "events/s", "s", "epochs", "sessions", "peak PSS MB")
    for nth, each in enumerate(passes):
        table.add_row(
            f"{'warm' if nth else 'cold'} {each.rows_per_epoch:,}",
            f"{each.events_per_s:,.0f}",
            f"{each.seconds:.1f}",
            f"{len(each.batches)}",
            f"{each.sessions:,}",
            "" if nth else f"{peak_bytes / 2**20:,.0f}",
        )
    console = _console(table)
    for each in passes[1:]:
        told = "  ".join(f"{name} {share:.1%}" for name, share in each.shares().items())
        console.print(f"warm {each.rows_per_epoch:,}, share of each part: {told}")


def show_read(values: str, reads: Sequence[Read]) -> None:
    """Rates of reading and decoding alone."""
    title = f"{values} in {PARTITIONS} partitions, read and decoded alone: {reads[0].rows:,} events"
    table = _table(title, "reader", "cold events/s", "warm events/s", "s of passes", "peak PSS MB")
    for each in reads:
        table.add_row(
            each.system,
            f"{each.cold_per_s:,.0f}",
            f"{each.warm_per_s:,.0f}",
            "  ".join(f"{seconds:.1f}" for seconds in each.seconds),
            f"{each.peak_bytes / 2**20:,.0f}",
        )
    _console(table)


def show_latency(found: Latency) -> None:
    """From produced to visible."""
    title = f"Kafka to a visible row: {found.events:,} events at {found.rate:,.0f} a second"
    table = _table(title, "", "p50 ms", "p95 ms", "p99 ms", "largest ms")
    ms = (found.p50_ms, found.p95_ms, found.p99_ms, found.largest_ms)
    table.add_row("from produced to visible", *(f"{each:.0f}" for each in ms))
    console, told = _console(table), found.pipeline
    console.print(
        f"{told['epochs']} epochs, the median one with {told['rows']:.0f} rows "
        f"in {told['seconds']:.3f} s: {_seconds(told['parts'])}"
    )


def _seconds(parts: Mapping[str, float]) -> str:
    ordered = sorted(parts.items(), key=lambda part: -part[1])
    return "  ".join(f"{name} {seconds:.3f}" for name, seconds in ordered)


def _table(title: str, first: str, *figures: str) -> Table:
    table = Table(first, title=title, title_justify="left")
    for figure in figures:
        table.add_column(figure, justify="right")
    return table


def _console(table: Table) -> Console:
    console = Console(width=WIDTH)
    console.print()
    console.print(table)
    return console
