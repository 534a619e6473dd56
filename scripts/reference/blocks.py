"""Every block that a page may have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scripts.reference.commands import command_list, commands, exit_codes
from scripts.reference.fields import keys
from scripts.reference.filling import Block
from scripts.reference.functions import functions
from scripts.reference.kinds import kinds
from scripts.reference.mistakes import error
from scripts.reference.names import name
from scripts.reference.numbers import counts, epoch_line, fields, numbers
from scripts.reference.options import source_options, target_options
from scripts.reference.tables import aggregates, emit_strategies

BLOCKS: Final[Mapping[str, Block]] = {
    "aggregates": aggregates,
    "command-list": command_list,
    "commands": commands,
    "emit-strategies": emit_strategies,
    "counts": counts,
    "epoch-line": epoch_line,
    "error": error,
    "exit-codes": exit_codes,
    "fields": fields,
    "functions": functions,
    "keys": keys,
    "kinds": kinds,
    "name": name,
    "numbers": numbers,
    "source-options": source_options,
    "target-options": target_options,
}
