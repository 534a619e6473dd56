from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pytest

from tidegate.errors import BrokerUnavailable, Problem
from tidegate.pipeline import DataType
from tidegate.sources.decode_json import JsonDecoder
from tidegate.sources.decode_plain import BinaryDecoder, StringDecoder
from tidegate.sources.decoding import CHUNK, Decoded, Decoder, decoded_anyhow, decoded_by

TEXT = {"value": DataType("string")}
BYTES = {"value": DataType("binary")}


def test_text_is_the_value() -> None:
    decoded = StringDecoder().decode([b"ann", None, "é".encode(), b""], TEXT)
    assert decoded.rows.to_pydict() == {"value": ["ann", None, "é", ""]}
    assert decoded.rows.schema == pa.schema([("value", pa.string())])
    assert decoded.undecodable is None


def test_bytes_that_are_not_utf8_are_no_text() -> None:
    decoded = StringDecoder().decode([b"ann", b"\xff\xfe", None, b"bob"], TEXT)
    assert decoded.rows.to_pydict() == {"value": ["ann", None, None, "bob"]}
    assert decoded.undecodable is not None
    assert decoded.undecodable.tolist() == [False, True, False, False]


def test_bytes_that_are_no_text_are_marked_although_nobody_wants_the_text() -> None:
    decoded = StringDecoder().decode([b"ann", b"\xff"], {})
    assert (decoded.rows.num_rows, decoded.rows.num_columns) == (2, 0)
    assert decoded.undecodable is not None
    assert decoded.undecodable.tolist() == [False, True]


def test_all_bytes_decode_as_bytes() -> None:
    decoded = BinaryDecoder().decode([b"\xff", None, b""], BYTES)
    assert decoded.rows.to_pydict() == {"value": [b"\xff", None, b""]}
    assert decoded.undecodable is None


@pytest.mark.parametrize("decoder", [StringDecoder(), JsonDecoder()])
def test_a_bad_value_in_a_later_part_is_marked_where_it_is(decoder: Decoder) -> None:
    values = [b"{}"] * (CHUNK + 5)
    values[CHUNK + 3] = b"\xff"
    decoded = decoder.decode(values, {})
    assert decoded.rows.num_rows == CHUNK + 5
    assert decoded.undecodable is not None
    assert decoded.undecodable.nonzero()[0].tolist() == [CHUNK + 3]


@pytest.mark.parametrize("decoder", [StringDecoder(), BinaryDecoder(), JsonDecoder()])
@pytest.mark.parametrize("wanted", [{}, {"value": "own"}])
def test_no_values_are_no_rows_in_the_types_wanted(
    decoder: Decoder, wanted: dict[str, str]
) -> None:
    own = DataType("binary" if isinstance(decoder, BinaryDecoder) else "string")
    decoded = decoder.decode([], dict.fromkeys(wanted, own))
    assert (decoded.rows.num_rows, decoded.rows.column_names) == (0, [*wanted])
    assert decoded.undecodable is None


@pytest.mark.parametrize("decoder", [StringDecoder(), BinaryDecoder(), JsonDecoder()])
def test_decoders_can_be_sent_to_tasks(decoder: Decoder) -> None:
    assert pickle.loads(pickle.dumps(decoder)) == decoder


@pytest.mark.parametrize(
    ("decoder", "columns", "told"),
    [
        (StringDecoder(), {"value": "string"}, []),
        (
            StringDecoder(),
            {"value": "long", "x": "string"},
            [
                "columns.value: found long, expected string",
                "columns.x: found column 'x', expected one column, 'value'",
            ],
        ),
        (BinaryDecoder(), {"value": "binary"}, []),
        (
            BinaryDecoder(),
            {"value": "string"},
            ["columns.value: found string, expected binary"],
        ),
        (JsonDecoder(), {"a": "array<decimal(10,2)>"}, []),
        (
            JsonDecoder(),
            {"a": "array<BINARY>", 'b"': "long"},
            [
                "columns.a: found array<BINARY>, expected a type that JSON has\n"
                "  hint: declare it as string, and decode it in the transform",
                "columns: found 'b\"', expected a name without quotes, backslashes "
                "and control characters",
            ],
        ),
    ],
)
def test_columns_that_values_cannot_have_are_refused(
    decoder: Decoder, columns: dict[str, str], told: list[str]
) -> None:
    assert [str(problem) for problem in decoder.refused(columns)] == told


