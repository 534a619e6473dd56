from __future__ import annotations

import pickle
import subprocess
import sys
import warnings

import pytest

from tests.unit.pipeline.examples import UNSET, hopping, pipeline, session, source, tumbling
from tidegate.errors import InMemoryStateWarning
from tidegate.pipeline import (
    Aggregation,
    Pipeline,
    Source,
    StateStore,
    Target,
    Watermark,
    Window,
)


def _clicks() -> Source:
    return Source(name="clicks", format="files", event_time="ts", options={"path": "/in"})


def _window() -> Window:
    return Window(
        kind="session",
        gap_ms=30_000,
        max_session_duration_ms=86_400_000,
        group_by="user",
        aggregations=[Aggregation(kind="count")],
    )


def test_a_pipeline_is_written_with_keywords() -> None:
    short = Pipeline(
        name="visits",
        sources=_clicks(),
        window=_window(),
        target=Target(format="memory"),
        late=Target(format="parquet"),
        rejected=Target(format="json"),
        state_store=StateStore(),
    )
    long = Pipeline(
        name="visits",
        sources=[_clicks()],
        operators=[_window()],
        target=Target(format="memory"),
        channels={"late": Target(format="parquet"), "rejected": Target(format="json")},
        watermark=Watermark(),
        state_store=StateStore(),
    )
    assert short == long
    assert hash(short) == hash(long)
    assert short.fingerprint() == long.fingerprint()


@pytest.mark.parametrize(
    "data",
    [
        pipeline(),
        pipeline(window=session(late_data="dlq"), late={"format": "csv", "options": {"path": "x"}}),
        pipeline(window=tumbling(), state_store=UNSET),
        pipeline(window=UNSET, operators=[session(id="a"), hopping(id="b", inputs="a")]),
        pipeline(
            sources=[
                source(columns={"ts": "timestamp", "user": "long"}, watermark={}),
                source(name="b", options={"deep": [{"a": [1, None, 2.5, True]}]}),
            ],
            state_store={"kind": "postgres", "url": "postgresql://u:p@h/d", "schema": "s"},
        ),
    ],
)
def test_a_pipeline_survives_dumping_json_and_pickling(data: dict[str, object]) -> None:
    made = Pipeline.from_dict(data)
    copies = [
        Pipeline.model_validate(made.model_dump()),
        Pipeline.from_dict(made.model_dump(mode="json")),
        Pipeline.model_validate_json(made.model_dump_json()),
        pickle.loads(pickle.dumps(made)),
        made.model_copy(),
    ]
    assert copies == [made] * 5
    assert {hash(each) for each in copies} == {hash(made)}
    assert {each.fingerprint() for each in copies} == {made.fingerprint()}


def test_fixed_windows_are_kept_in_the_embedded_store_by_default() -> None:
    made = Pipeline.from_dict(pipeline(window=tumbling(), state_store=UNSET))
    assert made.state_store == StateStore()


def test_state_in_memory_warns_where_the_pipeline_is_made() -> None:
    with pytest.warns(InMemoryStateWarning, match="'visits' keeps its state in memory") as caught:
        Pipeline(
            name="visits",
            sources=_clicks(),
            window=_window(),
            target=Target(format="memory"),
            state_store=StateStore(kind="in_memory"),
        )
    assert [each.filename for each in caught] == [__file__]


def test_a_store_in_memory_alone_does_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert StateStore(kind="in_memory").kind == "in_memory"


def test_a_source_without_a_watermark_has_that_of_the_pipeline() -> None:
    sources = [source(name="a"), source(name="b", watermark={"max_out_of_order_ms": 7})]
    made = Pipeline.from_dict(pipeline(sources=sources, watermark={"max_out_of_order_ms": 5}))
    disorder = {name: made.watermark_of(name).max_out_of_order_ms for name in ("a", "b")}
    assert disorder == {"a": 5, "b": 7}


def test_operators_without_inputs_read_all_sources_or_the_one_before() -> None:
    aside = {"format": "memory", "options": {"name": "aside"}}
    operators = [
        session(id="x"),
        session(id="y", target=aside),
        session(id="z", inputs=["a", "x"]),
    ]
    sources = [source(name="a"), source(name="b")]
    made = Pipeline.from_dict(pipeline(sources=sources, window=UNSET, operators=operators))
    assert made.inputs() == {"x": ("a", "b"), "y": ("x",), "z": ("a", "x")}


def test_operators_may_be_listed_in_any_order() -> None:
    operators = [session(id="last", inputs="first"), session(id="first", inputs="clicks")]
    sources = source(columns={"ts": "timestamp", "user": "long"})
    made = Pipeline.from_dict(pipeline(sources=sources, window=UNSET, operators=operators))
    assert sorted(made.bound()) == ["first", "last"]


def test_types_of_columns_may_come_from_the_source_itself() -> None:
    made = Pipeline.from_dict(pipeline())
    schema = made.bound({"clicks": {"ts": "timestamp", "user": "bigint"}})["window"].output_schema
    assert str(schema["user"]) == "long"


def test_what_a_source_turned_out_to_have_comes_before_what_it_declares() -> None:
    declared = source(columns={"ts": "timestamp", "user": "long"})
    made = Pipeline.from_dict(pipeline(sources=declared))
    schema = made.bound({"clicks": {"ts": "timestamp", "user": "string"}})["window"].output_schema
    assert str(schema["user"]) == "string"


def test_columns_behind_a_transform_are_not_known() -> None:
    hidden = source(columns={"ts": "timestamp", "user": "long"}, transform="SELECT * FROM source")
    made = Pipeline.from_dict(pipeline(sources=hidden))
    assert made.bound() == {}


def test_columns_are_known_only_where_every_input_declares_them() -> None:
    sources = [source(columns={"ts": "timestamp", "user": "long"}), source(name="views")]
    made = Pipeline.from_dict(pipeline(sources=sources))
    assert made.bound() == {}


def test_the_value_of_a_pipeline_needs_neither_spark_nor_polars() -> None:
    script = (
        "import sys, tidegate.pipeline\n"
        "loaded = {name.partition('.')[0] for name in sys.modules}\n"
        "print(sorted(loaded & {'pyspark', 'polars', 'pyarrow', 'numpy'}))\n"
        "print([name for name in sys.modules if name.startswith('tidegate.core')])\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("[]\n[]\n", "")
