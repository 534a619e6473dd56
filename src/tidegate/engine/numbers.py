"""The numbers of a run: each stands here once, with its name, unit and help.

    RunStatus -> [numbers] -> status, `--json`, terminal, notebook, reference

A new number is computed somewhere (a count of a step, a field of `EpochReport`) and gets a row
here; all outputs have it then. Screens choose what surrounds the numbers, never how they look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from tidegate.eventtime import known_us
from tidegate.text import bytes_text, count_text, elapsed_text, instant_text, number_text

if TYPE_CHECKING:
    from tidegate.engine.status import EpochReport, RunStatus

Unit = (
    Literal["rows", "records", "keys", "windows", "epochs", "epoch", "rows/s"]
    | Literal["bytes", "seconds", "us", "us since 1970", "true or false"]
)
Kind = Literal["counter", "gauge"]
"""A counter adds up over a run; a gauge is as it is after the last epoch."""
Place = Literal["live", "line", "summary", "notebook", "status", "result", "epochs"]
"""The table of a terminal, the line of an epoch, the line of the whole run, the line below a cell;
`RunStatus` and `RunResult` as values, and the table of epochs of the latter."""
Value = int | float | None
Values = Value | Mapping[str, Value]
"""One, or one for each label."""

_NOUNS: Final = ("rows", "records", "keys", "windows", "epochs")
_TEXTS: Final[Mapping[Unit, Callable[[Any], str]]] = {
    "epoch": str,
    "bytes": bytes_text,
    "seconds": lambda seconds: elapsed_text(1e6 * seconds),
    "us": elapsed_text,
    "us since 1970": instant_text,
}
_DIGITS: Final[Mapping[Unit, int]] = {"seconds": 6, "rows/s": 1}
"""Behind the point, in JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """What is known of a number."""

    name: str
    """As a metric: with its unit."""
    unit: Unit
    kind: Kind = "gauge"
    help: str
    field: tuple[str, ...]
    """Where it stands in JSON; `{}` is its label."""
    read: Callable[[RunStatus], Values]
    """A value for each label where there is one. None: there is none yet; a counter is 0 then."""
    label: str = ""
    """What its values are told apart by."""
    title: str = ""
    """Its name on screens."""
    on: tuple[Place, ...] = ()
    """Where it is always shown, if it has no label."""
    if_any: tuple[Place, ...] = ()
    """Where it is shown unless it is 0."""
    part_of: str = ""
    """The number that it breaks down by its label, behind which it is shown in brackets."""

    def value(self, status: RunStatus) -> Value:
        """Its value, of a number without labels; a count that is not there is 0."""
        found = self.by_label(status)[""]
        return 0 if found is None and self.kind == "counter" else found

    def by_label(self, status: RunStatus) -> Mapping[str, Value]:
        """Its values by label, which is empty where it has none."""
        found = self.read(status)
        return found if isinstance(found, Mapping) else {"": found}

    def text(self, value: Value) -> str:
        """A value as it is shown below its title."""
        if value is None and self.unit != "us since 1970":
            return "-"
        return _TEXTS.get(self.unit, number_text)(value)

    def phrase(self, value: Value) -> str:
        """A value with its title, as a few words."""
        if self.unit == "true or false":
            return self.title if value else ""
        if self.unit in _NOUNS and isinstance(value, int):
            return count_text(value, self.title)
        text = self.text(value)
        return f"{text} {self.title}" if self.unit == "rows/s" else f"{self.title} {text}"


def numbers_dict(status: RunStatus) -> dict[str, Any]:
    """All numbers, as in JSON; a count that is not there is left out."""
    found: dict[str, Any] = {}
    for number in NUMBERS:
        if len(number.field) > 1:
            found.setdefault(number.field[0], {})
        for label, value in number.by_label(status).items():
            if value is None and number.kind == "counter":
                continue
            *groups, key = (each.format(label) for each in number.field)
            inner = found
            for group in groups:
                inner = inner.setdefault(group, {})
            digits = _DIGITS.get(number.unit)
            inner[key] = value if digits is None or value is None else round(value, digits)
    return found


def cells(status: RunStatus, place: Place) -> dict[str, str]:
    """The numbers of a place as texts, by title."""
    return {number.title: number.text(number.value(status)) for number in _shown(status, place)}


def phrases(status: RunStatus, place: Place) -> list[str]:
    """The numbers of a place as words, without those that are not known yet but the watermark."""
    return [
        phrase_of(number.name, status)
        for number in _shown(status, place)
        if number.unit == "us since 1970" or number.value(status) is not None
    ]


