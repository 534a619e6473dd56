"""Where results go, and whether a row that was sent can be taken back there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final, Literal

from pydantic import Field

from tidegate.errors import Problem
from tidegate.pipeline.fieldtypes import DERIVED, Name, Options, nothing
from tidegate.pipeline.masking import listed, shown
from tidegate.pipeline.validation import Rule, Value

Mode = Literal["append", "upsert"]

_APPEND: Final[tuple[Mode, ...]] = ("append",)
_UPSERT: Final[tuple[Mode, ...]] = ("upsert",)

MODES: Final[Mapping[str, tuple[Mode, ...]]] = {
    "parquet": _APPEND,
    "json": _APPEND,
    "csv": _APPEND,
    "delta": ("append", "upsert"),
    "kafka": ("append", "upsert"),
    "postgres": ("upsert", "append"),
    "memory": _UPSERT,
    "console": _UPSERT,
}
"""What each format can do; any other is a format of Spark, which can only append."""


def mode_fits_format(target: Target) -> Iterator[Problem]:
    """Each format has its modes."""
    modes = MODES.get(target.format, _APPEND)
    if target.mode not in modes:
        expected = f"{listed(map(repr, modes))} for {target.format}"
        others = [name for name, known in MODES.items() if target.mode in known]
        yield Problem("mode", shown(target.mode), expected, f"{listed(others)} can {target.mode}")


def upsert_needs_a_key(target: Target) -> Iterator[Problem]:
    """In a topic without keys nothing can be replaced."""
    if target.format == "kafka" and target.mode == "upsert" and not target.options.get("key"):
        hint = "options={'key': True} keys records by group columns and session or window"
        yield Problem("mode", "'upsert' without a key", "options.key for kafka", hint)


class Target(Value):
    """A table, folder or topic that results are written to."""

    format: Name
    """`parquet`, `json`, `csv`, `delta`, `kafka`, `postgres`, `memory`, `console`, or Spark's."""
    mode: Mode = DERIVED
    """`append` only adds rows, `upsert` replaces and deletes too; by default as the format can."""
    options: Options = Field(default_factory=nothing)
    """What only this format understands, such as `path` or `table`."""

    rules: ClassVar[tuple[Rule, ...]] = (mode_fits_format, upsert_needs_a_key)

    @classmethod
    def completed(cls, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Fill in the mode: a keyed topic is for upserts, any other format for its first mode."""
        if fields.get("mode", "") is not None or "format" not in fields:
            return fields
        keyed = fields["format"] == "kafka" and fields.get("options", {}).get("key")
        mode = "upsert" if keyed else MODES.get(fields["format"], _APPEND)[0]
        return {**fields, "mode": mode}

    @property
    def appends_only(self) -> bool:
        """Whether what was sent stays: nothing can be replaced or deleted."""
        return self.mode == "append"
