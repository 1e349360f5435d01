"""Renders unified diffs for people: numbered lines in colour, without the format's markers.

The signs and numbers of added lines are green, those of removed ones red, the text has the colours
of its syntax; within a changed line the differing part is underlined. Nothing here reads files or
computes diffs; `syntax` recognizes code."""

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING

from pygments.token import Token

from kode.cli.screen.lines import breaks
from kode.cli.screen.screen import Screen
from kode.messages import plural
from kode.plain_text import clean

if TYPE_CHECKING:
    from pygments.lexer import Lexer
    from pygments.token import _TokenType


MAX_CHARS = 20_000  # longer code would hold up the screen
MAX_LINE_CHARS = 1_000
"""Limit of coloured lines: lexers are regular expressions, and slow on a minified file."""

STYLES: dict["_TokenType", str] = {
    Token.Comment: "comment",
    Token.Keyword: "keyword",
    Token.Operator.Word: "keyword",
    Token.Name.Class: "bold",
    Token.Name.Function: "bold",
    Token.Name.Tag: "keyword",
    Token.Name.Decorator: "string",
    Token.Literal.String: "string",
    Token.Literal.Number: "keyword",
}
"""Missing types get the style of the surrounding text."""


def pieces(file_name: str, code: str) -> list[list[tuple[str, str]]] | None:
    """The lines of `code`, each as (style, text); "" is no style. None if the name does not show a
    language, and for code that would take long."""
    if len(code) > MAX_CHARS or any(len(line) > MAX_LINE_CHARS for line in code.split("\n")):
        return None
    lexer = _lexer(file_name)
    if lexer is None:
        return None
    lines: list[list[tuple[str, str]]] = [[]]
    for style, text in _tokens(lexer, code):
        first, *rest = text.split("\n")
        lines[-1].append((style, first))
        lines += [[(style, line)] for line in rest]
    return lines


def _tokens(lexer: "Lexer", code: str) -> Iterator[tuple[str, str]]:
    # Not `get_tokens`, which drops or adds line feeds at the ends.
    for _, kind, text in lexer.get_tokens_unprocessed(code):
        while kind is not None and kind not in STYLES:
            kind = kind.parent
        yield STYLES.get(kind, ""), text


@lru_cache(maxsize=64)
def _lexer(file_name: str) -> "Lexer | None":
    from pygments.lexers import get_lexer_for_filename
    from pygments.util import ClassNotFound

    try:
        return get_lexer_for_filename(file_name)
    except ClassNotFound:
        return None


MAX_ROWS = 4
"""Maximum rows of one line in a cut diff; a minified file has very long ones."""

NUMBERED_FROM_COLUMNS = 50
"""On a narrower screen line numbers would take the text's space."""

INDENT = 2  # as all lines below a call

MAX_COMPARED_CHARS = 400  # no line of code is longer
MAX_COMPARED_LINES = 30
"""Longer lines, and longer runs of changed lines, are not compared word by word."""

MAX_CODE_CHARS = 60_000
"""How much of a diff is syntax-coloured: about a tenth of a second."""

_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_WORD = re.compile(r"\w+|\s+|[^\w\s]")
_STYLE = {"+": "added", "-": "removed"}

Part = tuple[str, str]
"""(style, text)"""


@dataclass
class Line:
    kind: str
    r"""`+`, `-`, ` ` (context), `@` (between hunks), `\` (no line feed at the end), `h` (a file
    name), `…` (omitted lines)."""
    text: str
    """Without its sign."""
    number: int = 0
    """In the new file; in the old one for `-`. 0 if there is none."""
    file: str = ""
    """The name of its file, as in the header."""
    parts: list[Part] = field(default_factory=list)
    """The text in pieces, if a part of it stands out."""


