"""Files of a log are known without the log."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.sources.reading import source
from tidegate.sources import FilesReader
from tidegate.sources.known_paths import KnownPaths

NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5)
FILES = 100_000


@given(st.lists(NAMES), st.lists(NAMES), st.lists(NAMES))
def test_what_is_in_neither_the_log_nor_added_is_unknown(
    logged: list[str], added: list[str], asked: list[str]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidegate.sources.known_paths._MERGED_AT", 3)
        known = KnownPaths(logged)
        for path in added:
            known.add(path)
        assert known.unknown(asked) == [path for path in asked if path not in {*logged, *added}]


class Generated(Sequence[Mapping[str, Any]]):
    """A log whose entries are made when they are asked for, as those in a store are read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __len__(self) -> int:
        return FILES

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return tuple(self[each] for each in range(*place.indices(FILES)))
        path = f"{self.folder}/{place % FILES}.json"
        return {"path": path, "size": 1, "mtime_ns": 0, "inode": place, "rows": None}

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return (self[place] for place in range(FILES))


def test_a_log_does_not_have_to_fit_into_memory(tmp_path: Path) -> None:
    (tmp_path / f"{FILES - 1}.json").write_text('{"user": 1}\n')
    spec = source("json", {"user": "long"}, path=str(tmp_path))
    tracemalloc.start()
    try:
        reader = FilesReader(spec, Generated(tmp_path))
        polled = reader.poll({"file": FILES, "at": 0}, max_rows=10, slices=1, now_us=0)
        reader.committed(polled.until)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (polled.slices, polled.unread) == ((), False)
    assert held < 16 * FILES + 3_000_000  # of the last 10 000 files path and size are kept
