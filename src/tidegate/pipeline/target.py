"""Where results go, and whether a row that was sent can be taken back there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, ClassVar

from pydantic import Field

from tidegate.errors import ConfigError, Problem
from tidegate.pipeline.fieldtypes import DERIVED, Name, Options, nothing
from tidegate.pipeline.formats import Mode, TargetFormat
from tidegate.pipeline.masking import listed, shown
from tidegate.pipeline.plugins import target_format, target_names
from tidegate.pipeline.validation import Rule, Value


def format_can_be_loaded(target: Target) -> Iterator[Problem]:
    """What another package registers may be broken."""
    try:
        target_format(target.format)
    except ConfigError as error:
        yield from error.problems


def mode_fits_format(target: Target) -> Iterator[Problem]:
    """Each format has its modes."""
    modes = _modes(target.format)
    if target.mode not in modes:
        expected = f"{listed(map(repr, modes))} for {target.format}"
        others = [name for name in target_names() if target.mode in _modes(name)]
        yield Problem("mode", shown(target.mode), expected, f"{listed(others)} can {target.mode}")


def upsert_needs_a_key(target: Target) -> Iterator[Problem]:
    """In a topic without keys nothing can be replaced."""
    option = _upsert_option(target.format)
    if option and target.mode == "upsert" and not target.options.get(option):
        hint = f"options={{{option!r}: True}} keys records by group columns and session or window"
        expected = f"options.{option} for {target.format}"
        yield Problem("mode", f"'upsert' without a {option}", expected, hint)


def _loaded(name: str) -> TargetFormat | None:
    """A format, for rules that have nothing to say of one that is broken."""
    with suppress(ConfigError):
        return target_format(name)
    return None


def _modes(name: str) -> tuple[Mode, ...]:
    """What a format can do; Spark can only append."""
    found = _loaded(name)
    return ("append",) if found is None else found.modes


def _upsert_option(name: str) -> str | None:
    found = _loaded(name)
    return None if found is None else found.upsert_option


class Target(Value):
    """A table, folder or topic that results are written to."""

    format: Name
    """`parquet`, `json`, `csv`, `delta`, `kafka`, `postgres`, `memory`, `console`, or Spark's."""
    mode: Mode = DERIVED
    """`append` only adds rows, `upsert` replaces and deletes too; by default as the format can."""
    options: Options = Field(default_factory=nothing)
    """What only this format understands, such as `path` or `table`."""

    rules: ClassVar[tuple[Rule, ...]] = (
        format_can_be_loaded,
        mode_fits_format,
        upsert_needs_a_key,
    )

    @classmethod
    def completed(cls, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Fill in the mode: a keyed topic is for upserts, any other format for its first mode."""
        if fields.get("mode", "") is not None or "format" not in fields:
            return fields
        keyed = fields.get("options", {}).get(_upsert_option(fields["format"]))
        mode = "upsert" if keyed else _modes(fields["format"])[0]
        return {**fields, "mode": mode}

    @property
    def appends_only(self) -> bool:
        """Whether what was sent stays: nothing can be replaced or deleted."""
        return self.mode == "append"
