"""The headers of a record, where they can be had."""

from __future__ import annotations

from operator import methodcaller
from typing import Final, TypeAlias

from confluent_kafka import Message

Headers: TypeAlias = list[tuple[str, bytes | None]]
"""In their order; a name may come again."""

_ASKED: Final = methodcaller("headers")


def headers_of(message: Message) -> Headers | None:
    """None where a name among them is no text: nobody here can ask for its bytes.

    Of such a record confluent_kafka returns something, and leaves an error set beside it. Who
    calls it through C is told so; a call in bytecode that ran often does not look, and the error
    comes up later, in somebody else's code.
    """
    try:
        return _ASKED(message) or []
    except (SystemError, UnicodeDecodeError):  # the former of the latter
        return None
