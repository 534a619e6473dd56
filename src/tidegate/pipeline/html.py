"""Values as HTML for notebooks: small, escaped, and legible on any background.

Nothing here has a colour of its own but lines, half transparent: text and background are
the notebook's. What may be shown is decided by whoever gives the texts (`explain`, `masking`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Final

from tidegate.pipeline.explain import operator_lines, sections_of

if TYPE_CHECKING:
    from tidegate.pipeline.join import Join
    from tidegate.pipeline.pipeline import Pipeline
    from tidegate.pipeline.window import Window

_LINE: Final = "1px solid rgba(128,128,128,0.35)"
_ROW: Final = f"background:none;border-bottom:{_LINE}"
_CELL: Final = "text-align:left;vertical-align:top;padding:2px 12px 2px 0"
_TABLE: Final = (
    "border-collapse:collapse;background:none;color:inherit;font-size:inherit;margin:4px 0"
)
_TEXT: Final = (
    "margin:0;padding:0;border:0;background:none;color:inherit;font-size:inherit;"
    "white-space:pre-wrap;text-align:left"
)

Section = tuple[str, Sequence[str]]
"""A title and its lines."""


def pipeline_html(pipeline: Pipeline) -> str:
    """What `explain` says."""
    return sections_html(f"pipeline {pipeline.name}", sections_of(pipeline))


def operator_html(operator: Window | Join) -> str:
    """What `explain` says of a window or join."""
    kind = type(operator).__name__.lower()
    title = kind if operator.id == kind else f"{kind} {operator.id}"
    return sections_html(title, [("", operator_lines(operator))])


def sections_html(title: str, sections: Iterable[Section]) -> str:
    """Titles beside their lines, which keep their spaces."""
    texts = ((head, escape("\n".join(lines))) for head, lines in sections if lines)
    rows = (_row(head, f'<pre style="{_TEXT}">{text}</pre>') for head, text in texts)
    return _box(title, _table(rows))


def fields_html(title: str, fields: Mapping[str, object], *more: str) -> str:
    """Names beside values, one a row, and whatever HTML stands below."""
    rows = (_row(name, escape(str(value))) for name, value in fields.items())
    return _box(title, _table(rows) + "".join(more))


def table_html(columns: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """A small table with a head."""
    head = "".join(f'<th style="{_CELL}">{escape(name)}</th>' for name in columns)
    body = (
        "".join(f'<td style="{_CELL}">{escape(str(value))}</td>' for value in row) for row in rows
    )
    return _table(f'<tr style="{_ROW}">{cells}</tr>' for cells in (head, *body))


def line_html(text: str) -> str:
    """One line."""
    return f'<pre class="tidegate" style="{_TEXT}">{escape(text)}</pre>'


def _box(title: str, inner: str) -> str:
    return f'<div class="tidegate"><strong>{escape(title)}</strong>{inner}</div>'


def _table(rows: Iterable[str]) -> str:
    return f'<table style="{_TABLE}">{"".join(rows)}</table>'


def _row(name: str, cell: str) -> str:
    head = f'<th style="{_CELL};font-weight:normal;opacity:0.75">{escape(name)}</th>'
    return f'<tr style="{_ROW}">{head}<td style="{_CELL}">{cell}</td></tr>'
