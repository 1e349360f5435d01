"""Renders unified diffs for people: numbered lines in colour, without the format's markers.

Signs and numbers of added lines are green, of removed ones red; the text has the colours of its
syntax, and words that differ stand out: reversed, or with 256 colours on a stronger band than their
line. Slow to import.
"""

import difflib
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby, pairwise

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_for_filename
from pygments.token import Token, _TokenType
from pygments.util import ClassNotFound
from rich.syntax import ANSISyntaxTheme, Syntax
from rich.text import Text

from kode.cli.screen.lines import find_breaks
from kode.cli.screen.screen import INSET, Screen
from kode.messages import plural
from kode.plain_text import sanitize
from kode.values import dataclass

MAX_LINE_CHARS = 1_000
"""Longer lines are not coloured: lexers are regular expressions, slow on a minified file."""

MAX_CODE_CHARS = 20_000
"""The most of a hunk that is syntax-coloured: more would hold up the screen."""

MAX_ROWS = 4
"""Maximum rows of one line in a cut diff; a minified file has very long ones."""

NUMBERED_FROM_COLUMNS = 50
"""On a narrower screen line numbers would take the text's space."""

MAX_COMPARED_CHARS = 400  # no line of code is longer
MAX_COMPARED_LINES = 30
"""Longer lines, and longer runs of changed lines, are not compared word by word."""

_SYNTAX: dict[_TokenType, str] = {
    Token.Comment: "dim",
    Token.Keyword: "accent",
    Token.Operator.Word: "accent",
    Token.Name.Class: "bold",
    Token.Name.Function: "bold",
    Token.Name.Tag: "accent",
    Token.Name.Decorator: "string",
    Token.Literal.String: "string",
    Token.Literal.Number: "accent",
}
CODE_THEME = ANSISyntaxTheme(_SYNTAX)  # type: ignore[arg-type]
"""The style names for code, in Markdown too. The screen's theme decides how each of them looks."""

_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_WORD = re.compile(r"\w+|\s+|[^\w\s]")
_SIGNS = {"+": "added", "-": "removed"}


@dataclass
class DiffLine:
    kind: str
    r"""`+`, `-`, ` ` (context), `@` (between hunks), `\` (no line feed at the end), `h` (a file
    name), `…` (omitted lines)."""
    text: str
    """The line without its sign."""
    number: int = 0
    """The line number in the new file, or the old one for `-`; 0 if there is none."""
    file: str = ""
    """The name of the file that the line is in, as in the header."""
    coloured: Text | None = None
    """The text in the colours of its syntax."""


def paint_diff(
    screen: Screen, diff: str, max_lines: int | None = None, *, headings: bool = False
) -> str:
    """Returns numbered lines in colour, indented; those beyond `max_lines` are only counted. File
    names are shown if there are several files, or with `headings`."""
    lines = _parse_diff(sanitize(diff).rstrip("\n").expandtabs(4))
    headings = headings or sum(line.kind == "h" for line in lines) > 1
    lines = [line for line in lines if line.kind != "h" or headings]
    if max_lines is not None and len(lines) > max_lines:
        omitted = plural(len(lines) - max_lines + 1, "more line")
        lines[max_lines - 1 :] = [DiffLine("…", f"… {omitted} (Ctrl-O)")]
    if screen.color:
        _colour_syntax(lines)
    _mark_changes(lines)
    numbers = max((len(str(line.number)) for line in lines), default=1)
    numbers = 0 if screen.width < NUMBERED_FROM_COLUMNS else numbers
    most = MAX_ROWS if max_lines is not None else None
    painted = []
    for line in _trim_context(lines):
        style = _SIGNS.get(line.kind, "")
        band = screen.paint(style, "")
        rows = list(_wrap_diff_line(line, screen.width - INSET, numbers, most))
        for row in rows if band else ():
            row.stylize_before(style)
        text = screen.render_lines(Text(" " * INSET) + row for row in rows)
        painted += [f"{row}{band}" for row in text.split("\n")]
    return "\n".join(painted)


def _wrap_diff_line(line: DiffLine, width: int, numbers: int, most: int | None) -> Iterator[Text]:
    """Yields a line as screen rows: its number, its sign, its text."""
    gutter = f"{line.number or '':>{numbers}} " if numbers else ""
    if line.kind == "h":
        yield Text(line.text, "bold")
        return
    if line.kind in "@…":
        yield Text(" " * len(gutter) + ("⋮" if line.kind == "@" else line.text), "dim")
        return
    style = _SIGNS.get(line.kind, "")
    text = line.coloured or Text(line.text)
    room = max(width - len(gutter) - 2, 4)
    rows = list(text.divide(find_breaks(text.plain, room)))
    if most is not None and len(rows) > most:
        rows[most - 1 :] = [Text("… (the line continues)"[:room], "dim")]
    before = Text.assemble((gutter, style or "dim"), (line.kind if style else " ", style), " ")
    for row in rows:
        row.rstrip()
        yield before + row
        before = Text(" " * (len(gutter) + 2))


