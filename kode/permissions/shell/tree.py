"""Finds the programs in a text that is not plain, by tree-sitter's grammar of bash.

That grammar is not bash's own and sometimes wrong, so nothing found here is ever `safe` or
complete: it serves to ask early about what would be asked anyway.
"""

import functools
import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kode.permissions.shell.line import TooLong
from kode.permissions.shell.plain import (
    KEYWORDS,
    Assignment,
    Command,
    Item,
    Redirect,
    Word,
    word_of,
)

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_PARSE_S = 0.015
"""CPU time. The parser's error recovery is quadratic."""

MAX_BYTES_AT_ONCE = 1_000
"""Parsed without a look at the clock."""

MAX_NODES = 4_000  # bounds the time for one line
MAX_CHILDREN = 1_000  # bounds the time for one line

_OPENERS = KEYWORDS | {"!", "{", "[["}


def parse(text: str) -> Iterator[Item]:
    """The commands, redirections and assignments of a text, nested ones included, in order of their
    beginning. Raises: TooLong."""
    stack: list[Node] = [root_of(text)]
    seen = 0
    while stack:
        node = stack.pop()
        seen += 1
        if seen > MAX_NODES or node.child_count > MAX_CHILDREN:
            raise TooLong
        yield from _items(node, text)
        stack.extend(reversed(node.named_children))


def _items(node: "Node", text: str) -> Iterator[Item]:
    match node.type:
        case "command" | "declaration_command" | "unset_command":
            yield Command(text=_source(node, text), words=words_of(node, text))
        case "file_redirect":
            yield _redirect(node, text)
        case "variable_assignment":
            yield Assignment(text=_source(node, text))
        case "binary_expression":
            yield from _redirects_in_test(node, text)


def words_of(command: "Node", text: str) -> tuple[Word, ...]:
    """Its name and arguments; leading assignments and redirections are separate items."""
    words = []
    own = ["file_redirect", "herestring_redirect"]
    if command.type == "command":
        own.append("variable_assignment")
    for child in command.children:
        if child.type in own:
            continue
        words.append(word_of(_source(child, text)))
    while words and words[0].text in _OPENERS:  # the grammar takes `! if ls; then` for commands
        del words[0]
    return tuple(words)


def _redirect(node: "Node", text: str) -> Redirect:
    target = node.child_by_field_name("destination")
    word = word_of(_source(target, text)) if target is not None else Word("", "open")
    operator = re.search(r"[<>&|]+", _source(node, text))
    return Redirect(
        text=_source(node, text), operator=operator[0] if operator else ">", target=word
    )


def _redirects_in_test(node: "Node", text: str) -> Iterator[Redirect]:
    """`[ $n > 3 ]` compares nothing: it writes to a file named 3."""
    test = node.parent
    if test is None or test.type != "test_command" or not _source(test, text).startswith("[ "):
        return
    operator = node.child_by_field_name("operator")
    right = node.child_by_field_name("right")
    if operator is not None and right is not None and operator.type in ("<", ">"):
        target = _source(right, text)
        yield Redirect(
            text=f"{operator.type} {target}",
            operator=operator.type,
            target=word_of(target),
            in_test=True,
        )


def _source(node: "Node", text: str) -> str:
    return text[node.start_byte : node.end_byte]


def root_of(text: str) -> "Node":
    """The root of the syntax tree, with offsets in characters: the grammar's scanner looks letters
    up in an ASCII table and crashes on others, so it sees an `x` for them. Raises: TooLong."""
    source = re.sub(r"[^\x00-\x7f]", "x", text).encode()
    parser = _parser()
    parser.reset()
    if len(source) <= MAX_BYTES_AT_ONCE:
        return parser.parse(source).root_node
    deadline = time.thread_time() + MAX_PARSE_S
    try:
        return parser.parse(
            lambda offset, _: source[offset : offset + 4096],
            progress_callback=lambda *_: time.thread_time() > deadline,
        ).root_node
    except ValueError:
        raise TooLong from None


@functools.cache
def _parser() -> "Parser":
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))
