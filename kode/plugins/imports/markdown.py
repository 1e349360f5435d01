"""Splits Markdown into entries: one per bullet, paragraph, or block of code.

An entry includes its heading, or the line that introduces it ("To build:"), because it will be read
alone. Nothing is cut: an oversized entry is refused by name later.
"""

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kode.plugin import ForeignReader

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode

_FRONT_MATTER = re.compile(
    r"\A\ufeff?---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.MULTILINE | re.DOTALL
)
_MARKER = re.compile(r"\A(?:[-*+]|\d{1,9}[.)])(?:[ \t]+|\Z)")
_LISTS = ("bullet_list", "ordered_list")
_WHOLE = ("fence", "code_block", "table")


@dataclass(frozen=True, kw_only=True)
class Block:
    """One entry of a Markdown text."""

    text: str
    """With its heading: `Testing: run make test`."""
    bare: str
    """Without its heading."""
    line: int
    """Its first line, from 1."""
    headings: tuple[str, ...]
    """Its headings, outermost first."""


def split_front_matter(text: str) -> tuple[str, str]:
    """The YAML front matter of a text, and the text with blank lines in its place, so that line
    numbers stay."""
    head = _FRONT_MATTER.match(text)
    if head is None:
        return "", text
    return head[1], "\n" * head[0].count("\n") + text[head.end() :]


def read_blocks(text: str) -> Iterator[Block]:
    """The entries of a text, in order. Headings, rules and comments are not entries."""
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

    lines = text.split("\n")
    headings: list[tuple[int, str]] = []
    lead: Block | None = None
    parsed = MarkdownIt("commonmark").enable("table").parse(text)
    for node in SyntaxTreeNode(parsed).children:
        raw, line = _source(node, lines)
        inside = tuple(title for _, title in headings)
        # The title of the file says nothing about one line of it.
        under = next((title for level, title in headings[::-1] if level > 1), "")
        if lead is not None and node.type in _WHOLE:
            yield replace(lead, text=f"{lead.text}\n{raw}", bare=f"{lead.bare}\n{raw}")
        elif node.type in _LISTS:
            yield from _items(node, lines, lead.text if lead else under, inside)
        elif lead is not None:
            yield lead
        is_used, lead = lead is not None and node.type in _WHOLE, None
        if node.type == "heading":
            level = int(node.tag[1:])
            title = node.children[0].content if node.children else ""
            headings = [pair for pair in headings if pair[0] < level] + [(level, title)]
        elif is_used or node.type in (*_LISTS, "hr") or not raw or raw.startswith("<!--"):
            continue
        elif node.type == "paragraph" and raw.endswith(":"):
            lead = _block(raw, under, line, inside)
        else:
            yield _block(raw, under, line, inside)
    if lead is not None:
        yield lead


def _items(
    node: "SyntaxTreeNode", lines: Sequence[str], under: str, inside: tuple[str, ...]
) -> Iterator[Block]:
    for item in node.children:
        raw, line = _source(item, lines)
        head, _, rest = _MARKER.sub("", raw, count=1).partition("\n")
        text = f"{head}\n{textwrap.dedent(rest)}".strip()
        nested = [child for child in item.children if child.type in _LISTS]
        if (
            len(text) > ForeignReader.Entry.MAX_CHARS
            and nested
            and item.children[0].type == "paragraph"
        ):
            # Too long for one entry: its parts, each with the line that introduces them.
            above = _block(item.children[0].children[0].content, under, 0, inside).text
            for inner in nested:
                yield from _items(inner, lines, above, inside)
        elif text:
            yield _block(text, under, line, inside)


def _source(node: "SyntaxTreeNode", lines: Sequence[str]) -> tuple[str, int]:
    """The text of a node, and its first line, from 1."""
    first, end = node.map or (0, 0)
    return textwrap.dedent("\n".join(lines[first:end])).strip("\n").rstrip(), first + 1


def _block(bare: str, under: str, line: int, headings: tuple[str, ...]) -> Block:
    text = bare
    if under:
        gap = "\n" if bare.startswith(("```", "~~~", "|", "    ")) else " "
        text = f"{under.rstrip(':')}:{gap}{bare}"
    return Block(text=text, bare=bare, line=line, headings=headings)
