"""Pipelines from TOML: the same value as from Python, and a line for every mistake."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tidegate import (
    Aggregation,
    ConfigError,
    Join,
    Pipeline,
    RunSettings,
    Source,
    StateStore,
    Target,
    Watermark,
    Window,
)
from tidegate.errors import Problem
from tidegate.frontends.source_map import SourceMap
from tidegate.frontends.toml import load_pipeline
from tidegate.frontends.toml_lines import lines_in
from tidegate.frontends.toml_wording import in_toml

SESSIONS = """\
name = "sessions"

[[sources]]
name = "clicks"
format = "json"
event_time = "at"
options = { path = "clicks" }

[transform.window]
kind = "session"
gap_ms = 30_000
max_session_duration_ms = 3_600_000
group_by = ["user"]

[[transform.window.aggregations]]
kind = "count"
output_name = "clicks"

[[transform.window.aggregations]]
kind = "last"
input_column = "page"
output_name = "exit"

[watermark]
max_out_of_order_ms = 10_000

[state_store]
max_keys = 1_000

[target]
format = "parquet"
options = { path = "sessions" }

[late]
format = "json"
options.path = "late"

[run]
shards = 4
"""


def loaded(folder: Path, text: str) -> Pipeline:
    path = folder / "pipeline.toml"
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return load_pipeline(path).pipeline


def problems(folder: Path, text: str) -> list[Problem]:
    with pytest.raises(ConfigError) as refused:
        loaded(folder, text)
    return list(refused.value.problems)


def places(folder: Path, text: str) -> list[str]:
    """Line and path of each problem."""
    return [each.at.partition("pipeline.toml:")[2] for each in problems(folder, text)]


def source_map(text: str) -> SourceMap:
    return SourceMap(file=Path("pipeline.toml"), lines=lines_in(text), worded=in_toml)


def test_a_file_is_the_same_value_as_python(tmp_path: Path) -> None:
    assert loaded(tmp_path, SESSIONS) == Pipeline(
        name="sessions",
        sources=Source(name="clicks", format="json", event_time="at", options={"path": "clicks"}),
        watermark=Watermark(max_out_of_order_ms=10_000),
        window=Window(
            kind="session",
            gap_ms=30_000,
            max_session_duration_ms=3_600_000,
            group_by=["user"],
            aggregations=[
                Aggregation(kind="count", output_name="clicks"),
                Aggregation(kind="last", input_column="page", output_name="exit"),
            ],
        ),
        state_store=StateStore(max_keys=1_000),
        target=Target(format="parquet", options={"path": "sessions"}),
        late=Target(format="json", options={"path": "late"}),
    )


def test_a_join_stands_under_transform_too(tmp_path: Path) -> None:
    text = """\
    name = "orders"
    [[sources]]
    name = "clicks"
    format = "memory"
    event_time = "at"
    [[sources]]
    name = "orders"
    format = "memory"
    event_time = "at"
    [transform.join]
    left = "clicks"
    right = "orders"
    on = ["user"]
    time_window_ms = 60_000
    [target]
    format = "memory"
    """
    join = Join(left="clicks", right="orders", on=["user"], time_window_ms=60_000)
    assert loaded(tmp_path, text).operators == (join,)


def test_the_run_table_has_the_settings_of_runs(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(SESSIONS)
    found = load_pipeline(tmp_path / "p.toml")
    assert found.settings == RunSettings(shards=4)
    assert found.given_settings == {"shards": 4}


def test_sql_under_transform_is_the_transform_of_the_only_source(tmp_path: Path) -> None:
    sql = "SELECT * FROM source WHERE page <> 'robot'"
    text = SESSIONS + f'[transform]\nsql = "{sql}"\n'
    assert loaded(tmp_path, text).sources[0].transform == sql


def test_sql_under_transform_needs_one_source(tmp_path: Path) -> None:
    second = '[[sources]]\nname = "b"\nformat = "memory"\nevent_time = "at"\n'
    (problem,) = problems(tmp_path, SESSIONS + second + '[transform]\nsql = "SELECT 1"\n')
    assert problem.at.endswith("transform.sql")
    assert problem.found == "2 sources"


GRAPH = """\
name = "shop"

[[sources]]
name = "clicks"
format = "memory"
event_time = "ts"

[[operators]]
id = "visits"
from = "clicks"
kind = "session"
gap_ms = 30_000
max_session_duration_ms = 86_400_000
group_by = "user"
aggregations = [{kind = "count", output_name = "n"}]
target = {format = "memory", options = {name = "visits"}}

[[operators]]
id = "hours"
from = ["visits"]
where = "n > 1"
select = {clicks = "n"}
event_time = "window_start"
kind = "tumbling"
width_ms = 3_600_000
aggregations = [{kind = "sum", input_column = "clicks"}]

[operators.target]
format = "memory"

