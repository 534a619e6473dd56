"""How many bytes of state a window or a row costs, roughly: enough to choose limits by."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from tidegate.pipeline.aggregate_lookup import spec_of
from tidegate.pipeline.binding import BoundWindow
from tidegate.pipeline.datatypes import DataType
from tidegate.pipeline.join import Join
from tidegate.pipeline.join_binding import BoundJoin
from tidegate.pipeline.window import Window
from tidegate.text import number_text

_BYTES: Final = {
    "boolean": 1,
    "byte": 1,
    "short": 2,
    "int": 4,
    "float": 4,
    "date": 4,
    "decimal": 16,
    "string": 24,
    "binary": 24,
}
_UNKNOWN_BYTES: Final = 8
_BOOKKEEPING_BYTES: Final = 60
"""Key hash and group, bounds, closing and sending times, revision, flags."""
_WAITING_BYTES: Final = 41
"""Key hash, event time and position, until when it waits, whether it has matched."""


def bytes_per_window(window: Window, bound: BoundWindow | None) -> int:
    """Estimate the state of one open window of one key, without what grows with its rows."""
    keys = [bound.keys[name] if bound else None for name in window.group_by]
    return _BOOKKEEPING_BYTES + sum(map(_size, keys)) + sum(_aggregate_sizes(window, bound))


def bytes_per_row(join: Join, bound: BoundJoin | None) -> tuple[int, int]:
    """Estimate the state of one waiting row, left and right."""
    keys = [bound.keys[name] if bound else None for name in join.on]
    left, right = (
        _WAITING_BYTES
        + sum(map(_size, keys))
        + sum(map(_size, bound.values[side].values() if bound else ()))
        for side in (0, 1)
    )
    return left, right


def growing_parts(window: Window) -> Iterator[str]:
    """Say what comes on top as a window takes rows."""
    for each in window.aggregations:
        spec, value_of = spec_of(each.kind), partial(getattr, each)
        bounds = [value_of(option.name) for option in spec.active(value_of) if option.bound]
        for bound in bounds:
            yield f"{each.output_name}: up to {number_text(bound)} values more"
        if spec.grows_bytes and not bounds:
            yield f"{each.output_name}: up to {number_text(spec.grows_bytes)} bytes more"


def _aggregate_sizes(window: Window, bound: BoundWindow | None) -> Iterator[int]:
    types = bound.types_read if bound else {}
    for each in window.aggregations:
        yield spec_of(each.kind).bytes_held(_size(types.get(each.input_column or "")))


def _size(kind: DataType | None) -> int:
    return _BYTES.get(kind.name, _UNKNOWN_BYTES) if kind else _UNKNOWN_BYTES
