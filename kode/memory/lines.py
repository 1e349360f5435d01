"""Lines of a text that several have changed: joining two changes, and taking one back."""

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
    return "\n".join(_applied(lines, hunks))


def reverted(now: str, before: str, after: str) -> str | None:
    """`now` without the change from `before` to `after`, whatever was changed beside it since; as
    it is where nothing of the change is left, None where its lines were changed again."""
    if now == after:
        return before
    lines = after.split("\n") if after else []
    theirs = _hunks(lines, now.split("\n") if now else [])
    back = _hunks(lines, before.split("\n") if before else [])
    left = [hunk for hunk in back if hunk not in theirs]
    if any(_crosses(one, other) for one in left for other in theirs):
        return None
    return "\n".join(_applied(lines, [*theirs, *left]))


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


def _crosses(one: Hunk, other: Hunk) -> bool:
    """Whether two hunks change the same lines; what is put beside or among them stays."""
    return max(one[0], other[0]) < min(one[1], other[1])


def _applied(lines: Sequence[str], hunks: Sequence[Hunk]) -> list[str]:
    """Stable: at one and the same place the earlier of the hunks comes first."""
    result: list[str] = []
    at = 0
    for start, end, new in sorted(hunks, key=lambda hunk: (hunk[0], hunk[1])):
        result += lines[at:start]
        result += new
        at = max(at, end)
    return [*result, *lines[at:]]
