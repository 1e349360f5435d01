"""Merges line-based changes of a text, and reverts one."""

from collections.abc import Sequence
from difflib import SequenceMatcher

Hunk = tuple[int, int, list[str]]
"""Range of base lines (from, to), and their replacement."""


def merge_lines(base: str, current: str, update: str) -> str:
    """Applies the changes from `base` to `update` to `current`, which a person edited from
    `base`."""
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
    return "\n".join(_apply(lines, hunks))


def revert_lines(now: str, before: str, after: str) -> str | None:
    """`now` without the change from `before` to `after`, keeping other changes; `now` itself if
    nothing of the change is left, None if its lines were changed again."""
    if now == after:
        return before
    lines = after.split("\n") if after else []
    theirs = _hunks(lines, now.split("\n") if now else [])
    back = _hunks(lines, before.split("\n") if before else [])
    left = [hunk for hunk in back if hunk not in theirs]
    if any(_crosses(one, other) for one in left for other in theirs):
        return None
    return "\n".join(_apply(lines, [*theirs, *left]))


def unite_lines(one: str, other: str) -> str:
    """Every line of both texts, those of `one` first where they differ."""
    lines, more = one.split("\n"), other.split("\n")
    added = [(end, end, new) for _, end, new in _hunks(lines, more) if new]
    return "\n".join(_apply(lines, added))


def _hunks(base: Sequence[str], other: Sequence[str]) -> list[Hunk]:
    matcher = SequenceMatcher(None, base, other, autojunk=False)
    return [
        (i1, i2, list(other[j1:j2]))
        for tag, i1, i2, j1, j2 in matcher.get_opcodes()
        if tag != "equal"
    ]


def _overlap(hunk: Hunk, start: int, end: int) -> bool:
    """Insertions at the same place conflict too: they may say the same."""
    first, last, _ = hunk
    if start == end or first == last:
        return first <= start <= last if start == end else start <= first <= end
    return max(first, start) < min(last, end)


def _crosses(one: Hunk, other: Hunk) -> bool:
    """Whether two hunks change the same lines; insertions beside or among them do not conflict."""
    return max(one[0], other[0]) < min(one[1], other[1])


def _apply(lines: Sequence[str], hunks: Sequence[Hunk]) -> list[str]:
    """Stable: at the same place the earlier hunk comes first."""
    result: list[str] = []
    at = 0
    for start, end, new in sorted(hunks, key=lambda hunk: (hunk[0], hunk[1])):
        result += lines[at:start]
        result += new
        at = max(at, end)
    return [*result, *lines[at:]]
