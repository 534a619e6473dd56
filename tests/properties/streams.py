"""Random windows and random streams, small and nasty on purpose."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from hypothesis import strategies as st

from tidegate.pipeline import Aggregation, Window

COLUMNS = {"user": "string", "site": "long", "value": "long", "price": "double", "own_gap": "long"}

Row = dict[str, Any]


@dataclass(frozen=True)
class Epoch:
    """Rows of one epoch and the watermark behind it, in microseconds."""

    rows: tuple[Row, ...]
    watermark_us: int | None


AGGREGATIONS = (
    Aggregation(kind="count"),
    Aggregation(kind="count_col", input_column="value"),
    Aggregation(kind="sum", input_column="value"),
    Aggregation(kind="min", input_column="value"),
    Aggregation(kind="max", input_column="price"),
    Aggregation(kind="min", input_column="price"),
    Aggregation(kind="avg", input_column="value"),
    Aggregation(kind="first", input_column="value"),
    Aggregation(kind="last", input_column="price"),
    Aggregation(kind="count_distinct", input_column="value"),
    Aggregation(kind="collect", input_column="value"),
)


@st.composite
def windows(
    draw: st.DrawFn, *, kinds: tuple[str, ...] = ("session", "tumbling", "hopping")
) -> Window:
    """Any window, its times a few milliseconds, so that boundaries are met by chance."""
    kind = draw(st.sampled_from(kinds))
    late_data = draw(st.sampled_from(["drop", "reopen", "side_output", "reassign"]))
    emit = draw(
        st.sampled_from(["on_watermark", "on_window_close", "on_update", "changelog", "every"])
    )
    return Window.from_dict(
        {
            "kind": kind,
            "group_by": draw(st.sampled_from([("user",), ("user", "site")])),
            "aggregations": AGGREGATIONS,
            "late_data": late_data,
            "max_lateness_ms": draw(st.integers(0, 20)) if late_data == "reassign" else None,
            "allowed_lateness_ms": draw(st.one_of(st.integers(0, 20), st.just("unbounded"))),
            "emit": emit,
            "every_ms": draw(st.integers(1, 15)) if emit == "every" else None,
            **draw(_shape(kind)),
        }
    )


def _shape(kind: str) -> st.SearchStrategy[dict[str, Any]]:
    if kind == "session":
        return st.one_of(
            st.fixed_dictionaries(
                {"gap_ms": st.integers(1, 10), "max_session_duration_ms": st.integers(11, 60)}
            ),
            st.fixed_dictionaries(
                {
                    "gap_column": st.just("own_gap"),
                    "max_session_duration_ms": st.integers(1, 60),
                    "nonpositive_gap": st.sampled_from(["drop", "keep"]),
                }
            ),
        )
    width = st.integers(1, 12)
    offset = st.integers(-15, 15)
    if kind == "tumbling":
        return st.fixed_dictionaries({"width_ms": width, "offset_ms": offset})
    return width.flatmap(
        lambda width_ms: st.fixed_dictionaries(
            {"width_ms": st.just(width_ms), "hop_ms": st.integers(1, width_ms), "offset_ms": offset}
        )
    )


def rows(times_ms: st.SearchStrategy[int]) -> st.SearchStrategy[Row]:
    """A row of few keys, with NULLs, ties and NaN."""
    return st.fixed_dictionaries(
        {
            "event_us": times_ms.map(lambda ms: ms * 1000),
            "user": st.sampled_from(["a", "b", None]),
            "site": st.sampled_from([1, None]),
            "value": st.one_of(st.none(), st.integers(-3, 3)),
            "price": st.sampled_from([None, 0.5, -1.0, float("nan")]),
            "own_gap": st.one_of(st.none(), st.integers(-1, 10)),
        }
    )


@st.composite
def streams(draw: st.DrawFn) -> list[Epoch]:
    """Epochs whose watermark moves on while rows come early, in time and late."""
    epochs, watermark_ms = [], draw(st.integers(-40, 0))
    for _ in range(draw(st.integers(1, 6))):
        near = st.integers(watermark_ms - 40, watermark_ms + 40)
        batch = tuple(draw(st.lists(rows(near), max_size=8)))
        watermark_ms += draw(st.sampled_from([0, 1, 5, 10, 30, 80]))
        epochs.append(Epoch(batch, draw(st.sampled_from([None, watermark_ms * 1000]))))
    return epochs


@st.composite
def busy_streams(draw: st.DrawFn) -> list[Epoch]:
    """More epochs and rows of fewer keys, on a coarse grid: sessions meet, merge, and reach caps.

    Some times lie a microsecond beside the grid: boundaries have two sides. Rows come from a
    seed, since values that are drawn one by one are too often alike.
    """
    random, most = Random(draw(st.integers(0, 2**32))), draw(st.integers(3, 9))
    epochs, watermark, grid_us = [], 0, draw(st.integers(2, 8)) * 1000
    for _ in range(draw(st.integers(5, 9))):
        batch = [busy_row(random, watermark, grid_us) for _ in range(random.randint(1, most))]
        watermark += random.choice([0, 0, 1, 2, 3, 8])
        watermark_us = watermark * grid_us + random.choice([0, 0, 1, -1])
        epochs.append(Epoch(tuple(batch), random.choice([watermark_us] * 5 + [None])))
    return epochs


def busy_row(random: Random, watermark: int, grid_us: int) -> Row:
    """A row of one of two keys, rather ahead of the watermark than behind it."""
    return {
        "event_us": random.randint(watermark - 3, watermark + 9) * grid_us
        + random.choice([0, 0, 0, 0, 1, -1]),
        "user": random.choice(["a", "a", "a", "a", None]),
        "site": 1,
        "value": random.choice([None, *range(-3, 4)]),
        "price": random.choice([None, 0.5, -1.0, float("nan")]),
        "own_gap": random.choice([None, -1, *range(9)]),
    }
