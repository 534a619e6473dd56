"""Whatever data holds, no command lets it steer a terminal, or takes it for markup."""

from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Callable

import msgspec
import pytest
import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from tests.unit.spark.examples import epoch
from tidegate import cli
from tidegate.cli.dlq import print_letters, sentences
from tidegate.cli.doctor import show
from tidegate.cli.probes import Finding
from tidegate.cli.progress import Lines, LiveScreen
from tidegate.cli.state_text import folded_table, print_table, to_json
from tidegate.cli.telling import fail, plain, say, say_json, told
from tidegate.core.watermark import PipelineWatermark, SourceWatermark
from tidegate.deadletters.listing import Letters
from tidegate.deadletters.replay import ReplayPlan
from tidegate.engine.status import RunStatus
from tidegate.errors import ConfigError, InMemoryStateWarning, Problem
from tidegate.state.catalog import KeyState

MARKUP = "[red][link=http://evil]"
HOSTILE = f"\x1b[31m\x1b]8;;http://evil\x07{MARKUP}\x9b2J\r\u202e\u2028\x7f"

WATERMARKS = PipelineWatermark(sources={HOSTILE: SourceWatermark(watermark_us=0)}, watermark_us=0)
REPORT = epoch(1, watermarks=WATERMARKS)
STATUS = RunStatus(pipeline=HOSTILE, lag_us={HOSTILE: 0}, last=REPORT)


def letters(to: Console) -> None:
    row = {HOSTILE: HOSTILE, "all": [HOSTILE], "none": None}
    print_letters(to, [Letters(HOSTILE, HOSTILE, 1, {HOSTILE: 1}, [row], 1)])


def keys(to: Console) -> None:
    held = msgspec.json.encode({"windows": [{"page": HOSTILE}]})
    key = KeyState(
        operator="w",
        group_key=HOSTILE,
        key_group=0,
        state_blob=held,
        as_of_epoch=1,
        forget_at=0,
    )
    print_table(to, *folded_table([key]))


def findings(to: Console) -> None:
    show([Finding("problem", HOSTILE, HOSTILE, HOSTILE)], to)


def epochs(to: Console) -> None:
    with Live(console=to, auto_refresh=False) as live:
        screen = LiveScreen(live)
        screen.started(STATUS)
        live.refresh()
        screen.epoch(REPORT, STATUS)


@pytest.mark.parametrize("width", [10_000, 40], ids=["wide", "narrow"])
@pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "pipe"])
@pytest.mark.parametrize("shown", [letters, keys, findings, epochs])
def test_nothing_that_is_drawn_steers_a_terminal(
    shown: Callable[[Console], None], terminal: bool, width: int
) -> None:
    out = io.StringIO()
    shown(Console(file=out, force_terminal=terminal, color_system=None, width=width))
    drawn = out.getvalue()
    of_rich = {"\x1b", "\r"} if terminal and shown is epochs else set()  # to draw it anew
    assert {each for each in drawn if not each.isprintable()} - of_rich == {"\n"}
    assert not any(each in drawn for each in ("\x1b]", "\x1b[31m"))
    assert "[red]" in drawn or (shown is epochs and width == 40)  # it has no room there


@pytest.fixture
def said(capfd: pytest.CaptureFixture[str]) -> Callable[[], str]:
    def everything() -> str:
        out, err = capfd.readouterr()
        return out + err

    return everything


def by_failing() -> None:
    with pytest.raises(typer.Exit):
        fail(HOSTILE)


def by_an_error() -> None:
    with pytest.raises(typer.Exit), told():
        raise ConfigError([Problem(HOSTILE, HOSTILE, HOSTILE, HOSTILE), Problem("a", "b", "c")])


def by_a_warning() -> None:
    cli._warn(InMemoryStateWarning(HOSTILE), InMemoryStateWarning)


def by_a_plan() -> None:
    plan = ReplayPlan(channel=HOSTILE, reason=None, ends={})
    plan.unsendable[HOSTILE] += 1
    for sentence in sentences(plan):
        say(sentence)


@pytest.mark.parametrize(
    "tell",
    [
        by_failing,
        by_an_error,
        by_a_warning,
        by_a_plan,
        lambda: say(HOSTILE),
        lambda: Lines().started(STATUS),
    ],
)
def test_nothing_that_is_said_steers_a_terminal(
    tell: Callable[[], None], said: Callable[[], str]
) -> None:
    tell()
    text = said()
    assert {each for each in text if not each.isprintable()} == {"\n"}
    assert MARKUP in text


def test_json_says_the_same_and_steers_no_terminal(said: Callable[[], str]) -> None:
    value = {HOSTILE: [HOSTILE, "é\U000e0001"]}
    say_json(to_json(value))
    text = said()
    assert {each for each in text if not each.isprintable()} == {"\n"}
    assert json.loads(text) == value
    assert "é" in text


def test_what_is_logged_steers_no_terminal_either(
    monkeypatch: pytest.MonkeyPatch, said: Callable[[], str]
) -> None:
    last = logging.StreamHandler()
    monkeypatch.setattr(logging, "lastResort", last)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    monkeypatch.setattr(cli, "app", lambda: None)
    cli.main()
    last.handle(logging.makeLogRecord({"msg": "topic %s is gone", "args": (HOSTILE,)}))
    assert said() == f"topic {plain(HOSTILE)} is gone\n"


def test_lines_stay_lines() -> None:
    assert plain("a\nb\tc") == "a\ufffdb\ufffdc"
    assert Text(plain(MARKUP)).plain == MARKUP
