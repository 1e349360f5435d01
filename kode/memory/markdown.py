"""Splits a Markdown file of a person into statements and layout, without losing a byte.

A statement's text is its lines as they stand, with its bullet, without surrounding blanks. Line
ends count as line feeds, and fenced code that is never closed counts as closed at the end. All
else, such as headings, blank lines and quotes, is layout.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

SEPARATOR = "§"
_BULLET = re.compile(r"(?:[-*+]|\d{1,9}[.)])[ \t]+(?=\S)")
_KEY = re.compile(r"(?:[-*+][ \t]+)?(\w[^:.!?\r\n]{0,40}):[ \t]+\S")
_LAYOUT = re.compile(r" {0,3}(?:#{1,6}(?:\s|$)|>|<!--|([-=*_])\1{2,}\s*$)")
_SECTION = re.compile(r"##(?:\s|$)")
_FENCE = re.compile(r"\s*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?(?:(`{3,})[^`]*|(~{3,}).*)$", re.DOTALL)
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


class Piece(NamedTuple):
    """A part of a file: the pieces of a file, joined, are the file."""

    raw: str
    text: str
    """The statement; "" for layout."""


@dataclass(frozen=True, kw_only=True)
class Format:
    """How statements stand in a file."""

    split: Callable[[str], list[Piece]]
    append: Callable[[str, str], str]
    """`append(text, new)` → the text of a file with one more statement."""
    reshape: Callable[[str], str]
    """A text that would be read back as something else, as it can stand there."""
    tidy: Callable[[str], str] = str
    """The text of a file after statements were taken out of it."""

    def fit(self, text: str) -> str:
        """A text as it can stand there, so that it is read back as this one statement."""
        text = plain_lines(text).strip()
        return text if self.texts(text) == [text] else self.reshape(text)

    def texts(self, text: str) -> list[str]:
        """The statements of a file, each once."""
        return list(dict.fromkeys(piece.text for piece in self.split(text) if piece.text))


def plain_lines(text: str) -> str:
    """The text with every line end as a line feed, and without a byte order mark."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def display(text: str) -> str:
    """A statement for a reader: without the bullet of its line."""
    return text[match.end() :] if (match := _BULLET.match(text)) else text


def key_of(text: str) -> str:
    """The key of a statement of the form `Key: value`; "" for any other."""
    match = _KEY.match(text)
    return match[1].strip().casefold() if match else ""


class _Fence:
    """Follows fenced code through the lines of a text."""

    def __init__(self, text: str = "") -> None:
        self.mark = ""
        """What closes the fence that is open; "" for none."""
        for line in _LINE.findall(text):
            self.take(line)

    def take(self, line: str) -> None:
        match, plain = _FENCE.match(line), line.strip()
        if not self.mark:
            self.mark = (match[1] or match[2]) if match else ""
        elif plain.startswith(self.mark) and not plain.strip(self.mark[0]):
            self.mark = ""


def _piece(raw: str) -> Piece:
    text = plain_lines(raw).strip()
    mark = _Fence(text).mark
    return Piece(raw, f"{text}\n{mark}" if mark else text)


def _closed(text: str) -> str:
    """The text of a file, ended by a line feed, with fenced code closed."""
    if mark := _Fence(text).mark:
        return f"{text.rstrip()}\n{mark}\n"
    return text if text.endswith("\n") or not text else f"{text}\n"


def _gap(text: str) -> str:
    """The blank line that is missing at the end of a text."""
    *_, last = _LINE.findall(text) or [""]
    return "\n" if last.strip() else ""


# ── entries between lines of § ───────────────────────────────────────────────────────────────


def _split_facts(text: str) -> list[Piece]:
    pieces, block = list[Piece](), ""
    for line in _LINE.findall(text):
        if line.strip("\ufeff").strip() != SEPARATOR:
            block += line
            continue
        pieces += [_fact(block)] if block else []
        pieces.append(Piece(line, ""))
        block = ""
    return [*pieces, _fact(block)] if block else pieces


def _fact(raw: str) -> Piece:
    return Piece(raw, plain_lines(raw).strip())


def _append_fact(text: str, new: str) -> str:
    is_empty = not any(piece.text for piece in _split_facts(text))
    return new if is_empty else f"{text.rstrip()}\n{SEPARATOR}\n{new}"


def _reshape_fact(text: str) -> str:
    return "\n".join(piece.text for piece in _split_facts(text) if piece.text)


