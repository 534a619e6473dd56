"""State as bytes and back: equal for every aggregate, type and key; what is not ours is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal

from tests.unit.core.samples import (
    VALUES,
    WINDOW_KINDS,
    Row,
    at,
    columns_of,
    kinds_for,
    run_through,
    some_epochs,
    table,
    window,
)
from tidegate.core.local import Epoch, LocalRun
from tidegate.core.segment_format import from_bytes, to_bytes
from tidegate.core.segment_migrations import STATE_VERSION
from tidegate.core.segments import Segment
from tidegate.errors import StateFormatError
from tidegate.pipeline import Window

GROUPABLE = tuple(name for name in VALUES if name not in ("float", "double"))


def segments_of(run: LocalRun) -> list[Segment]:
    segments = [segment for stack in run.stacks for segment in stack.segments]
    assert segments, "a run with state"
    return segments


def assert_same_segment(left: Segment, right: Segment) -> None:
    assert left.unit_time == right.unit_time
    assert_frame_equal(left.rows, right.rows, check_exact=True)


def run_over(spec: Window, columns: dict[str, str], epochs: Sequence[Sequence[Row]]) -> LocalRun:
    run = LocalRun(spec, columns)
    for rows in epochs:
        run.epoch(table(columns, rows))
    return run


def assert_same_epoch(left: Epoch, right: Epoch) -> None:
    by = ["window_start", *(name for name in left.rows.columns if name in ("user", "key", "left"))]
    for one, other in ((left.rows, right.rows), (left.retracted, right.retracted)):
        assert_frame_equal(one.sort(by), other.sort(by), check_exact=True)
    assert_frame_equal(left.late, right.late)
    assert left.counts == right.counts
    assert left.watermark_us == right.watermark_us


# --- every aggregate over every type ----------------------------------------------------------


@pytest.mark.parametrize("kind", WINDOW_KINDS)
@pytest.mark.parametrize("type_name", VALUES)
def test_state_of_every_aggregate_is_the_same_behind_its_bytes(type_name: str, kind: str) -> None:
    spec = window(kind, kinds_for(type_name))
    run = run_over(spec, columns_of(type_name), some_epochs(type_name))
    for segment in segments_of(run):
        assert_same_segment(from_bytes(to_bytes(segment)), segment)


@pytest.mark.parametrize("type_name", VALUES)
def test_state_of_nothing_but_nulls_is_the_same_behind_its_bytes(type_name: str) -> None:
    spec = window("session", kinds_for(type_name))
    run = run_over(spec, columns_of(type_name), [[at(0, None), at(0, None, "bob")], [at(1, None)]])
    for segment in segments_of(run):
        assert_same_segment(from_bytes(to_bytes(segment)), segment)


@pytest.mark.parametrize("kind", WINDOW_KINDS)
@pytest.mark.parametrize("type_name", VALUES)
def test_a_restored_run_goes_on_as_if_nothing_had_happened(type_name: str, kind: str) -> None:
    columns, epochs = columns_of(type_name), some_epochs(type_name)
    spec = window(kind, kinds_for(type_name), emit="on_update")
    run = run_over(spec, columns, epochs[:2])
    restored = LocalRun.restored(spec, columns, run.saved())
    for rows in epochs[2:]:
        assert_same_epoch(
            restored.epoch(table(columns, rows), 1000), run.epoch(table(columns, rows), 1000)
        )
    assert_same_epoch(restored.flush(), run.flush())


def test_saving_twice_gives_the_same_bytes() -> None:
    spec, columns = window("session", kinds_for("long")), columns_of("long")
    run = run_over(spec, columns, some_epochs("long"))
    assert LocalRun.restored(spec, columns, run.saved()).saved() == run.saved()


# --- sketches ---------------------------------------------------------------------------------


def run_with_sketches(type_name: str = "long") -> LocalRun:
    """A list, a sketch as a set of coupons and a sketch of registers, side by side."""
    sizes = {"list": 500, "coupons": 600, "registers": 5000}
    rows = [at(0, n, user) for user, size in sizes.items() for n in range(size)]
    return run_over(
        window("session", ["count_distinct"]), columns_of(type_name), [rows, [at(0, 1, "one")]]
    )


def test_dense_sketches_are_the_same_behind_their_bytes() -> None:
    for segment in segments_of(run_with_sketches()):
        assert_same_segment(from_bytes(to_bytes(segment)), segment)


def test_restored_sketches_count_on_as_if_nothing_had_happened() -> None:
    columns, run = columns_of("long"), run_with_sketches()
    restored = LocalRun.restored(window("session", ["count_distinct"]), columns, run.saved())
    more = [at(0, 400 + n, user) for user in ("list", "coupons", "registers") for n in range(2000)]
    assert_same_epoch(
        run_through(restored, [more], columns),
        run_through(run, [more], columns),
    )


# --- every key --------------------------------------------------------------------------------


def rows_of_keys(keys: Sequence[Row]) -> list[list[Row]]:
    """Two epochs in which every key has rows, in a few windows."""
    return [
        [key | {"event_us": 150_000 * nth, "value": nth} for nth in range(3) for key in keys],
        [key | {"event_us": 150_000, "value": None} for key in keys[::-1]],
    ]


@pytest.mark.parametrize("kind", WINDOW_KINDS)
@pytest.mark.parametrize("type_name", GROUPABLE)
def test_keys_of_every_type_are_the_same_behind_their_bytes(type_name: str, kind: str) -> None:
    columns = {"key": type_name, "value": "long"}
    epochs = rows_of_keys([{"key": value} for value in (*VALUES[type_name], None)])
    run = run_over(window(kind, ["count", "sum"], group_by=("key",)), columns, epochs)
    for segment in segments_of(run):
        assert_same_segment(from_bytes(to_bytes(segment)), segment)


@pytest.mark.parametrize("kind", WINDOW_KINDS)
@pytest.mark.parametrize("type_name", GROUPABLE)
def test_a_restored_run_knows_keys_of_every_type_again(type_name: str, kind: str) -> None:
    columns = {"key": type_name, "value": "long"}
    first, second = rows_of_keys([{"key": value} for value in (*VALUES[type_name], None)])
    spec = window(kind, ["count", "sum"], group_by=("key",), emit="changelog")
    run = run_over(spec, columns, [first])
    restored = LocalRun.restored(spec, columns, run.saved(), shards=3)
    assert_same_changes(
        restored.epoch(table(columns, second)), run.epoch(table(columns, second)), ["key"]
    )


TWO_COLUMNS = {"left": "string", "right": "decimal(38,4)", "value": "long"}
PAIRS: list[Row] = [
    {"left": left, "right": right}
    for left in ("x", "", None)
    for right in (Decimal("1.5"), Decimal("-1e20"), None)
]


def test_keys_of_two_columns_with_nulls_are_the_same_behind_their_bytes() -> None:
    spec = window("session", ["count"], group_by=("left", "right"))
    for segment in segments_of(run_over(spec, TWO_COLUMNS, rows_of_keys(PAIRS))):
        assert_same_segment(from_bytes(to_bytes(segment)), segment)


@pytest.mark.parametrize("kind", WINDOW_KINDS)
def test_a_restored_run_knows_keys_of_two_columns_again(kind: str) -> None:
    spec = window(kind, ["count"], group_by=("left", "right"), emit="changelog")
    first, second = rows_of_keys(PAIRS)
    run = run_over(spec, TWO_COLUMNS, [first])
    restored = LocalRun.restored(spec, TWO_COLUMNS, run.saved(), shards=3)
    assert_same_changes(
        restored.epoch(table(TWO_COLUMNS, second)),
        run.epoch(table(TWO_COLUMNS, second)),
        ["left", "right"],
    )


def test_state_without_a_key_is_the_same_behind_its_bytes() -> None:
    run = run_over(
        window("tumbling", ["count"], group_by=()), {"value": "long"}, rows_of_keys([{}])
    )
    for segment in segments_of(run):
        assert_same_segment(from_bytes(to_bytes(segment)), segment)


def assert_same_changes(left: Epoch, right: Epoch, keys: Sequence[str]) -> None:
    by = [*keys, "window_start", "revision", "op"]
    assert_frame_equal(left.rows.sort(by), right.rows.sort(by), check_exact=True)
    assert left.counts == right.counts


# --- parts of segments ------------------------------------------------------------------------


@pytest.mark.parametrize("part", [slice(0, 0), slice(1, 3), slice(3, None)])
def test_a_slice_of_a_segment_is_the_same_behind_its_bytes(part: slice) -> None:
    run = run_over(window("session", kinds_for("string")), columns_of("string"), [some_rows()])
    (whole,) = segments_of(run)
    segment = replace(whole, rows=whole.rows[part])
    assert_same_segment(from_bytes(to_bytes(segment)), segment)


def some_rows() -> list[Row]:
    """Keys with values and keys with none, mixed by the order of their hashes."""
    return [at(0, None if nth % 2 else f"value {nth}", f"user {nth}") for nth in range(8)]


# --- bytes that are not ours ------------------------------------------------------------------


def a_segment() -> Segment:
    return segments_of(run_over(window("session", ["count"]), columns_of("long"), [[at(0, 1)]]))[0]


def arrow_file(metadata: dict[bytes, bytes] | None) -> bytes:
    data = pa.table({"key_hash": [1]}).replace_schema_metadata(metadata)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, data.schema) as writer:
        writer.write_table(data)
    return bytes(sink.getvalue())


def refused(data: bytes) -> str:
    with pytest.raises(StateFormatError) as caught:
        from_bytes(data)
    return str(caught.value)


@pytest.mark.parametrize("version", ["0", "2", "17"])
def test_another_version_is_refused_with_both_numbers(version: str) -> None:
    assert refused(arrow_file({b"tidegate.state_version": version.encode()})).startswith(
        f"a segment of state has format version {version}, this library reads 1 to {STATE_VERSION}"
    )


def test_an_arrow_file_of_somebody_else_is_refused() -> None:
    assert refused(arrow_file(None)).startswith(
        f"a segment of state has format version none, this library reads 1 to {STATE_VERSION}"
    )


@pytest.mark.parametrize(
    "garbage", [b"", b"x", b"no arrow file " * 100, b"ARROW1\0\0" + b"\0" * 100 + b"ARROW1"]
)
def test_garbage_is_refused_as_not_readable(garbage: bytes) -> None:
    assert refused(garbage).startswith("a segment of state is not readable: ")


def test_a_segment_that_was_cut_off_is_refused_as_not_readable() -> None:
    data = to_bytes(a_segment())
    for length in range(0, len(data), 97):
        assert refused(data[:length]).startswith("a segment of state is not readable: ")


def test_a_segment_with_a_damaged_footer_is_refused_as_not_readable() -> None:
    data = to_bytes(a_segment())
    damaged = data[:-500] + bytes(490) + data[-10:]  # the last ten: its length and the magic word
    assert refused(damaged).startswith("a segment of state is not readable: ")


def test_a_run_does_not_start_from_state_of_another_version() -> None:
    spec, columns = window("session", ["count"]), columns_of("long")
    saved = run_over(spec, columns, [[at(0, 1)]]).saved()
    other = arrow_file({b"tidegate.state_version": b"2"})
    with pytest.raises(StateFormatError, match="format version 2, this library reads 1"):
        LocalRun.restored(spec, columns, replace(saved, segments=((other,),)))
