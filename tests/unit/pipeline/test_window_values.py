from __future__ import annotations

import pickle
from typing import Any

import pytest
from pydantic import ValidationError

from tests.unit.pipeline.examples import Data, hopping, session, tumbling
from tidegate.eventtime import FOREVER
from tidegate.pipeline import Aggregation, Window


def test_a_window_is_written_with_keywords() -> None:
    window = Window(
        kind="session",
        gap_ms=30_000,
        max_session_duration_ms=86_400_000,
        group_by="user",
        aggregations=[Aggregation(kind="count"), Aggregation(kind="sum", input_column="amount")],
    )
    assert (window.group_by, [each.output_name for each in window.aggregations]) == (
        ("user",),
        ["count", "sum_amount"],
    )


def test_defaults_are_those_of_the_rules() -> None:
    window = Window.from_dict(tumbling())
    assert (window.late_data, window.allowed_lateness_ms, window.emit) == (
        "drop",
        0,
        "on_watermark",
    )
    assert (window.late_channel, window.id, window.inputs) == ("late", "window", ())
    assert (window.offset_ms, window.nonpositive_gap, window.group_by) == (0, "drop", ())


@pytest.mark.parametrize("written", ["user", ["user"], ("user",)])
def test_one_key_may_be_written_as_a_name_or_a_list(written: Any) -> None:
    assert Window.from_dict(session(group_by=written)).group_by == ("user",)


def test_several_keys_keep_their_order() -> None:
    assert Window.from_dict(session(group_by=["b", "a"])).group_by == ("b", "a")


def test_durations_are_microseconds_inside() -> None:
    window = Window.from_dict(
        session(
            late_data="reassign",
            max_lateness_ms=7,
            allowed_lateness_ms=5,
            emit="every",
            every_ms=2,
        )
    )
    assert window.gap_us == 30_000_000
    assert window.max_session_duration_us == 86_400_000_000
    assert (window.width_us, window.hop_us, window.offset_us) == (None, None, 0)
    assert (window.allowed_lateness_us, window.max_lateness_us, window.every_us) == (
        5_000,
        7_000,
        2_000,
    )


def test_unbounded_lateness_lasts_forever() -> None:
    window = Window.from_dict(session(allowed_lateness_ms="unbounded"))
    assert window.allowed_lateness_us == FOREVER


def test_a_tumbling_window_hops_by_its_width() -> None:
    window = Window.from_dict(tumbling(offset_ms=-100))
    assert (window.width_us, window.hop_us, window.offset_us) == (60_000_000, 60_000_000, -100_000)


def test_a_hop_that_is_the_width_makes_no_other_tumbling_window() -> None:
    assert Window.from_dict(tumbling(hop_ms=60_000)) == Window.from_dict(tumbling())


@pytest.mark.parametrize(
    "data",
    [
        session(),
        session(gap_ms=None, gap_column="gap", nonpositive_gap="keep"),
        session(gap_ms=1, max_session_duration_ms=2),
        session(allowed_lateness_ms="unbounded", late_data="reopen"),
        session(late_data="reassign", max_lateness_ms=0),
        session(emit="final", late_data="reopen"),
        tumbling(),
        tumbling(group_by=["user"], emit="every", every_ms=1),
        hopping(),
        hopping(hop_ms=60_000, offset_ms=-1),
        hopping(inputs="clicks", id="per minute"),
    ],
)
def test_a_valid_window_survives_dumping_json_and_pickling(data: Data) -> None:
    window = Window.from_dict(data)
    copies = [
        Window.model_validate(window.model_dump()),
        Window.model_validate_json(window.model_dump_json()),
        pickle.loads(pickle.dumps(window)),
        window.model_copy(),
        Window.model_validate(window),
    ]
    assert copies == [window] * 5
    assert {hash(each) for each in copies} == {hash(window)}


def test_a_window_cannot_be_changed() -> None:
    window = Window.from_dict(session())
    with pytest.raises(ValidationError, match="frozen"):
        window.gap_ms = 5  # type: ignore[misc]  # wrong on purpose


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ({"kind": "count"}, "count"),
        ({"kind": "count_col", "input_column": "a"}, "count_col_a"),
        ({"kind": "count_distinct", "input_column": "a"}, "count_distinct_a"),
        ({"kind": "max", "input_column": "a", "output_name": "highest"}, "highest"),
    ],
)
def test_a_result_is_named_after_kind_and_column_unless_it_has_a_name(
    data: Data, name: str
) -> None:
    assert Aggregation.from_dict(data).output_name == name


@pytest.mark.parametrize(
    ("data", "settings"),
    [
        ({"kind": "count"}, (None, None, None)),
        ({"kind": "sum", "input_column": "a"}, (None, None, None)),
        ({"kind": "count_distinct", "input_column": "a"}, ("approx", None, None)),
        (
            {"kind": "count_distinct", "input_column": "a", "mode": "exact"},
            ("exact", 100_000, None),
        ),
        (
            {"kind": "count_distinct", "input_column": "a", "mode": "exact", "max_distinct": 5},
            ("exact", 5, None),
        ),
        ({"kind": "collect", "input_column": "a"}, (None, None, 10_000)),
        ({"kind": "collect", "input_column": "a", "max_values": 5}, (None, None, 5)),
    ],
)
def test_only_the_kinds_that_have_settings_get_them(
    data: Data, settings: tuple[str | None, int | None, int | None]
) -> None:
    aggregation = Aggregation.from_dict(data)
    assert (aggregation.mode, aggregation.max_distinct, aggregation.max_values) == settings


def test_a_copy_with_changes_derives_again_what_was_not_written() -> None:
    aggregation = Aggregation(kind="collect", input_column="a")
    assert aggregation.model_copy(update={"kind": "sum"}) == Aggregation(
        kind="sum", input_column="a"
    )
