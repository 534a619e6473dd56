"""The kinds of fields that values are made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema

from tidegate.eventtime import US_PER_MS
from tidegate.pipeline.datatypes import DataType

LONGEST_MS: Final = (2**61 - 1) // US_PER_MS
"""No duration is longer: a time, a gap and a lateness together stay inside int64."""

DERIVED: Final[Any] = None
"""The default of a field that follows from other fields where it is not given."""

_Item_co = TypeVar("_Item_co", covariant=True)


class FrozenMapping(Mapping[str, _Item_co]):
    """A mapping nobody can change; it has a hash if its values have one."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, _Item_co]) -> None:
        self._items = dict(items)

    def __getitem__(self, key: str) -> _Item_co:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    def __repr__(self) -> str:
        return repr(self._items)


def nothing() -> FrozenMapping[Any]:
    """Make the default of mappings."""
    return FrozenMapping({})


def _frozen(value: Any) -> Any:
    if isinstance(value, Mapping):
        return FrozenMapping({str(key): _frozen(item) for key, item in value.items()})
    if isinstance(value, list | tuple):
        return tuple(_frozen(item) for item in value)
    return value


def _thawed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _thawed(item) for key, item in value.items()}
    return tuple(_thawed(item) for item in value) if isinstance(value, tuple) else value


def _as_tuple(value: Any) -> Any:
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


def _as_dict(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


def _canonical_type(text: str) -> str:
    return str(DataType.parse(text))


Name = Annotated[str, Field(min_length=1)]

Names = Annotated[
    Sequence[Name],
    BeforeValidator(_as_tuple),
    WithJsonSchema(
        {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
    ),
]
"""One name, or several in order; always a tuple in the value."""

DurationMs = Annotated[int, Field(ge=0, le=LONGEST_MS)]
PositiveMs = Annotated[int, Field(gt=0, le=LONGEST_MS)]
Share = Annotated[float, Field(ge=0, le=1)]
OffsetMs = Annotated[int, Field(ge=-LONGEST_MS, le=LONGEST_MS)]

Freeze = (
    BeforeValidator(_as_dict),
    AfterValidator(_frozen),
    PlainSerializer(_thawed, return_type=dict[str, Any], when_used="always"),
)

Options = Annotated[Mapping[str, Any], *Freeze]
"""What only the source or target itself understands."""

ColumnTypes = Annotated[Mapping[str, Annotated[str, AfterValidator(_canonical_type)]], *Freeze]
"""Types of columns, as Spark SQL writes them; canonical in the value."""
