"""Values as text for people, with the secrets taken out.

Everything that is printed (errors, `repr`, `explain`) and everything that is stored in
the clear (the fingerprint) goes through here: a password never does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

MASK: Final = "***"

_SECRET_NAME: Final = re.compile(
    r"(^|[._-])pass$|passw|passphrase|pwd|secret|token|credential|(^|[._-])sasl([._-]|$)|jaas"
    r"|(api|access|account|private|ssl|shared|encryption)[._-]?key|\.key\.|authorization|(^|[._-])auth$",
    re.IGNORECASE,
)
USER_IN_URL: Final = re.compile(
    r"(?<=://)(?:[^\s/?#@:]*:(?!\d+(?:/|$))\S*@|[^\s/?#@]*@)"  # a password may hold a slash
)
_WHOLE_USER: Final = re.compile(r"(?<=://).*(?=@)", re.DOTALL)
"""Where nothing but an address is written, a password may hold anything, blanks too."""
_ADDRESSES: Final = ("url", "schema_registry")
_SECRET_PAIR: Final = re.compile(
    r"(?P<name>(?:password|passwd|pwd|passfile|secret|token|api_?key|access_?key)[\w.-]*['\"]?)"
    r"(?P<equals>\s*[=:]\s*)(?P<value>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[^\s&;,}]+)",
    re.IGNORECASE,
)
_LONGEST_SHOWN: Final = 120


def secret_name(name: str) -> bool:
    """Whether an option of this name holds a secret, whatever its value.

    >>> secret_name("kafka.sasl.jaas.config"), secret_name("topic"), secret_name("key")
    (True, False, False)
    """
    return _SECRET_NAME.search(name) is not None


def masked_text(text: str) -> str:
    """`text` without the credentials of the addresses and connection strings in it.

    >>> masked_text("postgresql://ann:pw@db/x?sslpassword=s")
    'postgresql://***@db/x?sslpassword=***'
    """
    return _SECRET_PAIR.sub(rf"\g<name>\g<equals>{MASK}", USER_IN_URL.sub(f"{MASK}@", text))


def masked(name: str, value: Any) -> Any:
    """`value` as it may be shown, where `name` is what it is called."""
    if secret_name(name):
        return MASK
    if isinstance(value, str):
        return masked_text(_WHOLE_USER.sub(MASK, value) if name.lower() in _ADDRESSES else value)
    if isinstance(value, Mapping):
        return {key: masked(str(key), item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)([_masked_item(name, item) for item in value])
    return value


def _masked_item(name: str, item: Any) -> Any:
    """A pair in a list is taken for a name and its value, as somebody may write a mapping."""
    match item:
        case (str(key), value):
            return type(item)([key, masked(key, value)])
        case _:
            return masked(name, item)


def shown(value: Any, name: str = "") -> str:
    """`value` as one line of an error: masked, and cut where it is long."""
    text = masked_text(_repr(masked(name, value)))
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}..."


def _repr(value: Any) -> str:
    try:
        return repr(value)
    except ValueError:  # Python's limit
        return "a number of thousands of digits"


def listed(words: Iterable[str], last: str = "or") -> str:
    """Words as a person would write them.

    >>> listed(["a", "b", "c"])
    'a, b or c'
    """
    *head, tail = [*words]
    return f"{', '.join(head)} {last} {tail}" if head else tail
