"""Which version of Tidegate this is."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def library_version() -> str:
    """The version that is installed; `unknown` where it runs without being installed."""
    try:
        return version("tidegate")
    except PackageNotFoundError:
        return "unknown"
