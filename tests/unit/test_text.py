"""Numbers, durations and instants as people read them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidegate
from tidegate.eventtime import FOREVER
from tidegate.text import bytes_text, count_text, duration_text, elapsed_text, instant_text


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (1, "1 ms"),
        (1_500, "1 s 500 ms"),
        (60_000, "1 min"),
        (3_661_000, "1 h 1 min 1 s"),
        (172_800_000, "2 d"),
    ],
)
def test_durations_are_written_for_people(ms: int, text: str) -> None:
    assert duration_text(ms) == text


@pytest.mark.parametrize(
    ("count", "text"), [(999, "999 bytes"), (1_000, "1 kB"), (2_500_000_000, "2.5 GB")]
)
def test_sizes_are_written_for_people(count: int, text: str) -> None:
    assert bytes_text(count) == text


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (-5, "0 s"),
        (256_000, "256 ms"),
        (1_500_000, "1.5 s"),
        (90_000_000, "1 min 30 s"),
        (3_661_000_000, "1 h 1 min"),
        (3 * 86_400_000_000, "3 d"),
    ],
)
def test_what_was_measured_is_written_in_two_units(us: int, text: str) -> None:
    assert elapsed_text(us) == text


def test_an_instant_that_no_calendar_has_is_a_number() -> None:
    assert instant_text(2**60) == f"{2**60} us"
    assert instant_text(FOREVER) == "+inf"


def test_one_of_something_is_singular() -> None:
    assert (count_text(1, "keys"), count_text(0, "keys")) == ("1 key", "0 keys")


SOURCES = Path(tidegate.__file__).parent
OF_A_NUMBER = re.compile(r"[,%]|\.\d+[a-z]$|[efgn]$")
"""Ends of format specifications that make a text for people of a number or a time."""
OF_A_DRAWING = "cli/report/svg.py"
"""Its numbers are places in a picture."""
OF_SQL = "core/casts.py"
"""Casts a time to text, for rows."""


def formats(path: Path) -> Iterator[str]:
    """What a module does that `tidegate.text` is for."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FormattedValue) and node.format_spec is not None:
            spec = ast.unparse(node.format_spec)[2:-1]
            if OF_A_NUMBER.search(spec):
                yield f"{node.lineno}: {spec}"
        if isinstance(node, ast.Constant) and re.search(r"%\.[0-3][efg]", repr(node.value)):
            yield f"{node.lineno}: {node.value!r}"
        if isinstance(node, ast.Attribute) and node.attr == "strftime":
            yield f"{node.lineno}: strftime"


def test_nothing_else_writes_numbers_and_times_for_people() -> None:
    modules = {str(path.relative_to(SOURCES)): path for path in SOURCES.rglob("*.py")}
    found = {name: [*formats(path)] for name, path in modules.items()}
    assert {name for name, each in found.items() if each} == {"text.py", OF_A_DRAWING, OF_SQL}
