"""Each value decodes as if it were alone, and as JSON by its definition says."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tidegate.pipeline import DataType
from tidegate.sources.decode_json import JsonDecoder

WANTED = {
    "n": DataType("long"),
    "s": DataType("string"),
    "x": DataType("double"),
    "at": DataType("timestamp"),
    "d": DataType.parse("decimal(6,2)"),
    "l": DataType.parse("array<date>"),
}

TIMES = ["2026-01-02T03:04:05Z", "2026-01-02T03Z", "2026-01-02 03:04", "2026-01-02", "2026-02-30"]
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**65), 2**65)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.sampled_from(TIMES)
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
FITTING = st.fixed_dictionaries(
    {},
    optional={
        "n": st.none() | st.integers(-(2**63), 2**63 - 1),
        "s": st.none() | st.text(max_size=5),
        "x": st.none() | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
        "at": st.none() | st.sampled_from(TIMES[:4]),
        "d": st.none() | st.integers(-9999, 9999),
        "l": st.none() | st.lists(st.none() | st.sampled_from(TIMES[3:4]), max_size=3),
        "other": ANYTHING,
    },
)
KEYS = st.sampled_from([*WANTED, "other"])


@st.composite
def written(draw: st.DrawFn, objects: st.SearchStrategy[Any]) -> bytes:
    layout = draw(st.sampled_from([None, 1]))
    return json.dumps(draw(objects), ensure_ascii=draw(st.booleans()), indent=layout).encode()


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    whole = draw(written(FITTING))
    begin, end = sorted(draw(st.tuples(*[st.integers(0, len(whole))] * 2)))
    return (
        whole[:begin] + draw(st.sampled_from([b"", b"\xff", b"}", b"{", b"\n", b","])) + whole[end:]
    )


NASTY = st.sampled_from(
    [
        *(
            b"",
            b" ",
            b"null",
            b"5",
            b"[]",
            b"{} {}",
            b"{},{}",
            b'{"n":1}\n{"n":2}',
            b'{"n":1',
            b'"s":"t"}',
        ),
        *(
            b"\xef\xbb\xbf{}",
            b'{"n":1,"n":2}',
            b'{"n":"t","n":2}',
            b'{"x":NaN}',
            b'{"other":Infinity}',
        ),
        *(
            b'{"s":"\\ud800"}',
            b'{"other":"\\udc00"}',
            b'{"other":{"\\ud800":1}}',
            b'{"n":1,}',
            b"{}]",
        ),
    ]
)
VALUES = st.lists(
    st.none()
    | written(FITTING)
    | written(st.dictionaries(KEYS, ANYTHING))
    | written(ANYTHING)
    | damaged()
    | NASTY
    | st.binary(max_size=8),
    max_size=12,
)


def rows_of(values: list[bytes | None], wanted: dict[str, DataType]) -> list[Any]:
    """The row of each value, or None where it did not decode."""
    decoded = JsonDecoder().decode(values, wanted)
    assert decoded.rows.num_rows == len(values)
    assert decoded.rows.column_names == [*wanted]
    rows: list[Any] = decoded.rows.to_pylist()
    if decoded.undecodable is None:
        return rows
    assert decoded.undecodable.any()
    for row, bad in zip(rows, decoded.undecodable, strict=True):
        assert not bad or set(row.values()) == {None}
    return [None if bad else row for row, bad in zip(rows, decoded.undecodable, strict=True)]


@given(VALUES)
def test_a_value_decodes_as_it_does_alone(values: list[bytes | None]) -> None:
    assert rows_of(values, WANTED) == [rows_of([value], WANTED)[0] for value in values]


@given(VALUES)
def test_a_value_decodes_as_the_definition_of_json_says(values: list[bytes | None]) -> None:
    wanted = {name: WANTED[name] for name in ("n", "s", "x")}
    assert rows_of(values, wanted) == [defined(value) for value in values]


def defined(value: bytes | None) -> dict[str, Any] | None:
    """The row of a value by Python's own reader, made as strict as RFC 8259."""
    if value is None:
        return dict.fromkeys(("n", "s", "x"))
    pairs: list[tuple[str, Any]] = []

    def noted(found: list[tuple[str, Any]]) -> dict[str, Any]:
        pairs[:] = found
        return dict(found)

    try:
        found = json.loads(value.decode(), object_pairs_hook=noted, parse_constant=refused)
        json.dumps(found, ensure_ascii=False).encode()  # half of a pair of surrogates is no text
    except ValueError:
        return None
    if not isinstance(found, dict) or not all(fits(*pair) for pair in pairs):
        return None
    return {"n": found.get("n"), "s": found.get("s"), "x": as_double(found.get("x"))}


def refused(constant: str) -> None:
    raise ValueError(constant)


def fits(name: str, value: object) -> bool:
    if value is None or name not in ("n", "s", "x"):
        return True
    if name == "s":
        return isinstance(value, str)
    if name == "n":
        return type(value) is int and -(2**63) <= value < 2**63
    return type(value) in (int, float) and abs(as_double(value) or 0.0) != float("inf")


def as_double(value: Any) -> float | None:
    return None if value is None else float(value)
