"""From what is committed to an engine."""

from __future__ import annotations

from tidegate.engine.recover import latest_arrival
from tidegate.eventtime import BEGINNING
from tidegate.state.manifest_format import decode_manifest, encode
from tidegate.state.protocol import Manifest


def test_the_time_of_arrival_is_the_committed_one_or_the_clock_of_an_earlier_version() -> None:
    manifest = Manifest(
        epoch=3, offsets={}, watermarks={}, state={}, committed_us=50, arrival_us=70
    )
    assert latest_arrival(decode_manifest(encode(manifest))) == 70
    earlier = encode(manifest).replace(b',"arrival_us":70', b"")
    assert latest_arrival(decode_manifest(earlier)) == 50
    assert latest_arrival(None) == BEGINNING
