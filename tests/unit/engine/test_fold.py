"""The state of keys as rows that people read."""

from __future__ import annotations

import json

import numpy as np
import polars as pl

from tidegate.core.step import Readable
from tidegate.engine.fold import readable_keys

ODD = ["line\nfeed", "next\x85line", "line\u2028separator", "para\u2029graph", "zero\0", '"\\']


def test_a_key_is_one_row_whatever_its_text_does_to_lines() -> None:
    count = len(ODD)
    rows = Readable(
        what="windows",
        key_hash=np.arange(count, dtype=np.int64),
        keys=pl.DataFrame({"user": ODD}),
        values=pl.DataFrame({"page": ODD[::-1]}),
        forget_us=np.full(count, 5, dtype=np.int64),
    )
    folded = readable_keys(rows).to_pydict()
    assert [json.loads(key) for key in folded["group_key"]] == [{"user": user} for user in ODD]
    held = [json.loads(blob) for blob in folded["state_blob"]]
    assert held == [{"windows": [{"page": page}]} for page in ODD[::-1]]
