"""Aggregates that keep many values: distinct counts, and the values themselves.

A partial holds a sorted list for each group. Lists are built, joined and counted whole
columns at a time; only what is rare is looped over: a distinct count that has outgrown
its list and become a sketch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from datasketches import hll_sketch, hll_union, tgt_hll_type

from tidegate.core.aggregates.protocol import Call, Part
from tidegate.core.arrays import Int64s, is_new, order_within
from tidegate.core.frames import nulls
from tidegate.core.grouping import Grouped, NameKey, list_lengths, lists_of
from tidegate.core.hashing import xxhash64
from tidegate.errors import StateLimitReached

EXACT_VALUES = 512
"""An approximate distinct count is exact up to here, then a sketch."""

LG_K = 14


@dataclass(frozen=True, slots=True)
class ApproximateDistinct:
    """The number of distinct values: exact while they are few, then an HLL sketch's estimate.

    The estimate is a function of the registers alone, so of the set of values: the order in
    which rows came and partials were combined does not show.
    """

    column: str

    @property
    def parts(self) -> dict[str, pl.DataType]:
        """The hashes of the values; or a sketch, and then the list is empty."""
        return {"hashes": pl.List(pl.Int64()), "sketch": pl.Binary()}

    def lift(self, rows: Grouped) -> Part:
        """The distinct hashes of each group."""
        values = rows.column(self.column)
        valid = np.flatnonzero(values.is_not_null().to_numpy())
        hashes = xxhash64([values.gather(valid)])
        group = rows.group_of(valid)
        order = order_within(group, hashes)
        group, hashes = group[order], hashes[order]
        new = is_new(group) | is_new(hashes)
        lists = lists_of(pl.Series(hashes[new]), group[new], len(rows))
        return _grown(lists, nulls(len(rows), pl.Binary()))

    def combine(self, left: Part, right: Part, name_key: NameKey) -> Part:
        """The union."""
        lists = _union(left["hashes"], right["hashes"])
        one, other = left["sketch"], right["sketch"]
        both = np.flatnonzero((one.is_not_null() & other.is_not_null()).to_numpy())
        joined = [_joined(one[int(nth)], other[int(nth)]) for nth in both]
        sketches = one.zip_with(one.is_not_null(), other)
        return _grown(lists, _replaced(sketches, both, pl.Series(joined, dtype=pl.Binary)))

    def lower(self, part: Part, name_key: NameKey) -> pl.Series:
        """The count."""
        counts = list_lengths(part["hashes"]).copy()
        for nth in part["sketch"].is_not_null().arg_true():
            counts[nth] = _estimate(part["sketch"][nth])
        return pl.Series(counts)


def _grown(lists: pl.Series, sketches: pl.Series) -> Part:
    """Lists that grew too long, or stand beside a sketch, poured into sketches."""
    lengths = list_lengths(lists)
    beside = sketches.is_not_null().to_numpy() & (lengths > 0)
    dense = np.flatnonzero((lengths > EXACT_VALUES) | beside)
    if len(dense) == 0:
        return {"hashes": lists, "sketch": sketches}
    poured = [_poured(sketches[int(nth)], lists[int(nth)]) for nth in dense]
    empty = pl.Series([[]], dtype=lists.dtype).new_from_index(0, len(dense))
    return {
        "hashes": _replaced(lists, dense, empty),
        "sketch": _replaced(sketches, dense, pl.Series(poured, dtype=pl.Binary)),
    }


def _replaced(values: pl.Series, at: Int64s, by: pl.Series) -> pl.Series:
    """The values, but for the places `at`, where `by` stands."""
    index = np.arange(len(values))
    index[at] = len(values) + np.arange(len(at))
    return pl.concat([values, by]).gather(index)


def _poured(sketch: bytes | None, hashes: pl.Series) -> bytes:
    grown = (
        hll_sketch(LG_K, tgt_hll_type.HLL_8) if sketch is None else hll_sketch.deserialize(sketch)
    )
    for value in hashes.to_list():
        grown.update(value)
    return bytes(grown.serialize_compact())


def _joined(left: bytes, right: bytes) -> bytes:
    union = hll_union(LG_K)
    union.update(hll_sketch.deserialize(left))
    union.update(hll_sketch.deserialize(right))
    return bytes(union.get_result(tgt_hll_type.HLL_8).serialize_compact())


def _estimate(sketch: bytes) -> int:
    """Read through a union with itself: a sketch's own estimate depends on the order of updates."""
    estimate: float = hll_sketch.deserialize(_joined(sketch, sketch)).get_estimate()
    return round(estimate)


