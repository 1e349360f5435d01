"""A reply for the plain face: Markdown as the model wrote it, but for tables, of which every cell
gets its heading, so that each line stands on its own."""

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token


def plain_markdown(text: str) -> str:
    """The text of a settled block for a screen reader or a log."""
    if "|" not in text:
        return text
    tokens = _parser().parse(text)
    lines = text.split("\n")
    for at in reversed([at for at, token in enumerate(tokens) if token.type == "table_open"]):
        first, last = tokens[at].map or (0, 0)
        lines[first:last] = _listed(tokens[at:])
    return "\n".join(lines)


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable("table")


def _listed(tokens: "list[Token]") -> list[str]:
    """The rows of the table that begins the tokens: a line a cell, a blank one between rows."""
    heads: list[str] = []
    rows: list[list[str]] = []
    for at, token in enumerate(tokens):
        if token.type == "table_close":
            break
        if token.type == "th_open":
            heads.append(tokens[at + 1].content)
        elif token.type == "tr_open":
            rows.append([])
        elif token.type == "td_open":
            rows[-1].append(tokens[at + 1].content)
    cells = [
        [f"{head}: {cell}" for head, cell in zip(heads, row, strict=False)] for row in rows if row
    ]
    return [line for row in cells for line in (*row, "")]
