"""`@file` in a message: how a name is written there, and which names a text holds.

A name with white space in it stands in double quotes, or has a backslash before each space. What is
done with a file that was named is not known here.
"""

import re

_BEFORE = r"(?:^|(?<=[\s(\"'`]))"
_MENTION = re.compile(
    _BEFORE + r"""@(?:"(?P<quoted>(?:[^"\\\n]|\\.)+)"|(?P<plain>(?:\\.|[^\s@"\\])+))"""
)
BEING_TYPED = re.compile(
    _BEFORE + r"""@(?:"(?P<quoted>(?:[^"\\\n]|\\.)*)|(?P<plain>(?:\\.|[^\s@"\\])*))$"""
)
"""A mention that the cursor stands behind, whole or not."""

_AFTER_A_NAME = ".,;:!?)]}'"


def written(path: str) -> str:
    """A path as it stands after `@`."""
    if not re.search(r"[\s\"@\\]", path):
        return path
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def query_of(typed: re.Match[str]) -> str:
    """What is looked for by a mention `BEING_TYPED` has found."""
    return unescaped(typed["plain"] if typed["quoted"] is None else typed["quoted"])


def mentions(text: str) -> list[str]:
    """The names after `@` in a text, in order, each once. Where a plain name ends in marks that may
    belong to the sentence, the name follows with one less of them, and so on."""
    names: list[str] = []
    for match in _MENTION.finditer(text):
        if match["quoted"] is not None:
            names.append(unescaped(match["quoted"]))
            continue
        name = unescaped(match["plain"])
        names.append(name)
        while name[1:] and name.strip(".") and name[-1] in _AFTER_A_NAME:
            name = name[:-1]
            names.append(name)
    return list(dict.fromkeys(names))


def unescaped(text: str) -> str:
    """The text without the backslashes that protect its letters."""
    return re.sub(r"\\(.)", r"\1", text)
