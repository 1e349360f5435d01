"""Splits a command line into commands, redirections and assignments, each with its words.

`parse_plain` knows the unambiguous part of the shell's grammar: literal words, operators,
redirections to files. Every byte of a text must match one of the patterns here, or the text is not
plain. Quotes mean the same in every shell, nothing is expanded, no word is a keyword.

`search` finds the same in any other text, by tree-sitter's grammar of bash. That grammar is not
bash's own and sometimes wrong, so nothing found there is ever safe or complete: it serves to ask
early about what would be asked anyway.
"""

import functools
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_ITEMS = 100  # longer lines are programs: a person decides
MAX_WORDS = 300  # longer lines are programs: a person decides

MAX_PARSE_S = 0.015
"""CPU time. The parser's error recovery is quadratic."""

MAX_BYTES_AT_ONCE = 1_000
"""Parsed without a look at the clock."""

MAX_NODES = 4_000  # bounds the time for one line
MAX_CHILDREN = 1_000  # bounds the time for one line


class TooLong(Exception):
    """The text is too long to be worth judging."""


@dataclass(frozen=True, slots=True)
class Word:
    text: str
    """Without quotes if literal or a pattern, else as written."""
    kind: Literal["literal", "pattern", "open"] = "literal"
    """`pattern`: only globs and a leading `~` are expanded. `open`: anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    text: str
    words: tuple[Word, ...]
    before: str = ""
    """The operator before it: `|`, `&&`, `||`, `;`, `&`; "" for the first."""
    behind: str = ""
    """The operator after it; "" for the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Redirect:
    text: str
    operator: str
    target: Word


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    text: str


Item = Command | Redirect | Assignment

# No group below is repeated possessively: Python before 3.11.5 (that of Debian 12) takes `a"` for a
# whole word then, since it forgets where the repetition stood when a part of it fails.
_BARE = r"[A-Za-z0-9_./,:+@%=-]"
_SINGLE = r"'[^'\x00-\x08\x0b-\x1f\x7f]*'"
_DOUBLE = r'"(?:[^"\\$`!\x00-\x08\x0b-\x1f\x7f]|\\[^$`!\n\x00-\x1f\x7f])*"'
_ESCAPE = r"\\[ -~]"
_QUOTED = rf"{_SINGLE}|{_DOUBLE}|{_ESCAPE}"
_WORD = rf"(?:{_BARE}|{_QUOTED})+"
_END = r"(?=[ \t\n;|&]|\Z)"

_TOKEN = re.compile(
    rf"(?P<blank>[ \t]++)"
    rf"|(?P<redirect>[0-9]?(?P<way>>>|>\||&>>|&>|>&|>|<)(?![<>&|])[ \t]*+(?P<target>{_WORD})){_END}"
    rf"|(?P<operator>&&|\|\||[;\n|&])"
    rf"|(?P<word>{_WORD}|\{{\}}|\[|\]){_END}"
)
_PIECE = re.compile(_QUOTED)
_PATTERN = re.compile(rf"(?:{_BARE}|{_QUOTED}|[*?\[\]~^!#\"])*")
_HOME = re.compile(r"\"?\$(?:HOME\b|\{HOME\})")

KEYWORDS = frozenset(
    "if then else elif fi for while until do done case esac select function time coproc in".split()
)
"""At the beginning of a command. `{`, `}`, `!` and `[[` are not words here at all."""


def parse_plain(text: str) -> tuple[Item, ...] | None:
    """The commands of a plain text, each followed by its redirections; None for other texts.
    Raises: TooLong."""
    items: list[Item] = []
    words: list[Word] = []
    redirects: list[Redirect] = []
    position = start = 0
    before = ""

    def finish(behind: str) -> None:
        nonlocal words, redirects, before
        command = text[start:position].strip()
        items.append(Command(text=command, words=tuple(words), before=before, behind=behind))
        items.extend(redirects)
        words, redirects, before = [], [], behind

    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            return None
        if word := token["word"]:
            if not words:
                start = position
                if word in KEYWORDS or word in ("{}", "]") or "=" in word:
                    return None
            words.append(Word(_decode(word)))
            if len(words) > MAX_WORDS or len(items) > MAX_ITEMS:
                raise TooLong
        elif redirect := token["redirect"]:
            if not words:
                return None
            target = Word(_decode(token["target"]))
            redirects.append(Redirect(text=redirect, operator=token["way"], target=target))
        elif operator := token["operator"]:
            if words:
                finish(";" if operator == "\n" else operator)
            elif operator != "\n":
                return None
        position = token.end()
    if words:
        finish("")
    return None if before in ("|", "&&", "||") else tuple(items)


def word_of(source: str) -> Word:
    """The word for its source text."""
    if re.fullmatch(_WORD, source) or source in ("{}", "[", "]"):
        return Word(_decode(source))
    pattern = _HOME.sub("~", source, count=1) if _HOME.match(source) else source
    if _PATTERN.fullmatch(pattern):
        return Word(_decode(pattern).replace('"', ""), "pattern")
    return Word(source, "open")


def _decode(word: str) -> str:
    """A word without its quotes."""
    return _PIECE.sub(_unquote, word)


def _unquote(piece: re.Match[str]) -> str:
    quoted = piece[0]
    if quoted.startswith("\\"):
        return quoted[1:]
    inside = quoted[1:-1]
    return re.sub(r'\\(["\\])', r"\1", inside) if quoted.startswith('"') else inside


def search(text: str) -> Iterator[Item]:
    """The commands, redirections and assignments of a text, nested ones included, in order of their
    beginning. Raises: TooLong."""
    stack: list[Node] = [root_of(text)]
    count = 0
    while stack:
        node = stack.pop()
        count += 1
        if count > MAX_NODES or node.child_count > MAX_CHILDREN:
            raise TooLong
        match node.type:
            case "command" | "declaration_command" | "unset_command":
                yield Command(text=source_of(node, text), words=words_of(node, text))
            case "file_redirect":
                operator = re.search(r"[<>&|]+", source_of(node, text))
                way = operator[0] if operator else ">"
                yield _redirect(node, way, node.child_by_field_name("destination"), text)
            case "variable_assignment":
                yield Assignment(text=source_of(node, text))
            case "binary_expression" if _is_in_brackets(node, text):
                sign = node.child_by_field_name("operator")
                if sign is not None and sign.type in ("<", ">"):
                    yield _redirect(node, sign.type, node.child_by_field_name("right"), text)
        stack.extend(reversed(node.named_children))


def words_of(command: "Node", text: str) -> tuple[Word, ...]:
    """Its name and arguments; leading assignments and redirections are separate items."""
    others = ["file_redirect", "herestring_redirect"]
    if command.type == "command":
        others.append("variable_assignment")
    sources = [source_of(child, text) for child in command.children if child.type not in others]
    words = [word_of(source) for source in sources]
    while words and words[0].text in KEYWORDS | {"!", "{", "[["}:
        del words[0]  # the grammar takes `! if ls; then` for commands
    return tuple(words)


def _redirect(node: "Node", operator: str, target: "Node | None", text: str) -> Redirect:
    word = word_of(source_of(target, text)) if target is not None else Word("", "open")
    return Redirect(text=source_of(node, text), operator=operator, target=word)


def _is_in_brackets(node: "Node", text: str) -> bool:
    """Whether it stands in `[ ... ]`: there, `$n > 3` compares nothing, it writes to a file `3`."""
    test = node.parent
    return (
        test is not None and test.type == "test_command" and text.startswith("[ ", test.start_byte)
    )


def source_of(node: "Node", text: str) -> str:
    """The text of a node."""
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
