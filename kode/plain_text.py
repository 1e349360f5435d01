"""Byte order marks and lines of text files, and their paths on one line.

It imports next to nothing, for the processes that search files.
"""

import codecs
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
    """Splits into lines with their ends, at line feeds only, as editors and search tools count
    them."""
    lines = text.split("\n")
    last = lines.pop()
    return [line + "\n" for line in lines] + ([last] if last else [])


def with_line_feeds(text: str) -> str:
    return text.replace("\r\n", "\n")


def printable(text: str) -> str:
    """A path on one line, with control characters and undecodable bytes escaped."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode("ascii")
        for c in text
    )
