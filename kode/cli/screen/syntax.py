"""Splits code into pieces by syntax, each with a style of `screen`.

The colours are readable on light and dark, and without green and red, which mark additions and
removals in a diff. Heavy, so imported when code is painted; `diffs` decides which parts are code.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from pygments.token import Token

if TYPE_CHECKING:
    from pygments.lexer import Lexer
    from pygments.token import _TokenType

MAX_CHARS = 20_000  # longer code would hold up the screen
MAX_LINE_CHARS = 1_000
"""Limit of coloured lines: lexers are regular expressions, and slow on a minified file."""

STYLES: dict["_TokenType", str] = {
    Token.Comment: "comment",
    Token.Keyword: "keyword",
    Token.Operator.Word: "keyword",
    Token.Name.Class: "bold",
    Token.Name.Function: "bold",
    Token.Name.Tag: "keyword",
    Token.Name.Decorator: "string",
    Token.Literal.String: "string",
    Token.Literal.Number: "keyword",
}
"""Missing types get the style of the surrounding text."""


def pieces(file_name: str, code: str) -> list[list[tuple[str, str]]] | None:
    """The lines of `code`, each as (style, text); "" is no style. None if the name does not show a
    language, and for code that would take long."""
    if len(code) > MAX_CHARS or any(len(line) > MAX_LINE_CHARS for line in code.split("\n")):
        return None
    lexer = _lexer(file_name)
    if lexer is None:
        return None
    lines: list[list[tuple[str, str]]] = [[]]
    for style, text in _tokens(lexer, code):
        first, *rest = text.split("\n")
        lines[-1].append((style, first))
        lines += [[(style, line)] for line in rest]
    return lines


def _tokens(lexer: "Lexer", code: str) -> Iterator[tuple[str, str]]:
    # Not `get_tokens`, which drops or adds line feeds at the ends.
    for _, kind, text in lexer.get_tokens_unprocessed(code):
        while kind is not None and kind not in STYLES:
            kind = kind.parent
        yield STYLES.get(kind, ""), text


@lru_cache(maxsize=64)
def _lexer(file_name: str) -> "Lexer | None":
    from pygments.lexers import get_lexer_for_filename
    from pygments.util import ClassNotFound

    try:
        return get_lexer_for_filename(file_name)
    except ClassNotFound:
        return None
