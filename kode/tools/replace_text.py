"""Applies one edit: finds the old text and replaces it by the new one.

Pure functions. The old text must match exactly (ignoring line ends); failing that, as whole lines
without indentation and trailing space, and then the new lines get the file's indentation.
`edit_file` explains why a text was not found.
"""

import itertools
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kode.plain_text import with_line_feeds


@dataclass(frozen=True, slots=True)
class Edit:
    old_text: str
    new_text: str
    replace_all: bool = False
    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - read by pydantic, never changed


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaced:
    text: str
    count: int = 1
    """Number of replaced places."""
    reindented: bool = False
    """Whether it matched only without indentation and trailing space."""
    is_proven: bool
    """Whether the old text shows by itself that this place is meant."""
    end: int = 0
    """The line, from 0, after the last replaced one; only of a patch."""


class NotFound(Exception):
    """The text does not contain the old text."""


class Ambiguous(Exception):
    """The text contains the old text several times."""

    def __init__(self, lines: list[int], *, exact: bool) -> None:
        super().__init__(f"found at lines {lines}")
        self.lines = lines
        """The line each place begins at, from 1."""
        self.exact = exact


class Span(NamedTuple):
    """A range of the text and its replacement, with line feeds."""

    start: int
    end: int
    new: str


def replace(text: str, edit: Edit) -> Replaced:
    """The text after one edit. Bytes outside the replaced ranges never change.

    Raises: NotFound, Ambiguous.
    """
    old, new = with_line_feeds(edit.old_text), with_line_feeds(edit.new_text)
    # With either kind of line end.
    pattern = r"(?:\r\n|(?<!\r)\n)".join(map(re.escape, old.split("\n"))) + r"(?!(?<=\r)\n)"
    pattern = f"({pattern})" if edit.replace_all else f"(?=({pattern}))"  # overlapping ones count
    exact = [Span(*match.span(1), new) for match in re.finditer(pattern, text)]
    spans = exact or list(_loose_spans(text, old, new))
    if not spans:
        raise NotFound
    if len(spans) > 1 and not edit.replace_all:
        starts = LinesOf(text).starts
        lines = [bisect_right(starts, span.start) for span in spans]
        raise Ambiguous(lines, exact=bool(exact))
    return Replaced(
        text=splice(text, spans),
        count=len(spans),
        reindented=not exact,
        is_proven=len(exact) == 1,
    )


# ── without indentation ──────────────────────────────────────────────────────────────────────


def _loose_spans(text: str, old: str, new: str) -> Iterator[Span]:
    """Every place whose lines equal those of `old` without indentation and trailing space."""
    old_lines = old.removesuffix("\n").split("\n")
    new_lines = (new.removesuffix("\n") if old.endswith("\n") else new).split("\n")
    if not new and old.endswith("\n"):
        new_lines = []
    lines, after = LinesOf(text), 0
    stripped = [line.strip() for line in lines.texts]
    for first in find_lines(stripped, [line.strip() for line in old_lines]):
        if first >= after:
            after = first + len(old_lines)
            yield lines.span(first, old_lines, new_lines)


class LinesOf:
    """The lines of a text, and where each of them is."""

    def __init__(self, text: str) -> None:
        self.texts, ends = split(text)
        """Without their ends; what follows the last end is one too."""
        lengths = (len(line + end) for line, end in zip(self.texts, [*ends, ""], strict=True))
        self.starts = [0, *itertools.accumulate(lengths)]
        """Where each starts, and where the text ends."""

    def span(self, first: int, old: Sequence[str], new: Sequence[str]) -> Span:
        """Replaces the lines from `first` on that match `old`; without old ones, the new ones come
        before it."""
        start, after = self.starts[first], first + len(old)
        if not old:
            body = "\n".join(new)
            return Span(start, start, f"\n{body}" if first == len(self.texts) else f"{body}\n")
        if not new:
            return Span(start, self.starts[after], "")
        end = self.starts[after - 1] + len(self.texts[after - 1])
        return Span(start, end, _fit(old, self.texts[first:after], new))


def find_lines(lines: Sequence[str], wanted: Sequence[str]) -> Iterator[int]:
    """The indexes where the wanted lines are, unless all of them are empty."""
    n = len(wanted)
    for i in range(len(lines) - n + 1) if any(wanted) else ():
        if lines[i] == wanted[0] and lines[i : i + n] == wanted:
            yield i