def _trim_context(lines: Sequence[DiffLine]) -> Iterator[DiffLine]:
    """Yields the lines; the context of a hunk reaches to the next blank lines around it."""
    for _, group in groupby(lines, key=lambda line: line.kind in "@h…"):
        hunk = list(group)
        changed = [n for n, line in enumerate(hunk) if line.kind != " "] or [0]
        blank = [n for n, line in enumerate(hunk) if line.kind == " " and not line.text.strip()]
        above, below = ([n for n in blank if n < changed[0]], [n for n in blank if n > changed[-1]])
        yield from hunk[above[-1] + 1 if above else 0 : below[0] if below else None]


def _parse_diff(diff: str) -> list[DiffLine]:
    """Parses a diff. Signs count only within a hunk: a removed `-- x` is not a header."""
    lines: list[DiffLine] = []
    old = new = old_left = new_left = 0
    file = removed = ""
    for text in diff.split("\n"):
        sign, content = text[:1] or " ", text[1:]
        if sign == "\\":
            lines.append(DiffLine("\\", content))
        elif old_left > 0 or new_left > 0:
            kind = sign if sign in _SIGNS else " "
            lines.append(DiffLine(kind, content, old if kind == "-" else new, file))
            if kind != "+":
                old, old_left = old + 1, old_left - 1
            if kind != "-":
                new, new_left = new + 1, new_left - 1
        elif match := _HUNK.match(text):
            old, new = int(match[1]), int(match[3])
            old_left, new_left = int(match[2] or 1), int(match[4] or 1)
            if lines and lines[-1].kind != "h":  # the first of a file needs no separator
                lines.append(DiffLine("@", text))
        elif text.startswith("--- "):
            removed = text[4:]
        elif text.startswith("+++ "):
            file = text[4:] if text[4:] != "/dev/null" else removed
            lines.append(DiffLine("h", file if file == removed else re.sub(r"^[ab]/", "", file)))
        elif text:
            lines.append(DiffLine("h", text))
    return lines


def _mark_changes(lines: Sequence[DiffLine]) -> None:
    """Marks words that differ between removed lines and as many added lines right after them."""
    runs = [list(run) for _, run in groupby(lines, key=lambda line: line.kind)]
    for old, new in pairwise(runs):
        is_pair = (old[0].kind, new[0].kind, len(old)) == ("-", "+", len(new))
        if is_pair and len(new) <= MAX_COMPARED_LINES:
            for removed, added in zip(old, new, strict=True):
                _mark_words(removed, added)


def _mark_words(removed: DiffLine, added: DiffLine) -> None:
    """Marks the words that differ, unless the lines have so little in common that all would."""
    old, new = _WORD.findall(removed.text), _WORD.findall(added.text)
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    if max(len(removed.text), len(added.text)) > MAX_COMPARED_CHARS or matcher.ratio() < 0.5:
        return
    for kind, a, b, c, d in matcher.get_opcodes():
        for line, words, start, end in ((removed, old, a, b), (added, new, c, d)):
            if kind != "equal":
                text = line.coloured = line.coloured or Text(line.text)
                style = f"{_SIGNS[line.kind]} words"
                text.stylize(style, len("".join(words[:start])), len("".join(words[:end])))


def _colour_syntax(lines: list[DiffLine]) -> None:
    """Colours the lines of each file whose language is known, unless they are too long."""
    for file, hunk in groupby(lines, key=lambda line: line.file):
        hunk_lines = list(hunk)
        # The old and the new text are each code on their own.
        for sign in "-+":
            side = [line for line in hunk_lines if line.kind in (sign, " ")]
            code = "\n".join(line.text for line in side)
            too_long = any(len(line.text) > MAX_LINE_CHARS for line in side)
            if len(code) > MAX_CODE_CHARS or too_long or (lexer := find_lexer(file)) is None:
                continue
            coloured = Syntax("", lexer, theme=CODE_THEME).highlight(code).split("\n")
            for line, text in zip(side, coloured, strict=False):
                line.coloured = text


@lru_cache(maxsize=64)
def find_lexer(file_name: str) -> Lexer | None:
    """Returns the lexer for a file's name; None if its language is unknown."""
    try:
        return get_lexer_for_filename(file_name, stripnl=False)
    except ClassNotFound:
        return None
