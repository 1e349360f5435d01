"""The `> Summary:` line of a file: finds, replaces, and generates it from the file, without a
model.

The index shows it, so every word costs tokens: about ten words, never over 120 characters.
"""

import re
from collections.abc import Iterable

MAX_CHARS = 120
MAX_WORDS = 10
ENTRY_WORDS = 5
"""Words per episode, if there are several."""

_LINE = re.compile(r"^>[ \t]*Summary:[ \t]*(.*)$", re.MULTILINE)
_KEY = re.compile(r"^(?:\s*[-*+]\s+)?\**([^\W_][^:*\n`|]{0,39}?)\**\s*:\**(?:\s+\S.*|\s*)$")
_BULLET = re.compile(r"^\s*[-*+]\s+(.*\S)")
_OWN = re.compile(r"^\s*[-*+]?\s*\**Summary:\**\s*(.*\S)", re.MULTILINE)
_HEADING = re.compile(r"^(?=## )", re.MULTILINE)
_DATE_TITLE = re.compile(r"^[\d\s:.-]+$")
_NO_KEYS = frozenset({"updated", "summary", "date", "created"})
_SPEC = frozenset({"http", "https", "file"})


def summary_of(text: str) -> str:
    """The text of the first Summary line; "" if there is none."""
    found = _LINE.search(text)
    return found[1].strip() if found else ""


def with_summary(text: str, summary: str) -> str:
    """`text` with `summary` in its Summary line; a missing line is added below the title."""
    line = f"> Summary: {summary}"
    found = _LINE.search(text)
    if found:
        return f"{text[: found.start()]}{line}{text[found.end() :]}"
    head, _, rest = text.lstrip("\n").partition("\n")
    if head.startswith("# "):
        return f"{head}\n\n{line}\n\n{rest.lstrip(chr(10))}"
    return f"{line}\n\n{text.lstrip(chr(10))}"


def without_summary(text: str) -> str:
    """`text` without its first Summary line and the blank line after it."""
    found = _LINE.search(text)
    if not found:
        return text
    return text[: found.start()] + text[found.end() :].removeprefix("\n").removeprefix("\n")


def made_from(text: str, *, episodes: bool) -> str:
    """A summary generated from the text; "" if that is impossible."""
    body = without_summary(text)
    phrases = _of_episodes(body) if episodes else _of_facts(body)
    return _cut(phrases)


def clean(summary: str) -> str:
    """A summary that fits its line: one line, not over 120 characters."""
    line = " ".join(summary.split()).removeprefix("> Summary:").strip()
    return line if len(line) <= MAX_CHARS else line[: MAX_CHARS - 1].rstrip(" ,;→") + "…"


def blocks_of(text: str) -> list[str]:
    """The parts of a file for search: its `## ` sections, or without any its paragraphs and list
    entries."""
    body = without_summary(text)
    sections = [part.strip() for part in _HEADING.split(body)]
    if any(section.startswith("## ") for section in sections):
        return [s for s in sections if s and not _is_title(s)]
    blocks: list[str] = []
    for line in body.split("\n"):
        if not line.strip() or _is_title(line):
            continue
        if _BULLET.match(line) or not blocks or not line.startswith((" ", "\t")):
            blocks.append(line.strip())
        else:
            blocks[-1] += "\n" + line
    return blocks


def _of_episodes(body: str) -> Iterable[str]:
    entries = [part for part in _HEADING.split(body) if part.startswith("## ")]
    for entry in reversed(entries):
        title, _, rest = entry[3:].partition("\n")
        own = _OWN.search(rest)
        if own:
            phrase = own[1]
        elif _DATE_TITLE.match(title):
            phrase = next((line.strip(" -*") for line in rest.split("\n") if line.strip()), title)
        else:
            phrase = title
        yield _first_words(phrase, ENTRY_WORDS if len(entries) > 1 else MAX_WORDS)


def key_of(line: str) -> str:
    """The key of a `- Key: value` line; "" for any other."""
    found = _KEY.match(line)
    return found[1].strip() if found and found[1].lower() not in _SPEC else ""


def _of_facts(body: str) -> Iterable[str]:
    titles = []
    for line in body.split("\n"):
        key = _KEY.match(line)
        if key and key[1].lower() not in _NO_KEYS | _SPEC and len(key[1].split()) <= 4:
            name = key[1].strip()
            yield name.lower() if name[1:].islower() or not name[1:] else name
            continue
        bullet = _BULLET.match(line)
        if bullet and not key:
            yield _first_words(bullet[1], 3)
        elif line.startswith("## "):
            titles.append(line[3:].strip())
    yield from titles


def _cut(phrases: Iterable[str]) -> str:
    kept: list[str] = []
    words = chars = 0
    for phrase in dict.fromkeys(" ".join(p.split()) for p in phrases):
        words += len(phrase.split())
        chars += len(phrase) + 2
        if phrase and kept and (words > MAX_WORDS or chars > MAX_CHARS):
            break
        if phrase:
            kept.append(phrase)
    return clean(", ".join(kept))


def _first_words(text: str, count: int) -> str:
    words = text.replace(",", " ").split()
    return " ".join(words[:count]).rstrip(" .;:→-–")


def _is_title(text: str) -> bool:
    return text.startswith("# ") and "\n" not in text.strip()
