"""What charts are drawn with: elements, scales, ticks.

Everything that comes from data goes through `escaped`; colours and fonts are classes, so that the
page decides them, also in the dark.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from tidegate.cli.report.words import US, clock, day

_NOT_IN_XML: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_TIME_STEPS_S: Final = (
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800),
    *(3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 2592000, 31536000),
)


def escaped(text: str) -> str:
    """Text as it may stand in HTML and SVG; what may not stand there at all is replaced.

    >>> escaped('<a href="x">&')
    '&lt;a href=&quot;x&quot;&gt;&amp;'
    """
    return html.escape(_NOT_IN_XML.sub("\ufffd", text), quote=True)


def element(name: str, *inside: str, **attributes: str | float) -> str:
    """An element around other elements; `class_` and `stroke_width` are written as SVG has them.

    >>> element("rect", x=1.0, width=2.345, class_="bar")
    '<rect x="1" width="2.3" class="bar"/>'
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for key, value in attributes.items()
    )
    body = "".join(inside)
    return f"<{name}{given}>{body}</{name}>" if body else f"<{name}{given}/>"


def _value(value: str | float) -> str:
    return escaped(value) if isinstance(value, str) else decimal(value)


def decimal(value: float) -> str:
    """A coordinate: a tenth of a pixel is enough.

    >>> decimal(3.04), decimal(-0.01), decimal(2.5)
    ('3', '0', '2.5')
    """
    short = f"{value:.1f}".removesuffix(".0")
    return "0" if short == "-0" else short


def label(text: str, x: float, y: float, class_: str = "", **more: str | float) -> str:
    """A line of text."""
    kind = {"class_": class_} if class_ else {}
    return element("text", escaped(text), x=x, y=y, **kind, **more)


def hint(text: str) -> str:
    """What is shown when the pointer rests on a mark."""
    return element("title", escaped(text))


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> str:
    """A straight one."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def dots(points: Iterable[tuple[float, float]], class_: str) -> str:
    """Many small dots in one element: strokes without length, with round ends."""
    path = "".join(f"M{decimal(x)} {decimal(y)}h0" for x, y in points)
    return element("path", d=path, class_=f"dots {class_}") if path else ""


def chart(inside: Iterable[str], width: int, height: float, says: str) -> str:
    """A drawing that scales with the page; `says` is for those who cannot see it."""
    view = f"0 0 {width} {decimal(height)}"
    return element("svg", *inside, viewBox=view, role="img", aria_label=says)


@dataclass(frozen=True, slots=True)
class Scale:
    """From values to pixels, in a straight line."""

    low: float
    high: float
    begin: float
    end: float

    def __call__(self, value: float) -> float:
        """The place of a value; a scale without extent puts everything at its beginning."""
        if self.high == self.low:
            return self.begin
        return self.begin + (value - self.low) / (self.high - self.low) * (self.end - self.begin)

    def clipped(self, value: float) -> float:
        """The place of a value, or the end of the scale that is nearest."""
        return self(min(max(value, self.low), self.high))


def ticks(low: float, high: float, about: int) -> list[float]:
    """Round values within a range.

    >>> ticks(0, 10, 5)
    [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    """
    if high <= low:
        return [low]
    rough = (high - low) / max(1, about)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * each for each in (1, 2, 2.5, 5, 10) if power * each >= rough * 0.999)
    return [*_multiples(low, high, step)]


def time_ticks(low_us: int, high_us: int, about: int) -> list[tuple[int, str]]:
    """Round instants within a range, with their labels.

    >>> time_ticks(0, 600_000_000, 2)
    [(0, '00:00'), (300000000, '00:05'), (600000000, '00:10')]
    """
    step_s = _step((high_us - low_us) / US / max(1, about))
    found = _multiples(low_us / US, high_us / US, step_s)
    return [(round(each * US), _time_label(round(each * US), step_s)) for each in found]


def duration_ticks(low_us: int, high_us: int, about: int) -> list[int]:
    """Round durations within a range."""
    step_s = _step((high_us - low_us) / US / max(1, about))
    return [round(each * US) for each in _multiples(low_us / US, high_us / US, step_s)]


def _step(rough_s: float) -> float:
    fits = (each for each in _TIME_STEPS_S if each >= rough_s)
    return next(fits, 10 ** math.ceil(math.log10(max(rough_s, 1))))


def _time_label(us: int, step_s: float) -> str:
    if step_s >= 86400:
        return day(us)
    return clock(us, with_seconds=step_s < 60)


def _multiples(low: float, high: float, step: float) -> Iterator[float]:
    for nth in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1):
        yield nth * step
