"""The grammar of command lines: its parser, which of its nodes are what, and what to mind in them.

Nothing is judged here.
"""

import functools
import re
import unicodedata
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kode.permissions.shell.words import source

if TYPE_CHECKING:
    from tree_sitter import Node, Parser


@functools.cache
def parser() -> "Parser":
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


SEQUENCES = frozenset(
    "program compound_statement do_group elif_clause else_clause "
    "case_item negated_command ERROR".split()
)
WORD_TYPES = frozenset(
    "word number string raw_string ansi_c_string translated_string simple_expansion expansion "
    "concatenation command_substitution process_substitution arithmetic_expansion "
    "brace_expression extglob_pattern regex variable_name".split()
)
INERT = frozenset("comment heredoc_start heredoc_end heredoc_content file_descriptor".split())


def is_plain_text(heredoc: "Node") -> bool:
    """Whether a here-document's marker is quoted: nothing in it is substituted."""
    marker = next((source(c) for c in heredoc.named_children if c.type == "heredoc_start"), "")
    return re.search(r"[\"'\\]", marker) is not None


def prints_nothing(node: "Node") -> bool:
    """Whether a redirected command only empties its target: `: > file`."""
    text = source(node).strip()
    return text in (":", "true", "cat /dev/null", "echo -n", "printf ''", 'printf ""')


def evaluates_text(node: "Node") -> bool:
    """Whether quoted text stands where bash calculates, and would evaluate it."""
    match node.type:
        case "raw_string" | "ansi_c_string":
            return re.search(r"\$\(|`|\[", source(node)) is not None
        case "string":
            return re.search(r"\\[$`]", source(node)) is not None
    return False


_BIDI = frozenset("Cc Cf Cs Co Zl Zp".split())


def hides(command: str) -> bool:
    """Whether a text holds control, format or odd space characters, which the grammar, bash and a
    reader's eye may each take for something else."""
    if command.isascii():
        return any(c < " " and c not in "\t\n" for c in command) or "\x7f" in command
    return any(
        c not in "\t\n" and (unicodedata.category(c) in _BIDI or (c != " " and c.isspace()))
        for c in command
    )


def descend(node: "Node") -> Iterator["Node"]:
    for child in node.named_children:
        yield child
        yield from descend(child)


def would_be_evaluated(node: "Node") -> bool:
    """Whether literal text looks like a subscript with a command in it, `a[$(...)]`: bash runs that
    wherever it takes the text for a number or a variable's name, be it much later."""
    if node.type == "subscript":
        return any(evaluates_text(child) for child in descend(node))
    text = source(node)
    if "[" not in text or node.type not in _LITERALS:
        return False
    chars = re.sub(r"\\x24|\\44|\\044|\\u0*24", "$", text) if text.startswith("$'") else text
    if node.type in ("string", "concatenation", "word"):
        chars = re.sub(r"\\([$`\[(])|[\"']", lambda m: m[1] or "", chars)
        live = chars == text.replace('"', "")  # what is not quoted is judged as a substitution
        if live:
            return False
    begun = re.search(r"\w\[", chars)
    if begun is None:
        return False
    inside = re.search(r"\$[({]|`", chars[begun.end() :]) is not None
    return inside or re.search(r"\w\[[^\[\]]*\$'?$", chars) is not None


_LITERALS = frozenset("raw_string ansi_c_string string word concatenation".split())
