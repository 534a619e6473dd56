"""Names of pipelines, sources, operators and channels: one rule for all.

They become parts of paths, labels of metrics, values in tables and words in a shell.
"""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import WithJsonSchema

from tidegate.pipeline.fieldtypes import Name

LONGEST: Final = 100
PATTERN: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
EXPECTED: Final = (
    f"1 to {LONGEST} letters a-z and A-Z, digits, '.', '_' and '-', a letter or digit first"
)

PlainName = Annotated[Name, WithJsonSchema({"type": "string", "pattern": f"^{PATTERN}$"})]
"""A name under this rule, which `Pipeline` checks: the parts of a stored plan may have others."""

_PLAIN: Final = re.compile(PATTERN)
_ODD: Final = re.compile(r"[^A-Za-z0-9._-]+")


def is_plain(name: str) -> bool:
    """Whether the rule allows the name."""
    return _PLAIN.fullmatch(name) is not None


def plain_name(text: str, otherwise: str) -> str:
    """The name nearest to a text; `otherwise` where nothing of it can stay.

    >>> plain_name("try/../x", "pipeline"), plain_name("..", "pipeline")
    ('try-..-x', 'pipeline')
    """
    return _ODD.sub("-", text).lstrip("._-")[:LONGEST] or otherwise
