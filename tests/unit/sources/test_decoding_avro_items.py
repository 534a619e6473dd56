"""Arrays and maps of Avro: a long one, or a broken one, costs what its bytes do."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.unit.sources.test_decoding_avro import record, written
from tidegate.pipeline import DataType
from tidegate.sources.decode_avro import AvroDecoder
from tidegate.sources.decode_avro_schema import avro_columns

LONGS = {"type": "array", "items": "long"}
ID = {"id": DataType("long")}
ROWS = 2_000
MANY = b"\x80" * 8 + b"\x20"


def decoded(schema: str, values: list[bytes], wanted: dict[str, DataType]) -> tuple[float, Any]:
    """The seconds of a core that it takes to decode the values, and what comes of them."""
    begin = time.process_time()
    found = AvroDecoder(schema).decode(values, wanted)
    return time.process_time() - begin, found


@pytest.mark.parametrize("wanted", [ID, {**ID, "x": DataType.parse("array<long>")}])
def test_one_long_array_among_short_ones_is_read_quickly(wanted: dict[str, DataType]) -> None:
    schema = record(id="long", x=LONGS)
    short, long = {"id": 1, "x": [1, 2, 3]}, {"id": 2, "x": [7] * 100_000}
    [one, other] = written(schema, short, long)
    plain_s, _ = decoded(schema, [one] * ROWS, wanted)
    taken_s, found = decoded(schema, [*[one] * (ROWS - 1), other], wanted)
    assert found.undecodable is None
    rows = found.rows.slice(ROWS - 2).to_pylist()
    assert rows == [{name: row[name] for name in wanted} for row in (short, long)]
    assert taken_s < plain_s + 1.0


FIVE = {"type": "fixed", "name": "Five", "size": 5}


@pytest.mark.parametrize("kind", ["array", "map"])
@pytest.mark.parametrize("items", ["long", "boolean", "double", "string", FIVE, LONGS])
def test_a_number_of_items_that_cannot_be_costs_no_more_than_its_bytes(
    kind: str, items: Any
) -> None:
    schema = record(id="long", x={"type": kind, "items": items, "values": items})
    good = b"\x02\x00"
    for count in (b"\xa0\xc2\x1e", MANY, b"\x02", b"\x01\x02"):  # 250 000, 2**60, 1, 1 in a byte
        bad = b"\x02" + count + b"\x02" * 300_000
        for wanted in avro_columns(schema), {"id": "long"}:
            kinds = {name: DataType.parse(each) for name, each in wanted.items()}
            taken_s, found = decoded(schema, [good] * ROWS + [bad], kinds)
            assert found.undecodable.nonzero()[0].tolist() == [ROWS]
            assert taken_s < 2.0


def test_runs_whose_bytes_are_said_are_jumped_over() -> None:
    schema = record(id="long", x={"type": "array", "items": "string"}, y="long")
    run = b"\x03\x08" + b"\x02a\x02b"
    value = b"\x02" + run + run + b"\x00" + b"\x0a"
    wanted = {"y": DataType("long"), "x": DataType.parse("array<string>")}
    for many in (1, 300):
        for columns in ({"y": wanted["y"]}, wanted):
            _, found = decoded(schema, [value] * many, columns)
            row = {"y": 5, "x": ["a", "b", "a", "b"]}
            assert found.undecodable is None
            assert found.rows.to_pylist() == [{name: row[name] for name in columns}] * many
