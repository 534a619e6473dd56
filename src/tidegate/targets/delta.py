"""A Delta table: one commit for each epoch that has rows, by delta-rs; several for a large one.

Every commit carries the epoch as a transaction of the application that the pipeline's channel
is to the table, and of an epoch that is not all out the number of its rows that are. Both are
read from the very snapshot that is committed on: a commit of the same epoch by somebody else in
between is a conflict. So is a claim: whose rows the table has is one of its properties, and a
change of those conflicts with any commit.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, ClassVar, Final

import polars as pl
import pyarrow as pa

from tidegate.errors import ConfigError, Problem
from tidegate.pipeline import MAIN, Target
from tidegate.pipeline.masking import shown
from tidegate.pipeline.wording import did_you_mean
from tidegate.targets.blobs import table_to_bytes
from tidegate.targets.options import (
    are_changes,
    identity_problems,
    is_address,
    path_problems,
    refuse,
    text_of,
    unknown_options,
)
from tidegate.targets.ownership import refuse_unless_owner
from tidegate.targets.pieces import Piece, next_piece
from tidegate.targets.protocol import EpochKey, StagedRows, TargetOpening, WriterDefaults

_STORAGE: Final = "storage"
_ROWS: Final = "/rows"
"""Behind the id of an application: that of the number of rows that are out of its last epoch."""
_PIECE_ROWS: Final = 1_000_000
"""Rows of a commit: each is a file more at least, and a merge looks through the table."""
_ATTEMPTS: Final = 5
"""How often an epoch is tried when others change the same rows of the table meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaWriter(WriterDefaults):
    """Rows are added, or with `upserts` replaced and deleted by `identity`, NULL equal to NULL."""

    path: str
    pipeline: str
    channel: str
    identity: tuple[str, ...] = ()
    upserts: bool = False
    changes: bool | None = None
    """Whether rows are changes of rows; None: those that have a column `op` are."""
    storage: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """What the object store wants to know; may hold secrets."""

    one_schema: ClassVar = True
    """The first run makes the table, and all rows have to fit in."""

    @property
    def takes_retractions(self) -> bool:
        """A merge deletes in the commit in which it adds."""
        return self.upserts

    def check(self, identity: Sequence[str], schema: pl.Schema) -> None:
        """A table that is there has the columns of the rows, with their types."""
        problems = [*identity_problems(identity, schema), *type_problems(schema)]
        if not problems and (table := self._table()):
            problems = [*column_problems(table, schema)]
        refuse(problems, self.channel)

    def encode(self, rows: pl.DataFrame) -> bytes:
        """An Arrow stream."""
        return table_to_bytes(rows)

    def publish(self, key: EpochKey, parts: Sequence[StagedRows]) -> None:
        """Commit what is not in the table of the epoch: a commit for each piece of it."""
        if any(part.rows for part in parts):
            _tried(lambda: self._commit_rest(key, parts))

    def _commit_rest(self, key: EpochKey, parts: Sequence[StagedRows]) -> None:
        """Each piece on the snapshot that says that it is the next one."""
        out, table = 0, self._table()
        while (known := _rows_out(table, key)) is not None:
            piece = next_piece(parts, max(out, known), _PIECE_ROWS)
            if piece is None:
                return
            if table is None and (sent := piece.rows("sent")) is not None:
                table = self._new_table(sent.schema)
                continue  # whoever was faster may have committed
            if table is not None:  # else nothing was ever sent: there is nothing to delete
                self._commit(table, key, piece)
            if piece.last:
                return
            out, table = piece.until, self._table()

    def prepare(self, schema: pl.Schema) -> None:
        """Make the table for rows of this schema, where there is none."""
        if self._table() is None:
            self._new_table(schema)

    def owner(self) -> str | None:
        """By the property of the table."""
        return self._owner_in(self._table())

    def is_empty(self) -> bool:
        """Whether the newest snapshot has no row."""
        table = self._table()
        return table is None or not table.count()

    def claim(self, incarnation: str) -> None:
        """A commit of its own, if somebody else is noted: other commits under way fail by it."""
        _tried(lambda: self._claim(incarnation))

    def _claim(self, incarnation: str) -> None:
        table = self._table()
        if table is not None and self._owner_in(table) != incarnation:
            noted = {self.owner_property: incarnation}
            table.alter.set_table_properties(noted, raise_if_not_exists=False)

    def _owner_in(self, table: Any) -> str | None:
        noted: dict[str, str] = {} if table is None else table.metadata().configuration
        return noted.get(self.owner_property)

    @property
    def owner_property(self) -> str:
        """The property of the table that says whose rows it has."""
        return f"tidegate.owner.{self.pipeline}/{self.channel}"

    def last_epoch(self, key: EpochKey) -> int | None:
        """The last epoch of which anything is in, by the transaction of the pipeline's channel."""
        return _version(self._table(), application_of(key))

    def rows(self, schema: pl.Schema | None = None) -> pl.DataFrame:
        """The newest snapshot of the table; without columns if there is no table."""
        table = self._table()
        return pl.DataFrame() if table is None else pl.DataFrame(table.to_pyarrow_table())

    def _commit(self, table: Any, key: EpochKey, piece: Piece) -> None:
        refuse_unless_owner(self._owner_in(table), key, f"the table {self.path}")
        sent, done = piece.rows("sent"), _transactions(table, key, piece)
        if self._replaces(sent):
            merge(table, sent, piece.rows("retracted"), self.identity, done)
        elif sent is not None:
            rows = completed(sent, table)
            deltalake().write_deltalake(table, rows, mode="append", commit_properties=done)

    def _replaces(self, sent: pl.DataFrame | None) -> bool:
        return self.upserts and not are_changes(sent, self.changes)

    def _table(self) -> Any:
        """The newest snapshot of the table; None if there is no table."""
        delta = deltalake()
        try:
            return delta.DeltaTable(self.path, storage_options=dict(self.storage) or None)
        except delta.exceptions.TableNotFoundError:
            return None

    def _new_table(self, columns: pl.Schema) -> Any:
        """An empty table, by us or by whoever was faster."""
        schema = delta_schema(columns)
        options = dict(self.storage) or None
        try:
            deltalake().DeltaTable.create(self.path, schema, mode="ignore", storage_options=options)
        except deltalake().exceptions.DeltaError:
            if self._table() is None:
                raise
        return self._table()


