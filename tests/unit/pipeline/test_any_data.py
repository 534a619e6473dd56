"""Whatever somebody writes becomes a pipeline or a `ConfigError`, nothing else."""

from __future__ import annotations

import pickle

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.pipeline.examples import Data, pipeline, session, source
from tidegate.errors import ConfigError
from tidegate.pipeline import (
    Aggregation,
    Pipeline,
    Source,
    StateStore,
    Target,
    Watermark,
    Window,
)
from tidegate.pipeline.validation import keys_of

_PARTS = (Pipeline, Window, Aggregation, Source, Target, StateStore, Watermark)
_KEYS = st.sampled_from(sorted({key for part in _PARTS for key in keys_of(part).values()}))
_WORDS = st.sampled_from(
    ["session", "tumbling", "count", "sum", "user", "clicks", "parquet", "op", "exact", ""]
)
_ATOMS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.binary(), _WORDS, st.text(max_size=3)
)
_ANYTHING = st.recursive(
    _ATOMS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_KEYS, inner, max_size=3)),
    max_leaves=8,
)
_CHANGES = st.dictionaries(_KEYS, _ANYTHING, max_size=2)


@given(whole=_CHANGES, window=_CHANGES, first=_CHANGES, read=_CHANGES, store=_CHANGES)
def test_any_data_is_a_pipeline_or_a_config_error(
    whole: Data, window: Data, first: Data, read: Data, store: Data
) -> None:
    aggregations = [{"kind": "count", **first}, {"kind": "max", "input_column": "user"}]
    data = pipeline(
        sources=[{**source(columns={"ts": "timestamp", "user": "long"}), **read}],
        window={**session(aggregations=aggregations), **window},
        state_store=store,
    )
    outcome = _outcome({**data, **whole})
    if isinstance(outcome, ConfigError):
        assert pickle.loads(pickle.dumps(outcome)).problems == outcome.problems
        assert all(problem.found and problem.expected for problem in outcome.problems)
    else:
        assert Pipeline.from_dict(outcome.model_dump()) == outcome
        assert outcome.explain().startswith(f"pipeline {outcome.name}")
        assert len(outcome.fingerprint()) == 64


def _outcome(data: Data) -> Pipeline | ConfigError:
    try:
        return Pipeline.from_dict(data)
    except ConfigError as error:
        return error
