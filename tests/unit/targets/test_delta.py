from __future__ import annotations

import importlib
import threading
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError
from polars.testing import assert_frame_equal

from tidegate.errors import ConfigError, LostLease
from tidegate.incarnation import after_reset
from tidegate.pipeline import Target
from tidegate.targets import DeltaWriter, delta, open_target
from tidegate.targets.delta import application_of
from tidegate.targets.ownership import claim_targets
from tidegate.testing.target_contract import (
    IDENTITY,
    Outlet,
    OwnershipContract,
    TableContract,
    UpsertContract,
    all_types,
    ids,
    key,
    rows,
    stage,
)


class Delta(Outlet):
    format = "delta"

    @property
    def place(self) -> str:
        return str(self.folder / "out")

    def look(self) -> Any:
        if not DeltaTable.is_deltatable(self.place):
            return None
        return DeltaTable(self.place).version()

    def table(self) -> pl.DataFrame:
        return pl.read_delta(self.place)


class DeltaUpserts(Delta):
    mode = "upsert"


class TestAppending(TableContract, OwnershipContract):
    @pytest.fixture
    def outlet(self, tmp_path: Path) -> Outlet:
        return Delta(tmp_path)


class TestUpserting(UpsertContract, OwnershipContract):
    @pytest.fixture
    def outlet(self, tmp_path: Path) -> Outlet:
        return DeltaUpserts(tmp_path)


both = pytest.mark.parametrize("kind", [Delta, DeltaUpserts])


# --- transactions -----------------------------------------------------------------------------


@both
def test_an_epoch_is_one_commit_with_its_transaction(kind: type[Delta], tmp_path: Path) -> None:
    outlet = kind(tmp_path)
    writer = outlet.open()
    for epoch in (1, 2):
        parts = [stage(writer, rows((user, epoch, 1))) for user in ("ann", "bob")]
        writer.publish(key(epoch), parts)
    table = DeltaTable(outlet.place)
    assert table.version() == 2  # 0 creates it
    assert table.transaction_version("tidegate/orders/i1/window/main") == 2


@both
def test_a_large_epoch_is_several_commits_and_goes_on_after_the_last(
    kind: type[Delta], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta, "_PIECE_ROWS", 2)
    outlet = kind(tmp_path)
    writer = outlet.open()
    writer.publish(key(1), [stage(writer, rows(("old", 0, 1), ("ann", 0, 1)))])
    users = ["ann", "bob", "cid", "dan", "eve"]
    parts = [stage(writer, rows((user, 0, 2))) for user in users]
    if writer.takes_retractions:
        parts.append(stage(writer, ids(("old", 0), ("ann", 0)), "retracted"))

    def lost() -> bytes:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        writer.publish(key(2), [*parts[:2], replace(parts[2], read=lost), *parts[3:]])
    assert writer.last_epoch(key(2)) == 2
    assert outlet.table().height < 7
    monkeypatch.setattr(delta, "_PIECE_ROWS", 3)
    for _ in range(2):
        writer.publish(key(2), parts)
    there = [] if writer.takes_retractions else [("old", 0, 1), ("ann", 0, 1)]
    expected = rows(*there, *((user, 0, 2) for user in users))
    assert_frame_equal(outlet.table(), expected, check_row_order=False)
    monkeypatch.setattr(delta, "_PIECE_ROWS", 100)
    writer.publish(key(3), [stage(writer, rows(("fay", 0, 3)))])
    writer.publish(key(3), [stage(writer, rows(("fay", 0, 4)))])
    assert outlet.table().filter(user="fay")["n"].to_list() == [3]


def test_take_backs_without_a_table_do_not_keep_rows_from_coming(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta, "_PIECE_ROWS", 2)
    outlet = DeltaUpserts(tmp_path)
    writer = outlet.open()
    gone = stage(writer, ids(("ann", 0), ("bob", 0), ("cid", 0)), "retracted")
    writer.publish(key(1), [stage(writer, rows(("ann", 0, 1))), gone])
    assert_frame_equal(outlet.table(), rows(("ann", 0, 1)))


