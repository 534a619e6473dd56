"""`session_id` is the hash of the group columns and `window_start`, whoever computes it (R7)."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.agreement import frame
from tests.properties.policies import any_window
from tests.properties.test_the_core_agrees_on_any_key import KEY_COLUMNS, keyed_streams, names
from tidegate.core.hashing import xxhash64
from tidegate.core.local import LocalRun
from tidegate.pipeline import Window


@given(window=any_window(kinds=("session",)), names=names, shards=st.integers(1, 3), data=st.data())
def test_session_ids_are_the_hash_of_group_columns_and_start(
    window: Window, names: tuple[str, ...], shards: int, data: st.DataObject
) -> None:
    window = window.model_copy(update={"group_by": names})
    run = LocalRun(window, KEY_COLUMNS, shards=shards)
    stream = data.draw(keyed_streams(names))
    epochs = [run.epoch(frame(e.rows, KEY_COLUMNS), e.watermark_us) for e in stream]
    shown = [*names, "window_start", "session_id"]
    sent = pl.concat(
        [
            part.select(shown)
            for epoch in (*epochs, run.flush())
            for part in (epoch.rows, epoch.retracted)
        ]
    )
    recomputed = xxhash64([sent[name] for name in (*names, "window_start")])
    assert sent["session_id"].to_list() == recomputed.tolist()
    assert sent.select(*names, "session_id").n_unique() == sent.unique().height
