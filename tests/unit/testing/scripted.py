"""An engine that does as it is told, and remembers what it was fed."""

from collections.abc import Mapping, Sequence
from typing import Any

from tidegate.pipeline import Join, Window
from tidegate.testing import Scenario, ScenarioResult, Sent, run_scenario

Row = dict[str, Any]


def sent(
    *rows: Row, retracted: Sequence[Row] = (), late: Sequence[Row] = (), watermark_us: int = 0
) -> Sent:
    return Sent(
        rows=list(rows), retracted=list(retracted), late=list(late), watermark_us=watermark_us
    )


class Scripted:
    """Answers epoch after epoch, flush included, with `answers`; with nothing when they end."""

    def __init__(self, *answers: Sent | Exception) -> None:
        self.answers = list(answers)
        self.fed: list[object] = []
        self.columns: Mapping[str, str] = {}
        self.window: Window | None = None

    def __call__(
        self, operator: Window | Join, columns: Mapping[str, str], *, max_keys: int | None = None
    ) -> "Scripted":
        assert isinstance(operator, Window)
        self.window, self.columns = operator, columns
        return self

    def epoch(self, inputs: Sequence[list[Row]], watermark_us: int | None) -> Sent:
        (rows,) = inputs
        assert type(watermark_us) in (int, type(None))  # a subclass does not go over the wire
        self.fed.append(([row["event_us"] for row in rows], watermark_us))
        return self._answer()

    def flush(self) -> Sent:
        self.fed.append("flush")
        return self._answer()

    def restart(self) -> None:
        self.fed.append("restart")

    def close(self) -> None:
        self.fed.append("close")

    def _answer(self) -> Sent:
        answer = self.answers.pop(0) if self.answers else sent()
        if isinstance(answer, Exception):
            raise answer
        return answer


def run(case: Row, *answers: Sent | Exception) -> ScenarioResult:
    """Run a case on an engine that gives `answers`."""
    return run_scenario(Scenario(id="x", case=case), engine=Scripted(*answers))
