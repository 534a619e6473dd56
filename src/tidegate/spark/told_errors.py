"""Errors of tasks on their way to the driver, as text: Spark passes on nothing else.

    task: TidegateError -> text, signed  ->  Spark's own error text  ->  driver: TidegateError

Spark quotes values of rows in its errors, so such a text may hold anything. What a task tells is
data, the name of a class and its parts, and is signed with a key that the driver has drawn: a row
cannot make it, and nothing in it is ever run.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

from tidegate import errors
from tidegate.errors import Problem, TidegateError

_TOLD: Final = re.compile(r"<tidegate error ([0-9a-f]{64}) ([A-Za-z0-9+/]+={0,2})>")

_CLASSES: Final[Mapping[str, type[TidegateError]]] = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, TidegateError)
}

_AS_TEXT: Final[Mapping[type, tuple[Callable[[Any], str], Callable[[str], Any]]]] = {
    bytes: (bytes.hex, bytes.fromhex),
    date: (date.isoformat, date.fromisoformat),
    datetime: (datetime.isoformat, datetime.fromisoformat),
    Decimal: (str, Decimal),
}
"""Values of keys that JSON does not know: how they are written, and read."""
_BY_NAME: Final = {kind.__name__: read for kind, (_, read) in _AS_TEXT.items()}


def told(error: TidegateError, key: bytes) -> str:
    """Write an error as text that is signed with `key`.

    Parts keep their types if JSON or `_AS_TEXT` knows them; others become their text.
    """
    name = next(kind.__name__ for kind in type(error).__mro__ if kind.__name__ in _CLASSES)
    words = json.dumps({"error": name, "parts": [_written(part) for part in error.args]})
    packed = base64.b64encode(words.encode()).decode()
    return f"<tidegate error {_signature(packed, key)} {packed}>"


def heard(text: str, key: bytes) -> TidegateError | None:
    """Read the first error in `text` that is signed with `key`; None where there is none."""
    for signature, packed in _TOLD.findall(text):
        if hmac.compare_digest(signature, _signature(packed, key)):
            said = json.loads(base64.b64decode(packed))
            return _CLASSES[said["error"]](*(_read(part) for part in said["parts"]))
    return None


def _signature(packed: str, key: bytes) -> str:
    return hmac.new(key, packed.encode(), hashlib.sha256).hexdigest()


def _written(value: Any) -> Any:
    """As JSON; what is more than a plain value is an object with the name of its type."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Problem):
        return {"Problem": [value.at, value.found, value.expected, value.hint]}
    if isinstance(value, list | tuple):
        return {"tuple": [_written(each) for each in value]}
    if isinstance(value, Mapping):
        return {"dict": [[str(name), _written(each)] for name, each in value.items()]}
    if type(value) in _AS_TEXT:
        write, _ = _AS_TEXT[type(value)]
        return {type(value).__name__: write(value)}
    return str(value)


def _read(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, within),) = value.items()
    if kind == "Problem":
        return Problem(*within)
    if kind == "tuple":
        return tuple(_read(each) for each in within)
    if kind == "dict":
        return {name: _read(each) for name, each in within}
    return _BY_NAME[kind](within)