def phrase_of(name: str, status: RunStatus) -> str:
    """A number as words, with what it is broken down to: `3 rejected (1 future, 2 unparsable)`."""
    number = NUMBER[name]
    parts = [
        f"{each.text(value)} {label}"
        for each in NUMBERS
        if each.part_of == name
        for label, value in sorted(each.by_label(status).items())
    ]
    said = number.phrase(number.value(status))
    return f"{said} ({', '.join(parts)})" if parts else said


def text_of(name: str, status: RunStatus) -> str:
    """A number without its title."""
    number = NUMBER[name]
    return number.text(number.value(status))


def labelled(status: RunStatus, label: str) -> dict[str, list[tuple[Number, Value]]]:
    """The numbers with a label by its values, such as those of each source."""
    found: dict[str, list[tuple[Number, Value]]] = {}
    for number in NUMBERS:
        if number.label == label:
            for name, value in number.by_label(status).items():
                found.setdefault(name, []).append((number, value))
    return found


def _shown(status: RunStatus, place: Place) -> Iterator[Number]:
    for number in NUMBERS:
        if place in number.on or (place in number.if_any and number.value(status)):
            yield number


def _count(
    name: str,
    key: str,
    help: str,
    *,
    unit: Unit = "rows",
    title: str = "",
    on: tuple[Place, ...] = (),
    if_any: tuple[Place, ...] = (),
) -> Number:
    """The row of what steps and the engine count under a key."""
    return Number(
        name=name,
        unit=unit,
        kind="counter",
        help=help,
        field=("counts", key),
        read=lambda status: status.counts.get(key),
        title=title,
        on=on,
        if_any=if_any,
    )


def _last(
    read: Callable[[EpochReport], Values], otherwise: Values = None
) -> Callable[[RunStatus], Values]:
    """Read the report of the last epoch of the run, if there is one."""
    return lambda status: otherwise if status.last is None else read(status.last)


def _rejected_by_reason(status: RunStatus) -> dict[str, Value]:
    prefix = "rejected."
    counts = status.counts.items()
    return {name.removeprefix(prefix): n for name, n in counts if name.startswith(prefix)}


def _lag_us(status: RunStatus) -> Value:
    return max((us for us in status.lag_us.values() if us is not None), default=None)


def _source_watermarks(report: EpochReport) -> Mapping[str, Value]:
    sources = report.watermarks.sources.items()
    return {name: known_us(each.watermark_us) for name, each in sources}


def _idle_sources(report: EpochReport) -> Mapping[str, Value]:
    return {name: name in report.watermarks.idle for name in report.watermarks.sources}


def _parts(report: EpochReport) -> Mapping[str, Value]:
    """Parts that add up: `job` is the sum of others."""
    return {name: seconds for name, seconds in report.parts.items() if name != "job"}


