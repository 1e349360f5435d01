"""Replacing needs reading: a model may replace a text only if its session was shown that version of
it whole, and may not lose more than half of it without naming what goes.

A session's `seen` maps the name of a text to the version that was shown. It holds while the
messages that showed it do; a person is not asked what they have read.
"""

from collections.abc import Iterable, Mapping, MutableMapping

from kode.errors import MemoryRefused
from kode.memory.rendering import fingerprint

Seen = MutableMapping[str, str]

IN_PART = "in part"
"""Stands for a version: only a part of the text was shown."""
KEPT_SHARE = 0.5  # less is another text
SMALL_CHARS = 200
"""A text of one or two sentences may be replaced by any other: an undo brings it back."""
MAX_SEEN = 300
"""How many of the latest versions a session keeps."""


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

    Raises: MemoryRefused, which says what to do: `to_read` for a text that was not shown whole,
    `to_lose` where too much would go.
    """
    if not before.strip():
        return
    label, version, what_to_do = label or name, seen.get(name), to_read
    if version is None:
        why = f"You have not been shown {label}, and replacing it would lose what it says"
    elif version == IN_PART:
        why = f"You were shown only a part of {label}, so replacing it would lose the rest"
    elif version != fingerprint(before):
        why = f"{label} was changed since you read it, by the user or another session"
    else:
        left = len(before) - sum(len(part) for part in named if part in before)
        if len(before) <= SMALL_CHARS or len(after) >= left * KEPT_SHARE:
            return
        why, what_to_do = f"More than half of {label} would be gone, and nothing says what", to_lose
    raise MemoryRefused(f"{why}. {what_to_do} Nothing was changed.")


def mark_read(seen: Seen, name: str, text: str) -> None:
    """Notes that the session was shown this version whole."""
    seen.pop(name, None)  # the latest are kept
    seen[name] = fingerprint(text)
    while len(seen) > MAX_SEEN:
        del seen[next(iter(seen))]
