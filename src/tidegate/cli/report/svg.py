"""What charts are drawn with: elements, scales, ticks.

A chart is as wide as the page lets it: x is in percent of its width, y in pixels, and text has the
size of the page's. Labels beside a chart stand in its margins, which the style sheet gives it, as
it gives colours.

Everything that comes from data goes through `escaped`.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

_NOT_IN_XML: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_PATH_WIDTH: Final = 1000
"""Coordinates of paths, which know no percent, go up to this."""


def escaped(text: str) -> str:
    """Text as it may stand in HTML and SVG; what may not stand there at all is replaced.

    >>> escaped('<a href="x">&')
    '&lt;a href=&quot;x&quot;&gt;&amp;'
    """
    return html.escape(_NOT_IN_XML.sub("\ufffd", text), quote=True)


def element(name: str, *inside: str, **attributes: str | float) -> str:
    """An element around other elements; `class_` and `stroke_width` are written as SVG has them.

    >>> element("rect", x=percent(1), width=2.345, class_="bar")
    '<rect x="1.00%" width="2.3" class="bar"/>'
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for key, value in attributes.items()
    )
    body = "".join(inside)
    return f"<{name}{given}>{body}</{name}>" if body else f"<{name}{given}/>"


def _value(value: str | float) -> str:
    return escaped(value) if isinstance(value, str) else _decimal(value)


def _decimal(value: float) -> str:
    short = f"{value:.1f}".removesuffix(".0")
    return "0" if short == "-0" else short


def percent(value: float) -> str:
    """A place, or a length, in percent of the width of a chart."""
    return f"{value:.2f}%"


def label(text: str, x: float, y: float, class_: str, **more: str | float) -> str:
    """A line of text; `dx` pixels from `x`, with `text_anchor` there."""
    return element("text", escaped(text), x=percent(x), y=y, class_=class_, **more)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> str:
    """A straight one."""
    return element("line", x1=percent(x1), y1=y1, x2=percent(x2), y2=y2, class_=class_)


def rect(x: float, y: float, width: float, height: float, class_: str, *inside: str) -> str:
    """A rectangle."""
    across = {"x": percent(x), "width": percent(width)}
    return element("rect", *inside, **across, y=y, height=max(0, height), class_=class_)


def title(text: str) -> str:
    """What is shown when the pointer rests on a mark."""
    return element("title", escaped(text))


def dots(points: Iterable[tuple[float, float]], class_: str) -> str:
    """Many small dots in one path: strokes without length, with round ends."""
    return _path("".join(f"M{_across(x)} {_decimal(y)}h0" for x, y in points), f"dots {class_}")


def steps(spans: Sequence[tuple[float, float, float]], class_: str) -> str:
    """Level lines from `begin` to `end` at `y`, each joined with the next."""
    parts = (f"L{_across(begin)} {_decimal(y)}H{_across(end)}" for begin, end, y in spans)
    return _path("".join(parts).replace("L", "M", 1), class_)


def _path(path: str, class_: str) -> str:
    """A path in a frame that is stretched to the width of the chart; the height stays in pixels."""
    if not path:
        return ""
    frame = {"viewBox": f"0 0 {_PATH_WIDTH} 100", "preserveAspectRatio": "none"}
    drawn = element("path", d=path, class_=class_)
    return element("svg", drawn, **frame, width="100%", height=100)


def _across(x: float) -> str:
    return _decimal(x * _PATH_WIDTH / 100)


def chart(kind: str, says: str, height: float, *inside: str) -> str:
    """A drawing; `kind` is the class that gives it its margins, `says` is for who cannot see it."""
    return element(
        "svg", *inside, class_=f"chart {kind}", height=height, role="img", aria_label=says
    )


def restart(x: float, top: float, bottom: float) -> str:
    """Where one process was killed and the next one went on."""
    anchor = "start" if x < 25 else "end" if x > 75 else "middle"
    words = label("killed, started again", x, top - 6, "note strong", text_anchor=anchor)
    return line(x, top, x, bottom, "restart") + words


@dataclass(frozen=True, slots=True)
class Scale:
    """From values to percent or pixels, in a straight line."""

    low: float
    high: float
    begin: float
    end: float

    def __call__(self, value: float) -> float:
        """The place of a value; a scale without extent puts everything at its beginning."""
        if self.high == self.low:
            return self.begin
        return self.begin + (value - self.low) / (self.high - self.low) * (self.end - self.begin)


TIMES_US: Final = tuple(
    seconds * 1_000_000
    for seconds in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200)
)
"""Round lengths of time; beyond the last, its multiples."""


def ticks(scale: Scale, about: int, round_steps: Sequence[int] = ()) -> list[float]:
    """About so many round values of a scale; without `round_steps` decimal ones.

    >>> ticks(Scale(0, 10, 0, 100), 5)
    [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    >>> ticks(Scale(0, 600_000_000, 0, 100), 2, TIMES_US)
    [0.0, 300000000.0, 600000000.0]
    """
    rough = (scale.high - scale.low) / about
    if rough <= 0:
        return [scale.low]
    power = 10.0 ** math.floor(math.log10(rough))
    steps: Sequence[float] = round_steps or [power * each for each in (1, 2, 5, 10)]
    last = steps[-1] * math.ceil(rough / steps[-1])
    step = next((each for each in steps if each >= rough * 0.999), last)
    first = math.ceil(scale.low / step - 1e-9)
    return [float(nth * step) for nth in range(first, math.floor(scale.high / step + 1e-9) + 1)]
