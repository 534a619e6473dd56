"""Clients and forks: librdkafka's threads stay behind, and who ends a client waits for them."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from typing import Any


def leave_to_parent(clients: Mapping[Any, object]) -> None:
    """In every fork from now on, what `clients` holds then is never ended, only its memory kept.

    Without it a fork that ends as Python does, hangs for ever.
    """

    def hold() -> None:
        for client in clients.values():
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(client))

    os.register_at_fork(after_in_child=hold)
