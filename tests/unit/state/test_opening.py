"""From the value that a pipeline has to the store that it names; and a look into one."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from tidegate.errors import ConfigError, StateFormatError
from tidegate.pipeline import StateStore
from tidegate.state import KeyState, catalog_of, folder_catalog, open_store, sqlite_store
from tidegate.state.manifest_format import decode, encode
from tidegate.state.sqlite import queries
from tidegate.testing.epochs import folded, manifest, stage


def test_the_kind_says_which_store_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store(StateStore(), "clicks")
    store.open()
    store.close()
    assert (tmp_path / ".tidegate" / "tidegate.db").exists()
    assert catalog_of(StateStore()).pipelines() == ("clicks",)
    open_store(StateStore(kind="in_memory"), "others").open()
    assert catalog_of(StateStore()).pipelines() == ("clicks",)


def test_a_folder_may_be_in_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    store = open_store(StateStore(url="~/state"), "clicks")
    store.open()
    store.close()
    assert (tmp_path / "state" / "tidegate.db").exists()


def test_postgres_is_for_production(monkeypatch: pytest.MonkeyPatch) -> None:
    """To make a store connects to nothing; where psycopg is missing, its extra is named."""
    spec = StateStore(kind="postgres", url="postgresql://ann:hunter2@host/database", schema="s")
    assert type(open_store(spec, "clicks").depot).__name__ == "PostgresDepot"
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ConfigError, match=r"pip install 'tidegate\[postgres\]'") as refused:
        open_store(spec, "clicks")
    assert "hunter2" not in str(refused.value)


def test_anybody_may_look_while_a_driver_runs(tmp_path: Path) -> None:
    store = sqlite_store(tmp_path, "clicks")
    found = store.open()
    parts = [stage(store.depot, found.token, 1, data) for data in (b"one", b"three")]
    store.commit(found.token, manifest(1, parts))
    store.commit(found.token, manifest(2, parts[1:]))
    store.published(found.token, 1)
    store.fold(found.token, [folded(2, [("ann", b"[]", 50), ("bob", b"{}", 51)])])
    catalog = folder_catalog(tmp_path)
    seen = catalog.committed("clicks")
    assert seen is not None
    assert (seen.epoch, seen.published_epoch, seen.folded_epoch) == (2, 1, 2)
    assert (len(seen.parts), seen.state_bytes, seen.folded_keys) == (1, 5, 2)
    assert (seen.incarnation, seen.token) == (found.incarnation, found.token)
    assert seen.offsets == {"clicks": {"place": 20}}
    assert seen.age_us is not None
    assert 0 <= seen.age_us < 60_000_000
    assert [*catalog.folded("clicks")][:1] == [
        KeyState(
            operator="window",
            group_key="ann",
            key_group=7,
            state_blob=b"[]",
            as_of_epoch=2,
            forget_at=50,
        ),
    ]
    store.close()


def test_one_of_several_pipelines_can_be_looked_at(tmp_path: Path) -> None:
    for name in ("b", "a"):
        store = sqlite_store(tmp_path, name)
        store.open()
        store.close()
    catalog = folder_catalog(tmp_path)
    assert catalog.pipelines() == ("a", "b")
    assert [catalog.committed(name) is None for name in ("b", "c")] == [False, True]


def test_looking_makes_nothing(tmp_path: Path) -> None:
    assert folder_catalog(tmp_path).pipelines() == ()
    assert list(tmp_path.iterdir()) == []


def test_any_mapping_can_be_stored() -> None:
    nested: Mapping[str, object] = MappingProxyType({"a": MappingProxyType({"b": [1, None]})})
    assert decode(encode(nested)) == {"a": {"b": [1, None]}}


def test_what_json_cannot_hold_is_refused() -> None:
    with pytest.raises(TypeError, match="found complex, expected what JSON can hold"):
        encode({"a": 1j})
    with pytest.raises(StateFormatError, match="not readable"):
        decode("{")


def test_every_query_is_one_described_statement() -> None:
    wrong = [
        name
        for name, text in queries().items()
        if not text.startswith("-- ") or text.count(";\n") or not text.endswith(";")
    ]
    assert wrong == []
