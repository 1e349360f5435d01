"""Applies one edit: finds the old text and replaces it by the new one.

Pure functions. The old text must match exactly (ignoring line ends); failing that, as whole lines
without indentation and trailing space, and then the new lines get the file's indentation.
`edit_file` explains why a text was not found.
"""

import contextlib
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

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
    count: int
    """Number of replaced places."""
    reindented: bool = False
    """Whether it matched only without indentation and trailing space."""


class NotFound(Exception):
    """The text does not contain the old text."""


class Ambiguous(Exception):
    """The text contains the old text several times."""

    def __init__(self, lines: list[int], *, exact: bool) -> None:
        super().__init__(f"found at lines {lines}")
        self.lines = lines
        """The line each place begins at, from 1."""
        self.exact = exact


@dataclass(frozen=True, slots=True)
class Span:
    """A range of the text and its replacement, with line feeds."""

    start: int
    end: int
    new: str


def replace(text: str, edit: Edit) -> Replaced:
    """The text after one edit. Bytes outside the replaced ranges never change.

    Raises: NotFound, Ambiguous.
    """
    old, new = with_line_feeds(edit.old_text), with_line_feeds(edit.new_text)
    exact = [Span(*at, new) for at in _places(text, old, overlapping=not edit.replace_all)]
    spans = exact or list(_loose_spans(text, old, new))
    if not spans:
        raise NotFound
    if len(spans) > 1 and not edit.replace_all:
        raise Ambiguous(_line_numbers(text, [span.start for span in spans]), exact=bool(exact))
    return Replaced(text=splice(text, spans), count=len(spans), reindented=not exact)


def _places(text: str, old: str, *, overlapping: bool) -> Iterator[tuple[int, int]]:
    """Where the old text is, with either kind of line end."""
    lines = map(re.escape, old.split("\n"))
    pattern = re.compile(r"(?:\r\n|(?<!\r)\n)".join(lines) + r"(?!(?<=\r)\n)")
    match = pattern.search(text)
    while match:
        yield match.span()
        match = pattern.search(text, match.start() + 1 if overlapping else match.end())


def _line_numbers(text: str, starts: list[int]) -> list[int]:
    numbers: list[int] = []
    line, position = 1, 0
    for start in starts:
        line, position = line + text.count("\n", position, start), start
        numbers.append(line)
    return numbers


# ── without indentation ──────────────────────────────────────────────────────────────────────


def _loose_spans(text: str, old: str, new: str) -> Iterator[Span]:
    """Every place whose lines equal those of `old` without indentation and trailing space."""
    ends_line = old.endswith("\n")
    old_lines = old.removesuffix("\n").split("\n")
    wanted = [line.strip() for line in old_lines]
    lines, ends = split(text)
    stripped = [line.strip() for line in lines]
    starts = line_starts(lines, ends)
    n = len(wanted)
    for i in find_lines(stripped, wanted, step=n):
        at_end = i + n == len(lines)
        with_end = ends_line and not at_end and (not new or new.endswith("\n"))
        end = starts[i + n] if with_end else starts[i + n - 1] + len(lines[i + n - 1])
        body = new.removesuffix("\n") if ends_line and at_end else new
        yield Span(starts[i], end, fit(old_lines, lines[i : i + n], body))


def find_lines(lines: list[str], wanted: list[str], *, step: int = 1) -> Iterator[int]:
    """The indexes where the wanted lines are, unless all of them are empty. After each, the next
    `step` - 1 are passed over."""
    anchor = next((i for i, line in enumerate(wanted) if line), None)
    if anchor is None:
        return
    i = 0
    with contextlib.suppress(ValueError):
        while True:
            i = lines.index(wanted[anchor], i + anchor) - anchor
            is_place = lines[i : i + len(wanted)] == wanted
            if is_place:
                yield i
            i += step if is_place else 1


def fit(old_lines: list[str], found: list[str], new: str) -> str:
    """The new text with the indentation of the matched lines; lines it shares with the old text
    stay as in the file."""
    import difflib

    if not new:
        return new
    new_lines = new.split("\n")
    tail = new_lines.pop() if new.endswith("\n") else None
    indents = {
        _indent(old): _indent(line)
        for old, line in zip(reversed(old_lines), reversed(found), strict=True)
        if old.strip()
    }
    fitted: list[str] = []
    matcher = difflib.SequenceMatcher(None, old_lines, new_lines, autojunk=False)
    for kind, i1, i2, j1, j2 in matcher.get_opcodes():
        if kind == "equal":
            fitted += found[i1:i2]
            continue
        fitted += [_reindent(line, indents) for line in new_lines[j1:j2]]
    return "\n".join(fitted if tail is None else [*fitted, tail])


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _reindent(line: str, indents: Mapping[str, str]) -> str:
    """A new line, its indentation shifted like that of the nearest old line."""
    indent = _indent(line)
    body = line[len(indent) :]
    if not body:
        return ""
    if indent in indents:
        return indents[indent] + body
    shorter = [known for known in indents if indent.startswith(known)]
    if shorter:
        base = max(shorter, key=len)
        return indents[base] + _translate(indent[len(base) :], indents) + body
    longer = [known for known in indents if known.startswith(indent)]
    if longer:
        base = min(longer, key=len)
        less = _translate(base[len(indent) :], indents)
        return indents[base].removesuffix(less) + body
    return line


def _translate(extra: str, indents: Mapping[str, str]) -> str:
    """Converts further indentation to the file's own: tabs for spaces or spaces for tabs."""
    files_tabs = any("\t" in value for value in indents.values())
    files_spaces = any(" " in value for value in indents.values())
    if files_tabs and not files_spaces and "\t" not in extra:
        width = _tab_width({old: own for old, own in indents.items() if "\t" not in old})
        return "\t" * max(1, len(extra) // width) if extra else ""
    if files_spaces and not files_tabs and " " not in extra:
        width = _tab_width({own: old for old, own in indents.items() if " " not in old})
        return " " * (width * len(extra))
    return extra


def _tab_width(tabs_of: Mapping[str, str]) -> int:
    """Spaces per tab, detected from pairs of (spaces, tabs); 4 by default."""
    pairs = sorted((len(tabs), len(spaces)) for spaces, tabs in tabs_of.items())
    steps = [(t2 - t1, s2 - s1) for (t1, s1), (t2, s2) in itertools.pairwise(pairs)]
    # The step between two depths is more reliable than one depth, which may be shifted as a whole.
    for tabs, spaces in (*steps, *pairs):
        if tabs > 0 and spaces > 0 and spaces % tabs == 0 and spaces // tabs in (2, 3, 4):
            return spaces // tabs
    return 4


# ── putting it in place ──────────────────────────────────────────────────────────────────────


def splice(text: str, spans: list[Span]) -> str:
    """The text with each span replaced, using the surrounding line ends."""
    parts: list[str] = []
    position = 0
    own_ends = "\r\n" in text
    for span in spans:
        parts += (text[position : span.start], _with_ends(text, span) if own_ends else span.new)
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
    own = (*ends[:head], *changed, *after)
    return new[0] + "".join(end + line for end, line in zip(own, new[1:], strict=True))


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
