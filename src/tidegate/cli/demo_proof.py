"""Whether the demo is right: all clicks counted again, in one go, without Tidegate.

    clicks -> [Polars: who is late, sessions by gap] -> what must be there
    parquet files, state                             -> what is there

The rules in a few lines, for this stream: a click is late if the watermark before its epoch is
past its own gap, unless it falls into a session that is still held; all others make sessions, of
which those are out that the last watermark is past.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import polars as pl

from tidegate.cli.demo_pipeline import DISORDER_MS, GAP_MS, NAME, DemoPlan
from tidegate.state import folder_catalog

CLICK: Final = ("user_id", "event_time", "page", "amount", "duration_ms")
SESSION: Final = (
    "user_id",
    "window_start",
    "window_end",
    "clicks",
    "reading_ms",
    "entry",
    "exit",
)
_GAP: Final = pl.duration(milliseconds=GAP_MS)
_DISORDER: Final = pl.duration(milliseconds=DISORDER_MS)
_SHOWN: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """What a run comes to."""

    out: pl.DataFrame
    """The sessions that are over."""
    held: pl.DataFrame
    """The sessions that are still open."""
    late: pl.DataFrame

    @property
    def clicks(self) -> int:
        """The clicks of all three."""
        return clicks_of(self.out) + clicks_of(self.held) + self.late.height

    @property
    def sessions(self) -> pl.DataFrame:
        """Those that are over and those that are `open`, with `length_us`, longest first."""
        length = pl.col("window_end") - pl.col("window_start") - _GAP
        return (
            pl.concat([self.out.with_columns(open=False), self.held.with_columns(open=True)])
            .with_columns(length_us=length.dt.total_microseconds())
            .sort("length_us", "window_start", descending=[True, False])
        )


def clicks_of(sessions: pl.DataFrame) -> int:
    """The clicks in sessions."""
    return int(sessions["clicks"].sum())


def judged_clicks(plan: DemoPlan) -> pl.DataFrame:
    """All clicks in order of arrival, each with the watermark that judges it, and `late`."""
    rows = plan.clicks.rows(0, plan.rows, CLICK).with_row_index("row")
    epoch = (pl.col("row") // plan.rows_per_epoch + 1).alias("epoch")
    clicks = rows.with_columns(epoch)
    watermarks = (
        clicks.group_by("epoch")
        .agg(pl.col("event_time").max())
        .sort("epoch")
        .select("epoch", watermark=(pl.col("event_time").cum_max() - _DISORDER).shift(1))
    )
    behind = (pl.col("event_time") + _GAP < pl.col("watermark")).fill_null(value=False)
    judged = clicks.join(watermarks, on="epoch", maintain_order="left").with_columns(late=behind)
    return judged.with_columns(
        late=pl.col("late") & ~pl.col("row").is_in(_covered(judged).implode())
    )


def _covered(clicks: pl.DataFrame) -> pl.Series:
    """Clicks behind the watermark that fall into a session which was held before their epoch."""
    epochs = clicks.filter("late").partition_by("epoch", as_dict=True)
    return pl.concat(
        [pl.Series("row", [], pl.UInt32)]
        + [_covered_in(rows, clicks, epoch) for (epoch,), rows in epochs.items()]
    )


def _covered_in(behind: pl.DataFrame, clicks: pl.DataFrame, epoch: int) -> pl.Series:
    before = ~pl.col("late") & (pl.col("epoch") < epoch)
    users = pl.col("user_id").is_in(behind["user_id"].unique().implode())
    held = _sessions(clicks.filter(before & users))
    both = behind.join(held, on="user_id")
    is_held = pl.col("window_end") >= pl.col("watermark")
    inside = pl.col("event_time").is_between("window_start", pl.col("window_end") - _GAP)
    return both.filter(is_held & inside)["row"]


def expected(clicks: pl.DataFrame) -> Tables:
    """What must come of clicks that are judged."""
    sessions = _sessions(clicks.filter(~pl.col("late")))
    last_watermark = pl.lit(clicks["event_time"].max()) - _DISORDER
    over = pl.col("window_end") < last_watermark
    return Tables(
        out=sessions.filter(over),
        held=sessions.filter(~over),
        late=clicks.filter("late").select(CLICK),
    )


def _sessions(clicks: pl.DataFrame) -> pl.DataFrame:
    """Clicks of a user that are at most a gap apart."""
    ordered = clicks.sort("user_id", "event_time", "row")
    opens = pl.col("event_time").diff().over("user_id").fill_null(2 * _GAP) > _GAP
    return (
        ordered.with_columns(nth=opens.cum_sum())
        .group_by("nth")
        .agg(
            pl.col("user_id").first(),
            pl.col("event_time").first().alias("window_start"),
            (pl.col("event_time").last() + _GAP).alias("window_end"),
            pl.len().cast(pl.Int64).alias("clicks"),
            pl.col("duration_ms").cast(pl.Int64).sum().alias("reading_ms"),
            pl.col("page").first().alias("entry"),
            pl.col("page").last().alias("exit"),
        )
        .select(SESSION)
    )


def found(plan: DemoPlan) -> Tables:
    """What is in the files and in the state."""
    return Tables(
        out=pl.read_parquet(plan.sessions / "*.parquet").select(SESSION),
        held=_held(plan),
        late=pl.read_parquet(plan.late / "*.parquet").select(CLICK),
    )


def _held(plan: DemoPlan) -> pl.DataFrame:
    """The sessions of the table of keys, as it was folded at the end of the run."""
    rows = [
        {**json.loads(key.group_key), **window}
        for key in folder_catalog(plan.state).folded(NAME)
        for window in json.loads(key.state_blob)["windows"]
    ]
    instants = [
        pl.col(name).str.to_datetime(time_unit="us", time_zone="UTC")
        for name in ("window_start", "window_end")
    ]
    schema = {"user_id": pl.Int64, "clicks": pl.Int64, "reading_ms": pl.Int64}
    texts = {name: schema.get(name, pl.String) for name in SESSION}
    return pl.DataFrame(rows, schema=texts).with_columns(instants)


def differences(must: Tables, there: Tables) -> list[str]:
    """What is missing and what is too much, in words; nothing if all is right."""
    return [
        *_compared("finished sessions", must.out, there.out),
        *_compared("open sessions", must.held, there.held),
        *_compared("late clicks", must.late, there.late),
    ]


def _compared(what: str, must: pl.DataFrame, there: pl.DataFrame) -> Iterator[str]:
    """Rows that one has more often than the other."""
    columns = must.columns
    both = pl.concat(
        [
            must.with_columns(pl.lit(1).alias("_n")),
            there.cast(must.schema).with_columns(pl.lit(-1).alias("_n")),
        ]
    )
    surplus = both.group_by(columns).agg(pl.col("_n").sum()).filter(pl.col("_n") != 0)
    for word, rows in (
        ("missing", surplus.filter(pl.col("_n") > 0)),
        ("too much", surplus.filter(pl.col("_n") < 0)),
    ):
        if rows.height:
            examples = rows.drop("_n").sort(columns).head(_SHOWN).rows()
            shown = "; ".join(", ".join(map(str, row)) for row in examples)
            yield f"{what}: {rows['_n'].abs().sum()} {word}, for example {shown}"
