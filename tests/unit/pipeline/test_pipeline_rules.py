"""Each rule between the parts of a pipeline, one by one."""

from __future__ import annotations

import pytest

from tests.unit.pipeline.examples import (
    COUNT,
    UNSET,
    Data,
    pipeline,
    problems_of,
    session,
    source,
    tumbling,
)
from tidegate.pipeline import Pipeline

PARQUET = {"format": "parquet"}
COLUMNS = {"ts": "timestamp", "user": "long", "amount": "string", "rate": "double"}
SINGLE = "'on_watermark' without late_data='reopen', 'on_window_close', 'final' or 'changelog'"


def _operators(*operators: Data, **changes: object) -> Data:
    return pipeline(window=UNSET, operators=[*operators], **changes)


def _declared(window: Data, *columns: Data) -> Data:
    sources = [source(name=f"s{n}", columns=each) for n, each in enumerate(columns)]
    return pipeline(sources=sources, window=window)


@pytest.mark.parametrize(
    ("data", "at", "found", "expected"),
    [
        # parts that have to be there
        (pipeline(sources=[]), "sources", "nothing", "at least one source"),
        (pipeline(sources=UNSET), "sources", "nothing", "a list, each a Source"),
        (pipeline(window=UNSET), "window", "nothing", "a window or a join"),
        (pipeline(target=UNSET), "target", "nothing", "a Target"),
        (pipeline(name=UNSET), "name", "nothing", "a string"),
        (
            pipeline(state_store=UNSET),
            "state_store",
            "nothing",
            "a state store for session windows",
        ),
        (pipeline(state_store=None), "state_store", "nothing", "a state store for session windows"),
        # contradictions between long and short forms
        (pipeline(operators=[tumbling()]), "window", "window and operators", "one of the two"),
        (
            pipeline(late=PARQUET, channels={"late": PARQUET}),
            "late",
            "late and channels.late",
            "one of the two",
        ),
        # the graph
        (
            pipeline(sources=[source(), source()]),
            "sources[1].name",
            "'clicks'",
            "a name not used before, as at sources[0].name",
        ),
        (
            _operators(session(), session(inputs="clicks")),
            "operators[1].id",
            "'window'",
            "a name not used before, as at operators[0].id",
        ),
        (
            pipeline(window=session(id="clicks", inputs="clicks")),
            "window.id",
            "'clicks'",
            "a name not used before, as at sources[0].name",
        ),
        (
            pipeline(window=session(inputs=["clicks", "clciks"])),
            "window.inputs[1]",
            "'clciks'",
            "the name of a source or the id of an operator",
        ),
        (
            pipeline(sources=[source(), source(name="views")], window=session(inputs="clicks")),
            "sources[1].name",
            "'views', which no operator reads",
            "a source that is read",
        ),
        # late and other rows
        *[
            (
                pipeline(window=session(late_data=policy)),
                "window.late_channel",
                "'late' without a target",
                f"a channel with a target for late_data={policy!r}",
            )
            for policy in ("side_output", "dlq")
        ],
        (
            pipeline(window=session(late_data="dlq", late_channel="dead")),
            "window.late_channel",
            "'dead' without a target",
            "a channel with a target for late_data='dlq'",
        ),
        (
            pipeline(channels={"latte": PARQUET}),
            "channels.latte",
            "'latte'",
            "late or rejected",
        ),
        # emit strategies that cannot be appended
        *[
            (
                pipeline(window=session(emit=emit), target=target),
                "window.emit",
                f"{emit!r}, which may send a window again, to {target['format']}, "
                "which only appends",
                SINGLE,
            )
            for emit in ("on_update",)
            for target in (
                *({"format": name} for name in ("parquet", "json", "csv", "delta", "kafka")),
                {"format": "delta", "mode": "append"},
                {"format": "iceberg"},
            )
        ],
        (
            pipeline(window=session(emit="every", every_ms=5), target=PARQUET),
            "window.emit",
            "'every', which may send a window again, to parquet, which only appends",
            SINGLE,
        ),
        (
            pipeline(window=session(late_data="reopen"), target=PARQUET),
            "window.emit",
            "'on_watermark' with late_data='reopen', which may send a window again, to parquet, "
            "which only appends",
            SINGLE,
        ),
        # columns, where they are declared
        (
            _declared(session(group_by="usr"), COLUMNS),
            "window.group_by[0]",
            "'usr'",
            "a column of 's0'",
        ),
        (
            _declared(session(group_by="rate"), COLUMNS),
            "window.group_by[0]",
            "'rate' of type double",
            "a type with exact equality: not float, double or array",
        ),
        (
            _declared(
                session(aggregations=[COUNT, {"kind": "sum", "input_column": "amount"}]), COLUMNS
            ),
            "window.aggregations[1].input_column",
            "'amount' of type string",
            "a column of numbers for sum",
        ),
        (
            _declared(session(gap_ms=UNSET, gap_column="rate"), COLUMNS),
            "window.gap_column",
            "'rate' of type double",
            "whole milliseconds: byte, short, int or long",
        ),
        (
            _declared(session(), COLUMNS, {"ts": "timestamp", "user": "string"}),
            "window.group_by[0]",
            "'user': long in 's0' and string in 's1'",
            "one type in all inputs",
        ),
        (
            _declared(session(), COLUMNS, {"ts": "timestamp"}),
            "window.group_by[0]",
            "'user'",
            "a column of 's1'",
        ),
    ],
)
def test_a_pipeline_that_breaks_one_rule_has_one_problem(
    data: Data, at: str, found: str, expected: str
) -> None:
    (problem,) = problems_of(lambda: Pipeline.from_dict(data))
    assert (problem.at, problem.found, problem.expected) == (at, found, expected)
    assert problem.hint


