"""Ports for servers that tests start."""

from __future__ import annotations

import random
import socket
from typing import Final

_RANGE: Final = range(20_000, 32_000)
"""Below those that Linux gives to connections. A server that is restarted finds its own free; and
a client that knocks meanwhile is never given that very port for its end, which connects it to
itself.
"""


def free_port() -> int:
    """A port of this machine that nobody listens at."""
    while True:
        port = random.SystemRandom().choice(_RANGE)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
