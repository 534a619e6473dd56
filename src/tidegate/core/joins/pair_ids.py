"""What a pair is called: two hashes of 64 bits, as one text of 32 hexadecimal digits.

Targets replace rows by it alone, so no two pairs of a table may share it, however many there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl
import pyarrow as pa

from tidegate.core.hashing import xxhash64

PAIR_ID: Final = "pair_id"
_BYTES: Final = 16
_SECOND_SEED: Final = int(xxhash64([pl.Series([PAIR_ID])])[0])
"""As if the second hash had one more column in front, the constant text `pair_id`."""


def pair_ids(columns: Sequence[pl.Series]) -> pl.Series:
    """Name each row of `columns`. A hash passes over NULL: `(NULL, 1)` and `(1, NULL)` are one.

    In Spark SQL a half is `lower(lpad(hex(h), 16, '0'))`; `h` is `xxhash64(c, ...)` in the first
    and `xxhash64('pair_id', c, ...)` in the second.

    >>> pair_ids([pl.Series([0, 0]), pl.Series([3, 4])]).to_list()
    ['e0e259f3a9a9d270c199510c81d5ab03', '523ac03b8c023737142c4cde832666e2']
    """
    halves = [xxhash64(columns), xxhash64(columns, _SECOND_SEED)]
    big_endian = np.stack(halves, axis=1).astype(">i8")
    buffers = [None, pa.py_buffer(big_endian)]
    hashes = pa.Array.from_buffers(pa.binary(_BYTES), len(big_endian), buffers)
    return pl.Series(PAIR_ID, hashes).bin.encode("hex")
