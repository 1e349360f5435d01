"""Splits Markdown into entries: one per bullet, paragraph, or block of code.

An entry includes its heading, or the line that introduces it ("To build:"), because it will be read
alone. Nothing is cut: an oversized entry is refused by name later.
"""

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kode.plugin import ForeignEntry

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode

_HEAD = re.compile(r"\A\ufeff?---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.MULTILINE | re.DOTALL)
_MARKER = re.compile(r"(?:[-*+]|\d{1,9}[.)])(?:[ \t]+|\Z)")


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


def without_head(text: str) -> tuple[str, str]:
    """The YAML front matter of a text, and the text with blank lines in its place, so that line
    numbers stay."""
    head = _HEAD.match(text)
    if head is None:
        return "", text
    return head[1], "\n" * head[0].count("\n") + text[head.end() :]


def blocks(text: str) -> list[Block]:
    """The entries of a text, in order. Headings, rules and comments are not entries."""
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

    lines = text.split("\n")
    parsed = MarkdownIt("commonmark").enable("table").parse(text)
    return list(_Walk(lines).entries(SyntaxTreeNode(parsed)))


@dataclass
class _Walk:
    lines: list[str]

    def entries(self, root: "SyntaxTreeNode") -> Iterator[Block]:
        headings: list[tuple[int, str]] = []
        lead: Block | None = None
        for node in root.children:
            inside = tuple(title for _, title in headings)
            # The title of the file says nothing about one line of it.
            under = next((title for level, title in headings[::-1] if level > 1), "")
            if lead is not None and node.type in ("bullet_list", "ordered_list"):
                yield from self._items(node, lead.text, inside)
                lead = None
                continue
            if lead is not None and node.type in ("fence", "code_block", "table"):
                raw = self._raw(node)
                yield Block(
                    text=f"{lead.text}\n{raw}",
                    bare=f"{lead.bare}\n{raw}",
                    line=lead.line,
                    headings=inside,
                )
                lead = None
                continue
            if lead is not None:
                yield lead
                lead = None
            if node.type == "heading":
                level = int(node.tag[1:])
                title = node.children[0].content if node.children else ""
                headings = [pair for pair in headings if pair[0] < level] + [(level, title)]
            elif node.type in ("bullet_list", "ordered_list"):
                yield from self._items(node, under, inside)
            elif node.type != "hr" and (raw := self._raw(node)) and not raw.startswith("<!--"):
                block = _block(raw, under, self._first(node), inside)
                if node.type == "paragraph" and raw.endswith(":"):
                    lead = block
                else:
                    yield block
        if lead is not None:
            yield lead

    def _items(
        self, node: "SyntaxTreeNode", under: str, inside: tuple[str, ...]
    ) -> Iterator[Block]:
        for item in node.children:
            raw = self._raw(item)
            marker = _MARKER.match(raw)
            head, _, rest = raw[marker.end() if marker else 0 :].partition("\n")
            text = f"{head}\n{textwrap.dedent(rest)}".strip()
            nested = [n for n in item.children if n.type in ("bullet_list", "ordered_list")]
            if (
                len(text) > ForeignEntry.MAX_CHARS
                and nested
                and item.children[0].type == "paragraph"
            ):
                # Too long for one entry: its parts, each with the line that introduces them.
                above = _block(item.children[0].children[0].content, under, 0, inside).text
                yield from (block for one in nested for block in self._items(one, above, inside))
            elif text:
                yield _block(text, under, self._first(item), inside)

    def _raw(self, node: "SyntaxTreeNode") -> str:
        first, end = node.map or (0, 0)
        return textwrap.dedent("\n".join(self.lines[first:end])).strip("\n").rstrip()

    def _first(self, node: "SyntaxTreeNode") -> int:
        return (node.map or (0, 0))[0] + 1


def _block(bare: str, under: str, line: int, headings: tuple[str, ...]) -> Block:
    text = bare
    if under:
        gap = "\n" if bare.startswith(("```", "~~~", "|", "    ")) else " "
        text = f"{under.rstrip(':')}:{gap}{bare}"
    return Block(text=text, bare=bare, line=line, headings=headings)
