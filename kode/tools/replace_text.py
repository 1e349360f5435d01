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
        starts = line_starts(*split(text))
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
    ends_line = old.endswith("\n")
    old_lines = old.removesuffix("\n").split("\n")
    lines, ends = split(text)
    starts = line_starts(lines, ends)
    after, n = 0, len(old_lines)
    for i in find_lines([line.strip() for line in lines], [line.strip() for line in old_lines]):
        if i < after:
            continue
        after = i + n
        at_end = after == len(lines)
        with_end = ends_line and not at_end and (not new or new.endswith("\n"))
        end = starts[after] if with_end else starts[after - 1] + len(lines[after - 1])
        body = new.removesuffix("\n") if ends_line and at_end else new
        yield Span(starts[i], end, fit(old_lines, lines[i:after], body))


def find_lines(lines: Sequence[str], wanted: Sequence[str]) -> Iterator[int]:
    """The indexes where the wanted lines are, unless all of them are empty."""
    n = len(wanted)
    for i in range(len(lines) - n + 1) if any(wanted) else ():
        if lines[i] == wanted[0] and lines[i : i + n] == wanted:
            yield i


def fit(old_lines: Sequence[str], lines: Sequence[str], new: str) -> str:
    """The new text with the indentation of the matched lines; lines it shares with the old text
    stay as in the file."""
    import difflib

    if not new:
        return new
    tail = "\n" if new.endswith("\n") else ""
    new_lines = new.removesuffix("\n").split("\n")
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
    return "\n".join(fitted) + tail


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


def line_starts(lines: Sequence[str], ends: Sequence[str]) -> list[int]:
    """Where each line starts in the text that was split, and where the text ends."""
    lengths = (len(line + end) for line, end in zip(lines, [*ends, ""], strict=True))
    return [0, *itertools.accumulate(lengths)]
