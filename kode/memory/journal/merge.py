"""Three versions of a text into one: what a person changed meanwhile survives what a model wrote.

Lines decide. Where both changed the same lines the person's stand, and what the other adds that is
nowhere yet follows them. Doing it again changes nothing.
"""

from collections.abc import Sequence
from difflib import SequenceMatcher

Hunk = tuple[int, int, list[str]]
"""Lines of the base from, to, and what stands there instead."""


def merged(base: str, current: str, update: str) -> str:
    """`current` (base with a person's changes) with the changes from `base` to `update`."""
    if current == base:
        return update
    if update in (base, current):
        return current
    lines = base.split("\n")
    theirs = _hunks(lines, current.split("\n"))
    known = {*lines, *current.split("\n")}
    hunks: list[Hunk] = list(theirs)
    for start, end, new in _hunks(lines, update.split("\n")):
        clashing = [hunk for hunk in theirs if _overlap(hunk, start, end)]
        if not clashing:
            hunks.append((start, end, new))
            continue
        clashing[0][2].extend(x for x in new if x.strip() and x not in known)
    # Stable: at one and the same place the person's lines come first.
    hunks.sort(key=lambda hunk: (hunk[0], hunk[1]))
    result: list[str] = []
    at = 0
    for start, end, new in hunks:
        result += lines[at:start]
        result += new
        at = max(at, end)
    return "\n".join([*result, *lines[at:]])


def _hunks(base: Sequence[str], other: Sequence[str]) -> list[Hunk]:
    matcher = SequenceMatcher(None, base, other, autojunk=False)
    return [
        (i1, i2, list(other[j1:j2]))
        for tag, i1, i2, j1, j2 in matcher.get_opcodes()
        if tag != "equal"
    ]


def _overlap(hunk: Hunk, start: int, end: int) -> bool:
    """Insertions at one place clash too: they may say the same."""
    first, last, _ = hunk
    if start == end or first == last:
        return first <= start <= last if start == end else start <= first <= end
    return max(first, start) < min(last, end)
