"""The table of kills: which run is killed at which point of an epoch.

By day every point of `tidegate.faults` is met once for each store; operators, targets, changes of
the number of shards and the flush are spread over those kills. By night the rest is killed too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Final, Literal

from tests.faults.operators import EPOCHS, JOINS

Store = Literal["sqlite", "postgres"]
Kind = Literal["files", "together", "apart", "kafka"]
"""Results in files, in the database of the state, in another one, in topics."""


@dataclass(frozen=True, kw_only=True)
class Kill:
    """A run that is killed, started again, perhaps killed again, and run to its end."""

    operator: str
    store: Store
    target: Kind
    faults: tuple[str, ...]
    """`point:nth`, of one process after the other; each takes all processes of its run with it."""
    shards: int = 1
    then_shards: int = 1
    flushed: bool = False
    """Whether the run ends with a flush."""

    def __str__(self) -> str:
        shards = f"{self.shards}to{self.then_shards}" + ("-flushed" if self.flushed else "")
        return "-".join([*self.faults, self.operator, self.store, self.target, shards])

    @property
    def points(self) -> tuple[str, ...]:
        return tuple(fault.partition(":")[0] for fault in self.faults)

    @property
    def on_end(self) -> str:
        return "flush" if self.flushed else "keep"

    @property
    def results(self) -> Kind:
        """Targets of the same kind: rows of a table do not show what database they are in."""
        return "apart" if self.target == "together" else self.target

    def committed(self, fault: str) -> range:
        """The epochs that may be the last one committed after this fault."""
        point, _, nth = fault.partition(":")
        if point in ("commit", "committing"):
            return range(int(nth) - 1, int(nth))
        if point == "committed":
            return range(int(nth), int(nth) + 1)
        return range(1, EPOCHS)


def kill(
    place: str, *faults: str, shards: int = 1, then: int | None = None, flushed: bool = False
) -> Kill:
    """A kill of `operator store target`."""
    operator, store, target = place.split()
    return Kill(
        operator=operator,
        store=store,  # type: ignore[arg-type]  # a word of the tables below
        target=target,  # type: ignore[arg-type]
        faults=faults,
        shards=shards,
        then_shards=then or shards,
        flushed=flushed,
    )


DAY: Final = (
    kill("sessions sqlite files", "plan:4"),
    kill("tumbling_tumbling sqlite files", "map:5", shards=2),
    kill("reopened sqlite apart", "step:4", shards=2),
    kill("sessions sqlite files", "compaction:2"),
    kill("sessions sqlite files", "staged:4", "garbage:1", shards=4),
    kill("sessions sqlite files", f"commit:{EPOCHS + 1}", flushed=True),
    kill("session_session sqlite files", "committing:4", shards=2),
    kill("interval sqlite files", "committed:3", shards=4, then=1),
    kill("sessions sqlite files", "publishing:8", shards=2),
    kill("reopened sqlite kafka", "sent:4", shards=2, then=1),  # between two pieces of an epoch
    kill("interval postgres files", "plan:3", shards=2),
    kill("reopened postgres apart", "map:3", shards=2),
    kill("reopened postgres together", "step:4", shards=2),
    kill("reopened postgres together", "compaction:2"),
    kill("reopened postgres apart", "staged:3", "garbage:1", shards=2),
    kill("tumbling_sliding postgres files", "commit:4", shards=2, then=1),
    kill("reopened postgres together", "committing:4"),
    kill("reopened postgres together", "committed:4", shards=1, then=3),
    kill("reopened postgres apart", "publishing:5"),
    kill("reopened postgres kafka", "sent:10", shards=2),
)

_AT_NIGHT: Final = (
    "sessions sqlite files",
    *(f"{join} sqlite files" for join in JOINS),
    "reopened sqlite kafka",
    "reopened postgres together",
    "reopened postgres apart",
    "reopened postgres kafka",
)
_FAULTS: Final = (
    *("plan:4", "map:2", "step:2", "compaction:2", "staged:2"),
    *("commit:4", "committing:4", "committed:4", "publishing:5", "sent:8"),
)


def _every_point() -> Iterator[Kill]:
    """Every run at every point that it has; the next one while it collects garbage."""
    for place, fault in product(_AT_NIGHT, _FAULTS):
        nowhere = {"sent": not place.endswith("kafka"), "publishing": place.endswith("together")}
        if not nowhere.get(fault.partition(":")[0], False):
            yield kill(place, fault, "garbage:1", then=2)


NIGHT: Final = (
    *_every_point(),
    kill("sessions sqlite files", "staged:5", shards=4),
    kill("sessions sqlite files", "committed:4", shards=4, then=1),
    kill("sessions sqlite files", "staged:2", shards=1, then=3),
    kill("sessions sqlite files", f"committed:{EPOCHS + 1}", flushed=True),
    kill("interval sqlite files", "committed:3", shards=1, then=3),
    kill("interval sqlite files", "step:5", shards=2),
    kill("tumbling_tumbling sqlite files", "staged:5", shards=2),
    kill("tumbling_sliding sqlite files", "commit:4", shards=2, then=1),
    kill("reopened postgres together", "staged:6", shards=2),
    kill("reopened postgres apart", "commit:3", shards=2),
    kill("reopened postgres together", f"commit:{EPOCHS + 1}", flushed=True),
)
