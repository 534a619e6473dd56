"""Aggregates and emit strategies, from the tables that everything else reads."""

from __future__ import annotations

from collections.abc import Iterable

from scripts.reference.markdown import code, table
from tidegate.pipeline.aggregates import AGGREGATES
from tidegate.pipeline.emit_strategies import EMIT_STRATEGIES, EmitStrategy, Sending


def aggregates() -> str:
    """What each aggregate reads and gives, and the keys that only it has."""
    rows = [
        (code(each.name), each.takes or "rows", each.help, _codes(o.name for o in each.options))
        for each in AGGREGATES.values()
    ]
    return table((code("kind"), "reads", "result", "has"), rows)


def emit_strategies() -> str:
    """When each strategy sends a window, where its rows fit, and what goes with it."""
    rows = [
        (code(each.name), _sent(each), _targets(each), _codes(each.needs), _codes(each.refuses))
        for each in EMIT_STRATEGIES.values()
    ]
    head = (code("emit"), "a window is sent", "targets", "needs", f"refuses {code('late_data')}")
    return table(head, rows)


def _sent(strategy: EmitStrategy) -> str:
    said = _said(strategy.sending)
    if strategy.reopening is None:
        return said
    return f"{said}; under {code('reopen')} {_said(strategy.reopening)}"


def _said(sending: Sending) -> str:
    return sending.text.format(every=code("every_ms"))


def _targets(strategy: EmitStrategy) -> str:
    said = _fit(strategy.sending)
    if strategy.reopening is None:
        return said
    return f"{said}; under {code('reopen')} {_fit(strategy.reopening)}"


def _fit(sending: Sending) -> str:
    return "all" if sending.append_only else "only upsert"


def _codes(names: Iterable[str]) -> str:
    written = [code(name) for name in names]
    return ", ".join(written) or "-"
