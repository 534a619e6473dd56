"""Planted faults: the points of an epoch at which a test can end the process.

Nothing happens unless the environment names a point: `TIDEGATE_FAULT=staged:3` ends this
process with SIGKILL when it comes to `staged` for the third time. With `TIDEGATE_FAULT_FILE`
it makes that file and waits there instead, for whoever wants to kill the whole run; deleting
the file lets it go on.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

_VARIABLE = "TIDEGATE_FAULT"
_LEFT: dict[str, int] = {}
_PAUSE_S = 0.01


def reached(point: str) -> None:
    """The process has come to this point of the epoch; a planted fault ends it here."""
    planted = os.environ.get(_VARIABLE)
    if planted is None:
        return
    name, _, times = planted.partition(":")
    if name != point:
        return
    left = _LEFT.setdefault(planted, int(times or 1)) - 1
    _LEFT[planted] = left
    if left == 0:
        _end()


def _end() -> None:
    if (told := os.environ.get(f"{_VARIABLE}_FILE")) is None:
        os.kill(os.getpid(), signal.SIGKILL)
    else:
        Path(told).touch()
        while Path(told).exists():
            time.sleep(_PAUSE_S)
