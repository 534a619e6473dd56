"""A source that notes every read of its slices, and may give other rows the second time."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from tests.faults.operators import clicks_source
from tidegate.pipeline import Source
from tidegate.pipeline.formats import SourceFormat
from tidegate.sources import GeneratorReader
from tidegate.sources.generator import GeneratorSlice
from tidegate.sources.protocol import (
    LogEntry,
    Offset,
    Polled,
    ReaderDefaults,
    SliceDefaults,
    SourceOpening,
)

FORMAT = SourceFormat(name="unsteady", opens="tests.faults.unsteady:open_unsteady")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsteadySlice(SliceDefaults):
    """Clicks; in its second read, if it is not steady, those of another seed."""

    made: GeneratorSlice
    notes: Path
    steady: bool

    @property
    def partition(self) -> int:
        return self.made.partition

    @property
    def first_offset(self) -> int:
        return self.made.first_offset

    @property
    def span(self) -> int:
        return self.made.span

    def read(self, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        own = self.notes / str(self.made.begin)
        own.mkdir(parents=True, exist_ok=True)
        (own / uuid.uuid4().hex).touch()
        second = len([*own.iterdir()]) == 2
        if second and not self.steady:
            yield from replace(self.made, clicks=replace(self.made.clicks, seed=8)).read(columns)
        else:
            yield from self.made.read(columns)


class UnsteadyReader(ReaderDefaults):
    """The generator, slice for slice."""

    def __init__(self, spec: Source, log: Sequence[LogEntry]) -> None:
        self._notes, self._steady = Path(spec.options["notes"]), bool(spec.options["steady"])
        self._generator = GeneratorReader(clicks_source(), log)

    def columns(self) -> Mapping[str, str]:
        return self._generator.columns()

    def poll(self, since: Offset | None, *, max_rows: int, slices: int, now_us: int) -> Polled:
        polled = self._generator.poll(since, max_rows=max_rows, slices=slices, now_us=now_us)
        return replace(polled, slices=tuple(map(self._noted, polled.slices)))

    def _noted(self, made: object) -> UnsteadySlice:
        assert isinstance(made, GeneratorSlice)
        return UnsteadySlice(made=made, notes=self._notes, steady=self._steady)


def open_unsteady(opening: SourceOpening) -> UnsteadyReader:
    return UnsteadyReader(opening.source, opening.log)


def unsteady_source(notes: Path, *, steady: bool) -> Source:
    options = {"notes": str(notes), "steady": steady}
    return Source(name="clicks", format=FORMAT.name, event_time="event_time", options=options)


def reads(notes: Path) -> dict[int, int]:
    """How often each slice was read, by its first row."""
    return {int(own.name): len([*own.iterdir()]) for own in sorted(notes.iterdir())}
