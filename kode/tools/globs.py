"""Glob patterns for file names: `*`, `**`, `?`, `[...]`, `{a,b}`, matched against paths with `/`.

A pattern without a slash is matched against the name alone, so `*.py` finds files in any folder.
"""

import functools
import re

from kode.errors import ToolError

MAX_ALTERNATIVES = 1_000


@functools.lru_cache(maxsize=64)
def compiled(pattern: str) -> re.Pattern[str]:
    """A regular expression that fully matches the relative paths the glob means.

    Raises: ValueError for unbalanced braces and brackets.
    """
    parts = [_translated(one) for one in _alternatives(pattern)]
    try:
        return re.compile("|".join(f"(?:{part})" for part in parts), re.DOTALL)
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a glob: {error.msg}") from None


def matches(pattern: str, path: str) -> bool:
    """Whether a relative path is meant by the glob; a leading `!` turns the answer round."""
    if pattern.startswith("!"):
        return compiled(pattern[1:]).fullmatch(path) is None
    return compiled(pattern).fullmatch(path) is not None


def refuse_bad(pattern: str) -> None:
    """Raises ToolError for a pattern of a model's that is no glob."""
    try:
        compiled(pattern.removeprefix("!"))
    except ValueError as error:
        raise ToolError(f"{error}. Use patterns such as *.py or src/**/*.ts.") from None


def _alternatives(pattern: str) -> list[str]:
    """The patterns a pattern with braces stands for."""
    start = pattern.find("{")
    if start < 0:
        return [pattern]
    depth, begin, options = 0, start + 1, []
    for at in range(start, len(pattern)):
        character = pattern[at]
        depth += (character == "{") - (character == "}")
        if (character == "," and depth == 1) or depth == 0:
            options.append(pattern[begin:at])
            begin = at + 1
        if depth == 0:
            break
    if depth:
        raise ValueError(f"{pattern!r} is not a glob: a brace is not closed")
    results = [pattern[:start] + option + rest for option in options for rest in [pattern[begin:]]]
    expanded = [each for result in results for each in _alternatives(result)]
    if len(expanded) > MAX_ALTERNATIVES:
        raise ValueError(f"{pattern!r} is not a glob kode follows: too many alternatives")
    return expanded


def _translated(glob: str) -> str:
    anchored = glob.removeprefix("./")
    prefix = "" if "/" in anchored.rstrip("/") else "(?:.*/)?"
    anchored = anchored.strip("/")
    parts: list[str] = []
    at = 0
    while at < len(anchored):
        if anchored.startswith("**/", at):
            parts.append("(?:.*/)?")
            at += 3
        elif anchored.startswith("**", at):
            parts.append(".*")
            at += 2
        elif anchored[at] == "*":
            parts.append("[^/]*")
            at += 1
        elif anchored[at] == "?":
            parts.append("[^/]")
            at += 1
        elif anchored[at] == "[":
            text, at = _set(anchored, at)
            parts.append(text)
        elif anchored[at] == "\\" and at + 1 < len(anchored):
            parts.append(re.escape(anchored[at + 1]))
            at += 2
        else:
            parts.append(re.escape(anchored[at]))
            at += 1
    return prefix + "".join(parts)


def _set(glob: str, at: int) -> tuple[str, int]:
    first = at + 2 if glob[at + 1 : at + 2] in ("!", "^") else at + 1
    end = glob.find("]", first + 1)
    if end < 0:
        raise ValueError(f"{glob!r} is not a glob: a bracket is not closed")
    inner = glob[first:end].replace("\\", "\\\\").replace("[", "\\[").replace("^", "\\^")
    return f"(?!/)[{'^' if first == at + 2 else ''}{inner}]", end + 1