def _tidy_facts(text: str) -> str:
    """Without separators that separate nothing."""
    parts = [piece.raw.strip("\r\n") for piece in _split_facts(text) if piece.text]
    return f"\n{SEPARATOR}\n".join(parts)


FACTS = Format(split=_split_facts, append=_append_fact, reshape=_reshape_fact, tidy=_tidy_facts)
"""Entries of any text, separated by lines that hold only `§`."""


# ── lists and paragraphs ─────────────────────────────────────────────────────────────────────


def _begins_statement(line: str) -> bool:
    """Whether a line begins a statement, whatever stands above it."""
    plain = line.removeprefix(" ")
    return bool(_BULLET.match(plain) or _KEY.match(line))


def _split_lines(text: str) -> list[Piece]:
    pieces, block, fence = list[Piece](), "", _Fence()
    for line in _LINE.findall(text):
        plain = line.removeprefix("\ufeff")
        is_code = bool(fence.mark)
        # What begins a statement loses its indentation, so there it must not count.
        is_layout = not plain.strip() or _LAYOUT.match(plain if block else plain.strip())
        if not is_code and block and (is_layout or _begins_statement(plain)):
            pieces.append(_piece(block))
            block = ""
            is_layout = is_layout or _LAYOUT.match(plain.strip())
        if is_layout and not is_code:
            pieces.append(Piece(line, ""))
            continue
        fence.take(line)
        block += line
    return [*pieces, _piece(block)] if block else pieces


def _append_line(text: str, new: str) -> str:
    """At the end; after a blank line, unless a list continues."""
    text = _closed(text)
    last = next((piece for piece in reversed(_split_lines(text)) if piece.raw.strip()), None)
    continues = last and _begins_statement(last.text) and _begins_statement(new)
    return f"{text}{'' if continues else _gap(text)}{new}\n"


def _reshape_line(text: str) -> str:
    lines = [line.strip() for line in display(text).split("\n")]
    lines = [line for line in lines if line and not _FENCE.match(line)]
    return "- " + "\n    ".join(lines) if lines else ""


LINES = Format(split=_split_lines, append=_append_line, reshape=_reshape_line)
"""List items with what is indented below them, `Key: value` lines, paragraphs, fenced code."""


# ── sections ─────────────────────────────────────────────────────────────────────────────────


def _split_sections(text: str) -> list[Piece]:
    fence, blocks = _Fence(), [""]
    for line in _LINE.findall(text):
        if _SECTION.match(line) and not fence.mark:
            blocks.append("")
        fence.take(line)
        blocks[-1] += line
    return [*_split_lines(blocks[0]), *map(_piece, blocks[1:])]


def _append_section(text: str, new: str) -> str:
    if _SECTION.match(new):
        text = _closed(text)
        return f"{text}{_gap(text)}{new}\n"
    pieces = _split_sections(text)
    at = next((n for n, piece in enumerate(pieces) if _SECTION.match(piece.text)), len(pieces))
    head, tail = ("".join(piece.raw for piece in part) for part in (pieces[:at], pieces[at:]))
    return _append_line(head, new) + (f"\n{tail}" if tail else "")


def _reshape_section(text: str) -> str:
    if not _SECTION.match(text):
        return LINES.fit(text)
    head, *lines = text.split("\n")
    body = (f"#{line}" if _SECTION.match(line) else line for line in lines)
    return _piece("\n".join((head, *body))).text


SECTIONS = Format(split=_split_sections, append=_append_section, reshape=_reshape_section)
"""Parts that begin with `## `; before the first one, lists and paragraphs."""


# ── one statement a file ─────────────────────────────────────────────────────────────────────

_FRONT = re.compile(r"\ufeff?---\r?\n(?:.*\r?\n)*?---[ \t]*(?:\r?\n|$)")


def _split_whole(text: str) -> list[Piece]:
    match = _FRONT.match(text)
    front = match[0] if match else ""
    rest = text[len(front) :]
    pieces = [Piece(front, "")] if front else []
    return [*pieces, Piece(rest, plain_lines(rest).strip())] if rest else pieces


def _append_whole(text: str, new: str) -> str:
    return f"{text}{new}\n"


def _reshape_whole(text: str) -> str:
    while match := _FRONT.match(text):
        text = text[match.end() :].strip()
    return text


WHOLE = Format(split=_split_whole, append=_append_whole, reshape=_reshape_whole)
"""One statement below front matter."""
