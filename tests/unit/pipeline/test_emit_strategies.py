from __future__ import annotations

from typing import get_args

import pytest

from tests.unit.pipeline.examples import tumbling
from tidegate.pipeline import Window, sending_of
from tidegate.pipeline.emit_strategies import EMIT_STRATEGIES, Emit

MOMENTS = {
    "on_watermark": "forgotten",
    "on_window_close": "forgotten",
    "on_update": "changed",
    "changelog": "changed",
    "final": "forgotten",
    "every": "every",
}


def test_the_names_that_editors_complete_are_those_of_the_table() -> None:
    assert [*EMIT_STRATEGIES] == [*get_args(Emit)]


def test_a_strategy_says_when_windows_go_out() -> None:
    assert {name: each.sending.moment for name, each in EMIT_STRATEGIES.items()} == MOMENTS


def test_only_on_watermark_looks_at_the_late_policy() -> None:
    moments = {name: each.under("reopen").moment for name, each in EMIT_STRATEGIES.items()}
    assert moments == MOMENTS | {"on_watermark": "closed"}


def test_what_is_sent_once_is_never_corrected_and_fits_where_rows_are_only_added() -> None:
    every = {
        (name, policy): each.under(policy)
        for name, each in EMIT_STRATEGIES.items()
        for policy in ("drop", "reopen")
    }
    once = {place for place, sending in every.items() if sending.once}
    names = ("on_window_close", "final")
    assert once == {("on_watermark", "drop"), *((n, p) for n in names for p in ("drop", "reopen"))}
    assert {place for place, sending in every.items() if not sending.corrects_itself} == once
    added = {place for place, sending in every.items() if sending.append_only}
    assert added == once | {("changelog", "drop"), ("changelog", "reopen")}


def test_every_key_that_a_strategy_needs_is_one_of_a_window() -> None:
    needed = {name for each in EMIT_STRATEGIES.values() for name in each.needs}
    assert needed <= {*Window.model_fields}


@pytest.mark.parametrize("emit", EMIT_STRATEGIES)
def test_a_window_is_sent_as_its_strategy_says(emit: str) -> None:
    every = {"every_ms": 5} if emit == "every" else {}
    window = Window.from_dict(tumbling(emit=emit, **every))
    assert sending_of(window) is EMIT_STRATEGIES[emit].sending