def test_operators_that_read_each_other_are_all_named() -> None:
    circle = [session(id="a", inputs=["clicks", "b"]), session(id="b", inputs=["a"])]
    problems = problems_of(lambda: Pipeline.from_dict(_operators(*circle)))
    assert [(each.at, each.expected) for each in problems] == [
        ("operators[0].inputs", "inputs without a circle"),
        ("operators[1].inputs", "inputs without a circle"),
    ]


@pytest.mark.parametrize("window", [session(emit="on_update"), session(late_data="reopen")])
def test_a_table_that_only_takes_rows_takes_no_window_twice(window: Data) -> None:
    target = {"format": "postgres", "mode": "append", "options": {"table": "t"}}
    (problem,) = problems_of(lambda: Pipeline.from_dict(pipeline(window=window, target=target)))
    assert problem.found.endswith("which may send a window again, to postgres, which only appends")


def test_a_refused_emit_strategy_says_which_targets_take_it() -> None:
    data = pipeline(window=session(emit="on_update"), target=PARQUET)
    (problem,) = problems_of(lambda: Pipeline.from_dict(data))
    assert problem.hint == (
        "targets that take 'on_update': postgres or delta with mode='upsert', "
        "kafka with options.key, memory, console"
    )


@pytest.mark.parametrize(
    "window",
    [
        session(),
        session(emit="on_window_close", late_data="reopen"),
        session(emit="final"),
        session(emit="changelog", late_data="reopen"),
        session(late_data="reassign", max_lateness_ms=5),
    ],
)
@pytest.mark.parametrize("name", ["parquet", "json", "csv", "delta", "kafka", "iceberg"])
def test_append_only_targets_take_what_is_sent_once_and_changelogs(window: Data, name: str) -> None:
    made = Pipeline.from_dict(pipeline(window=window, target={"format": name}))
    assert made.target.appends_only


@pytest.mark.parametrize(
    "window",
    [
        session(emit="on_update"),
        session(emit="every", every_ms=5),
        session(emit="changelog"),
        session(late_data="reopen"),
    ],
)
@pytest.mark.parametrize(
    "target",
    [
        {"format": "postgres"},
        {"format": "memory"},
        {"format": "console"},
        {"format": "delta", "mode": "upsert"},
        {"format": "kafka", "options": {"key": True}},
    ],
)
def test_targets_that_upsert_take_every_strategy(window: Data, target: Data) -> None:
    made = Pipeline.from_dict(pipeline(window=window, target=target))
    assert not made.target.appends_only


