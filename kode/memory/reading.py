"""Replacing needs reading: a model may replace a text only if its session was shown that version of
it whole, and may not lose more than half of it without naming what goes.

A session's `seen` maps the name of a text to the version that was shown. It holds while the
messages that showed it do; a person is not asked what they have read.
"""

from collections.abc import Iterable, Mapping, MutableMapping
from typing import Literal

from kode.errors import MemoryRefused
from kode.memory.rendering import fingerprint

Seen = MutableMapping[str, str]
Reason = Literal["unread", "in_part", "changed", "loses"]

IN_PART = "in part"
"""Stands for a version: only a part of the text was shown."""
KEPT_SHARE = 0.5  # less is another text
SMALL_CHARS = 200
"""A text of one or two sentences may be replaced by any other: an undo brings it back."""
MAX_SEEN = 300
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


def check_read(
    seen: Mapping[str, str],
    name: str,
    before: str,
    after: str,
    *,
    named: Iterable[str] = (),
    label: str = "",
    to_read: str,
    to_lose: str,
) -> None:
    """Checks that `after` may replace the text `before`, called `name`, or `label` in the error.
    `named` are the parts of it that the request names as what goes.

    Raises: NotReplaced, which says what to do: `to_read` for a text that was not shown whole,
    `to_lose` where too much would go.
    """
    if not before.strip():
        return
    version = seen.get(name)
    reason: Reason | None = None
    if version != fingerprint(before):
        reason = "unread" if version is None else "in_part" if version == IN_PART else "changed"
    elif len(before) > SMALL_CHARS:
        left = len(before) - sum(len(part) for part in named if part in before)
        reason = "loses" if len(after) < left * KEPT_SHARE else None
    if reason is not None:
        raise NotReplaced(reason, label or name, to_lose if reason == "loses" else to_read)


def mark_read(seen: Seen, name: str, text: str) -> None:
    """Notes that the session was shown this version whole."""
    seen.pop(name, None)  # the latest are kept
    seen[name] = fingerprint(text)
    while len(seen) > MAX_SEEN:
        del seen[next(iter(seen))]
