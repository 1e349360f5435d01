"""From nodes of the syntax tree to the words a command gets: quotes, escapes, variables, braces.

What cannot be known beforehand stands in a word as `UNKNOWN`. Judging words is `verbs`'s.
"""

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

UNKNOWN = "\0"
"""In a word: a piece only known when the command runs."""

FOUND = "\x01"
"""In a word: the name of some file found below the folder that stands before it."""

KEPT = "\x03"
"""Right behind `FOUND`: only what `.gitignore` does not name.

What follows either is a glob for the names that were found."""

_LITERAL, _QUOTED, _EXPANDED = 0, 1, 2
"""How a character got into a word: as written, in quotes, out of an unquoted variable."""

_Chars = list[tuple[str, int]]
_MAX_BRACES = 64


@dataclass(frozen=True, slots=True)
class Word:
    text: str
    glob: bool = False
    """Whether it has unquoted `*`, `?` or `[`."""

    @property
    def known(self) -> bool:
        return UNKNOWN not in self.text


def words_of(node: "Node", variables: Mapping[str, Word | None], home: str) -> list[Word]:
    """The words one node becomes: none, one or several."""
    chars = _chars(node, variables, quoted=False)
    return [
        word
        for alternative in _braces(chars)
        for word in _split(alternative, home, had_quotes=_has_quotes(node))
    ]


def value_of(node: "Node | None", variables: Mapping[str, Word | None], home: str) -> Word:
    """The value an assignment gives: expanded, neither split nor globbed."""
    if node is None:
        return Word("")
    chars = _chars(node, variables, quoted=False)
    return Word(_tilde("".join(c for c, _ in chars), chars, home))


def source(node: "Node") -> str:
    """The text of a node."""
    return (node.text or b"").decode("utf-8", "replace")


def _chars(node: "Node", variables: Mapping[str, Word | None], *, quoted: bool) -> _Chars:
    match node.type:
        case "word" | "number" | "brace_expression" | "extglob_pattern" | "variable_name":
            return _unescaped(source(node))
        case "raw_string":
            return [(c, _QUOTED) for c in source(node)[1:-1]]
        case "ansi_c_string":
            return [(c, _QUOTED) for c in _ansi_c(source(node)[2:-1])]
        case "string":
            return _string(node, variables)
        case "translated_string":
            return [
                pair
                for child in node.named_children
                for pair in _chars(child, variables, quoted=quoted)
            ]
        case "simple_expansion" | "expansion":
            value = _variable(node, variables)
            # A loop over `*.py` gives names, in quotes too: the glob stands for them.
            mode = _QUOTED if quoted and not value.glob else _EXPANDED
            return [(c, mode) for c in value.text]
        case "arithmetic_expansion":
            return [("1", _QUOTED)]
        case "process_substitution":
            return [(c, _QUOTED) for c in "/dev/fd/63"]
        case "command_substitution" if source(node) in variables:
            printed = variables[source(node)]
            mode = _QUOTED if quoted else _EXPANDED
            return [(c, mode) for c in (printed.text if printed else UNKNOWN)]
        case "command_name":
            return [
                pair for child in node.children for pair in _chars(child, variables, quoted=quoted)
            ]
        case "concatenation":
            return _joined(node, variables)
    return [(UNKNOWN, _QUOTED if quoted else _EXPANDED)]


def _joined(node: "Node", variables: Mapping[str, Word | None]) -> _Chars:
    """The pieces of a concatenation; `{`, `,` and `}` of a brace list are its unnamed children."""
    out: _Chars = []
    for child in node.children:
        if child.is_named:
            out += _chars(child, variables, quoted=False)
        else:
            out += _unescaped(source(child))
    return out


def _string(node: "Node", variables: Mapping[str, Word | None]) -> _Chars:
    """Double quotes. The grammar leaves out some white space between children, so the gaps are
    read from the source."""
    raw = node.text or b""
    out: _Chars = []
    position = 1
    for child in node.named_children:
        start, end = child.start_byte - node.start_byte, child.end_byte - node.start_byte
        if child.type == "string_content":
            continue
        out += _in_quotes(raw[position:start])
        out += _chars(child, variables, quoted=True)
        position = end
    return out + _in_quotes(raw[position : len(raw) - 1])


def _in_quotes(raw: bytes) -> _Chars:
    text = re.sub(r"\\\n", "", raw.decode("utf-8", "replace"))
    return [(c, _QUOTED) for c in re.sub(r'\\([$`"\\])', r"\1", text)]