[state_store]
"""


def test_operators_stand_on_top_one_by_one(tmp_path: Path) -> None:
    count = Aggregation(kind="count", output_name="n")
    clicks = Aggregation(kind="sum", input_column="clicks")
    minute, day = 60_000, 86_400_000
    assert loaded(tmp_path, GRAPH) == Pipeline(
        name="shop",
        sources=Source(name="clicks", format="memory", event_time="ts"),
        operators=[
            Window(
                id="visits",
                inputs="clicks",
                kind="session",
                gap_ms=minute // 2,
                max_session_duration_ms=day,
                group_by="user",
                aggregations=[count],
                target=Target(format="memory", options={"name": "visits"}),
            ),
            Window(
                id="hours",
                inputs="visits",
                where="n > 1",
                select={"clicks": "n"},
                event_time="window_start",
                kind="tumbling",
                width_ms=60 * minute,
                aggregations=[clicks],
                target=Target(format="memory"),
            ),
        ],
        state_store=StateStore(),
    )


def test_operators_may_stand_under_transform(tmp_path: Path) -> None:
    under = GRAPH.replace("[[operators]]", "[[transform.operators]]")
    under = under.replace("[operators.target]", "[transform.operators.target]")
    assert loaded(tmp_path, under) == loaded(tmp_path, GRAPH)


def test_mistakes_in_operators_on_top_have_their_lines(tmp_path: Path) -> None:
    text = GRAPH.replace('"clicks"\nkind', '"cliks"\nkind').replace('"hours"', '"visits"')
    found = problems(tmp_path, text.replace('event_time = "window_start"', 'event_tme = "x"'))
    assert [(each.at.partition("toml:")[2], each.expected.partition(":")[0]) for each in found] == [
        ("4: sources[0].name", "a source that is read"),
        ("10: operators[0].from[0]", "the name of a source or the id of an operator"),
        ("19: operators[1].id", "a name not used before, as at operators[0].id"),
        ("23: operators[1].event_tme", "one of the keys of a window"),
    ]


def test_operators_stand_in_one_of_two_places(tmp_path: Path) -> None:
    text = f"{GRAPH}\n[[transform.operators]]\nid = 'x'\n"
    (problem,) = problems(tmp_path, text)
    assert problem.found == "operators on top as well"


def test_every_mistake_has_its_line(tmp_path: Path) -> None:
    text = (
        SESSIONS.replace('kind = "session"', 'kind = "sessions"')
        .replace("group_by", "group_bu")
        .replace("30_000", '"30s"')
        .replace('kind = "last"', 'kind = "lst"')
        .replace("shards = 4", "shards = 0")
        .replace('[late]\nformat = "json"', '[late]\nfromat = "json"')
    )
    assert places(tmp_path, text) == [
        "10: transform.window.kind",
        "11: transform.window.gap_ms",
        "13: transform.window.group_bu",
        "20: transform.window.aggregations[1].kind",
        "34: late.format",
        "35: late.fromat",
        "39: run.shards",
    ]


def test_a_window_outside_of_transform_is_told_where_it_belongs(tmp_path: Path) -> None:
    misplaced = problems(tmp_path, SESSIONS.replace("[transform.window]", "[window]"))
    assert "write [transform.window]" in [each.hint for each in misplaced]


def test_a_misspelt_part_of_transform_names_the_right_one(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, SESSIONS + '[transform.jion]\nleft = "clicks"\n')
    assert (problem.at.rpartition(": ")[2], problem.hint) == (
        "transform.jion",
        "did you mean 'join'?",
    )


# --- what is wrong in form ---


def test_mistakes_in_form_are_told_all_at_once(tmp_path: Path) -> None:
    text = 'name = sessions\n[[sources]]\nname "clicks"\nformat = "json"\n[target\na = 30s\n'
    found = problems(tmp_path, text)
    assert [each.at.rpartition(":")[2] for each in found] == ["1", "3", "5", "6"]
    assert "in quotes" in found[0].hint


@pytest.mark.parametrize(
    "value",
    [
        *("9" * 5_000, "0x" + "f" * 17, str(2**63)),
        *("[" * 2_000 + "]" * 2_000, "[" * 60 + "]" * 60, "{a=" * 60 + "1" + "}" * 60),
    ],
)
def test_what_goes_beyond_all_limits_is_told_with_its_line(tmp_path: Path, value: str) -> None:
    (problem,) = problems(tmp_path, f"# first\nmore = {value}\n{SESSIONS}")
    assert problem.at.endswith(".toml:2")
    told = "'more = ...' (a number of more than 64 bits, or lists and tables nested too deep)"
    assert problem.found == told


def test_only_line_feeds_end_lines(tmp_path: Path) -> None:
    sql = "SELECT 'a\u2028b\x85' FROM source"
    text = SESSIONS + f'[transform]\nsql = "{sql}"\n'
    assert loaded(tmp_path, text).sources[0].transform == sql


def test_a_number_in_the_environment_may_be_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GAP", "9" * 5_000)
    (problem,) = problems(tmp_path, SESSIONS.replace("30_000", '"${GAP}"'))
    assert (problem.found, problem.expected) == ("what ${GAP} holds", "a whole number")


def test_half_a_file_says_that_it_ends_too_early(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, SESSIONS[: SESSIONS.index('"user"]')] + '"us')
    assert "pipeline.toml:13" in problem.at
    assert "the file ends" in problem.found or "'group_by = ...'" in problem.found


def test_a_mistake_in_form_shows_no_value(tmp_path: Path) -> None:
    text = 'password = hunter2\nurl "postgresql://ann:hunter2@db"\n'
    assert "hunter2" not in str(ConfigError(problems(tmp_path, text)))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a = 1\na = 2\n", "written twice"),
        ("[a]\n[a]\n", "written twice"),
        ("a = {b = 1,\n c = 2}\n", "on one line"),
    ],
)
def test_common_mistakes_in_form_have_a_hint(tmp_path: Path, text: str, told: str) -> None:
    assert told in problems(tmp_path, text)[0].hint


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "sessions.toml").write_text("")
    with pytest.raises(ConfigError, match=r"no such file.*\n  hint: .* has sessions\.toml"):
        load_pipeline(tmp_path / "session.toml")
    with pytest.raises(ConfigError, match="is a directory"):
        load_pipeline(tmp_path)
    (tmp_path / "bytes.toml").write_bytes(b"name = '\xff'")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_pipeline(tmp_path / "bytes.toml")


def test_an_empty_file_asks_for_everything(tmp_path: Path) -> None:
    assert {each.at.rpartition(": ")[2] for each in problems(tmp_path, "")} >= {
        "name",
        "sources",
        "target",
    }


def test_tables_that_are_no_tables_are_told(tmp_path: Path) -> None:
    text = 'name = 5\nsources = "clicks"\ntransform = 1\ntarget = []\nrun = "now"\n'
    assert places(tmp_path, text) == [
        "1: name",
        "2: sources",
        "3: transform",
        "4: target",
        "5: run",
    ]


# --- lines ---


def test_parts_of_a_list_over_several_lines_have_lines_of_their_own() -> None:
    text = textwrap.dedent(
        """\
        [a]
        list = [
          {x = 1},

          # between
          {x = 2}, {x = 3},
          {x = 4}
        ]
        one = [1, 2]
        """
    )
    found = source_map(text)
    paths = ("a.list", "a.list[0].x", "a.list[1]", "a.list[2].x", "a.list[3].x", "a.one[1]")
    assert [found.line_of(each) for each in paths] == [2, 3, 4, 4, 7, 9]


def test_texts_over_several_lines_are_one_statement() -> None:
    text = "[a]\nsql = '''\n[not a table]\nb = 1\n'''\nc = 2\n\"quoted key\" = 3\nd.e = 4\n"
    found = source_map(text)
    paths = ("a.sql", "a.c", "a.quoted key", "a.d.e")
    assert [found.line_of(each) for each in paths] == [2, 6, 7, 8]
    assert "not a table" not in found.lines


def test_lists_of_tables_inside_each_other_are_counted_apart() -> None:
    text = "[[a]]\n[[a.b]]\nx = 1\n[[a.b]]\nx = 2\n[[a]]\n[a.c]\ny = 1\n"
    found = source_map(text)
    assert found.line_of("a[0].b[1].x") == 5
    assert found.line_of("a[1].c.y") == 8


# --- the environment ---


def test_texts_refer_to_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATA", "/data")
    monkeypatch.delenv("MISSING", raising=False)
    text = SESSIONS.replace('"clicks" }', '"${DATA}/${MISSING:-clicks}/$${x}" }')
    assert loaded(tmp_path, text).sources[0].options["path"] == "/data/clicks/${x}"


def test_a_number_in_the_environment_is_a_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GAP", "15000")
    monkeypatch.setenv("PW", "12345")
    text = SESSIONS.replace("30_000", '"${GAP}"').replace(
        'path = "sessions" }', 'path = "${GAP}", n = "${GAP}", password = "${PW}" }'
    )
    pipeline = loaded(tmp_path, text)
    assert pipeline.operators[0].gap_ms == 15_000
    assert pipeline.target.options["n"] == 15_000
    assert pipeline.target.options["password"] == "12345"


def test_a_variable_that_is_not_set_is_told_with_all_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOWHERE", raising=False)
    text = SESSIONS.replace('"clicks" }', '"${NOWHERE}" }').replace("30_000", "-1")
    found = problems(tmp_path, text)
    assert [each.found for each in found] == ["${NOWHERE}, which is not set", "-1"]
    assert "${NOWHERE:-...}" in found[0].hint


def test_what_a_variable_holds_is_never_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GAP", "hunter2")
    found = problems(tmp_path, SESSIONS.replace("30_000", '"${GAP}"'))
    assert [each.found for each in found] == ["what ${GAP} holds"]
    assert "hunter2" not in str(ConfigError(found))
