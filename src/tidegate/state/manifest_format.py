"""What a store keeps as JSON: manifests, offsets, logs and plans, with the version of the format.

A field that this version does not know is passed over: whether a later version may be read is
said by `min_reader_version` of the pipeline, not by its manifests.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from tidegate.core.segment_migrations import STATE_VERSION
from tidegate.errors import StateFormatError
from tidegate.state.protocol import Manifest

__all__ = [
    "MIN_READER_VERSION",
    "STATE_VERSION",
    "decode",
    "decode_manifest",
    "encode",
    "refuse_later_state",
]

MIN_READER_VERSION: Final = 1
"""The least that a reader of what this version writes must know."""


def refuse_later_state(pipeline: str, min_reader_version: int) -> None:
    """Raise `StateFormatError` for state that only a later version can read."""
    if min_reader_version > STATE_VERSION:
        raise StateFormatError(
            f"the state of pipeline {pipeline!r} needs a Tidegate that reads state version "
            f"{min_reader_version}, this one reads {STATE_VERSION}: use the version that wrote it, "
            "or a later one"
        )


def encode(value: Any) -> bytes:
    """JSON of plain values; a manifest goes with the version of the format."""
    if isinstance(value, Manifest):
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        value = {"state_version": STATE_VERSION, **fields}
    return msgspec.json.encode(value, enc_hook=_plain)


def decode(data: bytes | str) -> Any:
    """The plain values that `encode` wrote."""
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise StateFormatError(f"stored JSON is not readable: {error}") from error


def decode_manifest(data: bytes | str) -> Manifest:
    """The manifest that this version, or one that it can read, wrote."""
    try:
        return msgspec.json.decode(data, type=Manifest)
    except msgspec.DecodeError as error:
        raise StateFormatError(f"a manifest is not readable: {error}") from error


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"found {type(value).__name__}, expected what JSON can hold: {value!r}")
