"""What a replay will send and what not, counted letter by letter, and in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from tidegate.cli.dlq_letters import How, Letter
from tidegate.cli.dlq_passing import SAME_RECORD, SENT_BEFORE, Fate
from tidegate.cli.state_text import counted
from tidegate.cli.telling import plain
from tidegate.kafka.asking import Partition


@dataclass(slots=True, kw_only=True)
class ReplayPlan:
    """What is to be sent, and what not."""

    channel: str
    reason: str | None
    ends: Mapping[Partition, int]
    """Where the topic ended: letters behind that are for the next replay."""
    before: dict[bytes, int] = field(default_factory=dict)
    """The records that were sent before, as `Passage` knows them."""
    letters: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How many are sent, by reason and topic."""
    hows: Counter[How] = field(default_factory=Counter)
    elsewhere: int = 0
    """How many of these were sent to their own topic before, and now go to another."""
    kept: Counter[str] = field(default_factory=Counter)
    """How many are not sent, as they were sent before, or their record is sent."""
    unsendable: Counter[str] = field(default_factory=Counter)
    """By why."""

    @property
    def count(self) -> int:
        """So many letters are sent."""
        return self.letters.total()

    def add(self, fate: Fate, *, elsewhere: bool) -> None:
        """Count a letter."""
        if isinstance(fate.outcome, Letter):
            self.letters[fate.dead.reason, fate.outcome.topic] += 1
            self.hows[fate.outcome.how] += 1
            self.elsewhere += elsewhere
        elif isinstance(fate.outcome, str):
            self.kept[fate.outcome] += 1
        else:
            self.unsendable[str(fate.outcome)] += 1

    def sentences(self) -> Iterator[str]:
        """For people."""
        yield from self._sent()
        for why, told in _KEPT.items():
            if self.kept[why]:
                yield f"{counted(self.kept[why], 'rows')} {told}"
        for why, count in sorted(self.unsendable.items()):
            yield f"{counted(count, 'rows')} cannot be sent: {plain(why)}"
        if not self.letters:
            yield "there is nothing to send"
        elif self.channel != "rejected":
            yield _LATE_AGAIN

    def _sent(self) -> Iterator[str]:
        """What is sent, and as what."""
        for (reason, topic), count in sorted(self.letters.items()):
            yield f"{counted(count, 'rows')} ({plain(reason)}) to topic {plain(topic)}"
        for how, told in _HOWS.items():
            if self.hows[how]:
                yield f"  {counted(self.hows[how], 'rows')} {told}"
        if self.elsewhere:
            yield f"  {counted(self.elsewhere, 'rows')} that went back to their own topic before"


_LATE_AGAIN: Final = (
    "late rows will be late again, unless the pipeline that reads them allows more lateness or "
    "begins anew: its watermark does not go back"
)
_HOWS: Final[Mapping[How, str]] = {
    "as it was": "as they were, from the topic that they came from",
    "without headers": "as bytes, without headers: their records are gone",
    "rebuilt": "rebuilt from columns: their records are gone, and may have been written otherwise",
}
_KEPT: Final = {
    SENT_BEFORE: "were sent before, and are not sent again",
    SAME_RECORD: "come with the record of another, which is sent once",
}
