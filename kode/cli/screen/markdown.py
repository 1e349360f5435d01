"""Streams Markdown: detects finished blocks, and renders them.

A block is settled once nothing that follows can change it: a paragraph at its blank line, a fence
at its end, a list when something else begins. Decisions are made line by line, so the split of a
text into deltas does not show. `render` prints.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, ClassVar, Literal

from kode.cli.screen.lines import breaks, cell_width, words
from kode.cli.screen.screen import SGR

if TYPE_CHECKING:
    from markdown_it.token import Token
    from rich.markdown import Markdown

MAX_FENCE_LINES = 200
"""A longer code block settles in parts, so that one reply cannot stall the screen."""

MAX_BLOCK_CHARS = 20_000
"""Larger blocks also settle in parts: the work for a block may grow quadratically."""

MAX_LINE_CHARS = 10_000
"""Longer lines are split, at a space if there is one."""

BETWEEN_COLUMNS = 2
"""What a table takes beside the text of each column."""

_ADDRESS = re.compile(r"(https?://[^\s<>\"'`|]*[^\s<>\"'`|.,;:!?)\]}*_])")
_FENCE = re.compile(r"^(\s*)(`{3,}|~{3,})([^`]*)$")
_HEADING = re.compile(r"^ {0,3}#{1,6}(\s|$)")
_BOXES = {"[ ] ": "☐", "[x] ": "☑", "[X] ": "☑"}
_ITEM = re.compile(r"^\s*([-*+]|\d{1,9}[.)])(\s|$)")


@dataclass(frozen=True, slots=True)
class Block:
    text: str
    """Self-contained Markdown."""
    joined: bool = False
    """Whether it continues the previous block, which was split."""


@dataclass
class BlockSplitter:
    """Turns deltas into settled blocks. Call `feed` for each delta, `finish` at the end of a
    reply."""

    _partial: list[str] = field(default_factory=list)
    """The pieces of an unfinished line."""
    _partial_chars: int = 0
    _lines: list[str] = field(default_factory=list)
    _chars: int = 0
    """Total length of `_lines`."""
    _fence: str = ""
    """The marker that opened the current fence, indentation included; "" outside."""
    _opening: str = ""
    """The line that opened the fence."""
    _in_list: bool = False
    joined: bool = False
    """Whether the unfinished part continues the previous block."""

    def feed(self, delta: str) -> list[Block]:
        """The blocks that this delta settles, oldest first."""
        *lines, rest = delta.split("\n")
        settled: list[Block] = []
        for line in lines:
            settled += self._grow(line)
            settled += self._take(self._whole_partial())
        return settled + self._grow(rest)

    def finish(self) -> list[Block]:
        """Settles the rest and starts over."""
        partial = self._whole_partial()
        blocks = self._take(partial) if partial else []
        blocks += self._settle()
        self.drop()
        return blocks

    def drop(self) -> None:
        """Drops what is not settled: the reply will be repeated."""
        self._fence = self._opening = ""
        self._in_list = self.joined = False
        self._whole_partial()
        self._lines.clear()
        self._chars = 0

    def tail(self, lines: int) -> str:
        """The last unsettled lines, to show while the block grows."""
        text = "\n".join([*self._lines[-lines:], "".join(self._partial)[-4000:]])
        return text.strip("\n")

    def _grow(self, piece: str) -> list[Block]:
        """Extends the unfinished line; splits one that gets too long."""
        if piece:
            self._partial.append(piece)
            self._partial_chars += len(piece)
        if self._partial_chars <= MAX_LINE_CHARS:
            return []
        settled: list[Block] = []
        text = self._whole_partial()
        while len(text) > MAX_LINE_CHARS:
            space = text.rfind(" ", MAX_LINE_CHARS // 2, MAX_LINE_CHARS)
            end = space if space > 0 else MAX_LINE_CHARS
            settled += self._take(text[:end])
            text = text[end + (space > 0) :]
        self._partial, self._partial_chars = [text], len(text)
        return settled

    def _whole_partial(self) -> str:
        text = "".join(self._partial)
        self._partial, self._partial_chars = [], 0
        return text

    def _take(self, line: str) -> list[Block]:
        self._chars += len(line) + 1
        settled = self._sort(line)
        if self._chars > MAX_BLOCK_CHARS and self._lines and not self._fence:
            settled += self._settle()
            self.joined = True
        return settled

    def _sort(self, line: str) -> list[Block]:
        if self._fence:
            return self._take_in_fence(line)
        if not line.strip():
            return self._take_blank()
        settled: list[Block] = []
        if self._lines and self._in_list and self._ends_list(line):
            settled = self._settle()
        if match := _FENCE.match(line):
            if not (self._in_list and match[1]):
                settled += self._settle()
            self._fence, self._opening = match[1] + match[2], line
            self._lines.append(line)
            return settled
        if _HEADING.match(line):
            settled += self._settle()
            self._lines.append(line)
            return settled + self._settle()
        self._in_list = self._in_list or _ITEM.match(line) is not None
        self._lines.append(line)
        return settled

    def _take_in_fence(self, line: str) -> list[Block]:
        self._lines.append(line)
        marker = self._fence.lstrip()
        stripped = line.strip()
        if stripped.startswith(marker) and not stripped.strip(marker[0]):
            self._fence = ""
            return [] if self._in_list else self._settle()
        few = len(self._lines) < MAX_FENCE_LINES or self._in_list
        if few and self._chars <= MAX_BLOCK_CHARS:
            return []
        opening, fence = self._opening, self._fence
        self._lines.append(fence)
        settled = self._settle()
        self._lines, self._fence, self._opening, self.joined = [opening], fence, opening, True
        self._chars = len(opening)
        return settled

    def _take_blank(self) -> list[Block]:
        if not self._in_list:
            return self._settle()
        # A list may continue after a blank line: the next line decides.
        self._lines.append("")
        return []

    def _ends_list(self, line: str) -> bool:
        """Whether a non-blank line ends the list. Without a blank line before it, everything but a
        heading or a fence at the margin is a lazy continuation."""
        if line.startswith((" ", "\t")) or _ITEM.match(line):
            return False
        return self._lines[-1] == "" or bool(_HEADING.match(line) or _FENCE.match(line))

    def _settle(self) -> list[Block]:
        text = "\n".join(self._lines).strip("\n")
        block = Block(text, joined=self.joined)
        self._lines, self._chars = [], 0
        self._fence, self._in_list, self.joined = "", False, False
        return [block] if text.strip() else []


def markdown(text: str, *, links: bool = False) -> "Markdown":
    """One settled block for `rich` to render. With `links`, for a terminal that supports OSC 8; an
    address that differs from its text is shown anyway."""
    return _markdown_class()(text, links)


@cache
def _markdown_class() -> "Callable[[str, bool], Markdown]":
    """Defined on first use: importing rich's Markdown takes longer than drawing the prompt."""
    from markdown_it import MarkdownIt
    from rich import box
    from rich.color import Color
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.markdown import (
        CodeBlock,
        Heading,
        ListItem,
        Markdown,
        MarkdownElement,
        Paragraph,
        TableElement,
    )
    from rich.segment import Segment
    from rich.style import Style
    from rich.syntax import ANSISyntaxTheme, Syntax
    from rich.table import Table
    from rich.text import Text

    from kode.cli.screen.diffs import STYLES

    def style_of(name: str) -> Style:
        code = int(SGR[name])
        color = Color.from_ansi(code % 10 + (8 if code >= 90 else 0)) if code >= 30 else None
        return Style(color=color, bold=code == 1 or None, dim=code == 2 or None)

    theme = ANSISyntaxTheme({kind: style_of(name) for kind, name in STYLES.items()})

    # HTML is text here: a model that writes <div> means the letters, and rich would drop them.
    parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])

    class PlainCodeBlock(CodeBlock):
        """Code at the margin, in the terminal's own colours, for easy copying."""

        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            yield Syntax(
                str(self.text).rstrip(),
                self.lexer_name,
                theme=theme,
                word_wrap=True,
                background_color="default",
            )

    def filled(text: Text, width: int) -> Iterator[Text]:
        for line in text.divide(breaks(text.plain, width)):
            line.rstrip()
            yield line

    class FilledParagraph(Paragraph):
        """A paragraph whose lines are filled, also where letters stand without spaces."""

        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            yield from filled(self.text, options.max_width)

    class BulletOrBox(ListItem):
        """An item of a list, or of a list of tasks."""

        bullet = "•"

        @classmethod
        def create(cls, markdown: Markdown, token: "Token") -> "BulletOrBox":
            item = cls()
            item.bullet = token.meta.get("bullet", cls.bullet)
            return item

        def render_bullet(self, console: Console, options: ConsoleOptions) -> RenderResult:
            for part in super().render_bullet(console, options):
                if isinstance(part, Segment) and part.text == " • ":
                    part = Segment(f" {self.bullet} ", part.style)
                yield part

        def render_number(
            self, console: Console, options: ConsoleOptions, number: int, last_number: int
        ) -> RenderResult:
            for part in super().render_number(console, options, number, last_number):
                if isinstance(part, Segment) and part.text.strip() == str(number):
                    part = Segment(f"{number}. ".rjust(len(part.text)), part.style)
                yield part

    class PlainHeading(Heading):
        """A heading at the margin, without a box."""

        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            self.text.justify = "left"
            yield self.text

    class FittingTable(TableElement):
        """A table that loses nothing and breaks no word: cells are wrapped; if it is still too
        wide, each row becomes a list of its cells."""

        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            heads = self.header.row.cells if self.header and self.header.row else []
            elements = self.body.rows if self.body else []
            rows = [[cell.content for cell in row.cells] for row in elements]
            table = Table(box=box.SIMPLE, pad_edge=False, collapse_padding=True)
            table.style = "markdown.table.border"
            widest, least = [], []
            for head, *cells in zip(heads, *rows, strict=False):
                column = [head.content.plain, *(cell.plain for cell in cells)]
                widest.append(max(map(cell_width, column)))
                parts = [word.strip() for text in column for word in words(text)]
                least.append(max(map(cell_width, parts), default=1))
            spare = options.max_width - BETWEEN_COLUMNS * len(heads) - sum(least)
            if spare >= 0:
                wish = sum(widest) - sum(least)
                for head, wanted, needed in zip(heads, widest, least, strict=True):
                    title = head.content.copy()
                    title.stylize("markdown.table.header")
                    width = needed + (wanted - needed) * min(spare, wish) // (wish or 1)
                    table.add_column(title, width=width, overflow="fold", justify=head.justify)
                for row in rows:
                    table.add_row(*row)
                yield table
                return
            for number, row in enumerate(rows):
                if number:
                    yield Text("")
                for head, cell in zip(heads, row, strict=False):
                    name = (f"{head.content.plain}: ", "markdown.table.header")
                    yield from filled(Text.assemble(name, cell), options.max_width)

    class TerminalMarkdown(Markdown):
        elements: ClassVar[dict[str, type[MarkdownElement]]] = {
            **Markdown.elements,
            "fence": PlainCodeBlock,
            "code_block": PlainCodeBlock,
            "heading_open": PlainHeading,
            "list_item_open": BulletOrBox,
            "paragraph_open": FilledParagraph,
            "table_open": FittingTable,
        }

        def __init__(self, markup: str, links: bool) -> None:
            super().__init__("", hyperlinks=links)
            self.markup = markup
            self.inlines = Markdown.inlines | {"a", "url"}
            self.parsed = parser.parse(markup)
            _mark_tasks(self.parsed)
            for token in self.parsed:
                if token.children:
                    token.children = _with_addresses(token.children, links)

    return TerminalMarkdown


