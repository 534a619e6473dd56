"""Names of pipelines and channels as parts of names of files and transactions, which are short."""

from __future__ import annotations

import hashlib


def safe_name(name: str, longest: int = 36) -> str:
    """`name`, or where that is long its beginning and a digest of it.

    >>> safe_name("orders"), safe_name("orders_by_day", longest=6)
    ('orders', 'orders-748c4f6f')
    """
    return name if len(name) <= longest else f"{name[:longest]}-{digest(name)}"


def digest(*names: str) -> str:
    """Eight characters that tell these names from others.

    >>> digest("a", "bc") == digest("ab", "c")
    False
    """
    return hashlib.sha256("\0".join(names).encode()).hexdigest()[:8]
