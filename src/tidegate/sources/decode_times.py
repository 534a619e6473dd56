"""Times written as text, as JSON and CSV have them: each text for itself, whatever the others are.

What has no zone is UTC; fractions are cut at a microsecond.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.core.arrays import Bools
from tidegate.core.event_times import event_times
from tidegate.pipeline import DataType
from tidegate.sources.columns import arrow_type

_US_OF_DAY: Final = 86_400_000_000
_BEGINS_WITH_A_DAY: Final = r"^\d{4}-\d\d-\d\d"


class TextTimes(NamedTuple):
    """Times in the type wanted, NULL where a text is none."""

    times: pa.Array | pa.ChunkedArray
    unparsable: Bools | None
    """Which rows have a text that is no such time; None: none of them."""


def text_times(text: pa.Array | pa.ChunkedArray, kind: DataType) -> TextTimes:
    """Arrow reads the usual forms at ten times the speed; the others are read like event times.

    A text with a time of day is not a date.
    """
    try:
        return TextTimes(text.cast(arrow_type(kind)), None)
    except pa.ArrowInvalid:
        return _read_like_event_times(text, kind)


def _read_like_event_times(text: pa.Array | pa.ChunkedArray, kind: DataType) -> TextTimes:
    found = event_times(pl.Series(text))
    event_us = pl.DataFrame([found.event_us]).to_arrow()["event_us"]
    wrong = np.zeros(len(text), np.bool_) if found.unparsable is None else found.unparsable.copy()
    if kind.name == "date":
        days = found.event_us // _US_OF_DAY
        wrong |= (days * _US_OF_DAY != found.event_us).fill_null(value=False).to_numpy()
        times = pl.DataFrame([days.cast(pl.Int32)]).to_arrow()["event_us"].cast(pa.date32())
    else:
        times = event_us.cast(pa.timestamp("us")).cast(arrow_type(kind))
    times = _with_what_arrow_reads(times, text, wrong, arrow_type(kind))
    return TextTimes(times, wrong) if wrong.any() else TextTimes(times, None)


def _with_what_arrow_reads(
    times: pa.ChunkedArray, text: pa.Array | pa.ChunkedArray, wrong: Bools, dtype: pa.DataType
) -> pa.ChunkedArray:
    """Clear the marks of texts that Arrow can read: it would have, were they alone."""
    hopeful = pl.Series(text).str.contains(_BEGINS_WITH_A_DAY).fill_null(value=False)
    marked = wrong & hopeful.to_numpy()
    places = np.flatnonzero(marked)
    rest = [_alone(text[place], dtype) for place in places.tolist()]
    wrong[places] = [time is None for time in rest]
    return pc.replace_with_mask(times, pa.array(marked), pa.array(rest, dtype))


def _alone(text: pa.Scalar, dtype: pa.DataType) -> pa.Scalar | None:
    try:
        return text.cast(dtype)
    except pa.ArrowInvalid:
        return None
