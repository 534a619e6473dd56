"""Whether a small run is asked for: `QUICK=1`, minutes instead of a quarter of an hour."""

from __future__ import annotations

import os

QUICK = os.environ.get("QUICK", "") not in ("", "0")
