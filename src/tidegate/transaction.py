"""An open transaction of a database, passed on by those who do not know the database.

store: begin, write state -> [Transaction] -> target in its database: write rows -> store: commit
"""

from __future__ import annotations

from typing import Protocol


class Transaction(Protocol):
    """Opaque: the package of the database, such as `tidegate.postgres`, makes and uses it."""

    @property
    def database(self) -> str:
        """The technology and the place, for messages, such as `postgres localhost/shop`."""
        ...
