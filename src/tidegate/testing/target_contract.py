"""What every target must do, as tests that the author of a target runs.

    class TestSqlite(UpsertContract, OwnershipContract):
        @pytest.fixture
        def outlet(self, tmp_path): return SqliteOutlet(tmp_path)

`TargetContract` holds for all, `TableContract` where rows come back as they were, `UpsertContract`
where they are replaced and deleted, `OwnershipContract` where the target notes whose they are. The
format is found as a pipeline finds it: it has to be registered.

Import it where pytest is installed.
"""
# ruff: noqa: D102  # the name of a test is the sentence that it proves

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tidegate.durability import write_durably
from tidegate.errors import ConfigError, LostLease, StateLost
from tidegate.incarnation import after_reset
from tidegate.pipeline import Target
from tidegate.targets import EpochKey, PartKind, StagedRows, TargetWriter, open_target
from tidegate.targets.dated import refuse_older_state
from tidegate.targets.ownership import claim_targets, refuse_other_state

IDENTITY = ("user", "window_start")

NAMES = ["1", "orders.by-day_2", "long" * 25]
"""Names that pipelines, operators and channels may have."""

_names = count()


def at(second: int) -> datetime:
    """An instant, so many seconds after noon."""
    return datetime(2026, 1, 1, 12, 0, second, tzinfo=UTC)


def rows(*values: tuple[str | None, int, int]) -> pl.DataFrame:
    """Rows of (user, window_start in seconds, n)."""
    return pl.DataFrame(
        {
            "user": [user for user, _, _ in values],
            "window_start": [at(second) for _, second, _ in values],
            "n": [n for _, _, n in values],
        },
        schema={"user": pl.String, "window_start": pl.Datetime("us", "UTC"), "n": pl.Int64},
    )


def ids(*values: tuple[str | None, int]) -> pl.DataFrame:
    """Identities of (user, window_start in seconds)."""
    return rows(*((user, second, 0) for user, second in values)).select(IDENTITY)


def all_types() -> pl.DataFrame:
    """One row with values, one with NULLs, one with values that are easily lost."""
    return pl.DataFrame(
        {
            "user": ["ann", None, ""],
            "window_start": [at(0), None, at(1).replace(microsecond=1)],
            "n": [2**63 - 1, None, -(2**63)],
            "price": [Decimal("12.50"), None, Decimal("-0.01")],
            "total": [Decimal(10) ** 36, None, Decimal(0)],
            "raw": [b"\x00\xff", None, b""],
            "day": [date(2026, 1, 1), None, date(1583, 1, 1)],
            "yes": [True, None, False],
            "small": [1, None, -128],
            "mean": [0.1, None, 1e300],
            "local": [datetime(2026, 1, 1), None, datetime(1969, 12, 31, 23, 59, 59, 999_999)],  # noqa: DTZ001
            "words": [["a", None, 'b "c", d'], None, []],
            "times": [[at(0), None], None, []],
            "prices": [[Decimal("1.10")], None, []],
            "blobs": [[b"\xff", None], None, []],
        },
        schema={
            "user": pl.String,
            "window_start": pl.Datetime("us", "UTC"),
            "n": pl.Int64,
            "price": pl.Decimal(12, 2),
            "total": pl.Decimal(38, 0),
            "raw": pl.Binary,
            "day": pl.Date,
            "yes": pl.Boolean,
            "small": pl.Int8,
            "mean": pl.Float64,
            "local": pl.Datetime("us"),
            "words": pl.List(pl.String),
            "times": pl.List(pl.Datetime("us", "UTC")),
            "prices": pl.List(pl.Decimal(12, 2)),
            "blobs": pl.List(pl.Binary),
        },
    )


def key(epoch: int, **other: str) -> EpochKey:
    """An epoch of the pipeline `orders`, or of what `other` names."""
    names = {"pipeline": "orders", "incarnation": "i1", "operator": "window", "channel": "main"}
    return EpochKey(epoch=epoch, **{**names, **other})


