"""One edit of a text: where the old text is, and the text with the new one in its place.

Pure functions on text with line feeds as they are in the file. The old text is looked for exactly
(line ends aside); failing that, as whole lines without indentation and trailing space, and then
the new lines get the indentation of the file. Why a text was not found is `edit_file`'s to say.
"""

import bisect
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kode.tools.files import with_line_feeds


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
    """How many places were replaced."""
    reindented: bool = False
    """Whether the place was found only without indentation and trailing space."""


class NotFound(Exception):
    """The old text is nowhere in the text."""


class Ambiguous(Exception):
    """The old text is in several places."""

    def __init__(self, lines: list[int], *, exact: bool) -> None:
        super().__init__(f"found at lines {lines}")
        self.lines = lines
        """The line each place begins at, from 1."""
        self.exact = exact


@dataclass(frozen=True, slots=True)
class _Span:
    """A range of the text with line feeds, and what goes there."""

    start: int
    end: int
    new: str


def replace(text: str, edit: Edit) -> Replaced:
    """The text after one edit. Bytes outside the replaced ranges stay what they were.

    Raises: NotFound, Ambiguous.
    """
    plain, old = with_line_feeds(text), with_line_feeds(edit.old_text)
    new = with_line_feeds(edit.new_text)
    if starts := _occurrences(plain, old, overlapping=not edit.replace_all):
        if len(starts) > 1 and not edit.replace_all:
            raise Ambiguous(_line_numbers(plain, starts), exact=True)
        spans = [_Span(start, start + len(old), new) for start in starts]
        return Replaced(text=_spliced(text, plain, spans), count=len(spans))
    spans = list(_loose_spans(plain, old, new))
    if not spans:
        raise NotFound
    if len(spans) > 1 and not edit.replace_all:
        raise Ambiguous(_line_numbers(plain, [span.start for span in spans]), exact=False)
    return Replaced(text=_spliced(text, plain, spans), count=len(spans), reindented=True)


def _occurrences(text: str, part: str, *, overlapping: bool) -> list[int]:
    starts: list[int] = []
    step = 1 if overlapping else len(part)
    at = text.find(part)
    while at >= 0:
        starts.append(at)
        at = text.find(part, at + step)
    return starts


def _line_numbers(text: str, starts: list[int]) -> list[int]:
    numbers: list[int] = []
    line, at = 1, 0
    for start in starts:
        line, at = line + text.count("\n", at, start), start
        numbers.append(line)
    return numbers


# ── without indentation ──────────────────────────────────────────────────────────────────────


def _loose_spans(text: str, old: str, new: str) -> Iterator[_Span]:
    """Every place whose lines equal those of `old` without indentation and trailing space."""
    ends_line = old.endswith("\n")
    old_lines = old.removesuffix("\n").split("\n")
    wanted = [line.strip() for line in old_lines]
    if not any(wanted):
        return
    lines = text.split("\n")
    stripped = [line.strip() for line in lines]
    starts = [0, *itertools.accumulate(len(line) + 1 for line in lines)]
    anchor = next(i for i, line in enumerate(wanted) if line)
    n, i = len(wanted), 0
    while True:
        try:
            i = stripped.index(wanted[anchor], i + anchor) - anchor
        except ValueError:
            return
        if stripped[i : i + n] != wanted:
            i += 1
            continue
        at_end = starts[i + n] - 1 >= len(text)
        with_end = ends_line and not at_end and (not new or new.endswith("\n"))
        end = starts[i + n] if with_end else starts[i + n] - 1
        body = new.removesuffix("\n") if ends_line and at_end else new
        yield _Span(starts[i], end, _fitted(old_lines, lines[i : i + n], body))
        i += n


