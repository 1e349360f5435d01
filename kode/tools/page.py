"""The readable text of a web page: title, headings, lists, tables, code, links as text.

The parser takes quadratic time on deeply nested pages and cannot be interrupted. So this file runs
as a program, which can be killed: `{"html", "url"}` on stdin, `[title, text]` on stdout. It imports
nothing of kode, which would take longer than parsing most pages.
"""

import contextlib
import json
import re
import sys
from urllib.parse import urljoin

MAX_TITLE_CHARS = 300  # two lines
MAX_CHARS = 1_000_000
"""Limit of the text produced: with its links written out, it can be a hundred times as long as the
page."""

_LEFT_OUT = (
    "script, style, noscript, template, svg, iframe, object, canvas, select, dialog, [hidden]"
)
# Noncharacters of Unicode, which no page holds, mark what white space would otherwise hide.
_BLANK, _LINE, _BREAK, _JOIN, _CODE, _CODE_END, _SPACE = map(chr, range(0xFDD0, 0xFDD7))
_MARKS = (
    ("address, article, aside, blockquote, details, div, dl, fieldset, figcaption, figure, footer, "
     "form, header, main, nav, p, section, summary, table, thead, tbody, ul, ol", _BLANK, _BLANK),
    *((f"h{level}", f"{_BLANK}{'#' * level} {_JOIN}", _BLANK) for level in range(1, 7)),
    ("li", f"{_LINE}- {_JOIN}", _LINE),
    ("tr, dt, dd", _LINE, _LINE),
    ("td, th", "", " | "),
    ("hr", f"{_BLANK}---", _BLANK),
    ("br", _BREAK, ""),
    ("pre", _CODE, _CODE_END),
)  # fmt: skip
"""Selector, and what is written before and after such an element."""


def extract_text(html: str, url: str) -> tuple[str, str]:
    """(title, text) of an HTML document that came from `url`."""
    from selectolax.lexbor import LexborHTMLParser

    parser = LexborHTMLParser(html)
    heading = parser.css_first("title")
    title = " ".join(heading.text().split())[:MAX_TITLE_CHARS] if heading is not None else ""
    body = parser.body
    if body is None or "hidden" in body.attributes:
        return title, ""
    # An inner element goes before the outer one that holds it.
    for node in {node.mem_id: node for node in reversed(body.css(_LEFT_OUT))}.values():
        node.decompose()
    for selector, before, after in _MARKS:
        for node in body.css(selector):
            node.insert_before(before)
            node.insert_after(after)
    for node in body.css("img[alt]"):
        node.insert_before(f"[image: {node.attributes['alt']}] ")
    chars = 0
    for node in body.css("a[href]"):
        target = (node.attributes["href"] or "").strip()
        if not target or target.startswith(("#", "javascript:", "data:")):
            continue
        with contextlib.suppress(ValueError):
            target = f" ({urljoin(url, target)})"
            node.insert_after(target)
            chars += len(target)
        if chars > MAX_CHARS:
            break
    return title, _replace_marks(body.text()[:MAX_CHARS])


def _replace_marks(text: str) -> str:
    """Turns the marks into lines. Only code has white space of its own."""
    text = re.sub(rf"{_CODE}.*?{_CODE_END}|\s+", _format_code, text, flags=re.DOTALL)
    text = text.replace(_CODE_END, _BLANK)  # from code within code
    text = re.sub(rf"{_JOIN}[ {_BLANK}{_LINE}]*", "", text)
    text = re.sub(rf" *[{_BLANK}{_LINE}{_BREAK}][ {_BLANK}{_LINE}{_BREAK}]*", _break_line, text)
    lines = "\n".join(map(str.rstrip, text.replace(_SPACE, " ").split("\n")))
    return re.sub(r"\n{3,}", "\n\n", lines).strip("\n")


def _format_code(match: re.Match[str]) -> str:
    code = match[0][1:-1].replace(_CODE, "\n").rstrip().replace(" ", _SPACE)
    return f"{_BLANK}```\n{code}\n```{_BLANK}" if match[0][0] == _CODE else " "


def _break_line(match: re.Match[str]) -> str:
    marks = match[0]
    return "\n" * max(2 if _BLANK in marks else 1, marks.count(_BREAK))


if __name__ == "__main__":
    json.dump(extract_text(**json.load(sys.stdin)), sys.stdout)
