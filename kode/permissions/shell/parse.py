"""Splits a command line into commands and redirections, each with its words.

`parse_plain` knows the unambiguous part of the shell's grammar: literal words, operators,
redirections to files. Every byte of a text must match one of the patterns here, or the text is not
plain. Quotes mean the same in every shell, nothing is expanded, no word is a keyword.

`search_commands` finds the same in any other text, by tree-sitter's grammar of bash. That is not
bash's own and is sometimes wrong, so nothing found there is ever safe or complete: it serves to ask
early about what would be asked anyway, and to find how a command of the line ended. Its precedence
is not bash's either (`a && b 2>&1 | c` is one pipeline in it), so of a pipeline only the order of
commands and operators counts.
"""

import functools
import re
import shlex
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from kode.values import Value, dataclass

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_PARSE_S = 0.015
"""CPU time. The parser's error recovery is quadratic."""

MAX_NODES = 4_000  # bounds the time for one line


class TooLong(Exception):
    """The text is too long to be worth judging."""


@dataclass(frozen=True)
class Word:
    text: str
    """Without quotes if literal or a pattern, else as written."""
    kind: Literal["literal", "pattern", "open"] = "literal"
    """`pattern`: only globs and a leading `~` are expanded. `open`: anything."""


Words = tuple[Word, ...]


class CheckPart(Value):
    """A command that may check the project, and its place in its pipeline."""

    command: str
    """As written, without redirections."""
    alone: bool = False
    """Whether it is the whole line."""
    at: int = 0
    of: int = 0
    """The command is number `at`, from 0, of `of` elements; `of` is 0 if nothing can tell how it
    ends, as in the background."""
    behind: int = 0
    """How many simple commands follow in the pipeline; others run in shells of their own."""
    forks: int = 0
    """How many elements of the pipeline are not simple commands: subshells, loops."""


class ShellCommand(Value):
    text: str
    words: Words = ()
    """Empty for an assignment."""
    before: str = ""
    """The operator before it in a plain text: `|`, `&&`, `||`, `;`, `&`; "" for the first."""
    behind: str = ""
    """The operator after it; "" for the last."""
    place: CheckPart | None = None
    """None in a plain text."""


@dataclass(frozen=True)
class Redirect:
    text: str
    operator: str
    target: Word


Item = ShellCommand | Redirect
Items = Sequence[Item] | None  # None: unknown

# No group below is repeated possessively: Python before 3.11.5 (that of Debian 12) takes `a"` for a
# whole word then, since it forgets where the repetition stood when a part of it fails.
_BARE = r"[A-Za-z0-9_./,:+@%=-]"
_SINGLE = r"'[^'\x00-\x08\x0b-\x1f\x7f]*'"
_DOUBLE = r'"(?:[^"\\$`!\x00-\x08\x0b-\x1f\x7f]|\\[^$`!\n\x00-\x1f\x7f])*"'
_QUOTED = rf"{_SINGLE}|{_DOUBLE}|\\[ -~]"
_WORD = rf"(?:{_BARE}|{_QUOTED})+"
_END = r"(?=[ \t\n;|&]|\Z)"

_TOKEN = re.compile(
    rf"(?P<blank>[ \t]++)"
    rf"|(?P<redirect>[0-9]?(?P<way>>>|>\||&>>|&>|>&|>|<)(?![<>&|])[ \t]*+(?P<target>{_WORD})){_END}"
    rf"|(?P<operator>&&|\|\||[;\n|&])"
    rf"|(?P<word>{_WORD}|\{{\}}|\[|\]){_END}"
)
_PATTERN = re.compile(rf"(?:{_BARE}|{_QUOTED}|[*?\[\]~^!#\"])*")
_HOME = re.compile(r"\"?\$(?:HOME\b|\{HOME\})")

KEYWORDS = frozenset(
    "if then else elif fi for while until do done case esac select function time coproc in".split()
)
"""At the beginning of a command. `{`, `}`, `!` and `[[` are not words here at all."""

_LISTS = ("list", "pipeline", "redirected_statement", "negated_command")
_SIMPLE = frozenset(
    "command declaration_command unset_command variable_assignment variable_assignments".split()
)
_COMPOUND = frozenset(
    "subshell compound_statement if_statement while_statement for_statement c_style_for_statement "
    "case_statement test_command function_definition".split()
)


def parse_plain(text: str) -> tuple[Item, ...] | None:
    """The commands of a plain text, each followed by its redirections; None for other texts."""
    commands: list[list[re.Match[str]]] = [[]]
    operators = [""]
    position = 0
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            return None
        position = token.end()
        if operator := token["operator"]:
            if commands[-1]:
                operators.append(";" if operator == "\n" else operator)
                commands.append([])
            elif operator != "\n":
                return None
        elif not token["blank"]:
            commands[-1].append(token)
    if not commands[-1]:
        if operators[-1] in ("|", "&&", "||"):
            return None
        commands.pop()
    items: list[Item] = []
    for at, tokens in enumerate(commands):
        first = tokens[0]["word"]
        if not first or first in (*KEYWORDS, "{}", "]") or "=" in first:
            return None
        source = text[tokens[0].start() : tokens[-1].end()]
        words = tuple([Word(_unquote(it["word"])) for it in tokens if it["word"]])
        before, behind = operators[at], "".join(operators[at + 1 : at + 2])
        items.append(ShellCommand(text=source, words=words, before=before, behind=behind))
        items += [
            Redirect(it["redirect"], it["way"], Word(_unquote(it["target"])))
            for it in tokens
            if it["redirect"]
        ]
    return tuple(items)