class Brittle:
    """Bytes, as long as they do not say what to raise."""

    def refused(self, columns: Mapping[str, str]) -> Iterator[Problem]:
        return BinaryDecoder().refused(columns)

    def decode(self, values: Sequence[bytes | None], wanted: Mapping[str, DataType]) -> Decoded:
        for value in values:
            if value in _RAISED:
                raise _RAISED[value]
        return BinaryDecoder().decode(values, wanted)


_RAISED: Mapping[bytes | None, Exception] = {
    b"odd": pa.ArrowInvalid("odd"),
    b"deep": RecursionError(),
    b"away": BrokerUnavailable("away"),
    b"large": MemoryError(),
    b"no module": ImportError(),
}


@pytest.mark.parametrize("wanted", [BYTES, {}])
def test_a_value_that_a_decoder_stumbles_over_stops_no_other(wanted: dict[str, DataType]) -> None:
    values = [b"a", b"odd", None, b"b", b"c", b"deep", b"d"]
    decoded = decoded_anyhow(Brittle(), values, wanted)
    assert decoded.undecodable is not None
    assert decoded.undecodable.nonzero()[0].tolist() == [1, 5]
    assert decoded.rows.num_rows == len(values)
    if wanted:
        rows = [b"a", None, None, b"b", b"c", None, b"d"]
        assert decoded.rows.to_pydict() == {"value": rows}


def test_one_bad_value_among_many_makes_the_others_little_slower() -> None:
    handed = list[int]()

    class Counting(Brittle):
        def decode(self, values: Sequence[bytes | None], wanted: Mapping[str, DataType]) -> Decoded:
            handed.append(len(values))
            return super().decode(values, wanted)

    values = [b"a"] * 100_000
    values[70_000] = b"odd"
    decoded = decoded_anyhow(Counting(), values, BYTES)
    assert decoded.undecodable is not None
    assert decoded.undecodable.nonzero()[0].tolist() == [70_000]
    assert sum(handed) < 3.1 * len(values)


@pytest.mark.parametrize("value", [b"away", b"large", b"no module"])
def test_what_is_no_fault_of_a_value_is_raised(value: bytes) -> None:
    with pytest.raises(type(_RAISED[value])):
        decoded_anyhow(Brittle(), [b"a", value], BYTES)


def test_columns_that_do_not_decide_are_null_where_they_do_not_fit() -> None:
    wanted = {name: DataType.parse(kind) for name, kind in COLUMNS.items()}
    values = [
        b'{"user": "ann", "ts": 1, "note": "x", "n": 1}',
        b'{"user": "bob", "ts": 2, "note": 5, "n": 2}',
        b'{"user": 7, "ts": 3, "note": "y", "n": 3}',
        b'{"user": "cid", "ts": 4, "note": "z", "n": "4"}',
        b"{",
        None,
        b'{"user": "dan", "ts": 5, "note": 5, "n": "5"}',
    ]
    read = {name: wanted[name] for name in ("user", "ts")}
    alone = JsonDecoder().decode(values, read)
    decoded = decoded_by(JsonDecoder(), values, wanted, ["ts", "user", "elsewhere"])
    assert alone.undecodable is not None
    assert decoded.undecodable is not None
    assert decoded.undecodable.tolist() == alone.undecodable.tolist()
    assert decoded.rows.select([*read]) == alone.rows
    assert decoded.rows.select(["note", "n"]).to_pydict() == {
        "note": ["x", None, None, "z", None, None, None],
        "n": [1, 2, None, None, None, None, None],
    }


def test_columns_that_seldom_fit_are_null_only_where_they_do_not() -> None:
    names = [f"c{place}" for place in range(40)]
    rows = [
        {name: None if place % 3 == nth % 5 else name for nth, name in enumerate(names)}
        for place in range(100)
    ]
    rows[51]["c4"] = None  # there alone
    values = [
        json.dumps({name: 5 if cell is None else cell for name, cell in row.items()}).encode()
        for row in rows
    ]
    wanted = dict.fromkeys(["at", *names], TEXT["value"])
    found = decoded_by(JsonDecoder(), values, wanted, ["at"])
    assert found.undecodable is None
    assert found.rows.drop_columns("at").to_pylist() == rows


COLUMNS = {"user": "string", "note": "string", "ts": "long", "n": "long"}