def stage(
    writer: TargetWriter, table: pl.DataFrame, kind: PartKind = "sent", name: str | None = None
) -> StagedRows:
    """What a task does: encode, and put it where the target or the store wants it."""
    name = f"part{next(_names)}" if name is None else name
    data, path = writer.encode(table), None
    if writer.staging is not None:
        path = writer.staging.file(name)
        write_durably(path, data)
    return StagedRows(kind=kind, name=name, rows=table.height, read=lambda: data, path=path)


class Outlet(ABC):
    """A target of a test, and how people look at what is there."""

    format: str
    mode: str | None = None
    """None: the default one of the format."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def options(self) -> Mapping[str, Any]:
        """What leads to a place that nobody else uses, below `folder` where it is a file."""
        return {"path": str(self.folder / "out")}

    def open(
        self,
        *,
        pipeline: str = "orders",
        channel: str = "main",
        identity: Sequence[str] = IDENTITY,
        changes: bool | None = None,
        **options: Any,
    ) -> TargetWriter:
        """A writer, as a run opens it."""
        target = {"format": self.format, "options": {**self.options, **options}}
        if self.mode is not None:
            target["mode"] = self.mode
        writer = open_target(
            Target.from_dict(target),
            pipeline=pipeline,
            channel=channel,
            identity=identity,
            changes=changes,
        )
        assert writer is not None
        return writer

    def every_type(self) -> pl.DataFrame:
        """Rows of all types that it takes."""
        return all_types()

    @abstractmethod
    def look(self) -> Any:
        """What people see, as something that can be compared."""

    def table(self) -> pl.DataFrame:
        """The rows that are there."""
        raise NotImplementedError


class TargetContract:
    """What holds for every target."""

    def test_publishing_twice_is_publishing_once(self, outlet: Outlet) -> None:
        writer = outlet.open()
        parts = [stage(writer, rows(("ann", 0, 1))), stage(writer, rows(("bob", 0, 2)))]
        writer.publish(key(1), parts)
        once = outlet.look()
        writer.publish(key(1), parts)
        assert outlet.look() == once

    def test_an_earlier_epoch_published_again_changes_nothing(self, outlet: Outlet) -> None:
        writer = outlet.open()
        first = [stage(writer, rows(("ann", 0, 1)))]
        writer.publish(key(1), first)
        writer.publish(key(2), [stage(writer, rows(("ann", 0, 2)))])
        before = outlet.look()
        writer.publish(key(1), first)
        assert outlet.look() == before

    def test_a_later_epoch_is_seen(self, outlet: Outlet) -> None:
        writer = outlet.open()
        writer.publish(key(1), [stage(writer, rows(("ann", 0, 1)))])
        before = outlet.look()
        writer.publish(key(2), [stage(writer, rows(("bob", 0, 1)))])
        assert outlet.look() != before

    def test_nobody_sees_what_is_staged(self, outlet: Outlet) -> None:
        before = outlet.look()
        stage(outlet.open(), rows(("ann", 0, 1)))
        assert outlet.look() == before

    def test_each_part_is_staged_in_a_file_of_its_own_if_in_a_file(self, outlet: Outlet) -> None:
        staging = outlet.open().staging
        if staging is not None:
            assert len({staging.file(name) for name in NAMES}) == len(NAMES)
            assert {staging.file(name).parent for name in NAMES} == {staging.folder}

    def test_an_empty_epoch_leaves_no_trace(self, outlet: Outlet) -> None:
        writer = outlet.open()
        before = outlet.look()
        writer.publish(key(1), [])
        writer.publish(key(2), [stage(writer, rows()), stage(writer, ids(), "retracted")])
        assert outlet.look() == before

    def test_epochs_may_be_left_out(self, outlet: Outlet) -> None:
        writer = outlet.open()
        writer.publish(key(3), [stage(writer, rows(("ann", 0, 1)))])
        before = outlet.look()
        writer.publish(key(9), [stage(writer, rows(("bob", 0, 1)))])
        assert outlet.look() != before

    @pytest.mark.parametrize("field", ["pipeline", "incarnation", "operator", "channel"])
    def test_the_same_epoch_of_somebody_else_is_another(self, outlet: Outlet, field: str) -> None:
        writer = outlet.open()
        writer.publish(key(1), [stage(writer, rows(("ann", 0, 1)))])
        before = outlet.look()
        writer.publish(key(1, **{field: "other"}), [stage(writer, rows(("bob", 0, 1)))])
        assert outlet.look() != before

    @pytest.mark.parametrize("name", NAMES)
    def test_any_name_will_do(self, outlet: Outlet, name: str) -> None:
        writer = outlet.open(pipeline=name, channel=name)
        names = {"pipeline": name, "incarnation": name, "operator": name, "channel": name}
        part = stage(writer, rows(("ann", 0, 1)), name=name)
        before = outlet.look()
        writer.publish(key(1, **names), [part])
        once = outlet.look()
        writer.publish(key(1, **names), [part])
        assert before != once == outlet.look()

    def test_a_writer_travels_to_tasks(self, outlet: Outlet) -> None:
        writer = outlet.open()
        arrived: TargetWriter = pickle.loads(pickle.dumps(writer))
        assert arrived == writer
        assert arrived.encode(rows(("ann", 0, 1))) == writer.encode(rows(("ann", 0, 1)))

    def test_opening_and_checking_leaves_no_trace(self, outlet: Outlet) -> None:
        before = outlet.look()
        outlet.open().check(IDENTITY, rows().schema)
        assert outlet.look() == before
        assert [*outlet.folder.iterdir()] == []

    def test_all_wrong_options_are_named_at_once(self, outlet: Outlet) -> None:
        with pytest.raises(ConfigError) as caught:
            outlet.open(channel="late", nmae="x", zzz=1)
        places = [problem.at for problem in caught.value.problems]
        assert places == ["channels.late.options.nmae", "channels.late.options.zzz"]


class OwnershipContract:
    """What holds where a target notes to which state its rows belong."""

    def claimed(self, outlet: Outlet, incarnation: str) -> TargetWriter:
        """A writer whose target notes that this state has it now."""
        writer = outlet.open()
        writer.prepare(rows().schema)
        claim_targets({"main": writer}, incarnation)
        return writer

    def filled(self, outlet: Outlet, incarnation: str = "i1") -> TargetWriter:
        """A writer that has published an epoch."""
        writer = self.claimed(outlet, incarnation)
        row = [stage(writer, rows(("ann", 0, 1)))]
        writer.publish(key(1, incarnation=incarnation), row)
        return writer

    def refuse(self, outlet: Outlet, incarnation: str, epoch: int = 1) -> None:
        """As whoever has this state opens or checks the target."""
        refuse_other_state({"main": outlet.open()}, key(epoch, incarnation=incarnation))

    def test_rows_of_another_state_are_refused(self, outlet: Outlet) -> None:
        """Also if more epochs are in it than in the state that sent them."""
        self.filled(outlet)
        for epoch, stands in ((0, "is empty"), (9, "ends with epoch 9")):
            with pytest.raises(StateLost, match=f"'orders' that another state sent; .* {stands}"):
                self.refuse(outlet, "of other state", epoch)

    def test_the_same_state_goes_on_also_after_a_reset(self, outlet: Outlet) -> None:
        self.filled(outlet)
        self.refuse(outlet, "i1")
        self.refuse(outlet, after_reset("i1"))
        self.refuse(outlet, after_reset(after_reset("i1")))

    def test_state_of_before_a_reset_is_refused(self, outlet: Outlet) -> None:
        self.filled(outlet, after_reset("i1"))
        for other in ("i1", after_reset("i1")):
            with pytest.raises(StateLost, match="another state"):
                self.refuse(outlet, other)

    def test_a_target_without_rows_is_anybodys(self, outlet: Outlet) -> None:
        self.refuse(outlet, "i1")
        self.claimed(outlet, "i1")
        self.refuse(outlet, "of other state")

    def test_rows_that_nobody_has_claimed_are_no_reason_to_refuse(self, outlet: Outlet) -> None:
        """Earlier versions noted nothing."""
        writer = outlet.open()
        writer.publish(key(1), [stage(writer, rows(("ann", 0, 1)))])
        self.refuse(outlet, "of other state")

    def test_a_pipeline_of_another_name_is_not_concerned(self, outlet: Outlet) -> None:
        self.filled(outlet)
        other = outlet.open(pipeline="visits")
        refuse_other_state({"main": other}, key(0, pipeline="visits", incarnation="i2"))
        claim_targets({"main": other}, "i2")
        self.refuse(outlet, "i1")

    def test_a_publisher_that_slept_through_a_reset_is_refused(self, outlet: Outlet) -> None:
        sleeper, heirs = self.filled(outlet), after_reset("i1")
        heir, before = self.claimed(outlet, heirs), outlet.look()
        with pytest.raises(LostLease, match="'orders' was taken over"):
            sleeper.publish(key(2), [stage(sleeper, rows(("bob", 0, 1)))])
        assert outlet.look() == before
        heir.publish(key(2, incarnation=heirs), [stage(heir, rows(("eve", 0, 1)))])
        assert outlet.look() != before

    def test_looking_disturbs_nobody(self, outlet: Outlet) -> None:
        writer, before = self.filled(outlet), outlet.look()
        refuse_other_state({"main": outlet.open()}, key(1))
        refuse_older_state({"main": outlet.open()}, key(1))
        with suppress(StateLost):
            self.refuse(outlet, "of other state")
        writer.publish(key(2), [stage(writer, rows(("bob", 0, 1)))])
        assert outlet.look() != before


class TableContract(TargetContract):
    """What holds where rows can be read back as they were."""

    def test_every_type_comes_back(self, outlet: Outlet) -> None:
        writer = outlet.open()
        writer.publish(key(1), [stage(writer, outlet.every_type())])
        assert_frame_equal(outlet.table(), outlet.every_type(), check_row_order=False)

    def test_lists_without_any_value_come_back(self, outlet: Outlet) -> None:
        table = outlet.every_type().filter(pl.col("user") == "")
        writer = outlet.open()
        writer.publish(key(1), [stage(writer, table)])
        assert_frame_equal(outlet.table(), table)

    def test_all_parts_of_an_epoch_come(self, outlet: Outlet) -> None:
        writer = outlet.open()
        tables = [rows(("ann", 0, 1)), rows(), rows(("bob", 0, 1), (None, 0, 1))]
        writer.publish(key(1), [stage(writer, table) for table in tables])
        assert_frame_equal(outlet.table(), pl.concat(tables), check_row_order=False)

    def test_rows_of_other_channels_are_only_added(self, outlet: Outlet) -> None:
        writer = outlet.open(channel="late")
        assert not writer.takes_retractions
        twice = rows(("ann", 0, 1), ("ann", 0, 1))
        writer.publish(key(1, channel="late"), [stage(writer, twice)])
        writer.publish(key(2, channel="late"), [stage(writer, twice)])
        assert_frame_equal(outlet.table(), pl.concat([twice, twice]))

    @pytest.mark.parametrize("planned", [None, True])
    def test_changes_of_rows_are_only_added(self, outlet: Outlet, planned: bool | None) -> None:
        writer = outlet.open(changes=planned)
        first = rows(("ann", 0, 1)).with_columns(op=pl.lit("+I"))
        second = rows(("ann", 0, 1), ("ann", 0, 2)).with_columns(op=pl.Series(["-U", "+U"]))
        writer.publish(key(1), [stage(writer, first)])
        writer.publish(key(2), [stage(writer, second)])
        assert_frame_equal(outlet.table(), pl.concat([first, second]), check_row_order=False)


class UpsertContract(TableContract):
    """What holds where rows are replaced and deleted by their identity."""

    def holds(self, outlet: Outlet, *values: tuple[str | None, int, int]) -> None:
        assert_frame_equal(outlet.table(), rows(*values), check_row_order=False)

    def test_retractions_are_taken(self, outlet: Outlet) -> None:
        assert outlet.open().takes_retractions

    def test_a_row_with_a_known_identity_replaces_the_old_one(self, outlet: Outlet) -> None:
        writer = outlet.open()
        writer.publish(key(1), [stage(writer, rows(("ann", 0, 1), ("ann", 5, 1), ("bob", 0, 1)))])
        writer.publish(key(2), [stage(writer, rows(("ann", 0, 2)))])
        self.holds(outlet, ("ann", 0, 2), ("ann", 5, 1), ("bob", 0, 1))

    def test_null_is_an_identity_like_any_other(self, outlet: Outlet) -> None:
        writer = outlet.open()
        writer.publish(key(1), [stage(writer, rows((None, 0, 1), (None, 5, 1), ("ann", 0, 1)))])
        gone = stage(writer, ids((None, 5)), "retracted")
        writer.publish(key(2), [stage(writer, rows((None, 0, 2))), gone])
        self.holds(outlet, (None, 0, 2), ("ann", 0, 1))

    def test_what_is_retracted_and_sent_in_one_epoch_stays(self, outlet: Outlet) -> None:
        writer = outlet.open()
        writer.publish(key(1), [stage(writer, rows(("ann", 0, 1), ("ann", 5, 1)))])
        gone = stage(writer, ids(("ann", 0), ("ann", 5)), "retracted")
        writer.publish(key(2), [stage(writer, rows(("ann", 0, 2))), gone])
        self.holds(outlet, ("ann", 0, 2))

    def test_what_was_retracted_can_come_back(self, outlet: Outlet) -> None:
        writer = outlet.open()
        writer.publish(key(1), [stage(writer, rows(("ann", 0, 1)))])
        writer.publish(key(2), [stage(writer, ids(("ann", 0)), "retracted")])
        self.holds(outlet)
        writer.publish(key(3), [stage(writer, rows(("ann", 0, 3)))])
        self.holds(outlet, ("ann", 0, 3))

    def test_retracting_what_is_not_there_changes_nothing(self, outlet: Outlet) -> None:
        writer = outlet.open()
        writer.publish(key(1), [stage(writer, ids(("ann", 0)), "retracted")])
        writer.publish(key(2), [stage(writer, rows(("bob", 0, 1)))])
        writer.publish(key(3), [stage(writer, ids(("ann", 0), (None, 0)), "retracted")])
        self.holds(outlet, ("bob", 0, 1))

    def test_an_epoch_with_retractions_counts_once(self, outlet: Outlet) -> None:
        writer = outlet.open()
        writer.publish(key(1), [stage(writer, rows(("ann", 0, 1)))])
        second = [stage(writer, rows(("ann", 5, 2))), stage(writer, ids(("ann", 0)), "retracted")]
        writer.publish(key(2), second)
        writer.publish(key(3), [stage(writer, rows(("ann", 0, 3)))])
        writer.publish(key(2), second)
        self.holds(outlet, ("ann", 0, 3), ("ann", 5, 2))

    def test_a_column_of_the_users_makes_no_changelog(self, outlet: Outlet) -> None:
        """A join may have a column `op` of its own: its rows replace each other all the same."""
        writer = outlet.open(changes=False)
        first = rows(("ann", 0, 1), ("bob", 0, 1), ("eve", 0, 1)).with_columns(op=pl.lit("c"))
        second = rows(("ann", 0, 2)).with_columns(op=pl.lit("u"))
        writer.publish(key(1), [stage(writer, first)])
        gone = stage(writer, ids(("bob", 0)), "retracted")
        writer.publish(key(2), [stage(writer, second), gone])
        expected = pl.concat([second, first[2:]])
        assert_frame_equal(outlet.table(), expected, check_row_order=False)

    def test_an_identity_that_rows_do_not_have_is_refused(self, outlet: Outlet) -> None:
        with pytest.raises(ConfigError, match="did you mean 'user'") as caught:
            outlet.open().check(("usr",), rows().schema)
        assert [problem.at for problem in caught.value.problems] == ["target.identity"]
