"""Two sessions as one row, beside what the oracle's sessions say: every epoch, every value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from polars import selectors as cs

from tests.nights import examples
from tests.oracle.aggregates import Aggregate, aggregate
from tests.oracle.joins import JoinEpoch, JoinOracle, JoinRules
from tests.properties.join_agreement import (
    by_core,
    in_any_order,
    late_of_core,
    late_of_oracle,
    placed,
    shard_counts,
)
from tests.properties.join_streams import LEFT, RIGHT, Case, Epoch, Row, joins, streams
from tidegate.core.hashing import continue_with_long, xxhash64
from tidegate.core.joins.pair_ids import pair_ids
from tidegate.pipeline import Aggregation, AggregationKind, Join, bind_join

SENT = ("inner", "left", "right", "full")
_OUTER = {"left": ("left", "full"), "right": ("right", "full")}
_KINDS: tuple[AggregationKind, ...] = ("count", "sum", "min", "first", "collect")


def aggregations(side: str) -> tuple[Aggregation, ...]:
    return tuple(
        Aggregation(
            kind=kind,
            input_column=None if kind == "count" else "v",
            output_name=f"{kind}_{side}",
        )
        for kind in _KINDS
    )


Span = tuple[str, tuple[Any, ...], int, int, tuple[Row, ...]]  # side, key, first, last, rows


class SessionOracle(JoinOracle):
    """The oracle, noting which sessions it pairs, and which it lets go alone."""

    def __init__(self, rules: JoinRules) -> None:
        super().__init__(rules)
        self._type = rules.type
        self.sent: list[tuple[Span | None, Span | None]] = []

    def _pair_all(self, left: Any, right: Any, result: JoinEpoch) -> None:
        super()._pair_all(left, right, result)
        self.sent.append((_span(left), _span(right)))

    def _session_over(self, session: Any, watermark_us: int | None) -> bool:
        over = super()._session_over(session, watermark_us)
        if over and self._type in _OUTER[session.side] and not session.events[0].done:
            alone = _span(session)
            self.sent.append((alone, None) if session.side == "left" else (None, alone))
        return over


def _span(session: Any) -> Span:
    rows = tuple(event.row for event in session.events)
    return session.side, session.key, session.first_us, session.last_us, rows


def by_oracle(
    rules: JoinRules, stream: Sequence[Epoch]
) -> Iterator[tuple[list[tuple[Span | None, Span | None]], JoinEpoch]]:
    oracle = SessionOracle(rules)
    for left, right, watermark_us in placed(stream):
        oracle.sent = []
        yield oracle.sent, oracle.epoch(left, right, watermark_us)
    oracle.sent = []
    yield oracle.sent, oracle.flush()


def result(join: Join, rules: JoinRules, left: Span | None, right: Span | None) -> Row:
    """A row as the documents say it, computed anew from all rows of both sessions."""
    known = [span for span in (left, right) if span is not None]
    row: Row = dict(zip(join.on, known[0][1], strict=True))
    for side, span in (("left", left), ("right", right)):
        row[f"{side}_window_start"] = None if span is None else span[2]
        row[f"{side}_window_end"] = None if span is None else span[3] + rules.gap_us
        row[f"{side}_session_id"] = None if span is None else _id(join, known[0][1], span[2])
    for side, span in (("left", left), ("right", right)):
        wanted = [
            Aggregate(kind=a.kind, input_column=a.input_column, output_name=a.output_name)
            for a in aggregations(side)
        ]
        missing = {each.output_name: None for each in wanted}
        row |= missing if span is None else aggregate(wanted, span[4])
    starts = [-(2**63) if span is None else span[2] for span in (left, right)]
    row["match_ts"] = max(span[2] for span in known)
    key = _columns(join, known[0][1])
    nulls = [pl.Series([value is None]) for value in known[0][1]]
    row["pair_id"] = pair_ids([*key, *nulls, *(pl.Series([each]) for each in starts)])[0]
    return row


def _id(join: Join, key: tuple[Any, ...], start: int) -> int:
    hashes = xxhash64(_columns(join, key))
    return int(continue_with_long(hashes, pl.Series([start]).to_numpy())[0])


def _columns(join: Join, key: tuple[Any, ...]) -> list[pl.Series]:
    types = {"user": pl.String(), "site": pl.Int64()}
    return [pl.Series([value], dtype=types[name]) for name, value in zip(join.on, key, strict=True)]


@examples(3 / 10)
@given(
    case=joins(kinds=("session_session",)),
    type_=st.sampled_from(SENT),
    stream=streams(),
    shards=shard_counts,
)
def test_every_epoch_sends_the_sessions_that_the_rules_say(
    case: Case, type_: str, stream: list[Epoch], shards: list[int]
) -> None:
    given_ = case.join.model_dump() | {
        "type": type_,
        "condition": None,
        "output": "sessions",
        "left_aggregations": aggregations("left"),
        "right_aggregations": aggregations("right"),
    }
    join = Join.from_dict(given_)
    rules = replace(case.rules, type=type_, left_only=None, right_only=None, both=None)
    got = by_core(join, stream, shards, restarting=True)
    ids = []
    for epoch, (sent, expected) in zip(got, by_oracle(rules, stream), strict=True):
        rows = epoch.rows.with_columns(cs.datetime().cast(pl.Int64)).to_dicts()
        assert in_any_order(rows) == in_any_order(
            [result(join, rules, left, right) for left, right in sent]
        )
        assert late_of_core(epoch) == late_of_oracle(expected)
        assert list(epoch.rows.columns) == list(bind_join(join, LEFT, RIGHT).output_schema)
        ids += epoch.rows["pair_id"].to_list()
    assert len(set(ids)) == len(ids)