def word_of(source: str) -> Word:
    """Makes a word of its source text."""
    if re.fullmatch(_WORD, source) or source in ("{}", "[", "]"):
        return Word(_unquote(source))
    pattern = _HOME.sub("~", source, count=1) if _HOME.match(source) else source
    if _PATTERN.fullmatch(pattern):
        return Word(re.sub(r"""\\(.)|['"]""", r"\1", pattern), "pattern")
    return Word(source, "open")


def _unquote(word: str) -> str:
    return shlex.split(word)[0] if set(word) & {*"'\"\\"} else word


def search_commands(text: str, plain: Items) -> tuple[list[Item], Words]:
    """Returns the commands and redirections of a text, nested ones included, in order of their
    beginning; and the words of the command whose exit status is that of the text, "test" if the
    text only tests. `plain` is what `parse_plain` returns for it. Raises: TooLong."""
    match plain:
        case (ShellCommand(words=words, before="", behind="") as it,) if words[0].text != "[":
            whole = CheckPart(command=it.text, alone=True, of=1)  # the usual line needs no tree
            return [ShellCommand(text=it.text, words=words, place=whole)], words
    items: list[Item] = []
    places: dict[int, CheckPart] = {}
    last: Words = ()
    root = _parse_tree(text)
    stack = [(root, True)]
    for _ in range(MAX_NODES):
        if not stack:
            return items, last
        node, is_watched = stack.pop()
        place = places.get(node.id)
        is_watched = place.of > 0 if place else is_watched
        if node.type not in _LISTS:
            for element, part in _find_places(node, text, is_watched):
                places[element.id] = part
                if node == root:
                    is_test = element.type == "test_command"
                    last = (Word("test"),) if is_test else _words_of(element, text)
                    last = last if is_test or element.type == "command" else ()
        match node.type:
            case "command" | "declaration_command" | "unset_command":
                words = _words_of(node, text)
                items.append(ShellCommand(text=_source_of(node, text), words=words, place=place))
            case "file_redirect":
                way = re.search(r"[<>&|]+", _source_of(node, text))
                target = node.child_by_field_name("destination")
                items.append(_make_redirect(node, way[0] if way else ">", target, text))
            case "test_command" if text.startswith("[ ", node.start_byte):
                for child in node.named_children:  # `$n > 3` compares nothing: it writes to `3`
                    sign = child.child_by_field_name("operator")
                    if sign is not None and sign.type in ("<", ">"):
                        target = child.child_by_field_name("right")
                        items.append(_make_redirect(child, sign.type, target, text))
            case "variable_assignment":
                items.append(ShellCommand(text=_source_of(node, text)))
        stack += [(child, is_watched) for child in reversed(node.named_children)]
    raise TooLong


def _find_places(node: "Node", text: str, is_watched: bool) -> "Iterator[tuple[Node, CheckPart]]":
    """The elements of the pipelines of a node, each with its place."""
    pipelines: list[list[Node]] = []
    in_background = set[int]()
    first = 0  # the first pipeline that a `&` would send to the background
    operator = ""
    children = list(_flatten(node))
    for child in children:
        if child.type in _SIMPLE or child.type in _COMPOUND:
            if operator in ("|", "|&"):
                pipelines[-1].append(child)
            else:
                first = first if operator else len(pipelines)
                pipelines.append([child])
            operator = ""
        elif child.type in ("&&", "||") or (child.type in ("|", "|&") and pipelines):
            operator = child.type
        elif child.type == "&":
            in_background.update(range(first, len(pipelines)))
    is_alone = (
        (node.type, node.has_error) == ("program", False)
        and [[element.type for element in pipeline] for pipeline in pipelines] == [["command"]]
        and not any(child.type in ("!", "&") for child in children)
    )
    for number, pipeline in enumerate(pipelines):
        is_simple = [_is_simple(element, text) for element in pipeline]
        count = len(pipeline) if is_watched and number not in in_background else 0
        for at, element in enumerate(pipeline):
            part = CheckPart(
                command=_source_of(element, text).removeprefix("time "),
                alone=is_alone,
                at=at,
                of=count,
                behind=sum(is_simple[at + 1 :]),
                forks=is_simple.count(False),
            )
            yield element, part


def _flatten(node: "Node") -> "Iterator[Node]":
    """The children of a node, with those of lists and pipelines in their place."""
    for child in node.children:
        yield from _flatten(child) if child.type in _LISTS else [child]


def _is_simple(node: "Node", text: str) -> bool:
    is_test = node.type == "test_command" and not _source_of(node, text).startswith(("[[", "(("))
    return node.type in _SIMPLE or is_test


def _words_of(node: "Node", text: str) -> Words:
    """The name and arguments of a simple command; leading assignments and redirections are separate
    items."""
    others = ["file_redirect", "herestring_redirect"]
    others += ["variable_assignment"] * (node.type == "command")
    sources = [_source_of(child, text) for child in node.children if child.type not in others]
    words = [word_of(source) for source in sources]
    while words and words[0].text in KEYWORDS | {"!", "{", "[["}:
        del words[0]  # the grammar takes `! if ls; then` for commands
    return tuple(words)


def _make_redirect(node: "Node", way: str, target: "Node | None", text: str) -> Redirect:
    word = word_of(_source_of(target, text)) if target is not None else Word("", "open")
    return Redirect(_source_of(node, text), way, word)


def _source_of(node: "Node", text: str) -> str:
    """The text of a node."""
    return text[node.start_byte : node.end_byte]


def _parse_tree(text: str) -> "Node":
    """The root of the syntax tree, with offsets in characters: the grammar's scanner looks letters
    up in an ASCII table and crashes on others, so it sees an `x` for them. Raises: TooLong."""
    source = re.sub(r"[^\x00-\x7f]", "x", text).encode()
    parser = _parser()
    parser.reset()
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