def open_delta(opening: TargetOpening) -> DeltaWriter:
    """The writer of a target; raises `ConfigError` with all that is wrong with its options."""
    target, channel = opening.target, opening.channel
    storage = _storage_options(target)
    known = ("path", _STORAGE, *(f"{_STORAGE}.{name}" for name in storage))
    refuse(
        [
            *unknown_options(target, known),
            *path_problems(target, "/data/sessions"),
            *_storage_problems(target),
            *package_problems(),
        ],
        channel,
    )
    path = str(target.options["path"])
    return DeltaWriter(
        path=path if is_address(path) else os.path.realpath(path),
        pipeline=opening.pipeline,
        channel=channel,
        identity=opening.identity,
        upserts=target.mode == "upsert" and channel == MAIN and bool(opening.identity),
        changes=opening.changes,
        storage=tuple(sorted(storage.items())),
    )


def application_of(key: EpochKey) -> str:
    """The id under which a table remembers the epochs of a channel."""
    return "/".join(["tidegate", key.pipeline, key.incarnation, key.operator, key.channel])


def _rows_out(table: Any, key: EpochKey) -> int | None:
    """How many rows of an epoch a snapshot has; None: all of them."""
    application = application_of(key)
    epoch = _version(table, application)
    if epoch is None or epoch < key.epoch:
        return 0
    return (_version(table, application + _ROWS) or None) if epoch == key.epoch else None


def _transactions(table: Any, key: EpochKey, piece: Piece) -> Any:
    """What a commit says: of which epoch its rows are; and how many are out, if not all."""
    delta, application = deltalake(), application_of(key)
    versions = {application: key.epoch}
    if not piece.last or _version(table, application + _ROWS):
        versions[application + _ROWS] = 0 if piece.last else piece.until
    return delta.CommitProperties(
        app_transactions=[
            delta.Transaction(app_id=name, version=version) for name, version in versions.items()
        ]
    )


def _version(table: Any, application: str) -> int | None:
    version = None if table is None else table.transaction_version(application)
    return None if version is None else int(version)


def _tried(commit: Callable[[], None]) -> None:
    """Commit; again, from the newest snapshot, where somebody else came in between."""
    conflict = deltalake().exceptions.CommitFailedError
    for _ in range(_ATTEMPTS - 1):
        with suppress(conflict):
            return commit()
    return commit()


def _storage_options(target: Target) -> dict[str, str]:
    """`storage.region`, or a mapping `storage` with `region` in it."""
    inner = target.options.get(_STORAGE)
    pairs = dict(inner) if isinstance(inner, Mapping) else {}
    prefix = f"{_STORAGE}."
    flat = {k.removeprefix(prefix): v for k, v in target.options.items() if k.startswith(prefix)}
    return {name: text_of(value) for name, value in {**pairs, **flat}.items()}


def _storage_problems(target: Target) -> Iterator[Problem]:
    inner = target.options.get(_STORAGE, {})
    if not isinstance(inner, Mapping):
        hint = "options={'path': ..., 'storage.aws_region': ...}"
        yield Problem(f"options.{_STORAGE}", shown(inner, _STORAGE), "a mapping", hint)


# --- merging ---

_TABLE: Final = "t"
_SOURCE: Final = "s"