def _unescaped(text: str) -> _Chars:
    out: _Chars = []
    characters = iter(text)
    for c in characters:
        if c != "\\":
            out.append((c, _LITERAL))
            continue
        following = next(characters, "")
        if following and following != "\n":
            out.append((following, _QUOTED))
    return out


_ANSI_C = re.compile(
    r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|c(.)|(.))",
    re.DOTALL,
)
_ANSI_LETTERS = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "v": "\v",
}


def _ansi_c(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        for group, base in ((1, 16), (2, 16), (3, 16), (4, 8)):
            if match[group]:
                number = int(match[group], base)
                return chr(number) if 0 < number < 0x110000 else UNKNOWN
        if match[5]:
            return chr(ord(match[5]) & 0x1F) or UNKNOWN
        return _ANSI_LETTERS.get(match[6], match[6])

    return _ANSI_C.sub(one, text)


def decoded_printf(text: str) -> str:
    """The text `printf` or `echo -e` makes of its backslashes."""
    return _ANSI_C.sub(
        lambda match: chr(int(match[4], 8) & 0xFF) if match[4] else _ansi_c(match[0]),
        re.sub(r"\\0([0-7]{1,3})", r"\\\1", text),
    )


_FIXED = {"IFS": " ", "?": "0", "#": "0", "$": "1", "!": "1", "0": "bash", "-": "hB"}


def _variable(node: "Node", variables: Mapping[str, Word | None]) -> Word:
    """The value of `$x` or `${x}`, `UNKNOWN` for every other form and every other variable."""
    match = re.fullmatch(r"\$(?:\{(\w+|[?#$!-])\}|(\w+|[?#$!-]))", source(node))
    if match is None:
        return Word("1" if re.fullmatch(r"\$\{#\w+\}", source(node)) else UNKNOWN)
    name = match[1] or match[2]
    if name in variables:
        value = variables[name]
        return value or Word(UNKNOWN)
    return Word(_FIXED.get(name, UNKNOWN))


def _braces(chars: _Chars) -> list[_Chars]:
    """Brace expansion; too many alternatives become one unknown word."""
    text = "".join(c if mode == _LITERAL else "\x02" for c, mode in chars)
    opening = text.find("{")
    while opening >= 0:
        commas, closing = _matching(text, opening)
        if closing and commas:
            edges = [opening, *commas, closing]
            bodies = [chars[a + 1 : b] for a, b in itertools.pairwise(edges)]
            out: list[_Chars] = []
            for body in bodies:
                out += _braces(chars[:opening] + body + chars[closing + 1 :])
                if len(out) > _MAX_BRACES:
                    return [[(UNKNOWN, _EXPANDED)]]
            return out
        if closing and re.fullmatch(r"\{\w+\.\.\w+(?:\.\.\w+)?\}", text[opening : closing + 1]):
            return _braces([*chars[:opening], ("*", _LITERAL), *chars[closing + 1 :]])
        opening = text.find("{", opening + 1)
    return [chars]


def _matching(text: str, opening: int) -> tuple[list[int], int]:
    """Where the commas and the closing brace of a brace list are; 0 when it does not close."""
    depth = 0
    commas: list[int] = []
    for position in range(opening, len(text)):
        match text[position]:
            case "{":
                depth += 1
            case "}":
                depth -= 1
                if depth == 0:
                    return commas, position
            case "," if depth == 1:
                commas.append(position)
    return [], 0


def _split(chars: _Chars, home: str, *, had_quotes: bool) -> list[Word]:
    """White space out of unquoted variables ends a word."""
    groups: list[_Chars] = [[]]
    for c, mode in chars:
        if mode == _EXPANDED and c in " \t\n":
            groups.append([])
        else:
            groups[-1].append((c, mode))
    kept = [group for group in groups if group]
    if not kept:
        return [Word("")] if had_quotes else []
    return [_word(group, home) for group in kept]


def _word(chars: _Chars, home: str) -> Word:
    text = "".join(c for c, _ in chars)
    glob = any(mode != _QUOTED and c in "*?[" for c, mode in chars)
    return Word(_tilde(text, chars, home), glob)


def _tilde(text: str, chars: _Chars, home: str) -> str:
    if not chars or chars[0] != ("~", _LITERAL):
        return text
    name = text.split("/", 1)[0]
    if name == "~":
        return home + text[1:]
    return UNKNOWN + text


def _has_quotes(node: "Node") -> bool:
    if node.type in ("string", "raw_string", "ansi_c_string", "translated_string"):
        return True
    return any(_has_quotes(child) for child in node.named_children if child.type != "expansion")