def painted_diff(
    screen: Screen, diff: str, max_lines: int | None = None, *, headings: bool = False
) -> str:
    """Numbered lines in colour, indented by two. Above `max_lines` each run of changed lines is
    cut, so that both removals and additions stay visible; omitted lines are counted. File names are
    shown if there are several files, or with `headings`."""
    lines = _parse(clean(diff).rstrip("\n").expandtabs(4))
    headings = headings or sum(line.kind == "h" for line in lines) > 1
    lines = [line for line in lines if line.kind != "h" or headings]
    lines = [
        line
        for before, line in zip([None, *lines], lines, strict=False)
        if line.kind != "@" or (before is not None and before.kind != "h")
    ]
    if max_lines is not None:
        lines = _cut(lines, max_lines)
    _colour(screen, lines)
    numbers = max((len(str(line.number)) for line in lines), default=1)
    if screen.width < NUMBERED_FROM_COLUMNS:
        numbers = 0
    most = MAX_ROWS if max_lines is not None else None
    return "\n".join(
        " " * INDENT + row for line in lines for row in _rows(screen, line, numbers, most)
    )


def _cut(lines: list[Line], max_lines: int) -> list[Line]:
    """At most about `max_lines`: first shortens every run of changed lines, to three at least, then
    drops the end."""
    runs = [list(run) for _, run in groupby(lines, key=lambda line: line.kind)]
    kept_lines, most = lines, min(len(lines), max_lines)
    while len(kept_lines) > max_lines and most > 2:
        kept_lines = [line for run in runs for line in _shorten(run, most)]
        most -= 1
    if len(kept_lines) <= max_lines:
        return kept_lines
    rest = len(kept_lines) - max_lines + 1
    return [*kept_lines[: max_lines - 1], Line("…", f"… {plural(rest, 'more line')} (Ctrl-O)")]


def _shorten(run: list[Line], most: int) -> list[Line]:
    if len(run) <= most or run[0].kind not in "+-":
        return run
    what = {"+": "added", "-": "removed"}[run[0].kind]
    rest = f"… {plural(len(run) - most + 1, 'more line')} {what} (Ctrl-O)"
    return [*run[: most - 1], Line("…", rest)]


def _rows(screen: Screen, line: Line, numbers: int, most: int | None) -> list[str]:
    """A line as screen rows: its number, its sign, its text."""
    gutter = f"{line.number or '':>{numbers}} " if numbers else ""
    if line.kind == "h":
        return [screen.paint("bold", line.text)]
    if line.kind in "@…":
        text = "⋮" if line.kind == "@" else line.text
        return [screen.paint("dim", " " * len(gutter) + text)]
    style = _STYLE.get(line.kind, "")
    room = max(screen.width - INDENT - len(gutter) - 2, 4)
    rows = _wrap(line.parts, room)
    if most is not None and len(rows) > most:
        rows = [*rows[: most - 1], [("dim", "… (the line continues)"[:room])]]
    sign = screen.paint(style, line.kind) if style else " "
    first = screen.paint(style or "dim", gutter) + sign + " "
    later = " " * (len(gutter) + 2)
    painted = []
    for number, row in enumerate(rows):
        start = later if number else first
        painted.append(
            start + "".join(screen.paint(style, text) for style, text in row)
            if row
            else start.rstrip()
        )
    return painted


def _wrap(parts: list[Part], width: int) -> list[list[Part]]:
    """Rows of at most `width` columns."""
    whole = "".join(text for _, text in parts)
    starts = breaks(whole, width)
    ends = [len(whole[:start].rstrip()) for start in starts]
    return [
        list(_between(parts, start, end))
        for start, end in zip([0, *starts], [*ends, len(whole)], strict=True)
    ]


def _between(parts: list[Part], start: int, end: int) -> Iterator[Part]:
    at = 0
    for style, text in parts:
        if piece := text[max(start - at, 0) : max(end - at, 0)]:
            yield style, piece
        at += len(text)


