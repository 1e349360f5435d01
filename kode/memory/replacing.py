"""Replacing needs reading: a model may replace a text only if this session was shown that version
of it whole, and may not lose more than half of it without naming what goes.

A session's `seen` maps a text's name to the version that was shown: `version_of` it, or `IN_PART`.
It holds while the messages that showed it do; a person is not asked what they have read.
"""

from collections.abc import Iterable, Mapping, MutableMapping
from typing import Literal

from kode.errors import MemoryRefused
from kode.memory.stored import version_of

Seen = MutableMapping[str, str]
Reason = Literal["unread", "in_part", "changed", "loses"]

IN_PART = "in part"
"""Replaces a version: only a part of the text was shown."""
KEPT_SHARE = 0.5
SMALL_CHARS = 200
"""A text of one or two sentences may be replaced by any other: an undo brings it back."""
SEEN_KEPT = 300
"""How many of the latest versions a session keeps."""

_WHY: Mapping[Reason, str] = {
    "unread": "you have not been shown {name}, and replacing it would lose what it says",
    "in_part": "you were shown only a part of {name}, so replacing it would lose the rest",
    "changed": "{name} was changed since you read it, by the user or another session",
    "loses": "more than half of {name} would be gone, and nothing says what",
}


class NotReplaced(MemoryRefused):
    """A replacement that was refused; `reason` says why as a value."""

    def __init__(self, reason: Reason, name: str, what_to_do: str) -> None:
        self.reason = reason
        why = _WHY[reason].format(name=name)
        super().__init__(f"{why[:1].upper()}{why[1:]}. {what_to_do} Nothing was changed.")


def fault(
    seen: Mapping[str, str], name: str, before: str, after: str, named: Iterable[str] = ()
) -> Reason | None:
    """Why `after` may not replace `before`, the text called `name`; None if it may. `named` are the
    parts of it that the request names as what goes."""
    if not before.strip():
        return None
    known = seen.get(name)
    if known != version_of(before):
        return "unread" if known is None else "in_part" if known == IN_PART else "changed"
    return "loses" if loses(before, after, named=named) else None


def loses(
    before: str, after: str, *, named: Iterable[str] = (), small_chars: int = SMALL_CHARS
) -> bool:
    """Whether more than half of a text goes, besides what is named; never for a small one."""
    left = len(before) - sum(len(part) for part in named if part in before)
    return len(before) > small_chars and len(after) < left * KEPT_SHARE


def check(
    seen: Mapping[str, str],
    name: str,
    before: str,
    after: str,
    *,
    called: str = "",
    named: Iterable[str] = (),
    to_read: str,
    to_lose: str,
) -> None:
    """Raises: NotReplaced, which calls the text `called`, or by its name, and says what to do:
    `to_read` for a text that was not shown whole, `to_lose` where too much would go."""
    reason = fault(seen, name, before, after, named)
    if reason is not None:
        raise NotReplaced(reason, called or name, to_lose if reason == "loses" else to_read)


def note(seen: Seen, name: str, text: str) -> None:
    """The session was shown this version whole."""
    seen.pop(name, None)  # the latest are kept
    seen[name] = version_of(text)
