"""`@file` in a message: quotes names, and finds the names in a text.

A name with white space is in double quotes, or has a backslash before each space. What happens with
a named file is decided elsewhere.
"""

import re

_BEFORE = r"(?:^|(?<=[\s(\"'`]))"
_MENTION = re.compile(
    _BEFORE + r"""@(?:"(?P<quoted>(?:[^"\\\n]|\\.)+)"|(?P<plain>(?:\\.|[^\s@"\\])+))"""
)
BEING_TYPED = re.compile(
    _BEFORE + r"""@(?:"(?P<quoted>(?:[^"\\\n]|\\.)*)|(?P<plain>(?:\\.|[^\s@"\\])*))$"""
)
"""A mention right before the cursor, complete or not."""

_AFTER_A_NAME = ".,;:!?)]}'"


def write_mention(path: str) -> str:
    """A path as written after `@`."""
    if not re.search(r"[\s\"@\\]", path):
        return path
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def query_of(typed: re.Match[str]) -> str:
    """The search text of a mention matched by `BEING_TYPED`."""
    return unescape(typed["plain"] if typed["quoted"] is None else typed["quoted"])


def mentions(text: str) -> list[str]:
    """The names after `@` in a text, in order, without duplicates. If a plain name ends in
    punctuation, it is followed by variants with ever less of it."""
    names: list[str] = []
    for match in _MENTION.finditer(text):
        if match["quoted"] is not None:
            names.append(unescape(match["quoted"]))
            continue
        name = unescape(match["plain"])
        names.append(name)
        while name[1:] and name.strip(".") and name[-1] in _AFTER_A_NAME:
            name = name[:-1]
            names.append(name)
    return list(dict.fromkeys(names))


def unescape(text: str) -> str:
    """The text without the backslashes that escape its characters."""
    return re.sub(r"\\(.)", r"\1", text)
