"""R16: what a window hands on, and what a second window makes of it, epoch by epoch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from tests.nights import examples
from tests.oracle.engine import rules_of
from tests.oracle.windows import Oracle
from tests.properties.agreement import of_core, of_oracle
from tests.properties.chains import CoreChain, Edge, OracleChain, Pair, pairs, readable, readers
from tests.properties.streams import Epoch, Row, busy_streams, streams
from tests.properties.targets import Table, Target, plain
from tests.properties.test_final_tables_do_not_depend_on_splits import Arrival, arrivals, cuts
from tidegate.core.local import Epoch as Sent

shard_counts = st.lists(st.integers(1, 5), max_size=10)


@given(pair=pairs(), stream=st.one_of(streams(), busy_streams()), shards=shard_counts)
def test_every_epoch_of_a_reader_is_what_the_rules_say(
    pair: Pair, stream: list[Epoch], shards: list[int]
) -> None:
    """Also behind a flush, after which rows may be late where they are handed on."""
    core, oracle = CoreChain(pair), OracleChain(pair)
    on_edge: Edge = Counter()
    for nth, epoch in enumerate([*stream, None, *stream[:2], None]):
        if epoch is None:
            _, handed, *made = core.flush()
            expected_edge, *expected = oracle.flush()
        else:
            _, handed, *made = core.epoch(epoch)
            expected_edge, *expected = oracle.epoch(epoch)
        assert handed == expected_edge
        on_edge = _after(on_edge, handed)
        for got, wanted in zip(made, expected, strict=True):
            assert _without_late(of_core(pair.second, got)) == _without_late(
                of_oracle(pair.second, wanted, got.rows.schema)
            )
            assert got.late.height == len(wanted.late)
        for count in shards[nth : nth + 1]:
            core.restart(count)


def _after(on_edge: Edge, handed: Edge) -> Edge:
    """What readers have: no row is taken back that they do not have."""
    left = Counter(on_edge)
    for (sign, row), count in handed.items():
        left[1, row] += sign * count
    assert all(count >= 0 for count in left.values())
    return left


def _without_late(epoch: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in epoch.items() if name != "late"}


@examples(0.5)
@given(pair=pairs(), stream=st.one_of(streams(), busy_streams()), shards=st.integers(1, 4))
def test_the_final_table_of_a_reader_is_computed_of_the_final_table_it_reads(
    pair: Pair, stream: list[Epoch], shards: int
) -> None:
    read, made = final_tables(pair, stream, shards)
    assert made == batch(pair, read.values())


@examples(0.5)
@given(data=st.data(), arrival=arrivals(), cuts_one=cuts, cuts_other=cuts)
def test_neither_epochs_nor_shards_change_the_final_table_of_a_reader(
    data: st.DataObject, arrival: Arrival, cuts_one: list[int], cuts_other: list[int]
) -> None:
    if not readable(arrival.window):
        return
    pair, shards = data.draw(readers(arrival.window)), data.draw(st.integers(1, 5))
    one = final_tables(pair, arrival.epochs(cuts_one), 1)
    assert one == final_tables(pair, arrival.epochs(cuts_other), shards)


def final_tables(pair: Pair, stream: Iterable[Epoch], shards: int) -> tuple[Table, Table]:
    """What the targets of both windows hold after a flush."""
    chain, read, made = CoreChain(pair, shards), Target(pair.first), Target(pair.second)

    def take(first: Sent, *second: Sent) -> None:
        read.take(first)
        for sent in second:
            assert sent.late.is_empty(), "nothing is late by being handed on"
            made.take(sent)
            made.inserted &= made.table.keys()  # a window that lost all rows is new again

    for epoch in stream:
        first, _, second = chain.epoch(epoch)
        take(first, second)
    first, _, *last = chain.flush()
    take(first, *last)
    return read.without("revision"), made.without("revision")


def batch(pair: Pair, rows: Iterable[Row]) -> Table:
    """The second window over rows of the first, all at once."""
    oracle, target = Oracle(rules_of(pair.second)), Target(pair.second)
    placed = [
        _floats(row) | {"event_us": _time_us(pair, row), "lane": 0, "offset": nth}
        for nth, row in enumerate(rows)
    ]
    for epoch in (oracle.epoch(placed, None), oracle.flush()):
        target.apply([plain(row) for row in epoch.rows], [plain(row) for row in epoch.retracted])
    return target.without("revision")


def _time_us(pair: Pair, row: Row) -> int:
    return int({**row, "window_time": row["window_end"] - 1}[pair.time_column])


def _floats(row: Row) -> Row:
    """The row with NaN again, which has a name in plain values."""
    return {name: float("nan") if value == "NaN" else value for name, value in row.items()}
