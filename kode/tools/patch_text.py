"""Patches in the V4A format, which OpenAI's models are trained on: reading one, and applying its
hunks to a text. Pure functions.

    *** Begin Patch
    *** Update File: a.py
    @@ class A
     kept
    -removed
    +added
    *** Add File: b.py
    +its text
    *** End Patch

A hunk is found by its kept and removed lines, after the line that `@@` names; without one they must
stand in the file once, since the first of several places is a guess.
"""

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from kode.tools.replace_text import (
    Ambiguous,
    NotFound,
    Replaced,
    Span,
    find_lines,
    fit,
    line_starts,
    splice,
    split,
)

BEGIN, END = "*** Begin Patch", "*** End Patch"
_KINDS: dict[str, Literal["add", "delete", "update"]] = {
    "*** Add File: ": "add",
    "*** Delete File: ": "delete",
    "*** Update File: ": "update",
}
_MOVE, _END_OF_FILE = "*** Move to: ", "*** End of File"

GRAMMAR = r"""start: begin section+ end
begin: "*** Begin Patch" LF
end: "*** End Patch" LF?
section: add | delete | update
add: "*** Add File: " NAME LF ("+" REST LF)+
delete: "*** Delete File: " NAME LF
update: "*** Update File: " NAME LF hunk+
hunk: anchor+ line* last? | line+ last?
anchor: ("@@" | "@@ " NAME) LF
line: ("+" | "-" | " ") REST LF
last: "*** End of File" LF
NAME: /[^\n]+/
REST: /[^\n]*/
%import common.LF
"""
"""The format in Lark's notation, to which OpenAI's server holds the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunk:
    old: tuple[str, ...] = ()
    """Kept and removed lines, without their ends."""
    new: tuple[str, ...] = ()
    """Kept and added lines."""
    anchors: tuple[str, ...] = ()
    """Lines that come before it, in order."""
    at_end: bool = False
    """Whether it ends with the file."""
    after_line: int | None = None
    """The line, from 1, that new lines follow; 0: they come first. Then `old` is empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """What a patch does to one file."""

    kind: Literal["add", "delete", "update"]
    path: str
    content: str = ""
    """Of a new file."""
    hunks: tuple[Hunk, ...] = ()


class BadPatch(Exception):
    """The text is no patch; the message says why, as a sentence."""


def read_patch(text: str) -> list[Section]:
    """Raises: BadPatch."""
    lines = text.replace("\r\n", "\n").split("\n")
    begins = [index for index, line in enumerate(lines) if line.strip() == BEGIN]
    ends = [index for index, line in enumerate(lines) if line.strip() == END]
    if not begins or not ends or ends[-1] < begins[0]:
        raise BadPatch(f"It has to begin with the line `{BEGIN}` and end with `{END}`.")
    # What is around it, such as a fence or a here-document, is no part of it.
    body = lines[begins[0] + 1 : ends[-1]]
    heads = [index for index, line in enumerate(body) if line.startswith(tuple(_KINDS))]
    if not heads or any(line.strip() for line in body[: heads[0]]):
        raise BadPatch(f"After `{BEGIN}` has to come `*** Update File: PATH`, `Add` or `Delete`.")
    return [
        _section(body[position], body[position + 1 : following])
        for position, following in itertools.pairwise([*heads, len(body)])
    ]


def _section(head: str, lines: Sequence[str]) -> Section:
    start = next(start for start in _KINDS if head.startswith(start))
    kind, path = _KINDS[start], head.removeprefix(start).strip()
    if kind == "add":
        wrong = next((line for line in lines if line and line[0] != "+"), None)
        if wrong is not None:
            raise BadPatch(f"Each line of the new file {path} begins with `+`; one is {wrong!r}.")
        content = "".join(f"{line[1:]}\n" for line in lines)
        return Section(kind=kind, path=path, content=content)
    if kind == "delete":
        return Section(kind=kind, path=path)
    if lines and lines[0].startswith(_MOVE):
        raise BadPatch(f"It cannot move {path}: do that with `git mv` or `mv` in the shell.")
    hunks = tuple(_hunks(path, lines))
    if not hunks:
        raise BadPatch(f"The section of {path} changes nothing: it has no lines with + or -.")
    return Section(kind=kind, path=path, hunks=hunks)


def _hunks(path: str, lines: Sequence[str]) -> Iterator[Hunk]:
    hunk = Hunk()
    for index, line in enumerate(lines):
        mark, rest = line[:1], (line[1:],)
        if (line.startswith("@@") or hunk.at_end) and (hunk.old or hunk.new):
            yield hunk
            hunk = Hunk()
        if line.startswith("@@"):
            anchor = line[2:].strip().removesuffix("@@").strip()
            hunk = replace(hunk, anchors=(*hunk.anchors, anchor) if anchor else hunk.anchors)
        elif line.rstrip() == _END_OF_FILE:
            hunk = replace(hunk, at_end=True)
        elif mark in ("+", "-", " ", ""):
            if not line and index == len(lines) - 1:
                continue  # the blank line before the next section
            old = hunk.old + (rest if mark != "+" else ())
            hunk = replace(hunk, old=old, new=hunk.new + (rest if mark != "-" else ()))
        else:
            raise BadPatch(
                f"In the section of {path} each line begins with `+`, `-`, a space or `@@`; one is "
                f"{line!r}."
            )
    if hunk.old or hunk.new:
        yield hunk