def _parse(diff: str) -> list[Line]:
    """Parses a diff. Signs count only within a hunk: a removed `-- x` is not a header."""
    lines: list[Line] = []
    old = new = old_left = new_left = 0
    file = removed = ""
    for text in diff.split("\n"):
        if old_left <= 0 and new_left <= 0:
            if match := _HUNK.match(text):
                old, new = int(match[1]), int(match[3])
                old_left, new_left = int(match[2] or 1), int(match[4] or 1)
                lines.append(Line("@", text))
                continue
            if text.startswith("\\"):
                lines.append(Line("\\", text.removeprefix("\\")))
            elif text.startswith("--- "):
                removed = text[4:]
            elif text.startswith("+++ "):
                file = text[4:] if text[4:] != "/dev/null" else removed
                name = file if file == removed else re.sub(r"^[ab]/", "", file)
                lines.append(Line("h", name))
            elif text:
                lines.append(Line("h", text))
            continue
        sign, rest = text[:1] or " ", text[1:]
        if sign == "-":
            lines.append(Line("-", rest, old, file))
        elif sign == "+":
            lines.append(Line("+", rest, new, file))
        elif sign == "\\":
            lines.append(Line("\\", rest))
            continue
        else:
            lines.append(Line(" ", rest, new, file))
        old, old_left = (old + 1, old_left - 1) if sign != "+" else (old, old_left)
        new, new_left = (new + 1, new_left - 1) if sign != "-" else (new, new_left)
    for went, came in _pairs(lines):
        _mark_changes(went, came)
    return lines


def _colour(screen: Screen, lines: list[Line]) -> None:
    """Splits each line's text into parts, by differences and, in colour, by syntax."""
    for line in lines:
        line.parts = line.parts or [("", line.text)]
    if not screen.color:
        return
    left = MAX_CODE_CHARS
    for file, hunk in groupby(lines, key=lambda line: line.file):
        hunk_lines = list(hunk)
        left -= sum(len(line.text) for line in hunk_lines)
        if not file or left < 0:
            continue
        # The old and the new text are each code on their own.
        for went_or_came in "-+":
            side = [line for line in hunk_lines if line.kind in (went_or_came, " ")]
            _colour_code(file, side, without=" " if went_or_came == "-" else "")


def _colour_code(file: str, lines: list[Line], without: str) -> None:
    coloured = pieces(file, "\n".join(line.text for line in lines))
    for line, code in zip(lines, coloured or (), strict=False):
        if line.kind != without:
            line.parts = list(_laid_over(line.parts, code))


def _laid_over(parts: list[Part], code: list[Part]) -> Iterator[Part]:
    """The parts in the colours of their syntax; a highlighted one stays in one piece."""
    position = 0
    styles = [style for style, text in code for _ in text]
    for style, text in parts:
        of_text = styles[position : position + len(text)]
        position += len(text)
        if style:
            yield style, text
            continue
        start = 0
        for syntax, run in groupby(of_text):
            end = start + len(list(run))
            yield syntax, text[start:end]
            start = end


def _pairs(lines: list[Line]) -> Iterator[tuple[Line, Line]]:
    """Corresponding lines: runs of as many removed as added ones."""
    position = 0
    while position < len(lines):
        start = position
        while position < len(lines) and lines[position].kind == "-":
            position += 1
        middle = position
        while position < len(lines) and lines[position].kind == "+":
            position += 1
        if 0 < middle - start == position - middle <= MAX_COMPARED_LINES:
            yield from zip(lines[start:middle], lines[middle:position], strict=True)
        if position == start:
            position += 1


def _mark_changes(removed: Line, added: Line) -> None:
    if max(len(removed.text), len(added.text)) > MAX_COMPARED_CHARS:
        return
    old, new = _WORD.findall(removed.text), _WORD.findall(added.text)
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    # In lines with little in common everything would stand out, and so nothing.
    if matcher.ratio() < 0.5:
        return
    for kind, a, b, c, d in matcher.get_opcodes():
        style = "" if kind == "equal" else "changed_part"
        if b > a:
            removed.parts.append((style, "".join(old[a:b])))
        if d > c:
            added.parts.append((style, "".join(new[c:d])))