NUMBERS: Final = (
    Number(
        name="epoch",
        unit="epoch",
        help="The last epoch that was committed, by this run or before it.",
        field=("epoch",),
        title="epoch",
        on=("live", "notebook", "status", "epochs"),
        read=lambda status: status.epoch,
    ),
    Number(
        name="epochs",
        unit="epochs",
        kind="counter",
        help="Epochs that this run has committed.",
        field=("epochs",),
        title="epochs",
        read=lambda status: status.epochs,
    ),
    Number(
        name="epoch_rows",
        unit="rows",
        help="Rows that the last epoch admitted.",
        field=("rows",),
        title="rows",
        on=("epochs",),
        read=_last(lambda report: report.rows),
    ),
    Number(
        name="epoch_seconds",
        unit="seconds",
        help="Time that the last epoch took, without the time it waited for other epochs.",
        field=("seconds",),
        title="took",
        on=("epochs",),
        read=_last(lambda report: report.seconds),
    ),
    _count(
        "admitted_rows",
        "rows",
        "Rows that were admitted.",
        title="rows",
        on=("live", "notebook", "status", "result"),
    ),
    Number(
        name="rows_per_second",
        unit="rows/s",
        help="Admitted rows per second, in the ten seconds before the last commit.",
        field=("rows_per_second",),
        title="rows/s",
        on=("live", "line", "notebook"),
        read=lambda status: status.rows_per_second,
    ),
    Number(
        name="watermark_us",
        unit="us since 1970",
        help="Watermark of the pipeline, after the last epoch.",
        field=("watermark_us",),
        title="watermark",
        on=("line", "notebook", "status", "result", "epochs"),
        read=lambda status: status.watermark_us,
    ),
    Number(
        name="lag_us",
        unit="us",
        help="The largest lag of a source.",
        field=("lag_us",),
        title="lag",
        on=("line",),
        read=_lag_us,
    ),
    Number(
        name="source_watermark_us",
        unit="us since 1970",
        help="Watermark of a source, or of a partition of one, after the last epoch.",
        field=("sources", "{}", "watermark_us"),
        label="source",
        title="watermark",
        read=_last(_source_watermarks, {}),
    ),
    Number(
        name="source_lag_us",
        unit="us",
        help="How far the watermark of a source was behind the clock at the last commit.",
        field=("sources", "{}", "lag_us"),
        label="source",
        title="lag",
        read=lambda status: status.lag_us,
    ),
    Number(
        name="source_idle",
        unit="true or false",
        help="Whether the watermark goes on without a source, which brings no rows.",
        field=("sources", "{}", "idle"),
        label="source",
        title="idle",
        read=_last(_idle_sources, {}),
    ),
    _count(
        "accepted_rows",
        "accepted",
        "Rows that entered a window or a join, reassigned ones among them.",
    ),
    _count(
        "late_rows",
        "late",
        "Rows that were late and entered nothing, whatever became of them.",
        title="late",
        on=("live", "notebook", "status", "result"),
        if_any=("line", "summary"),
    ),
    _count(
        "reassigned_rows",
        "reassigned",
        'Rows that were late and count at the watermark (`late_data = "reassign"`).',
        title="reassigned",
        if_any=("status", "result"),
    ),
    _count(
        "left_out_rows",
        "left_out",
        'Rows that have no positive gap (`nonpositive_gap = "drop"`).',
        title="left out",
        if_any=("line", "summary"),
    ),
    _count(
        "rejected_rows",
        "rejected",
        "Rows that were not admitted, for whatever reason.",
        title="rejected",
        on=("live", "status", "result"),
        if_any=("line", "summary"),
    ),
    Number(
        name="rejected_rows_by_reason",
        unit="rows",
        kind="counter",
        help="Rows that were not admitted, by reason.",
        field=("counts", "rejected.{}"),
        label="reason",
        part_of="rejected_rows",
        read=_rejected_by_reason,
    ),
    _count(
        "lost_records",
        "lost",
        "Records of Kafka that were deleted before they were read, by their offsets "
        '(`on_data_loss = "continue"`).',
        unit="records",
        title="lost",
        if_any=("line", "summary", "status", "result"),
    ),
    _count(
        "sent_rows",
        "sent",
        "Rows that went out to the target.",
        title="sent",
        on=("live", "status", "result"),
    ),
    _count(
        "retracted_rows",
        "retracted",
        "Rows that were taken back: sent before, and superseded.",
        title="retracted",
        if_any=("status", "result"),
    ),
    _count(
        "keys_near_row_limit",
        "keys_near_row_limit",
        "Keys of a join that hold over 80 % of `max_state_rows_per_key`, in each epoch anew.",
        unit="keys",
    ),
    Number(
        name="open_windows",
        unit="windows",
        help="Open windows, or rows that wait in a join, when they were counted last.",
        field=("open",),
        title="open",
        on=("live", "line", "summary"),
        read=_last(lambda report: report.open),
    ),
    Number(
        name="state_rows",
        unit="rows",
        help="Rows of state in force, superseded ones included: never too few.",
        field=("state_rows",),
        title="rows",
        read=lambda status: status.state_rows,
    ),
    Number(
        name="state_bytes",
        unit="bytes",
        help="Size of all state in force, superseded rows included.",
        field=("state_bytes",),
        title="state",
        on=("live", "line"),
        read=lambda status: status.state_bytes,
    ),
    Number(
        name="worker_cache_bytes",
        unit="bytes",
        help="The most memory in which a Python worker keeps state between epochs.",
        field=("worker_cache_bytes",),
        read=lambda status: status.worker_cache_bytes,
    ),
    Number(
        name="part_seconds",
        unit="seconds",
        help="Where the time of the last epoch went; what shards do side by side is their mean.",
        field=("parts", "{}"),
        label="part",
        read=_last(_parts, {}),
    ),
    Number(
        name="run_seconds",
        unit="seconds",
        help="Time from the start of the run to its last commit.",
        field=("run_seconds",),
        read=lambda status: status.seconds,
    ),
)
"""In the order in which they are shown."""
NUMBER: Final[Mapping[str, Number]] = {each.name: each for each in NUMBERS}
