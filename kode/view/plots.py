"""Lays out figures as plots: positions of lines and bars. The templates draw them as inline SVG,
each beside a table with the same figures."""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 440, 180
"""In units of the drawing, which scales with the page."""
LEFT, RIGHT, TOP, BOTTOM = 70, 8, 12, 24
MAX_POINTS = 600
STEPS = 4
"""Number of grid lines."""


@dataclass(frozen=True, kw_only=True)
class Label:
    at: float
    text: str


@dataclass(frozen=True, kw_only=True)
class Bar:
    x: float
    y: float
    width: float
    height: float
    text: str
    """Its tooltip."""


@dataclass(frozen=True, kw_only=True)
class Plot:
    id: str
    title: str
    summary: str
    """A sentence that describes it, for those who cannot see it."""
    line: str = ""
    """The points of a line; "" for bars."""
    bars: tuple[Bar, ...] = ()
    marks: tuple[float, ...] = ()
    """x positions of events."""
    rows: tuple[Label, ...] = ()
    columns: tuple[Label, ...] = ()
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    bottom: int = HEIGHT - BOTTOM


def line(
    id: str,
    title: str,
    values: Sequence[float],
    words: Callable[[float], str],
    *,
    marks: Collection[int] = (),
) -> Plot:
    """A value for each request of a session, in order; `marks` are indices of requests that an
    event precedes."""
    last = max(1, len(values) - 1)
    stride = math.ceil(len(values) / MAX_POINTS) or 1
    top = _top(values)
    kept = [at for at in range(len(values)) if at % stride == 0 or at == len(values) - 1]
    points = [f"{_x(at / last):.1f},{_y(values[at] / top):.1f}" for at in kept]
    highest = max(values, default=0)
    return Plot(
        id=id,
        title=title,
        summary=f"{len(values)} requests; the highest value is {words(highest)}.",
        line=" ".join(points),
        marks=tuple(round(_x(max(0.0, at - 0.5) / last), 1) for at in marks),
        rows=_rows(top, words),
        columns=(Label(at=LEFT, text="1"), Label(at=WIDTH - RIGHT, text=str(len(values)))),
    )


def bars(
    id: str,
    title: str,
    labels: Sequence[str],
    values: Sequence[float],
    words: Callable[[float], str],
) -> Plot:
    """A bar for each value, with the labels of the first and the last."""
    top = _top(values)
    room = (WIDTH - LEFT - RIGHT) / max(1, len(values))
    drawn = [
        Bar(
            x=round(LEFT + at * room + room * 0.1, 1),
            y=round(_y(value / top), 1),
            width=round(room * 0.8, 1),
            height=round(_y(0) - _y(value / top), 1),
            text=f"{label}: {words(value)}",
        )
        for at, (label, value) in enumerate(zip(labels, values, strict=True))
    ]
    ends = (Label(at=LEFT, text=labels[0]), Label(at=WIDTH - RIGHT, text=labels[-1]))
    return Plot(
        id=id,
        title=title,
        summary=f"{len(values)} bars; the highest value is {words(max(values, default=0))}.",
        bars=tuple(drawn),
        rows=_rows(top, words),
        columns=ends if len(labels) > 1 else ends[:1],
    )


def _top(values: Sequence[float]) -> float:
    """A round number not below any value."""
    highest = max(values, default=0)
    if highest <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(highest))
    return next(step * power for step in (1, 2, 4, 5, 8, 10, 20) if step * power >= highest)


def _x(share: float) -> float:
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def _y(share: float) -> float:
    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def _rows(top: float, words: Callable[[float], str]) -> tuple[Label, ...]:
    return tuple(
        Label(at=round(_y(step / STEPS), 1), text=words(top * step / STEPS))
        for step in range(STEPS + 1)
    )
