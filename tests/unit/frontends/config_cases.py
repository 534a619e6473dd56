"""Rules of configuration as data: a valid pipeline, what a case changes in it, and what is wrong.

`tests/config/bases.yaml` has the valid pipelines, each other file there groups of cases. A case
takes the keys in `without` out and puts `change` in, where mappings are merged and all else is
replaced; of several lists under `each` every combination is tried. Then it says `valid: true`, or
`problems`: all of them, in order. Texts that end in `...` give the beginning; a problem without a
`hint` has any.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import product
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parents[2] / "config"
BASES = "bases.yaml"
OPEN_END = "..."

Data = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Told:
    """What is told of a problem; `toml` has what is told in other words to who reads a TOML file.

    Without `hint` there must be one, whatever it says.
    """

    at: str
    found: str
    expected: str
    hint: str | None = None
    toml: Mapping[str, str] = field(default_factory=dict)

    def in_toml(self) -> Told:
        return replace(self, **self.toml, toml={})


@dataclass(frozen=True, kw_only=True)
class Base:
    """A valid pipeline, and where in it the part stands that cases change; "" is all of it."""

    whole: Data
    part: str = ""


@dataclass(frozen=True)
class Written:
    """A pipeline as a case has it, and the part that the case is about."""

    whole: Data
    part: str


@dataclass(frozen=True, kw_only=True)
class Case:
    """One rule, kept or broken."""

    id: str
    base: Base
    without: Sequence[str] = ()
    change: Data = field(default_factory=dict)
    each: Sequence[Sequence[Data]] = ()
    problems: Sequence[Told] = ()
    valid: bool = False

    def __post_init__(self) -> None:
        assert self.valid != bool(self.problems), f"{self.id}: either valid, or problems"

    def written(self) -> Iterator[Written]:
        """The pipeline that the case describes; with `each`, one for each combination."""
        for choice in product(*self.each):
            whole = copy.deepcopy(self.base.whole)
            keys = part_of(whole, self.base.part)
            for path in self.without:
                around, _, key = path.rpartition(".")
                del part_of(keys, around)[key]
            merged = reduce(_merged, (self.change, *choice), keys)
            yield Written(with_part(whole, self.base.part, merged), self.base.part)


def part_of(data: Any, path: str) -> Any:
    """What stands at a path such as `window.aggregations[0]`."""
    return reduce(lambda around, step: around[step], _steps(path), data)


def with_part(data: Any, path: str, part: Any) -> Any:
    """A copy of `data` with `part` at that path."""
    if not path:
        return part
    changed = copy.deepcopy(data)
    *around, last = _steps(path)
    reduce(lambda outer, step: outer[step], around, changed)[last] = part
    return changed


def _steps(path: str) -> list[Any]:
    return [name or int(place) for name, place in re.findall(r"(\w+)|\[(\d+)\]", path)]


def cases() -> list[Case]:
    """The bases themselves, which are valid, and every case of every file."""
    bases = {name: Base(**base) for name, base in _read(FOLDER / BASES).items()}
    found = [Case(id=f"base-{name}", base=base, valid=True) for name, base in bases.items()]
    for path in sorted(FOLDER.glob("*.yaml")):
        groups = _read(path)["groups"] if path.name != BASES else ()
        found += [
            _case(bases[group["base"]], **case) for group in groups for case in group["cases"]
        ]
    return found


def _case(base: Base, *, problems: Sequence[Data] = (), **case: Any) -> Case:
    return Case(base=base, problems=[Told(**each) for each in problems], **case)


def _read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def _merged(data: Any, change: Any) -> Any:
    if not isinstance(data, Mapping) or not isinstance(change, Mapping):
        return change
    return {**data, **{key: _merged(data.get(key), item) for key, item in change.items()}}
