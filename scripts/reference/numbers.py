"""The numbers of a run, from the table that all outputs are printed from."""

from __future__ import annotations

import importlib
from dataclasses import fields as fields_of
from itertools import groupby
from typing import TYPE_CHECKING

from scripts.reference.docstrings import attribute_docs
from scripts.reference.markdown import code, in_a_table, table
from tidegate.engine.numbers import NUMBERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegate.engine.numbers import Number


def numbers() -> str:
    """Every number with its unit, and where it stands in JSON."""
    rows = [
        (
            code(each.name),
            code(".".join(each.field).format(f"<{each.label}>")),
            each.kind,
            each.unit,
            in_a_table(each.help),
        )
        for each in NUMBERS
    ]
    return table(("number", "in JSON", "kind", "unit", "meaning"), rows)


def counts() -> str:
    """What becomes of rows: the keys of `counts`."""
    found = [each for each in NUMBERS if each.field[0] == "counts"]
    names = (each.field[1].format(f"<{each.label}>") for each in found)
    return table(
        ("count", "meaning"),
        [(code(name), in_a_table(each.help)) for name, each in zip(names, found, strict=True)],
    )


def epoch_line() -> str:
    """The fields of a JSON line."""
    groups = {
        name: [*found] for name, found in groupby(_in_order(), key=lambda each: each.field[0])
    }
    rows = [(code(name), _meaning(found)) for name, found in groups.items()]
    return table(("field", "meaning"), [(code("event"), code('"epoch"')), *rows])


def _in_order() -> list[Number]:
    """Each group of fields where its first number stands, as in JSON."""
    groups = [each.field[0] for each in NUMBERS]
    return sorted(NUMBERS, key=lambda each: groups.index(each.field[0]))


def _meaning(numbers: Sequence[Number]) -> str:
    first, *_ = numbers
    if len(first.field) == 1:
        return in_a_table(first.help)
    if first.field[1] == "{}" and len(first.field) == 2:
        return f"by {first.label}: {in_a_table(first.help)}"
    if first.field[1] == "{}":
        names = ", ".join(code(each.field[2]) for each in numbers)
        return f"by {first.label}: {names}"
    return f"the [{first.field[0]}](#{first.field[0]}) of the run so far"


def fields(path: str) -> str:
    """The fields of a dataclass."""
    module, _, own = path.rpartition(".")
    kind = getattr(importlib.import_module(module), own)
    docs = attribute_docs(kind)
    rows = [(code(each.name), in_a_table(docs[each.name])) for each in fields_of(kind)]
    return table(("field", "meaning"), rows)