def _fitted(old_lines: list[str], found: list[str], new: str) -> str:
    """The new text with the indentation of the lines found; lines it shares with the old text
    stay as the file has them."""
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
        fitted += [_reindented(line, indents) for line in new_lines[j1:j2]]
    return "\n".join(fitted if tail is None else [*fitted, tail])


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _reindented(line: str, indents: Mapping[str, str]) -> str:
    """A new line, its indentation moved as that of the nearest old line was."""
    indent = _indent(line)
    body = line[len(indent) :]
    if not body:
        return ""
    if indent in indents:
        return indents[indent] + body
    shorter = [known for known in indents if indent.startswith(known)]
    if shorter:
        base = max(shorter, key=len)
        return indents[base] + _translated(indent[len(base) :], indents) + body
    longer = [known for known in indents if known.startswith(indent)]
    if longer:
        base = min(longer, key=len)
        less = _translated(base[len(indent) :], indents)
        return indents[base].removesuffix(less) + body
    return line


def _translated(extra: str, indents: Mapping[str, str]) -> str:
    """Further indentation in the file's own characters: tabs for spaces or spaces for tabs."""
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
    """Spaces that stand for one tab, recognized by pairs of (spaces, tabs); 4 by default."""
    pairs = sorted((len(tabs), len(spaces)) for spaces, tabs in tabs_of.items())
    steps = [(t2 - t1, s2 - s1) for (t1, s1), (t2, s2) in itertools.pairwise(pairs)]
    # The step between two depths tells more than one depth, which may be moved as a whole.
    for tabs, spaces in (*steps, *pairs):
        if tabs > 0 and spaces > 0 and spaces % tabs == 0 and spaces // tabs in (2, 3, 4):
            return spaces // tabs
    return 4


# ── putting it in place ──────────────────────────────────────────────────────────────────────


def _spliced(text: str, plain: str, spans: list[_Span]) -> str:
    """The text with each span replaced, in the line ends around it."""
    if "\r\n" not in text:
        return _joined(plain, spans)
    # Where each line of the plain text begins in the text with its own line ends.
    plain_starts = [0, *itertools.accumulate(len(line) + 1 for line in plain.split("\n"))]
    own_lines = text.split("\n")
    own_starts = [0, *itertools.accumulate(len(line) + 1 for line in own_lines)]

    def own(position: int) -> int:
        line = bisect.bisect_right(plain_starts, position) - 1
        return own_starts[line] + position - plain_starts[line]

    own_spans = []
    for span in spans:
        start, end, new = _narrowed(plain, span)
        first = bisect.bisect_right(plain_starts, start) - 1
        last = bisect.bisect_right(plain_starts, end) - 1
        ends = [_end_of(own_lines, line) for line in range(first, last)]
        own_spans.append(
            _Span(own(start), own(end), _with_ends(new, ends, _near(own_lines, first)))
        )
    return _joined(text, own_spans)


def _joined(text: str, spans: list[_Span]) -> str:
    parts: list[str] = []
    at = 0
    for span in spans:
        parts += (text[at : span.start], span.new)
        at = span.end
    return "".join([*parts, text[at:]])


def _narrowed(plain: str, span: _Span) -> tuple[int, int, str]:
    """The span without the whole lines at its start and end that stay the same: their line ends
    are then not touched either."""
    start, end, new = span.start, span.end, span.new
    while (cut := plain.find("\n", start, end) + 1) and new.startswith(plain[start:cut]):
        new = new[cut - start :]
        start = cut
    while (cut := plain.rfind("\n", start, end)) >= 0 and new.endswith(plain[cut:end]):
        new = new[: len(new) - (end - cut)]
        end = cut
    return start, end, new


def _end_of(own_lines: list[str], line: int) -> str:
    return "\r\n" if own_lines[line].endswith("\r") else "\n"


def _near(own_lines: list[str], line: int) -> str:
    """The line end where the change is: its own line's, or that of the line before the last."""
    return _end_of(own_lines, min(line, max(0, len(own_lines) - 2)))


def _with_ends(new: str, ends: list[str], near: str) -> str:
    """The new text, its lines ending as the replaced ones did, further ones as the last did."""
    lines = new.split("\n")
    rest = ends[-1] if ends else near
    parts = [lines[0]]
    for number, line in enumerate(lines[1:]):
        parts += (ends[number] if number < len(ends) else rest, line)
    return "".join(parts)