def _mark_tasks(tokens: "list[Token]") -> None:
    """Gives items that begin with `[ ]` or `[x]` a box in place of their bullet."""
    for item, paragraph, inline in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if (item.type, paragraph.type) != ("list_item_open", "paragraph_open"):
            continue
        text = inline.children[0] if inline.children else None
        if text is not None and item.markup in "-*+" and text.content[:4] in _BOXES:
            item.meta["bullet"] = _BOXES[text.content[:4]]
            text.content = text.content[4:]


def _with_addresses(tokens: "list[Token]", links: bool) -> "list[Token]":
    """Adds each link's address, unless the text shows it: a link could lead anywhere. With `links`,
    bare addresses become links too, however they are wrapped."""
    shown: list[Token] = []
    href, label_text = None, ""
    for token in tokens:
        match token.type:
            case "link_open":
                href, label_text = str(token.attrs.get("href", "")), ""
                shown.append(token if links else _style("a", 1))
            case "link_close" if href is not None:
                shown.append(token if links else _style("a", -1))
                if label_text not in (href, href.removeprefix("mailto:")):
                    shown += [_text(" ("), *_address(href, links), _text(")")]
                href = None
            case "image":
                source = str(token.attrs.get("src", ""))
                label = _text(token.content or "picture")
                shown += [label, _text(" ("), *_address(source, links), _text(")")]
            case "text" if href is None and links:
                shown += _with_links(token.content)
            case _:
                label_text += token.content
                shown.append(token)
    return shown


def _with_links(text: str) -> "list[Token]":
    """A text with bare addresses turned into links."""
    tokens: list[Token] = []
    for number, part in enumerate(_ADDRESS.split(text)):
        if number % 2:
            tokens += _address(part, links=True)
        elif part:
            tokens.append(_text(part))
    return tokens


def _address(href: str, links: bool) -> "list[Token]":
    if not links:
        return [_style("url", 1), _text(href), _style("url", -1)]
    opening = _token("link_open", "a", 1)
    opening.attrs = {"href": href}
    return [opening, _text(href), _token("link_close", "a", -1)]


def _style(tag: str, nesting: Literal[-1, 0, 1]) -> "Token":
    return _token(f"{tag}_{'open' if nesting == 1 else 'close'}", tag, nesting)


def _text(content: str) -> "Token":
    token = _token("text", "", 0)
    token.content = content
    return token


def _token(kind: str, tag: str, nesting: Literal[-1, 0, 1]) -> "Token":
    from markdown_it.token import Token

    return Token(kind, tag, nesting)
