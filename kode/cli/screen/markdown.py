"""Streams Markdown: splits a growing text into finished blocks, and renders them with `rich`.

A block is finished once nothing that follows can change it: a paragraph at its blank line, a fence
at its end, a list when something else begins. Heavy, so imported with the first text of a reply.
"""

import re
from collections.abc import Iterator
from typing import ClassVar

from markdown_it import MarkdownIt
from markdown_it.rules_inline.emphasis import tokenize as mark
from markdown_it.token import Token
from rich import box
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
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from kode.cli.screen.diffs import CODE_THEME
from kode.cli.screen.lines import cell_width, find_breaks, words
from kode.values import dataclass, field

MAX_FENCE_LINES = 200
"""A longer code block is finished in parts, so that one reply cannot stall the screen."""

MAX_BLOCK_CHARS = 8_000
"""Larger blocks also are finished in parts: the work for a block may grow quadratically."""

MAX_LINE_CHARS = 8_000
"""Longer lines are split, at a space if there is one."""

MAX_PREVIEW_LINES = 30
"""Lines previewed of a growing block: more than fit, yet few enough to render at each frame."""

# A line with only marks so far: of an item, a heading, a fence, a table or a check box.
_UNDECIDED_LINE = re.compile(r"[\s>]*(?:[-*+#=_`~|: ]*|\d+[.)]?)(?: \[.?)?\s*")
_BEGINS_TEXT = re.compile(r"\s*(?:[-*+>]\s|\d+[.)]\s|\||$)")
_MARK = re.compile(r"`+|\*\*|\*|~~")
_OPEN_LINK = re.compile(r"(?<!\w)!?\[([^\]\n]*)(?:\](?:\([^)\n]*)?)?$")
"""A link that has no end yet."""

BETWEEN_COLUMNS = 2
"""The columns that a table takes per column in addition to the text."""

# HTML is text here: a model that writes <div> means the letters, and rich would drop them. So is an
# underscore, which a path such as a/__init__.py would lose.
_PARSER = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
_PARSER.inline.ruler.at("emphasis", lambda at, silent: at.src[at.pos] == "*" and mark(at, silent))
_BLOCK_PARSER = MarkdownIt("commonmark", {"html": False}).disable("inline")
_PROBE = "x"
"""A line that continues an open block, or begins a paragraph if none is open."""


@dataclass(frozen=True)
class MarkdownBlock:
    text: str
    """Self-contained Markdown."""
    joined: bool = False
    """Whether it continues the previous block, which was split."""


