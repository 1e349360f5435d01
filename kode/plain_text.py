"""Plain text: byte order marks and lines of files, and text that cannot control a terminal. Imports
next to nothing, for the processes that search files."""

import codecs
import os
import re
from dataclasses import dataclass

_BOMS: tuple[tuple[bytes, str], ...] = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """How to convert between a file's bytes and its text."""

    codec: str
    """A codec that writes no byte order mark: utf-8, utf-16-le, latin-1, ..."""
    bom: bytes = b""


def encoding_by_mark(data: bytes) -> Encoding | None:
    """The encoding that a byte order mark names; None without one."""
    for bom, codec in _BOMS:
        if data.startswith(bom):
            return Encoding(codec=codec, bom=bom)
    return None


def lines_of(text: str) -> list[str]:
    """Splits into lines with their ends, at line feeds only, as editors and search tools do."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def with_line_feeds(text: str) -> str:
    return text.replace("\r\n", "\n")


ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor movement
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC, DCS and related: titles, clipboard, links
    r"|\x1b[ -/]*[0-~]"  # short ones
)
_EMOJI = "\u2190-\u2bff\U0001f000-\U0001ffff"
_SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
_JOINED = "\u0620-\u109f"
"""Arabic to Myanmar: words of these scripts need joiners."""
_HIDDEN = re.compile(
    # Controls, surrogates, marks that reorder text, and what takes no space: fillers, tags.
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e"
    "\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb"
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e00ff\U000e01f0-\U000e0fff]"
    # Joiners but within an emoji or a word; a selector that selects nothing.
    f"|(?<![{_JOINED}])\u200c|\u200c(?![{_JOINED}])"
    f"|(?<![{_JOINED}{_EMOJI}\ufe0f])\u200d|\u200d(?![{_JOINED}{_EMOJI}])"
    f"|(?<=[{_SELECTORS}])[{_SELECTORS}]"
)


def clean(text: str) -> str:
    r"""Text that cannot control a terminal, nor hide anything on it: escape sequences are removed;
    every other character that a terminal obeys or does not show is spelled out, as `\x07` or
    `\u200b`. Tabs, line feeds, and the joiners of emoji and of words stay."""
    if text.isascii() and text.isprintable():
        return text
    text = ESCAPES.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    return _HIDDEN.sub(_escape_hidden, text)


def printable(text: str) -> str:
    """A path on one line, with whatever does not show and undecodable bytes spelled out."""
    if text.isascii() and text.isprintable():
        return text
    return re.sub(f"[\t\n]|{_HIDDEN.pattern}", _escape_hidden, text)


def _escape_hidden(hidden: re.Match[str]) -> str:
    return hidden[0].encode("unicode_escape", "surrogatepass").decode("ascii")


MAX_SOURCE_CHARS = 200  # a URL or path that can be recognized


def fence_text(text: str, source: str) -> str:
    """Puts text from outside between two lines that show a model where it begins, ends and comes
    from, with a nonce that it does not have. Safety does not depend on it: the gate decides."""
    while (nonce := os.urandom(8).hex()) in text.lower():
        pass
    source = re.sub('["<>]', "?", printable(source))
    if len(source) > MAX_SOURCE_CHARS:
        source = f"{source[: MAX_SOURCE_CHARS - 1]}…"
    return f'<outside-{nonce} source="{source}">\n{text}\n</outside-{nonce}>'
