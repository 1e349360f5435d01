"""The readable text of a web page: title, headings, lists, tables, code, links as text.

The parser takes quadratic time on deeply nested pages and cannot be interrupted. So this file runs
as a program, which can be killed: `{"html", "url"}` on stdin, `[title, text]` on stdout. It imports
nothing of kode, which would take longer than parsing most pages.
"""

import contextlib
import json
import resource
import sys
from typing import TYPE_CHECKING
from urllib.parse import urljoin

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

MAX_TITLE_CHARS = 300  # two lines
MAX_CHARS = 1_000_000
"""Limit of the text produced: with its links written out, it can be a hundred times as long as the
page."""

MAX_CPU_S = 30  # a hostile page must not run on
MAX_MEMORY_BYTES = 1 << 30  # a hostile page must not fill the machine

_LEFT_OUT = {
    "script", "style", "noscript", "template", "svg", "iframe", "object", "canvas", "head",
    "-comment", "select", "dialog",
}  # fmt: skip
_BLOCKS = {
    "address", "article", "aside", "blockquote", "body", "dd", "details", "div", "dl", "dt",
    "fieldset", "figcaption", "figure", "footer", "form", "header", "main", "nav", "p", "section",
    "summary", "table", "thead", "tbody", "ul", "ol", "hr", "li", "tr", "pre",
    "h1", "h2", "h3", "h4", "h5", "h6",
}  # fmt: skip
_OPENED = {
    "li": "- ", "br": "\n", "hr": "---", "h1": "# ", "h2": "## ", "h3": "### ", "h4": "#### ",
    "h5": "##### ", "h6": "###### ",
}  # fmt: skip


def main() -> None:
    # If kode is killed meanwhile, nobody else would end this process.
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_S, MAX_CPU_S))
    with contextlib.suppress(OSError, ValueError):  # not every system has it
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    json.dump(readable(**json.load(sys.stdin)), sys.stdout)


def readable(html: str, url: str) -> tuple[str, str]:
    """(title, text) of an HTML document that came from `url`."""
    from selectolax.lexbor import LexborHTMLParser

    parser = LexborHTMLParser(html)
    heading = parser.css_first("title")
    title = " ".join(heading.text().split())[:MAX_TITLE_CHARS] if heading is not None else ""
    if parser.body is None:
        return title, ""
    writer = _Writer(url)
    # An explicit stack: pages may be nested deeper than Python's recursion limit.
    stack: list[tuple[LexborNode, bool]] = [(parser.body, False)]
    while stack and writer.chars < MAX_CHARS:
        node, leaving = stack.pop()
        if leaving:
            writer.leave(node)
            continue
        if node.tag in _LEFT_OUT or "hidden" in node.attributes:
            continue
        if node.tag == "-text":
            writer.say(node.text_content or "")
            continue
        writer.enter(node)
        stack.append((node, True))
        children = []
        child = node.child
        while child is not None:
            children.append((child, False))
            child = child.next
        stack += reversed(children)
    return title, writer.text()


class _Writer:
    """Joins words into lines."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.chars = 0
        """Characters so far."""
        self._parts: list[str] = []
        self._in_pre = 0
        self._broken = True
        """Whether the next word needs no space before it."""
        self._line_feeds = 0
        """Line feeds at the end of the text so far; only up to two matter."""
        self._marked = False
        """Whether the last output is the marker of a list item or heading, whose first block
        continues on the same line."""

    def text(self) -> str:
        lines = [line.rstrip() for line in "".join(self._parts).split("\n")]
        kept = [line for i, line in enumerate(lines) if line or (i and lines[i - 1])]
        return "\n".join(kept).strip("\n")

    def enter(self, node: "LexborNode") -> None:
        tag = node.tag or ""
        if tag in _BLOCKS:
            self._break(blank=tag not in ("li", "tr", "dt", "dd"))
        if tag == "pre":
            self._add("```\n")
            self._in_pre += 1
        if tag in _OPENED:
            self._add(_OPENED[tag])
            self._broken = True
            self._marked = tag not in ("br", "hr")
        if tag == "img" and (alt := node.attributes.get("alt")):
            self.say(f"[image: {alt}] ")

    def leave(self, node: "LexborNode") -> None:
        tag = node.tag or ""
        if tag == "a":
            self._link(node.attributes.get("href") or "")
        if tag in ("td", "th"):
            self._add(" | ")
            self._broken = True
        if tag == "pre":
            self._in_pre -= 1
            self._break(blank=False)
            self._add("```")
        if tag in _BLOCKS:
            self._break(blank=tag not in ("li", "tr", "dt", "dd"))

    def say(self, text: str) -> None:
        if self._in_pre:
            self._add(text)
            return
        words = " ".join(text.split())
        if not words:
            if text and not self._broken:
                self._add(" ")
                self._broken = True
            return
        lead = " " if text[0].isspace() and not self._broken else ""
        tail = " " if text[-1].isspace() else ""
        self._add(lead + words + tail)
        self._broken = bool(tail)

    def _link(self, href: str) -> None:
        target = href.strip()
        if not target or target.startswith(("#", "javascript:", "data:")):
            return
        try:
            absolute = urljoin(self._url, target)
        except ValueError:
            return
        self._add(f" ({absolute})")

    def _break(self, *, blank: bool) -> None:
        self._broken = True
        if not self._parts or self._marked:
            return
        missing = (2 if blank else 1) - self._line_feeds
        if missing > 0:
            self._parts.append("\n" * missing)
            self._line_feeds += missing

    def _add(self, text: str) -> None:
        self._parts.append(text)
        self.chars += len(text)
        self._line_feeds = len(text) - len(text.rstrip("\n"))
        self._broken = False
        self._marked = False


if __name__ == "__main__":
    main()
