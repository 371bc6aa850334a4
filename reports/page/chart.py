"""Lines over a swept value, as SVG: distinguished by dashes and marks as well as by colour."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fencepost.reports.page.elements import Markup, tag

WIDTH, HEIGHT = 560, 300
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 16, 46
DASHES = ("", "6 3", "2 3", "8 3 2 3", "1 4")
TICKS = 5


@dataclass(frozen=True)
class Line:
    """One series: its name, and a point for each value of x where it is known."""

    name: str
    points: Sequence[tuple[float, float]]


def chart(lines: Sequence[Line], *, title: str, x: str, y: str, number: str) -> Markup:
    """The picture. Axes begin at zero where the values do not forbid it, and are logarithmic over decades."""
    points = [point for line in lines for point in line.points]
    xs, ys = [px for px, _ in points], [py for _, py in points]
    along = _Scale(xs, LEFT, WIDTH - RIGHT, logarithmic=_decades(xs))
    up = (
        _Scale(ys, HEIGHT - BOTTOM, TOP, logarithmic=True)
        if _decades(ys)
        else _Scale([0.0, *ys], HEIGHT - BOTTOM, TOP)
    )
    text = "; ".join(
        f"{line.name} from {short(line.points[0][1])} to {short(line.points[-1][1])}" for line in lines
    )
    return tag(
        "svg",
        tag("title", title, id=f"{number}-title"),
        tag("desc", f"{y} over {x}: {text}.", id=f"{number}-about"),
        [_across(tick, up.place(tick)) for tick in up.ticks()],
        [_along(tick, along.place(tick)) for tick in along.ticks(sorted(set(xs)))],
        tag("line", x1=LEFT, x2=LEFT, y1=TOP, y2=HEIGHT - BOTTOM, class_="axis"),
        tag("text", x, x=(LEFT + WIDTH - RIGHT) / 2, y=HEIGHT - 8, text_anchor="middle"),
        tag("text", y, x=-(TOP + HEIGHT - BOTTOM) / 2, y=14, text_anchor="middle", transform="rotate(-90)"),
        [_line(line, at, along, up) for at, line in enumerate(lines)],
        viewBox=f"0 0 {WIDTH} {HEIGHT + 18 * len(lines)}",
        width=WIDTH,
        height=HEIGHT + 18 * len(lines),
        role="img",
        aria_labelledby=f"{number}-title {number}-about",
        class_="chart",
    )


def _decades(values: Sequence[float]) -> bool:
    """Return True if the values span so much that the small ones would look alike on a plain axis."""
    return min(values) > 0 and max(values) / min(values) > 50


class _Scale:
    def __init__(
        self, values: Sequence[float], start: float, end: float, *, logarithmic: bool = False
    ) -> None:
        self._log = logarithmic
        self._low, self._high = min(values), max(values)
        if self._high == self._low:
            self._high = self._low + 1 if not logarithmic else self._low * 10
        if not logarithmic and self._low > 0 and self._low < 0.4 * self._high:
            self._low = 0.0
        self._start, self._end = start, end

    def place(self, value: float) -> float:
        low, high = (math.log(self._low), math.log(self._high)) if self._log else (self._low, self._high)
        at = (math.log(value) if self._log else value) - low
        return round(self._start + (self._end - self._start) * at / (high - low), 2)

    def ticks(self, values: Sequence[float] = ()) -> list[float]:
        """Round values; the swept ones themselves when they are few."""
        if 0 < len(values) <= 8:
            return list(values)
        if self._log:
            decades = range(math.floor(math.log10(self._low)), math.ceil(math.log10(self._high)) + 1)
            return [10.0**n for n in decades if self._low <= 10.0**n <= self._high]
        step = _round_up((self._high - self._low) / TICKS)
        first = math.ceil(self._low / step)
        return [n * step for n in range(first, math.floor(self._high / step + 1e-9) + 1)]


def _round_up(step: float) -> float:
    """The next of 1, 2, 5, 10, ..."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= step * (1 - 1e-9))


def short(value: float) -> str:
    """At most four figures: `0.012`, `12.3`, `12,300`."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def _across(tick: float, y: float) -> Markup:
    return tag(
        "g",
        tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="grid"),
        tag("text", short(tick), x=LEFT - 6, y=y + 4, text_anchor="end"),
    )


def _along(tick: float, x: float) -> Markup:
    return tag(
        "g",
        tag("line", x1=x, x2=x, y1=HEIGHT - BOTTOM, y2=HEIGHT - BOTTOM + 4, class_="axis"),
        tag("text", short(tick), x=x, y=HEIGHT - BOTTOM + 18, text_anchor="middle"),
    )


def _line(line: Line, at: int, along: _Scale, up: _Scale) -> Markup:
    places = [(along.place(x), up.place(y)) for x, y in line.points]
    legend = HEIGHT + 18 * at + 6
    dash = DASHES[at % len(DASHES)] or None
    kind = f"line series-{at % 6}"
    return tag(
        "g",
        tag(
            "polyline", points=" ".join(f"{x:g},{y:g}" for x, y in places), class_=kind, stroke_dasharray=dash
        ),
        [
            tag(
                "g",
                tag("title", f"{line.name}: {short(value)} at {short(given)}"),
                tag("circle", cx=x, cy=y, r=3, class_=f"dot series-{at % 6}"),
                tag("circle", cx=x, cy=y, r=10, class_="touch"),
            )
            for (x, y), (given, value) in zip(places, line.points, strict=True)
        ],
        tag("line", x1=LEFT, x2=LEFT + 34, y1=legend, y2=legend, class_=kind, stroke_dasharray=dash),
        tag("text", line.name, x=LEFT + 42, y=legend + 4),
    )