def _fit(old_lines: Sequence[str], lines: Sequence[str], new_lines: Sequence[str]) -> str:
    """The new lines with the indentation of the matched ones; those they share with the old ones
    stay as in the file."""
    import difflib

    indents = {
        _indent(old): _indent(line)
        for old, line in zip(reversed(old_lines), reversed(lines), strict=True)
        if old.strip()
    }
    fitted: list[str] = []
    matcher = difflib.SequenceMatcher(None, old_lines, new_lines, autojunk=False)
    for kind, i1, i2, j1, j2 in matcher.get_opcodes():
        is_same = kind == "equal"
        fitted += lines[i1:i2] if is_same else [_reindent(x, indents) for x in new_lines[j1:j2]]
    return "\n".join(fitted)


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _reindent(line: str, indents: Mapping[str, str]) -> str:
    """A new line, its indentation shifted like that of the nearest old line."""
    indent = _indent(line)
    body = line[len(indent) :]
    if shorter := [old for old in indents if indent.startswith(old)]:
        base = max(shorter, key=len)
        shifted = indents[base] + _translate(indent[len(base) :], indents)
    elif longer := [old for old in indents if old.startswith(indent)]:
        base = min(longer, key=len)
        shifted = indents[base].removesuffix(_translate(base[len(indent) :], indents))
    else:
        shifted = indent
    return shifted + body if body else ""


def _translate(extra: str, indents: Mapping[str, str]) -> str:
    """Converts further indentation to the file's own: tabs for spaces or spaces for tabs."""
    tabs, spaces = (any(kind in value for value in indents.values()) for kind in "\t ")
    mark = "\t" if tabs else " "
    if tabs == spaces or not extra or mark in extra:
        return extra
    lengths = [(len(value), len(old)) for old, value in indents.items() if mark not in old]
    pairs = sorted(lengths if tabs else [(old, value) for value, old in lengths])
    steps = [(t2 - t1, s2 - s1) for (t1, s1), (t2, s2) in itertools.pairwise(pairs)]
    # The step between two depths is more reliable than one depth, which may be shifted as a whole.
    widths = (s // t for t, s in (*steps, *pairs) if t > 0 and s in (2 * t, 3 * t, 4 * t))
    width = next(widths, 4)
    return "\t" * max(1, len(extra) // width) if tabs else " " * (width * len(extra))


# ── putting it in place ──────────────────────────────────────────────────────────────────────


def splice(text: str, spans: Sequence[Span]) -> str:
    """The text with each span replaced, using the surrounding line ends."""
    parts: list[str] = []
    position, has_crlf = 0, "\r\n" in text
    for span in spans:
        parts += (text[position : span.start], _with_ends(text, span) if has_crlf else span.new)
        position = span.end
    return "".join([*parts, text[position:]])


def _with_ends(text: str, span: Span) -> str:
    """The new text with line ends. Unchanged lines at its start and end keep theirs; the others end
    like those they replace, further ones like the last of these, or like the line they are in."""
    old, ends = split(text[span.start : span.end])
    new = span.new.split("\n")
    most = min(len(old), len(new)) - 1
    head = next((i for i in range(most) if old[i] != new[i]), most)
    most -= head
    tail = next((i for i in range(most) if old[-1 - i] != new[-1 - i]), most)
    changed, after = ends[head : len(ends) - tail], ends[len(ends) - tail :]
    further = changed[-1] if changed else after[0] if after else _near(text, span.end)
    count = len(new) - 1 - head - tail
    changed = [*changed, *[further] * count][:count]
    all_ends = (*ends[:head], *changed, *after)
    return new[0] + "".join(end + line for end, line in zip(all_ends, new[1:], strict=True))


def _near(text: str, position: int) -> str:
    """The line end at `position`; in the last line, that of the line before."""
    end = text.find("\n", position)
    end = text.rfind("\n") if end < 0 else end
    return "\r\n" if end > 0 and text[end - 1] == "\r" else "\n"


def split(text: str) -> tuple[list[str], list[str]]:
    """The lines without their ends, and the ends; the last line has none."""
    parts = re.split(r"(\r?\n)", text)
    return parts[::2], parts[1::2]