def test_only_the_last_operator_has_to_suit_the_target() -> None:
    chain = [session(id="first", emit="on_update"), tumbling(id="second")]
    made = Pipeline.from_dict(_operators(*chain, target=PARQUET))
    assert made.inputs() == {"first": ("clicks",), "second": ("first",)}


SERVERS = "broker-1:9092,broker-2:9092"


def _topic(topic: str, servers: str = SERVERS) -> Data:
    return {"format": "kafka", "options": {"bootstrap_servers": servers, "topic": topic}}


def _of_topics(servers: str = SERVERS, **topics: object) -> Data:
    return source(format="kafka", options={"bootstrap_servers": servers, **topics})


@pytest.mark.parametrize(
    ("read", "written", "by"),
    [
        ({"topic_pattern": "clicks.*"}, "clicks.rejected", "topic_pattern 'clicks.*'"),
        ({"topics": ["clicks", "sent"]}, "sent", "topics"),
        ({"topics": "sent"}, "sent", "topics"),
        ({"topic": "sent"}, "sent", "topic"),
    ],
)
def test_a_topic_is_not_both_read_and_written(read: Data, written: str, by: str) -> None:
    sources = _of_topics(**read)
    both = pipeline(sources=sources, target=_topic(written), rejected=_topic(written))
    problems = problems_of(lambda: Pipeline.from_dict(both))
    expected = "a topic that the pipeline does not read: its rows would come back for ever"
    found = f"{written!r}, which source 'clicks' reads by its {by}"
    assert [(each.at, each.found, each.expected) for each in problems] == [
        ("target.options.topic", found, expected),
        ("rejected.options.topic", found, expected),
    ]


@pytest.mark.parametrize("servers", ["broker-2:9092, broker-1:9092", "BROKER-1", "broker-2:9092"])
def test_brokers_of_one_cluster_are_known_in_any_order(servers: str) -> None:
    both = pipeline(sources=_of_topics(servers, topic="sent"), target=_topic("sent"))
    (problem,) = problems_of(lambda: Pipeline.from_dict(both))
    assert problem.hint == "write to a topic with a name that is not read"


@pytest.mark.parametrize(
    "read",
    [
        _of_topics(topic="clicks"),
        _of_topics(topics=["clicks", "views"]),
        _of_topics(topic_pattern="clicks"),
        _of_topics(topic_pattern="clicks-.*"),
        _of_topics("elsewhere:9092", topic_pattern="clicks.*"),
        source(format="parquet", options={"topic": "clicks.rejected"}),
    ],
)
def test_a_topic_that_is_not_read_takes_what_is_turned_away(read: Data) -> None:
    made = Pipeline.from_dict(pipeline(sources=read, rejected=_topic("clicks.rejected")))
    assert {*made.channels} == {"rejected"}


@pytest.mark.parametrize("odd", [{"topic_pattern": "("}, {"topic_pattern": 5}, {"topics": 7}])
def test_options_that_mean_nothing_are_left_to_the_source(odd: Data) -> None:
    made = Pipeline.from_dict(pipeline(sources=_of_topics(**odd), target=_topic("sent")))
    assert made.target.options["topic"] == "sent"


def test_columns_behind_a_transform_are_not_judged() -> None:
    hidden = source(columns=COLUMNS, transform="SELECT ts, id AS usr FROM source")
    made = Pipeline.from_dict(pipeline(sources=hidden, window=session(group_by="usr")))
    assert made.bound() == {}


def test_columns_are_judged_only_where_every_input_declares_them() -> None:
    sources = [source(columns=COLUMNS), source(name="views")]
    made = Pipeline.from_dict(pipeline(sources=sources, window=session(group_by="usr")))
    assert made.bound() == {}


def test_an_operator_reads_the_columns_of_the_one_before_it() -> None:
    chain = [session(id="visits"), tumbling(id="per_minute", group_by="usr")]
    data = _operators(*chain, sources=source(columns=COLUMNS))
    (problem,) = problems_of(lambda: Pipeline.from_dict(data))
    assert (problem.at, problem.found, problem.expected, problem.hint) == (
        "operators[1].group_by[0]",
        "'usr'",
        "a column of 'visits'",
        "did you mean 'user'?",
    )
