"""Makes an animated SVG of what a terminal showed: CSS alone, no script, and the last frame for
readers who want no motion.

A frame is the lines of a screen at a time. A line stands in the file once for as long as it does
not change. Recording and playing a session is `picture`.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from rich.style import Style
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text

CELL_WIDTH, CELL_HEIGHT, FONT_SIZE, MARGIN, BAR = 8.43, 18.0, 14, 12, 30
LONGEST_PAUSE_S = 1.6
"""A reader waits for nothing longer than this."""
END_S = 5.0
"""The last frame stays for so long before it begins again."""


@dataclass(frozen=True)
class Frame:
    at_s: float
    lines: tuple[Text, ...]


@dataclass(frozen=True)
class _Shown:
    """A line that stands in one row for some time."""

    row: int
    line: Text
    begins_s: float
    ends_s: float


def animated(frames: Sequence[Frame], columns: int, title: str) -> str:
    """The SVG that plays the frames over and over."""
    frames = _hurried(frames)
    total_s = frames[-1].at_s + END_S
    rows = max(len(frame.lines) for frame in frames)
    shown = list(_shown(frames, rows, total_s))
    spans = sorted({(line.begins_s, line.ends_s) for line in shown})
    names = {span: f"k{number}" for number, span in enumerate(spans)}
    width = columns * CELL_WIDTH + 2 * MARGIN
    height = rows * CELL_HEIGHT + 2 * MARGIN + BAR
    keyframes = "\n".join(_keyframes(names[span], *span, total_s) for span in spans)
    lines = "\n".join(
        f'<g class="{names[line.begins_s, line.ends_s]}'
        f'{" last" if line.ends_s == total_s else ""}">{_text(line)}</g>'
        for line in shown
    )
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}">
<title>{escape(title)}</title>
<style>
text {{ font: {FONT_SIZE}px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace }}
g {{ visibility: hidden; animation: {total_s:.2f}s step-end infinite }}
{keyframes}
@media (prefers-reduced-motion: reduce) {{ g {{ animation: none }} g.last {{ visibility: visible }} }}
</style>
<rect width="100%" height="100%" rx="8" fill="{SVG_EXPORT_THEME.background_color.hex}"/>
<circle cx="20" cy="18" r="6" fill="#ff5f57"/><circle cx="40" cy="18" r="6" fill="#febc2e"/>
<circle cx="60" cy="18" r="6" fill="#28c840"/>
{lines}
</svg>
"""  # noqa: E501 - lines of a style sheet


def _hurried(frames: Sequence[Frame]) -> list[Frame]:
    """The frames with long pauses cut short, beginning at 0."""
    at_s, hurried = 0.0, [Frame(0.0, frames[0].lines)]
    for before, frame in itertools.pairwise(frames):
        at_s += min(frame.at_s - before.at_s, LONGEST_PAUSE_S)
        hurried.append(Frame(round(at_s, 2), frame.lines))
    return hurried


def _shown(frames: Sequence[Frame], rows: int, total_s: float) -> Iterable[_Shown]:
    for row in range(rows):
        line, since = Text(), 0.0
        for frame in frames:
            now = frame.lines[row] if row < len(frame.lines) else Text()
            if now == line and now.spans == line.spans:
                continue
            if line.plain.strip():
                yield _Shown(row, line, since, frame.at_s)
            line, since = now, frame.at_s
        if line.plain.strip():
            yield _Shown(row, line, since, total_s)


def _keyframes(name: str, begins_s: float, ends_s: float, total_s: float) -> str:
    begins, ends = (round(100 * at_s / total_s, 2) for at_s in (begins_s, ends_s))
    hidden = "" if begins == 0 else "0%{visibility:hidden}"
    after = "" if ends >= 100 else f"{ends}%{{visibility:hidden}}"
    return (
        f".{name}{{animation-name:{name}}}"
        f"@keyframes {name}{{{hidden}{begins}%{{visibility:visible}}{after}}}"
    )


def _text(shown: _Shown) -> str:
    y = BAR + MARGIN + (shown.row + 0.8) * CELL_HEIGHT
    parts, column = [], 0
    for text, style in _runs(shown.line):
        if words := text.strip():
            x = MARGIN + (column + len(text) - len(text.lstrip())) * CELL_WIDTH
            # Spaces that no reader of SVG folds.
            kept = escape(words).replace(" ", "\u00a0")
            parts.append(
                f'<text x="{x:.1f}" y="{y:.1f}" textLength="{len(words) * CELL_WIDTH:.1f}"'
                f"{_attributes(style)}>{kept}</text>"
            )
        column += len(text)
    return "".join(parts)


def _runs(line: Text) -> Iterable[tuple[str, Style]]:
    """The parts of a line that each have one style."""
    at = 0
    for span in line.spans:
        if span.start > at:
            yield line.plain[at : span.start], Style.null()
        style = span.style if isinstance(span.style, Style) else Style.parse(span.style)
        yield line.plain[span.start : span.end], style
        at = span.end
    yield line.plain[at:], Style.null()


def _attributes(style: Style) -> str:
    colour = SVG_EXPORT_THEME.foreground_color.hex
    if style.color is not None:
        colour = style.color.get_truecolor(SVG_EXPORT_THEME).hex
    bold = ' font-weight="bold"' if style.bold else ""
    italic = ' font-style="italic"' if style.italic else ""
    line = ' text-decoration="underline"' if style.underline else ""
    return f' fill="{colour}"{bold}{italic}{line}'