@dataclass
class BlockSplitter:
    """Turns deltas into finished blocks. Call `feed` for each delta, `finish` at the end of a
    reply."""

    _lines: list[str] = field(default_factory=list)
    _partial: str = ""
    """The unfinished line."""
    joined: bool = False
    """Whether the unfinished part continues the previous block."""

    def feed(self, delta: str) -> list[MarkdownBlock]:
        """The blocks that this delta finishes, oldest first."""
        first, *lines = delta.split("\n")
        finished = self._add_piece(first)
        for line in lines:
            finished += self._take_line()
            finished += self._add_piece(line)
        return finished

    def finish(self) -> list[MarkdownBlock]:
        """Finishes what is left, and starts over."""
        blocks = self._take_line() + self._cut(len(self._lines))
        self.drop()
        return blocks

    def drop(self) -> None:
        """Drops the unfinished block: the reply will be repeated."""
        self._lines, self._partial, self.joined = [], "", False

    def preview(self) -> str:
        """Returns the unfinished block for display while it grows: open marks are closed, and what
        is still undecided is left out. Of a long block only the end is returned."""
        lines = [*self._lines, self._partial]
        if len(lines) > MAX_PREVIEW_LINES:
            is_fence = lines[0].lstrip()[:3] in ("```", "~~~")
            lines = [*lines[:is_fence], *lines[-MAX_PREVIEW_LINES:]]
        if _UNDECIDED_LINE.fullmatch(lines[-1]):
            lines.pop()
        text = "\n".join(lines).strip("\n")
        last = _BLOCK_PARSER.parse(text)[-1:]
        if not last or last[0].type in ("fence", "code_block"):
            return text
        begins = max((n for n, line in enumerate(lines) if _BEGINS_TEXT.match(line)), default=0)
        before, rest = "\n".join(lines[:begins]), "\n".join(lines[begins:])
        is_row = lines[begins].lstrip().startswith("|")
        if is_row and not (begins and lines[begins - 1].lstrip().startswith("|")):
            return before  # the head of a table, or a text
        return f"{before}\n{close_marks(rest)}".strip("\n")

    def _add_piece(self, piece: str) -> list[MarkdownBlock]:
        finished: list[MarkdownBlock] = []
        self._partial += piece
        while len(self._partial) > MAX_LINE_CHARS:
            space = self._partial.rfind(" ", MAX_LINE_CHARS // 2, MAX_LINE_CHARS) + 1
            end = space or MAX_LINE_CHARS
            self._partial, later = self._partial[:end], self._partial[end:]
            finished += self._take_line()
            self._partial = later
        return finished

    def _take_line(self) -> list[MarkdownBlock]:
        line, self._partial = self._partial, ""
        is_first = not self._lines or not self._lines[-1].strip()
        self._lines.append(line)
        finished: list[MarkdownBlock] = []
        if is_first or not line.strip() or line.lstrip()[0] in "#`~":  # else nothing ends here
            finished = self._cut(self._count_finished_lines())
        may_be_fence = self._lines and self._lines[0].lstrip()[:3] in ("```", "~~~")
        is_long = sum(map(len, self._lines)) + len(self._lines) > MAX_BLOCK_CHARS
        if is_long or (may_be_fence and len(self._lines) > MAX_FENCE_LINES):
            finished += self._cut_long()
        return finished

    def _parse(self) -> list[Token]:
        """Parses the lines so far and `_PROBE`; returns the outermost blocks, the probe's last."""
        tokens = _BLOCK_PARSER.parse("\n".join([*self._lines, _PROBE]))
        return [token for token in tokens if token.level == 0 and token.map]

    def _count_finished_lines(self) -> int:
        """The number of lines that no further text can change."""
        *before, last = self._parse()
        start = (last.map or [0])[0]
        is_alone = start == len(self._lines)
        # A list, and indented code, may continue after a blank line.
        if is_alone and before and before[-1].type.endswith(("list_open", "code_block")):
            return (before[-1].map or [0])[0]
        return start

    def _cut_long(self) -> list[MarkdownBlock]:
        """Finishes a part of a long block; inside a fence, the rest gets the same opening line."""
        last, opening = self._parse()[-1], self._lines[:1]
        if last.type != "fence" or last.map is None or last.map[0] > 0:
            opening = []
        else:
            self._lines.append(last.markup)
        finished = self._cut(len(self._lines))
        self._lines, self.joined = opening, True
        return finished

    def _cut(self, count: int) -> list[MarkdownBlock]:
        text = "\n".join(self._lines[:count]).strip("\n")
        self._lines = self._lines[count:]
        if not text.strip():
            return []
        block, self.joined = MarkdownBlock(text, joined=self.joined), False
        return [block]


def close_marks(text: str) -> str:
    """Closes the open marks in the beginning of a paragraph, or drops those that nothing follows;
    reduces an unfinished link to its text."""
    text = _OPEN_LINK.sub(r"\1", text)
    is_code, opened = "", list[tuple[str, int]]()
    for match in _MARK.finditer(text):
        mark, before, after = match[0], text[: match.start()][-1:], text[match.end() :][:1]
        if mark[0] == "`":
            if is_code in ("", mark):
                opened = opened[:-1] if is_code else [*opened, (mark, match.end())]
                is_code = "" if is_code else mark
        elif is_code:
            continue
        elif mark in [other for other, _ in opened] and before.strip():
            while opened.pop()[0] != mark:
                pass
        elif not after.isspace():
            opened.append((mark, match.end()))
    for mark, end in reversed(opened):
        bare = text.rstrip()
        text = f"{bare}{mark}" if len(bare) > end else f"{bare[: end - len(mark)]}{bare[end:]}"
    return text


CONTINUED_COLUMNS = 4
"""How far the continuation rows of a long line of code are indented."""


class PlainCodeBlock(CodeBlock):
    """Code without a frame, in the terminal's own colours, for easy copying."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The lines of the code."""
        code = str(self.text).rstrip().expandtabs(4)
        for line in Syntax("", self.lexer_name, theme=CODE_THEME).highlight(code).split("\n"):
            margin = len(line.plain) - len(line.plain.lstrip()) + CONTINUED_COLUMNS
            hang = margin if margin <= options.max_width // 2 else 0
            first, *more = line.divide(find_breaks(line.plain, options.max_width, hang=hang))
            yield from (first, *(Text(" " * hang) + row for row in more))


def _pad_lines(text: Text, width: int) -> Iterator[Text]:
    for line in text.divide(find_breaks(text.plain, width)):
        line.rstrip()
        yield line


class FilledParagraph(Paragraph):
    """A paragraph whose lines are filled, even in scripts that put no spaces between words."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The filled lines."""
        yield from _pad_lines(self.text, options.max_width)


class DottedItem(ListItem):
    """An item of a list, with a dot behind its number."""

    def render_number(
        self, console: Console, options: ConsoleOptions, number: int, last_number: int
    ) -> RenderResult:
        """The lines of the item."""
        for part in super().render_number(console, options, number, last_number):
            if isinstance(part, Segment) and part.text.strip() == str(number):
                part = Segment(f"{number}. ".rjust(len(part.text)), part.style)
            yield part


class PlainHeading(Heading):
    """A heading at the margin, without a box."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The heading's text."""
        self.text.justify = "left"
        yield self.text


class FittingTable(TableElement):
    """A table that loses nothing and breaks no word: cells are wrapped; if it is still too wide,
    each row becomes a list of its cells."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The table, or its rows one after another."""
        header = [self.header.row] if self.header and self.header.row else []
        body = self.body.rows if self.body else []
        heads, *rows = [[cell.content for cell in row.cells] for row in (*header, *body)]
        columns = [[cell.plain for cell in column] for column in zip(heads, *rows, strict=False)]
        widest = [max(map(cell_width, column)) for column in columns]
        least = [
            max((cell_width(word.strip()) for cell in column for word in words(cell)), default=1)
            for column in columns
        ]
        spare = options.max_width - BETWEEN_COLUMNS * len(heads) - sum(least)
        if spare < 0:
            yield from _list_rows(heads, rows, options.max_width)
            return
        table = Table(box=box.SIMPLE, pad_edge=False, collapse_padding=True)
        table.style = "markdown.table.border"
        wish = sum(widest) - sum(least)
        for head, widest_cell, needed in zip(heads, widest, least, strict=True):
            width = needed + (widest_cell - needed) * min(spare, wish) // (wish or 1)
            head.stylize("markdown.table.header")
            table.add_column(head, width=width, overflow="fold", justify=head.justify or "left")
        for row in rows:
            table.add_row(*row)
        yield table


def _list_rows(heads: list[Text], rows: list[list[Text]], width: int) -> Iterator[Text]:
    for number, row in enumerate(rows):
        if number:
            yield Text("")
        for head, cell in zip(heads, row, strict=False):
            name = (f"{head.plain}: ", "markdown.table.header")
            yield from _pad_lines(Text.assemble(name, cell), width)


class TerminalMarkdown(Markdown):
    """One finished block for `rich` to render. A link shows its address, which could lead
    anywhere."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "fence": PlainCodeBlock,
        "code_block": PlainCodeBlock,
        "heading_open": PlainHeading,
        "list_item_open": DottedItem,
        "paragraph_open": FilledParagraph,
        "table_open": FittingTable,
    }

    def __init__(self, markup: str) -> None:
        super().__init__("", hyperlinks=False)
        self.markup, self.parsed = markup, _PARSER.parse(markup)
        self.inlines = Markdown.inlines | {"url"}
        for token in self.parsed:
            if token.children:
                token.children = list(_replace_links(token.children))


def _replace_links(tokens: list[Token]) -> Iterator[Token]:
    """Replaces links and images by their text and, if it differs, their address."""
    address = label = ""
    for token in tokens:
        if token.type == "link_open":
            address, label = str(token.attrs.get("href", "")), ""
        elif token.type == "image":
            yield _text_token(f"{token.content or 'picture'} ({token.attrs.get('src', '')})")
        elif token.type == "link_close":
            if label not in (address, address.removeprefix("mailto:")):
                yield _text_token(f" ({address})")
        else:
            label += token.content
            yield token


def _text_token(content: str) -> Token:
    return Token("text", "", 0, content=content)