@both
def test_a_transaction_outlives_a_checkpoint(kind: type[Delta], tmp_path: Path) -> None:
    outlet = kind(tmp_path)
    writer = outlet.open()
    parts = [stage(writer, rows(("ann", 0, 1)))]
    writer.publish(key(5), parts)
    DeltaTable(outlet.place).create_checkpoint()
    writer.publish(key(5), parts)
    writer.publish(key(4), [stage(writer, rows(("bob", 0, 1)))])
    assert_frame_equal(outlet.table(), rows(("ann", 0, 1)))


def test_an_epoch_that_somebody_else_committed_is_skipped(tmp_path: Path) -> None:
    outlet = Delta(tmp_path)
    done = CommitProperties(app_transactions=[Transaction(application_of(key(3)), 3)])
    write_deltalake(outlet.place, rows(("ann", 0, 1)), commit_properties=done)
    writer = outlet.open()
    writer.publish(key(3), [stage(writer, rows(("bob", 0, 1)))])
    assert_frame_equal(outlet.table(), rows(("ann", 0, 1)))


@both
def test_two_drivers_with_the_same_snapshot_commit_an_epoch_once(
    kind: type[Delta], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outlet = kind(tmp_path)
    writer = outlet.open()
    writer.publish(key(1), [stage(writer, rows(("ann", 0, 1)))])
    old = [DeltaTable(outlet.place)]
    second = [stage(writer, rows(("bob", 0, 1)))]
    writer.publish(key(2), second)
    newest = DeltaWriter._table
    monkeypatch.setattr(DeltaWriter, "_table", lambda self: old.pop() if old else newest(self))
    writer.publish(key(2), second)
    assert old == []
    assert_frame_equal(outlet.table(), rows(("ann", 0, 1), ("bob", 0, 1)), check_row_order=False)


@both
def test_drivers_that_race_from_the_first_epoch_publish_each_once(
    kind: type[Delta], tmp_path: Path
) -> None:
    outlet = kind(tmp_path)
    writer = outlet.open()
    epochs = {n: [stage(writer, rows((f"user{n}", n, n)))] for n in range(1, 6)}
    failed: list[BaseException] = []

    def drive() -> None:
        try:
            for epoch, parts in epochs.items():
                writer.publish(key(epoch), parts)
        except BaseException as error:
            failed.append(error)

    drivers = [threading.Thread(target=drive) for _ in range(3)]
    for driver in drivers:
        driver.start()
    for driver in drivers:
        driver.join()
    assert failed == []
    expected = rows(*((f"user{n}", n, n) for n in range(1, 6)))
    assert_frame_equal(outlet.table(), expected, check_row_order=False)


@both
def test_a_claim_refuses_whoever_has_read_the_table_before_it(
    kind: type[Delta], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It sleeps between its look at the table and its commit, all through a reset."""
    outlet = kind(tmp_path)
    sleeper = outlet.open()
    sleeper.publish(key(1), [stage(sleeper, rows(("ann", 0, 1)))])
    claim_targets({"main": sleeper}, "i1")
    old = [DeltaTable(outlet.place)]
    claim_targets({"main": outlet.open()}, after_reset("i1"))
    newest = DeltaWriter._table
    monkeypatch.setattr(DeltaWriter, "_table", lambda self: old.pop() if old else newest(self))
    with pytest.raises(LostLease, match="'orders' was taken over"):
        sleeper.publish(key(2), [stage(sleeper, rows(("bob", 0, 1)))])
    assert old == []
    assert_frame_equal(outlet.table(), rows(("ann", 0, 1)))


def test_a_table_says_whose_rows_it_has(tmp_path: Path) -> None:
    writer = Delta(tmp_path).open(pipeline="orders.v2", channel="late")
    assert isinstance(writer, DeltaWriter)
    writer.prepare(rows().schema)
    for _ in range(2):
        writer.claim("i1")
    table = DeltaTable(Delta(tmp_path).place)
    assert table.metadata().configuration == {"tidegate.owner.orders.v2/late": "i1"}
    assert table.version() == 1  # 0 makes the table; the same claim again is none


def test_a_merge_is_tried_again_when_others_change_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outlet = DeltaUpserts(tmp_path)
    writer = outlet.open()
    writer.publish(key(1), [stage(writer, rows(("ann", 0, 1)))])
    old = [DeltaTable(outlet.place)]
    write_deltalake(outlet.place, rows(("ann", 5, 9)), mode="append")
    newest = DeltaWriter._table
    monkeypatch.setattr(DeltaWriter, "_table", lambda self: old.pop() if old else newest(self))
    writer.publish(key(2), [stage(writer, rows(("ann", 0, 2), ("ann", 5, 2)))])
    assert old == []
    assert_frame_equal(outlet.table(), rows(("ann", 0, 2), ("ann", 5, 2)), check_row_order=False)


def test_a_conflict_that_does_not_end_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    def conflict(*_: Any) -> None:
        tries.append(1)
        raise CommitFailedError("again")

    monkeypatch.setattr(DeltaWriter, "_commit", conflict)
    writer = Delta(tmp_path).open()
    with pytest.raises(CommitFailedError, match="again"):
        writer.publish(key(1), [stage(writer, rows(("ann", 0, 1)))])
    assert len(tries) == 5


# --- tables -----------------------------------------------------------------------------------


@both
def test_a_table_can_be_read_by_others(kind: type[Delta], tmp_path: Path) -> None:
    outlet = kind(tmp_path)
    writer = outlet.open()
    writer.publish(key(1), [stage(writer, all_types())])
    read = pl.DataFrame(DeltaTable(outlet.place).to_pyarrow_table())
    assert_frame_equal(read, all_types(), check_row_order=False)


@both
def test_rows_go_to_a_table_that_is_there(kind: type[Delta], tmp_path: Path) -> None:
    outlet = kind(tmp_path)
    there = rows(("old", 0, 1)).select("n", "window_start", "user", note=pl.lit("by hand"))
    write_deltalake(outlet.place, there)
    writer = outlet.open()
    writer.check(IDENTITY, rows().schema)
    writer.publish(key(1), [stage(writer, rows(("ann", 0, 1)))])
    expected = [(1, "ann", None), (1, "old", "by hand")]
    assert outlet.table().select("n", "user", "note").sort("user").rows() == expected


def test_a_replaced_row_keeps_what_others_put_beside_it(tmp_path: Path) -> None:
    outlet = DeltaUpserts(tmp_path)
    write_deltalake(outlet.place, rows(("ann", 0, 1)).with_columns(note=pl.lit("by hand")))
    writer = outlet.open()
    writer.publish(key(1), [stage(writer, rows(("ann", 0, 2)))])
    assert outlet.table().select("user", "n", "note").rows() == [("ann", 2, "by hand")]


def test_a_table_whose_columns_do_not_fit_is_refused_by_name(tmp_path: Path) -> None:
    outlet = Delta(tmp_path)
    there = rows().select("window_start", pl.col("n").cast(pl.String), usr=pl.col("user"))
    write_deltalake(outlet.place, there)
    with pytest.raises(ConfigError) as caught:
        outlet.open().check((), rows().schema)
    place = f"the table 'file://{outlet.place}/'"
    assert [str(problem) for problem in caught.value.problems] == [
        f"target.options.path: found {place} without the column 'user', "
        "expected a column 'user' of type string\n  hint: did you mean 'usr'?",
        f"target.options.path: found {place}, where the column 'n' is string, "
        "expected long\n  hint: choose another path, or cast the column",
    ]


def test_types_that_a_table_cannot_have_are_refused(tmp_path: Path) -> None:
    schema = pl.Schema({"a": pl.Time(), "b": pl.List(pl.UInt8()), "c": pl.Datetime("ns", "UTC")})
    with pytest.raises(ConfigError) as caught:
        Delta(tmp_path).open().check((), schema)
    assert [problem.found.split(" of ")[0] for problem in caught.value.problems] == [
        "column 'a'",
        "column 'b'",
        "column 'c'",
    ]


@pytest.mark.parametrize("name", ["Key", "a.b", 'q"uote', "tick`", "select", "gone", "ü ñ"])
def test_columns_may_be_called_as_they_like(tmp_path: Path, name: str) -> None:
    outlet = DeltaUpserts(tmp_path)
    writer = outlet.open(identity=(name, "window_start"))
    writer.publish(
        key(1), [stage(writer, rows(("ann", 0, 1), (None, 0, 1)).rename({"user": name}))]
    )
    gone = stage(writer, ids((None, 0)).rename({"user": name}), "retracted")
    writer.publish(key(2), [stage(writer, rows(("ann", 0, 2)).rename({"user": name})), gone])
    assert_frame_equal(outlet.table(), rows(("ann", 0, 2)).rename({"user": name}))


def test_null_identities_are_found_in_many_files(tmp_path: Path) -> None:
    outlet = DeltaUpserts(tmp_path)
    writer = outlet.open()
    users = [None, "ann", "bob", None]
    for epoch, user in enumerate(users):
        writer.publish(key(epoch), [stage(writer, rows((user, epoch, 1)))])
    writer.publish(key(9), [stage(writer, rows(*((user, n, 2) for n, user in enumerate(users))))])
    expected = rows(*((user, n, 2) for n, user in enumerate(users)))
    assert_frame_equal(outlet.table(), expected, check_row_order=False)


# --- configuration ----------------------------------------------------------------------------


def opened(**options: Any) -> DeltaWriter:
    target = Target(format="delta", mode="upsert", options=options)
    writer = open_target(target, pipeline="orders", channel="main", identity=IDENTITY)
    assert isinstance(writer, DeltaWriter)
    return writer


def test_storage_options_are_passed_on_as_text() -> None:
    flat = {"storage.aws_region": "eu-1", "storage.aws_allow_http": True}
    nested = {"storage": {"aws_region": "eu-1", "aws_allow_http": True}}
    for options in (flat, nested):
        writer = opened(path="s3://bucket/x", **options)
        assert writer.path == "s3://bucket/x"
        assert writer.storage == (("aws_allow_http", "true"), ("aws_region", "eu-1"))


def test_secrets_are_not_shown() -> None:
    writer = opened(path="s3://bucket/x", **{"storage.aws_secret_access_key": "hush"})
    assert "hush" not in repr(writer)


def test_storage_is_a_mapping() -> None:
    with pytest.raises(ConfigError, match=r"target\.options.storage: found 7, expected a mapping"):
        opened(path="x", storage=7)


def test_a_place_has_to_be_said() -> None:
    with pytest.raises(ConfigError, match=r"target\.options.path: found nothing"):
        opened()


def test_without_the_package_the_error_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(name: str) -> ModuleType:
        if name.startswith("deltalake"):
            raise ImportError(name)
        return importlib.import_module(name)

    writer = opened(path="x")
    monkeypatch.setattr("tidegate.targets.delta.import_module", missing)
    with pytest.raises(ConfigError, match=r"pip install tidegate\[delta\]"):
        opened(path="x")
    with pytest.raises(ConfigError, match=r"pip install tidegate\[delta\]"):
        writer.publish(key(1), [stage(writer, rows(("ann", 0, 1)))])


def test_the_module_does_not_load_the_package() -> None:
    assert not hasattr(delta, "DeltaTable")
