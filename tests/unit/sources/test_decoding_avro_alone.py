"""Avro records of any schema decode as fastavro decodes them, one by one."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

from fastavro import parse_schema, schemaless_reader, schemaless_writer
from hypothesis import given
from hypothesis import strategies as st

from tidegate.pipeline import DataType
from tidegate.sources.decode_avro import AvroDecoder
from tidegate.sources.decode_avro_schema import avro_columns

SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=20),
    "string": st.text(max_size=20),
}


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """The values that a type can have."""
    if isinstance(kind, list):
        return st.one_of(st.none(), *(values_of(branch) for branch in kind if branch != "null"))
    if isinstance(kind, str):
        return SCALARS[kind]
    if kind["type"] == "array":
        return st.lists(values_of(kind["items"]), max_size=3)
    if kind["type"] == "map":
        return st.dictionaries(st.text(max_size=3), values_of(kind["values"]), max_size=3)
    return st.sampled_from(kind["symbols"])


PLAIN = st.sampled_from([*SCALARS])
TYPES = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        inner.map(lambda items: {"type": "array", "items": items}),
        inner.map(lambda values: {"type": "map", "values": values}),
        PLAIN.map(lambda kind: ["null", kind]),
        PLAIN.map(lambda kind: [kind, "null"]),
    ),
    max_leaves=3,
)


@st.composite
def batches(draw: st.DrawFn) -> tuple[str, list[dict[str, Any]], list[int]]:
    """A schema, rows of it, and which of them are to be damaged."""
    kinds = draw(st.lists(TYPES, min_size=1, max_size=4))
    fields = [{"name": f"f{place}", "type": kind} for place, kind in enumerate(kinds)]
    row = st.fixed_dictionaries({each["name"]: values_of(each["type"]) for each in fields})
    rows = draw(st.lists(row, max_size=8))
    damaged = draw(st.lists(st.sampled_from([*range(len(rows))]), unique=True)) if rows else []
    return json.dumps({"type": "record", "name": "E", "fields": fields}), rows, damaged


def encoded(schema: str, row: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    schemaless_writer(out, parse_schema(json.loads(schema)), row)
    return out.getvalue()


def decoded(schema: str, values: Sequence[bytes]) -> list[Any]:
    """The row of each value, or None where it did not decode."""
    wanted = {name: DataType.parse(kind) for name, kind in avro_columns(schema).items()}
    found = AvroDecoder(schema).decode(values, wanted)
    assert found.rows.num_rows == len(values)
    found.rows.validate(full=True)
    rows = found.rows.to_pylist() if wanted else [{}] * len(values)
    marks = [False] * len(values) if found.undecodable is None else found.undecodable
    return [None if bad else row for row, bad in zip(rows, marks, strict=True)]


@given(batches())
def test_records_come_back_as_they_were_written(
    batch: tuple[str, list[dict[str, Any]], list[int]],
) -> None:
    schema, rows, _ = batch
    columns = avro_columns(schema)
    expected = [{name: row[name] for name in columns} for row in rows]
    assert decoded(schema, [encoded(schema, row) for row in rows]) == expected


@given(batches(), st.data())
def test_a_damaged_record_decodes_as_it_does_alone_and_changes_no_other(
    batch: tuple[str, list[dict[str, Any]], list[int]], data: st.DataObject
) -> None:
    schema, rows, damaged = batch
    values = [encoded(schema, row) for row in rows]
    for place in damaged:
        begin = data.draw(st.integers(0, len(values[place])))
        end = data.draw(st.integers(begin, len(values[place])))
        values[place] = (
            values[place][:begin] + data.draw(st.binary(max_size=4)) + values[place][end:]
        )
    found = decoded(schema, values)
    assert same(found, [decoded(schema, [value])[0] for value in values])
    for value, row in zip(values, found, strict=True):
        assert row is None or agrees(schema, value, row)


def agrees(schema: str, value: bytes, row: dict[str, Any]) -> bool:
    """Whether fastavro reads the same row from all the bytes, where it reads any."""
    rest = io.BytesIO(value)
    try:
        found: Any = schemaless_reader(rest, parse_schema(json.loads(schema)))
    except UnicodeDecodeError:
        return len(row) < len(json.loads(schema)["fields"])  # in a map, which is read past
    return same({name: found[name] for name in row}, row) and rest.read() == b""


def same(left: Any, right: Any) -> bool:
    """Whether values are equal, and NaN where the other is."""
    return repr(left) == repr(right)