@dataclass(frozen=True, slots=True)
class ExactDistinct:
    """The number of distinct values, all of them kept; more than `limit` stop the pipeline."""

    column: str
    dtype: pl.DataType
    limit: int

    @property
    def parts(self) -> dict[str, pl.DataType]:
        """The values, sorted."""
        return {"values": pl.List(self.dtype)}

    def lift(self, rows: Grouped) -> Part:
        """The distinct values of each group."""
        group = pl.Series("group", np.repeat(np.arange(len(rows)), rows.sizes))
        values = _normal(rows.column(self.column)).alias("value")
        pairs = pl.DataFrame([group, values]).drop_nulls("value").unique().sort("group", "value")
        lists = lists_of(pairs["value"], pairs["group"].to_numpy(), len(rows))
        return {"values": self._checked(lists, rows.name_key)}

    def combine(self, left: Part, right: Part, name_key: NameKey) -> Part:
        """The union."""
        return {"values": self._checked(_union(left["values"], right["values"]), name_key)}

    def _checked(self, lists: pl.Series, name_key: NameKey) -> pl.Series:
        _check_lengths(lists, self.limit, f"max_distinct of column {self.column!r}", name_key)
        return lists

    def lower(self, part: Part, name_key: NameKey) -> pl.Series:
        """The count."""
        return pl.Series(list_lengths(part["values"]))


def distinct_of(call: Call) -> ApproximateDistinct | ExactDistinct:
    """A distinct count in the mode that the user chose."""
    options = call.aggregation
    if options.mode == "exact":
        return ExactDistinct(call.column, call.dtype, options.max_distinct or 0)
    return ApproximateDistinct(call.column)


@dataclass(frozen=True, slots=True)
class Collect:
    """The values in order of event time, ties by position; more than `limit` stop the pipeline."""

    column: str
    dtype: pl.DataType
    limit: int

    @property
    def parts(self) -> dict[str, pl.DataType]:
        """Values with their positions, sorted by position."""
        return {"items": pl.List(pl.Struct(self._item))}

    @property
    def _item(self) -> dict[str, pl.DataType]:
        return {"at_us": pl.Int64(), "lane": pl.Int64(), "offset": pl.Int64(), "value": self.dtype}

    def lift(self, rows: Grouped) -> Part:
        """The values of each group, which is in order already."""
        values = rows.column(self.column)
        valid = np.flatnonzero(values.is_not_null().to_numpy())
        row = rows.row[valid]
        items = pl.DataFrame(
            {
                "at_us": rows.events.event_us[row],
                "lane": rows.events.lane[row],
                "offset": rows.events.offset[row],
                "value": values.gather(valid),
            },
            schema=self._item,
        ).to_struct()
        lists = lists_of(items, rows.group_of(valid), len(rows))
        return {"items": self._checked(lists, rows.name_key)}

    def combine(self, left: Part, right: Part, name_key: NameKey) -> Part:
        """Both, in order again."""
        lists = left["items"].list.concat(right["items"]).list.sort()
        return {"items": self._checked(lists, name_key)}

    def _checked(self, lists: pl.Series, name_key: NameKey) -> pl.Series:
        _check_lengths(lists, self.limit, f"max_values of column {self.column!r}", name_key)
        return lists

    def lower(self, part: Part, name_key: NameKey) -> pl.Series:
        """The values without their positions."""
        return part["items"].list.eval(pl.element().struct.field("value"))


def _union(left: pl.Series, right: pl.Series) -> pl.Series:
    return left.list.concat(right).list.unique().list.sort()


def _normal(values: pl.Series) -> pl.Series:
    """0.0 for -0.0: the two are one value."""
    return values + 0.0 if values.dtype.is_float() else values


def _check_lengths(lists: pl.Series, limit: int, what: str, name_key: NameKey) -> None:
    lengths = list_lengths(lists)
    if len(lengths) and lengths.max() > limit:
        nth = int(lengths.argmax())
        raise StateLimitReached(
            f"{what} for key {name_key(nth)}",
            int(lengths[nth]),
            limit,
            hint="raise the limit of this aggregation, or leave the key out in the transform",
        )
