from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tidegate.errors import ConfigError
from tidegate.targets import console
from tidegate.testing.target_contract import (
    Outlet,
    TargetContract,
    all_types,
    ids,
    key,
    rows,
    stage,
)


class Terminal(Outlet):
    format = "console"
    options = {}  # noqa: RUF012 - nothing has to be said

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        super().__init__(folder)
        self._capsys, self._seen = capsys, ""

    def look(self) -> Any:
        self._seen += self._capsys.readouterr().out
        return self._seen


@pytest.fixture(autouse=True)
def nothing_printed_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "_printed", {})


@pytest.fixture
def outlet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(tmp_path, capsys)


class TestConsole(TargetContract):
    @pytest.fixture
    def outlet(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Outlet:
        return Terminal(tmp_path, capsys)


def test_an_epoch_is_a_table(outlet: Terminal) -> None:
    writer = outlet.open()
    gone = stage(writer, ids(("bob", 0), (None, 1)), "retracted")
    writer.publish(key(3), [stage(writer, rows(("ann", 0, 1), (None, 5, 20))), gone])
    assert outlet.look() == (
        "orders · main · epoch 3\n"
        "┏━━━━━━┳━━━━━━━━━━━━━━━━━━━━━┳━━━━┓\n"
        "┃ user ┃ window_start        ┃  n ┃\n"
        "┡━━━━━━╇━━━━━━━━━━━━━━━━━━━━━╇━━━━┩\n"
        "│ ann  │ 2026-01-01 12:00:00 │  1 │\n"
        "│ NULL │ 2026-01-01 12:00:05 │ 20 │\n"
        "└──────┴─────────────────────┴────┘\n"
        "taken back: user=bob, window_start=2026-01-01 12:00:00; "
        "user=NULL, window_start=2026-01-01 12:00:01\n"
    )


def test_only_the_first_rows_are_shown(outlet: Terminal) -> None:
    writer = outlet.open(rows=2)
    table = rows(*((f"user{n}", 0, n) for n in range(5)))
    gone = ids(*((f"gone{n}", 0) for n in range(3)))
    writer.publish(key(1), [stage(writer, table), stage(writer, gone, "retracted")])
    text = outlet.look()
    assert [f"user{n}" in text for n in range(5)] == [True, True, False, False, False]
    assert [f"gone{n}" in text for n in range(3)] == [True, True, False]
    assert [line for line in text.splitlines() if "more" in line] == [
        "… and 3 more",
        "… and 1 more",
    ]


def test_every_type_has_a_text(outlet: Terminal) -> None:
    writer = outlet.open()
    writer.publish(key(1), [stage(writer, all_types())])
    text = outlet.look()
    for value in ("12.50", "AP8=", "1583-01-01", "true", "2026-01-01 12:00:01.000001", '["1.10"]'):
        assert f" {value} " in text


def test_wide_tables_are_not_squeezed(outlet: Terminal) -> None:
    writer = outlet.open()
    names = [f"a_rather_long_column_name_{n}" for n in range(30)]
    writer.publish(key(1), [stage(writer, pl.DataFrame(dict.fromkeys(names, "value")))])
    header = outlet.look().splitlines()[2]
    assert [each.strip() for each in header.strip("┃").split("┃")] == names


def test_long_values_are_cut(outlet: Terminal) -> None:
    writer = outlet.open()
    writer.publish(key(1), [stage(writer, rows(("x" * 100, 0, 1)))])
    assert f"│ {'x' * 47}… │" in outlet.look()


def test_values_and_names_cannot_steer_the_terminal(outlet: Terminal) -> None:
    writer, evil = outlet.open(), "\x1b[31m[red]\n:smile:"
    table = pl.DataFrame({evil: [evil]})
    parts = [stage(writer, table), stage(writer, table, "retracted")]
    writer.publish(key(1, pipeline=evil), parts)
    text = outlet.look()
    assert "\x1b" not in text
    assert text.count("�[31m[red]�:smile:") == 5
    assert len(text.splitlines()) == 7


def test_another_process_prints_again(outlet: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, name = outlet.open(), uuid.uuid4().hex
    parts = [stage(writer, rows(("ann", 0, 1)))]
    writer.publish(key(1, pipeline=name), parts)
    monkeypatch.setattr(console, "_printed", {})
    writer.publish(key(1, pipeline=name), parts)
    assert outlet.look().count(name) == 2


@pytest.mark.parametrize("most", [0, "5", True, 2.0])
def test_how_many_rows_is_a_number(outlet: Terminal, most: Any) -> None:
    with pytest.raises(ConfigError, match="expected a whole number from 1"):
        outlet.open(rows=most)
