"""Formats that other packages register."""

from __future__ import annotations

import sys

import pytest

from tests.fix_packages import Packages
from tidegate.errors import ConfigError
from tidegate.pipeline import Source, Target, plugins
from tidegate.pipeline.fingerprint import canonical
from tidegate.pipeline.formats import SOURCES, TARGETS
from tidegate.pipeline.pipeline import Pipeline
from tidegate.sources import open_source
from tidegate.targets import TargetOpening, open_target

MODULE = """
from tidegate.pipeline.formats import SourceFormat, TargetFormat

SHELF = TargetFormat(
    name="shelf",
    opens="shelf_formats:opened",
    modes=("upsert", "append"),
    identity_options=frozenset(["board"]),
)
SHOP = TargetFormat(
    name="shop",
    opens="shelf_formats:opened",
    modes=("append", "upsert"),
    upsert_option="key",
)
LOST = SourceFormat(name="lost", opens="shelf_formats:missing")
NOTHING = 7
MISNAMED = SourceFormat(name="other", opens="shelf_formats:opened")


def opened(opening):
    return opening
"""


@pytest.fixture(autouse=True)
def installed(packages: Packages) -> None:
    targets = {
        "shelf": "shelf_formats:SHELF",
        "shop": "shelf_formats:SHOP",
        "parquet": "shelf_formats:SHELF",
        "broken": "no_such_module:FORMAT",
        "absent": "shelf_formats:ABSENT",
        "nothing": "shelf_formats:NOTHING",
        "twice": "shelf_formats:SHELF",
    }
    sources = {"lost": "shelf_formats:LOST", "misnamed": "shelf_formats:MISNAMED"}
    packages.install("shelf-formats", MODULE, targets=targets, sources=sources)
    packages.install("shelf-copy", "", targets={"twice": "shelf_formats:SHELF"})


def problems_of(format: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        Target(format=format)
    return [str(problem) for problem in caught.value.problems]


def test_a_registered_format_has_its_modes() -> None:
    assert Target(format="shelf").mode == "upsert"
    assert Target(format="shop").mode == "append"
    assert Target(format="shop", options={"key": True}).mode == "upsert"
    with pytest.raises(ConfigError, match="'upsert' without a key"):
        Target(format="shop", mode="upsert")


def test_a_registered_format_is_among_those_that_have_a_mode() -> None:
    with pytest.raises(ConfigError, match=r"delta, .* shelf or shop can upsert"):
        Target(format="parquet", mode="upsert")


def test_a_registered_format_is_opened_by_its_own_function() -> None:
    target = Target(format="shelf", options={"board": 3})
    made: object = open_target(target, pipeline="p", channel="late", identity=["user"])
    assert made == TargetOpening(target=target, pipeline="p", channel="late", identity=("user",))


def test_a_registered_format_says_which_options_are_in_the_fingerprint() -> None:
    pipeline = Pipeline.from_dict(
        {
            "name": "p",
            "sources": {"name": "clicks", "format": "memory", "event_time": "ts"},
            "window": {
                "kind": "tumbling",
                "width_ms": 1,
                "aggregations": [{"kind": "count"}],
            },
            "target": {"format": "shelf", "options": {"board": 3, "path": "x"}},
            "state_store": {},
        }
    )
    expected = {"format": "shelf", "mode": "upsert", "options": {"board": 3}}
    assert canonical(pipeline)["target"] == expected


def test_a_built_in_format_cannot_be_replaced() -> None:
    assert Target(format="parquet").mode == "append"
    assert plugins.target_format("parquet") is TARGETS["parquet"]


def test_all_names_are_listed_once_the_built_in_ones_first() -> None:
    registered = ("absent", "broken", "nothing", "shelf", "shop", "twice")
    assert plugins.target_names() == (*TARGETS, *registered)
    assert plugins.source_names() == (*SOURCES, "lost", "misnamed")


def test_nothing_is_imported_before_its_name_is_used() -> None:
    Target(format="parquet")
    plugins.target_names()
    assert "shelf_formats" not in sys.modules


@pytest.mark.parametrize(
    ("format", "found"),
    [
        (
            "broken",
            "'broken' of shelf-formats 1.0: no_such_module:FORMAT, which cannot be loaded: "
            "ModuleNotFoundError: No module named 'no_such_module', "
            "expected a value of type TargetFormat called 'broken'",
        ),
        (
            "absent",
            "'absent' of shelf-formats 1.0: shelf_formats:ABSENT, which cannot be loaded: "
            "AttributeError: module 'shelf_formats' has no attribute 'ABSENT', "
            "expected a value of type TargetFormat called 'absent'",
        ),
        (
            "nothing",
            "'nothing' of shelf-formats 1.0: shelf_formats:NOTHING, which is of type int, "
            "expected a value of type TargetFormat called 'nothing'",
        ),
    ],
)
def test_a_broken_format_names_its_package_and_what_to_do(format: str, found: str) -> None:
    hint = "install another version of shelf-formats; `pip uninstall shelf-formats` removes it"
    assert problems_of(format) == [f"format: found {found}\n  hint: {hint}"]


def test_two_packages_with_one_name_are_both_named() -> None:
    both = "shelf-copy 1.0: shelf_formats:SHELF and shelf-formats 1.0: shelf_formats:SHELF"
    assert problems_of("twice") == [
        f"format: found 'twice' of {both}, expected one package\n"
        "  hint: uninstall all of these packages but one"
    ]


def test_a_format_has_the_name_of_its_entry_point() -> None:
    with pytest.raises(ConfigError, match="which calls itself 'other'"):
        Source(name="s", format="misnamed", event_time="ts")


def test_a_function_that_is_missing_is_told_when_a_source_is_opened() -> None:
    source = Source(name="s", format="lost", event_time="ts")
    with pytest.raises(ConfigError, match="shelf_formats has no 'missing'") as caught:
        open_source(source, [])
    assert [problem.at for problem in caught.value.problems] == ["format"]


def test_a_format_of_spark_is_no_format_of_ours() -> None:
    assert plugins.target_format("iceberg") is None
    assert Target(format="iceberg").mode == "append"


def test_what_formats_refer_to_is_there() -> None:
    from tidegate.pipeline.formats import referred  # noqa: PLC0415 - only here

    for each in (*SOURCES.values(), *TARGETS.values()):
        assert callable(referred(each.opens))
        assert each.options is None or callable(referred(each.options).from_dict)