# ── applying hunks ───────────────────────────────────────────────────────────────────────────


class Misfit(Exception):
    """A hunk has no place, or several."""

    def __init__(self, number: int, hunk: Hunk, reason: NotFound | Ambiguous) -> None:
        super().__init__(f"hunk {number}")
        self.number = number
        """From 1."""
        self.hunk = hunk
        self.reason = reason


def apply(text: str, hunks: Sequence[Hunk]) -> Replaced:
    """The text after all hunks. Bytes outside of the replaced lines never change.

    Raises: Misfit.
    """
    lines, ends = split(text)
    starts = line_starts(lines, ends)
    count = len(lines) - (lines[-1] == "")
    """Lines of the file; what follows the last line end is none."""
    spans: list[Span] = []
    is_loose = False
    position = 0
    for number, hunk in enumerate(hunks, start=1):
        try:
            fitting, offset, exact = _place_hunk(lines[:count], hunk, position)
        except (NotFound, Ambiguous) as reason:
            raise Misfit(number, hunk, reason) from None
        size = len(fitting.old)
        new = "\n".join(fitting.new)
        is_loose = is_loose or not exact
        if fitting.new:  # kept lines stay as the file has them
            new = fit(list(fitting.old), lines[offset : offset + size], new)
        start, end = starts[offset], starts[offset]
        if size and fitting.new:
            end = starts[offset + size - 1] + len(lines[offset + size - 1])
        elif size:
            end = starts[offset + size]
        elif offset == len(lines):
            start = end = len(text)
            new = f"\n{new}"
        else:
            new += "\n"
        spans.append(Span(start, end, new))
        position = offset + size
    spans.sort(key=lambda span: (span.start, span.end))
    for first, second in itertools.pairwise(spans):
        if second.start < first.end:
            raise Misfit(len(hunks), hunks[-1], NotFound())
    return Replaced(text=splice(text, spans), count=len(hunks), reindented=is_loose)


_TRIMS = sorted(itertools.product(range(4), repeat=2), key=sum)[1:]


def _place_hunk(lines: Sequence[str], hunk: Hunk, position: int) -> tuple[Hunk, int, bool]:
    """The hunk with its place, see `_place`. Where its kept lines have changed or were remembered
    wrongly, without up to three of them on each side, if the others stand only once.

    Raises: NotFound, Ambiguous.
    """
    try:
        return hunk, *_place(lines, hunk, position)
    except NotFound as error:
        same = [a == b for a, b in zip(hunk.old, hunk.new, strict=False)]
        ends = [a == b for a, b in zip(hunk.old[::-1], hunk.new[::-1], strict=False)]
        before = next((n for n, is_kept in enumerate(same) if not is_kept), len(same))
        after = next((n for n, is_kept in enumerate(ends) if not is_kept), len(ends))
        for first, last in _TRIMS:
            if first > before or last > after or len(hunk.old) <= first + last:
                continue
            old, new = (
                hunk.old[first : len(hunk.old) - last],
                hunk.new[first : len(hunk.new) - last],
            )
            shorter = replace(hunk, old=old, new=new, at_end=False)
            with contextlib.suppress(NotFound, Ambiguous):
                return shorter, *_place(lines, shorter, position, once=True)
        raise error


def _place(
    lines: Sequence[str], hunk: Hunk, position: int, *, once: bool = False
) -> tuple[int, bool]:
    """The index of its first line, and whether its lines are there exactly but for trailing space.
    With `once` the first of several places after its anchor will not do.

    Raises: NotFound, Ambiguous.
    """
    if hunk.after_line is not None:
        if not 0 <= hunk.after_line <= len(lines):
            raise NotFound
        return hunk.after_line, True
    found_anchors = 0
    for anchor in hunk.anchors:
        offset = _line_of(lines, anchor, position)
        if offset is not None:
            position, found_anchors = offset + 1, found_anchors + 1
    anchored = 0 < found_anchors == len(hunk.anchors)
    if not hunk.old:
        if hunk.anchors and not anchored:
            raise NotFound
        return (position if anchored else len(lines)), True
    for exact, key in ((True, str.rstrip), (False, str.strip)):
        places = list(find_lines([key(line) for line in lines], [key(line) for line in hunk.old]))
        if hunk.at_end:
            places = [at for at in places if at + len(hunk.old) == len(lines)] or places
        # A hunk may begin with the line of its anchor.
        following = [at for at in places if at >= position - anchored]
        if len(following) == 1 or (following and anchored and not once):
            return following[0], exact
        if len(places) == 1:
            return places[0], exact
        if places:
            raise Ambiguous([at + 1 for at in places], exact=exact)
    raise NotFound


def _line_of(lines: Sequence[str], anchor: str, position: int) -> int | None:
    """The next line that is the anchor but for indentation, else the only one that has it."""
    rest = [line.strip() for line in lines[position:]]
    if anchor in rest:
        return position + rest.index(anchor)
    partial = [index for index, line in enumerate(rest) if anchor in line]
    return position + partial[0] if len(partial) == 1 else None
