"""State as bytes and back: sketches and slices are the same; what is not ours is refused.

Of every aggregate, type and key `tests/properties` shows it, in `agreement.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal

from tests.unit.core.samples import (
    Row,
    at,
    columns_of,
    kinds_for,
    run_through,
    table,
    window,
)
from tidegate.core.local import Epoch, LocalRun
from tidegate.core.segment_format import from_bytes, to_bytes
from tidegate.core.segment_migrations import STATE_VERSION
from tidegate.core.segments import Segment
from tidegate.errors import StateFormatError
from tidegate.pipeline import Window


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
    by = ["window_start", "user"]
    for one, other in ((left.rows, right.rows), (left.retracted, right.retracted)):
        assert_frame_equal(one.sort(by), other.sort(by), check_exact=True)
    assert_frame_equal(left.late, right.late)
    assert left.counts == right.counts
    assert left.watermark_us == right.watermark_us


def test_saving_twice_gives_the_same_bytes() -> None:
    spec, columns = window("session", kinds_for("string")), columns_of("string")
    run = run_over(spec, columns, [some_rows(), some_rows()[::-1]])
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


# --- parts of segments ------------------------------------------------------------------------


def test_slices_of_a_segment_are_the_same_behind_their_bytes() -> None:
    run = run_over(window("session", kinds_for("string")), columns_of("string"), [some_rows()])
    (whole,) = segments_of(run)
    for part in (slice(0, 0), slice(1, 3), slice(3, None)):
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


def test_another_version_or_none_is_refused_with_both_numbers() -> None:
    versions = {each: {b"tidegate.state_version": each.encode()} for each in ("0", "2", "17")}
    for version, metadata in (versions | {"none": None}).items():
        assert refused(arrow_file(metadata)).startswith(
            f"a segment of state has format version {version}, "
            f"this library reads 1 to {STATE_VERSION}"
        )


def test_garbage_is_refused_as_not_readable() -> None:
    arrows_words = b"ARROW1\0\0" + b"\0" * 100 + b"ARROW1"
    for garbage in (b"", b"x", b"no arrow file " * 100, arrows_words):
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
