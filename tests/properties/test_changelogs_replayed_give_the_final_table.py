"""A changelog says the same as upserts, change by change (R6)."""

from __future__ import annotations

from itertools import groupby

from hypothesis import given

from tests.properties.playing import by_core
from tests.properties.policies import any_window, flushes, sending
from tests.properties.streams import Epoch, Row, busy_streams
from tests.properties.targets import Target
from tidegate.pipeline import Window


@given(window=any_window(), stream=busy_streams(), flush_after=flushes)
def test_a_replayed_changelog_is_the_table_of_on_update_in_every_epoch(
    window: Window, stream: list[Epoch], flush_after: int | None
) -> None:
    """`Target` refuses to take back what is not there, and to insert an id a second time."""
    changelog, on_update = sending(window, "changelog"), sending(window, "on_update")
    replayed, upserted = Target(changelog), Target(on_update)
    changes = by_core(changelog, stream, flush_after)
    for change, current in zip(changes, by_core(on_update, stream, flush_after), strict=True):
        replayed.apply(change.rows, change.retracted)
        upserted.apply(current.rows, current.retracted)
        assert replayed.table == upserted.table
        assert change.watermark_us == current.watermark_us


@given(window=any_window(), stream=busy_streams(), flush_after=flushes)
def test_a_key_takes_back_first_and_changes_no_id_twice(
    window: Window, stream: list[Epoch], flush_after: int | None
) -> None:
    changelog = sending(window, "changelog")
    target = Target(changelog)

    def key_of(row: Row) -> str:
        return repr([row[name] for name in window.group_by])

    for epoch in by_core(changelog, stream, flush_after):
        for _, of_key in groupby(sorted(epoch.rows, key=key_of), key=key_of):
            changes = [(row["op"], target.id_of(row)) for row in of_key]
            taken_back = [each for op, each in changes if op in ("-U", "-D")]
            put_in = [each for op, each in changes if op in ("+I", "+U")]
            assert [each for _, each in changes] == taken_back + put_in
            assert len(set(taken_back)) == len(taken_back)
            assert len(set(put_in)) == len(put_in)
            assert {each for op, each in changes if op == "-U"} == {
                each for op, each in changes if op == "+U"
            }


@given(window=any_window(), stream=busy_streams())
def test_closing_and_forgetting_send_no_change(window: Window, stream: list[Epoch]) -> None:
    """Epochs without rows are empty, and so is a flush: every change is out already."""
    changelog = sending(window, "changelog")
    quiet = [each for epoch in stream for each in (epoch, Epoch((), epoch.watermark_us))]
    played = list(by_core(changelog, quiet))
    assert [epoch.rows for epoch in played[1::2]] == [[] for _ in stream]
    assert played[-1].rows == []
