"""Lines of text become typed columns, or are refused: no number ends the process."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tidegate.pipeline import DataType
from tidegate.sources.line_parsers import CsvLines, JsonLines

MONEY = DataType.parse("decimal(10,2)")
REFUSED = "refused"
WRITTEN = [
    ("5.250", Decimal("5.25")),
    ("525e-2", Decimal("5.25")),
    ("1E+3", Decimal("1000.00")),
    ("5.255", REFUSED),
    ("123456789", REFUSED),
    ("1e-999999999", REFUSED),
    ("1e-99999999999999999999", REFUSED),
    ("5e-41", REFUSED),
    ("5e-42", REFUSED),
    ("1e-231", REFUSED),
    (f"0.{'0' * 60}1", REFUSED),
    (f"0.{'0' * 60}", Decimal("0.00")),
    ("0e-9999999", Decimal("0.00")),
    (f"525{'0' * 50}e-52", Decimal("5.25")),
]


@pytest.mark.parametrize(("written", "found"), WRITTEN)
@pytest.mark.parametrize("form", ['{"n":1,"a":%s}', '{"n":1,"a":"%s"}'])
def test_a_decimal_of_json_has_the_digits_of_its_column(
    form: str, written: str, found: object
) -> None:
    assert json_read(form % written, {"a": MONEY, "n": DataType("long")}) == found


@pytest.mark.parametrize(("written", "found"), WRITTEN)
def test_decimals_within_arrays_have_the_digits_of_their_column(
    written: str, found: object
) -> None:
    line = f'{{"a":[null,{written}]}}'
    expected = found if found == REFUSED else [None, found]
    assert json_read(line, {"a": DataType("array", element=MONEY)}) == expected


@pytest.mark.parametrize(
    "escaped", [r"1\u0065-999999999", r"1e\u002d999999999", r"1e-\u0039999999"]
)
def test_the_signs_of_a_decimal_may_be_escaped(escaped: str) -> None:
    assert json_read(f'{{"a":"{escaped}"}}', {"a": MONEY}) == REFUSED


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('{"a":1.500}', Decimal("1.50")),
        ('{"a":"0e999999999"}', Decimal("0.00")),
        ('{"a":0e999999999}', REFUSED),  # no number to Arrow, whatever it is to be
        ('{"a":1', REFUSED),
    ],
)
def test_other_lines_have_no_say_in_what_a_line_is(line: str, found: object) -> None:
    assert json_read(line, {"a": DataType.parse("decimal(3,2)")}) == found


def json_read(line: str, wanted: dict[str, DataType]) -> object:
    """The value of `a`, in a line between two others, which do not care; nor does it for them."""
    alone, beside = (_json_read(line, wanted, other) for other in ("2.5", "2.5e-12"))
    assert alone == beside
    return alone


def _json_read(line: str, wanted: dict[str, DataType], other: str) -> object:
    text = f'{{"n":0,"x":{other}}}\r\n\n{line}\n{{"n":2}}\n'
    try:
        table = JsonLines().parsed(text.encode(), b"", wanted)
        table.validate(full=True)  # as who asks does
        rows = table.to_pylist()
    except ValueError:
        return REFUSED
    assert [row["a"] for row in rows[::2]] == [None, None]
    assert [row.get("n") for row in rows] == ([0, 1, 2] if "n" in wanted else [None] * 3)
    return rows[1]["a"]


@pytest.mark.parametrize(
    ("written", "found"),
    [
        *WRITTEN,
        ("0e999999999", Decimal("0.00")),
        ("1e999999999", REFUSED),
        (' "+5.25\t" ', REFUSED),
        (" \t5.25 ", Decimal("5.25")),
        ('"5.25"', Decimal("5.25")),
        ('"1e-9"99999999', REFUSED),
        (".5", Decimal("0.50")),
        ("", None),
        (" ", REFUSED),
        ("NaN", REFUSED),
        ("1_0", REFUSED),
        ("\N{ARABIC-INDIC DIGIT FIVE}", REFUSED),
    ],
)
@pytest.mark.parametrize("other", ["7", "0e-50"])
def test_a_decimal_of_csv_has_the_digits_of_its_column(
    written: str, found: object, other: str
) -> None:
    lines = f"1,{written}\n2,{other}\n".encode()
    wanted = {"a": MONEY, "n": DataType("long")}
    try:
        rows = CsvLines().parsed(lines, b"n,a\n", wanted).to_pylist()
    except ValueError:
        rows = [{"a": REFUSED}]
    assert rows[0]["a"] == found


def test_the_decimal_that_does_not_fit_is_told() -> None:
    told = "found '1e-50' in column 'a', expected a decimal\\(10,2\\)"
    with pytest.raises(ValueError, match=told):
        CsvLines().parsed(b"1\n1e-50\n", b"a\n", {"a": MONEY})
    with pytest.raises(ValueError, match="in column 'a', expected a decimal"):
        JsonLines().parsed(b'{"a":1}\n{"a":1e-50}\n', b"", {"a": MONEY})