def merge(
    table: Any,
    sent: pl.DataFrame | None,
    retracted: pl.DataFrame | None,
    identity: Sequence[str],
    commit_properties: Any,
) -> None:
    """Commit an epoch to a table; an identity that is both retracted and sent stays, as sent.

    Identities that count no more are deleted, rows replaced or added, in one commit: no reader sees
    a session that has been merged away beside the merged one.
    """
    gone = _free_name("gone", sent, retracted)
    rows = changes(sent, retracted, identity, gone)
    values = {
        _quoted(name): f"{_SOURCE}.{_quoted(name)}"
        for name in (identity if sent is None else sent.columns)
    }
    merging = table.merge(
        rows,
        _same_identity(identity),
        source_alias=_SOURCE,
        target_alias=_TABLE,
        commit_properties=commit_properties,
    ).when_matched_delete(f"{_SOURCE}.{_quoted(gone)}")
    if sent is not None:
        merging = merging.when_matched_update(values).when_not_matched_insert(
            values, f"NOT {_SOURCE}.{_quoted(gone)}"
        )
    merging.execute()


def changes(
    sent: pl.DataFrame | None, retracted: pl.DataFrame | None, identity: Sequence[str], gone: str
) -> pl.DataFrame:
    """One row for each identity of the epoch; `gone` says that it is only to be deleted.

    Of rows with the same identity the last one counts.
    """
    news = [] if sent is None else [sent.with_columns(pl.lit(False).alias(gone))]
    olds = []
    if retracted is not None:
        olds = [retracted.select(identity).with_columns(pl.lit(True).alias(gone))]
    rows = pl.concat([*olds, *news], how="diagonal")
    return rows.unique(identity, keep="last", maintain_order=True)


def _same_identity(identity: Sequence[str]) -> str:
    """NULL equals NULL. The parentheses count: without them AND binds before IS."""
    return " AND ".join(
        f"({_TABLE}.{_quoted(name)} IS NOT DISTINCT FROM {_SOURCE}.{_quoted(name)})"
        for name in identity
    )


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _free_name(name: str, *tables: pl.DataFrame | None) -> str:
    """`name`, or longer where a column is called so."""
    taken = {column for table in tables if table is not None for column in table.columns}
    while name in taken:
        name += "_"
    return name


# --- types and columns ---


def deltalake() -> Any:
    """The library, which only pipelines with such a target need."""
    try:
        import_module("deltalake.exceptions")
        return import_module("deltalake")
    except ImportError as error:
        raise ConfigError([*package_problems()]) from error


def package_problems() -> Iterator[Problem]:
    """The library is installed."""
    try:
        import_module("deltalake")
    except ImportError:
        found = "'delta', but the package deltalake is not installed"
        yield Problem("format", found, "deltalake beside tidegate", "pip install tidegate[delta]")


_PLAIN: Final = (
    *(pl.Boolean, pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.Float32, pl.Float64),
    *(pl.String, pl.Binary, pl.Date, pl.Decimal),
)


def _storable(dtype: Any) -> bool:
    if isinstance(dtype, pl.List):
        return _storable(dtype.inner)
    if isinstance(dtype, pl.Datetime):
        return dtype.time_unit == "us" and dtype.time_zone in (None, "UTC")
    return dtype in _PLAIN


def type_problems(schema: pl.Schema) -> Iterator[Problem]:
    """Every column has a type that a table can have, without being changed."""
    for name, dtype in schema.items():
        if not _storable(dtype):
            hint = "cast it in the transform of the source"
            found = f"column {name!r} of type {dtype}"
            yield Problem("format", found, "types that a delta table has", hint)


def column_problems(table: Any, schema: pl.Schema) -> Iterator[Problem]:
    """The table has every column, with its type; what else it has may be NULL."""
    there = {each.name: each for each in table.schema().fields}
    place = f"the table {shown(table.table_uri)}"
    for each in delta_schema(schema).fields:
        wanted = _type_text(each.type)
        if each.name not in there:
            hint = did_you_mean(each.name, there, "add the column, or choose another path")
            found = f"{place} without the column {each.name!r}"
            yield Problem("options.path", found, f"a column {each.name!r} of type {wanted}", hint)
        elif (found_type := _type_text(there[each.name].type)) != wanted:
            found = f"{place}, where the column {each.name!r} is {found_type}"
            yield Problem("options.path", found, wanted, "choose another path, or cast the column")
    for name, each in there.items():
        if name not in schema and not each.nullable:
            found = f"{place} with the column {name!r}, which is not nullable"
            yield Problem("options.path", found, "a column that rows have, or nullable", "")


def _type_text(kind: Any) -> str:
    if hasattr(kind, "element_type"):
        return f"array<{_type_text(kind.element_type)}>"
    return str(kind.type)


def delta_schema(schema: pl.Schema) -> Any:
    """The schema of a table for rows of this one."""
    return deltalake().Schema.from_arrow(schema.to_frame().to_arrow().schema)


def completed(rows: pl.DataFrame, table: Any) -> pl.DataFrame:
    """The rows with NULL in columns that only the table has."""
    there = pl.DataFrame(pa.schema(table.schema().to_arrow()).empty_table()).schema
    extra = {name: dtype for name, dtype in there.items() if name not in rows.columns}
    return rows.with_columns(pl.lit(None, dtype=dtype).alias(name) for name, dtype in extra.items())
