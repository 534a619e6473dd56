"""Loading: what is found, and what a broken file is told."""

from pathlib import Path

import pytest

from tidegate.errors import ScenarioError
from tidegate.testing import Scenario, load_scenarios

TWO_CASES = """
cases:
- id: one
  window: {kind: tumbling, width_ms: 10}
- id: two
  kind: config_error
"""


def _file(folder: Path, text: str, name: str = "cases.yaml") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_gives_its_cases_in_order(tmp_path: Path) -> None:
    path = _file(tmp_path, TWO_CASES)
    assert [(s.id, s.kind, s.path) for s in load_scenarios(path)] == [
        ("one", "window", path),
        ("two", "config_error", path),
    ]


def test_a_folder_gives_the_cases_of_all_yaml_files_below_it(tmp_path: Path) -> None:
    _file(tmp_path, "cases: [{id: b}]", "b.yml")
    _file(tmp_path, "cases: [{id: a}]", "a/a.yaml")
    _file(tmp_path, "not a scenario", "FORM.md")
    assert [s.id for s in load_scenarios(str(tmp_path))] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("cases: [", "not valid YAML: while parsing"),
        ("- id: one", "expected a mapping with a list `cases`"),
        ("case: []", "expected a mapping with a list `cases`"),
        ("", "expected a mapping with a list `cases`"),
        ("cases: [7]", "case number 1 is a int, not a mapping"),
        ("cases: [{id: one}, {tier: core}]", "case number 2 has no id"),
        ("cases: [{id: one}, {id: one}]", "case one: the id is used twice"),
    ],
)
def test_a_broken_file_is_named_with_what_is_wrong(tmp_path: Path, text: str, problem: str) -> None:
    path = _file(tmp_path, text)
    with pytest.raises(ScenarioError) as raised:
        load_scenarios(path)
    assert str(raised.value).startswith(f"{path}: {problem}")


def test_a_missing_path_and_an_empty_folder_say_so(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="no such file or folder"):
        load_scenarios(tmp_path / "nowhere")
    with pytest.raises(ScenarioError, match="no scenario files"):
        load_scenarios(tmp_path)


@pytest.mark.parametrize(
    ("case", "kind"),
    [
        ({"window": {"kind": "session"}}, "window"),
        ({"window": {"kind": "hopping", "emit": "assignment_only"}}, "assignment_only"),
        ({"join": {"type": "inner"}}, "join"),
        ({"join": {"type": "inner"}, "kind": "chained"}, "chained"),
        ({"pipeline": []}, "chained"),
        ({"kind": "watermark_multi"}, "watermark_multi"),
        ({}, "window"),
    ],
)
def test_the_kind_follows_from_what_a_case_has(case: dict[str, object], kind: str) -> None:
    assert Scenario(id="x", case=case).kind == kind


def test_requires_may_be_one_name_or_several() -> None:
    assert Scenario(id="x", case={}).requires == ()
    assert Scenario(id="x", case={"requires": "a"}).requires == ("a",)
    assert Scenario(id="x", case={"requires": ["a", "b"]}).requires == ("a", "b")
