"""Which commands of a line check the project, and where each stands in its pipeline.

Decides nothing: bash tells how each of them ended, and this says how to find that. The grammar's
precedence is not bash's (`a && b 2>&1 | c` is one pipeline in it), so only the order of commands
and operators counts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kode.permissions.shell import programs, tree, wrappers
from kode.permissions.shell.line import CheckPart, TooLong
from kode.permissions.shell.plain import Word

if TYPE_CHECKING:
    from tree_sitter import Node

_ABOUT_ITSELF = frozenset({"--version", "--help", "-h", "--collect-only", "--co", "--dry-run"})
"""With one of these a program does not check anything."""

_LISTS = frozenset({"list", "pipeline", "redirected_statement", "negated_command"})
_COMMANDS = frozenset(
    "command declaration_command unset_command variable_assignment variable_assignments".split()
)
_OTHERS = frozenset(
    "subshell compound_statement if_statement while_statement for_statement c_style_for_statement "
    "case_statement test_command function_definition".split()
)


@dataclass
class _Pipeline:
    elements: "list[Node]"
    background: bool = False


@dataclass
class _Look:
    pipelines: list[_Pipeline] = field(default_factory=list)
    inside: "list[Node]" = field(default_factory=list)
    """What else may hold pipelines."""


def look_at(text: str) -> tuple[tuple[CheckPart, ...], bool]:
    """The checks of a line, and whether its exit status 1 is an answer and no failure. Nothing is
    found in a line that takes too long to parse."""
    try:
        return _look_at(tree.root_of(text), text)
    except (TooLong, RecursionError):
        return (), False


def _look_at(root: "Node", text: str) -> tuple[tuple[CheckPart, ...], bool]:
    pipelines = _look(root).pipelines
    last = pipelines[-1].elements[-1] if pipelines else None
    parts = list(_checks(root, text, watched=not _sets_traps(root, text)))
    if [node.type for node in _whole(root)] == ["command"]:
        parts = [replace(one, alone=_source(last, text) == one.command) for one in parts]
    named = {one.command: one for one in parts}
    for part in parts:  # the same words in two places: nothing tells which run is which
        if named[part.command] != part:
            named[part.command] = replace(part, of=0)
    return tuple(named.values()), last is not None and _answers(last, text)


def _whole(root: "Node") -> "list[Node]":
    """What a line consists of, if it is one statement, without its redirections."""
    statements = [child for child in root.children if child.type != "comment"]
    if len(statements) == 1 and statements[0].type == "redirected_statement":
        return [child for child in statements[0].children if "redirect" not in child.type]
    return statements


def _look(node: "Node") -> _Look:
    look = _Look()
    chain: list[_Pipeline] = []
    """The pipelines that a `&` would send to the background."""
    operator = ""
    for child in _flat(node):
        if child.type in _COMMANDS or child.type in _OTHERS:
            if operator in ("|", "|&"):
                chain[-1].elements.append(child)
            else:
                chain = [*chain, _Pipeline([child])] if operator else [_Pipeline([child])]
                look.pipelines.append(chain[-1])
            operator = ""
        elif child.type in ("&&", "||") or (child.type in ("|", "|&") and chain):
            operator = child.type
        elif child.type == "&":
            for pipeline in chain:
                pipeline.background = True
        elif child.is_named:
            look.inside.append(child)
    return look


def _flat(node: "Node") -> "Iterator[Node]":
    """The children of a node, with those of lists and pipelines in their place."""
    for child in node.children:
        if child.type in _LISTS:
            yield from _flat(child)
        else:
            yield child


def _checks(node: "Node", text: str, *, watched: bool) -> Iterator[CheckPart]:
    look = _look(node)
    for pipeline in look.pipelines:
        seen = watched and not pipeline.background
        simple = [_is_simple(one, text) for one in pipeline.elements]
        for index, element in enumerate(pipeline.elements):
            if _is_check(_words(element, text)):
                yield CheckPart(
                    command=_source(element, text),
                    at=index,
                    of=len(simple) if seen else 0,
                    behind=sum(simple[index + 1 :]),
                    forks=simple.count(False),
                )
            yield from _checks(element, text, watched=seen)
    for child in look.inside:
        yield from _checks(child, text, watched=watched)


def _sets_traps(node: "Node", text: str) -> bool:
    """Whether the line may replace the traps that tell."""
    words = _words(node, text)
    is_trap = bool(words) and words[0].text == "trap"
    return is_trap or any(_sets_traps(child, text) for child in node.named_children)


def _is_simple(node: "Node", text: str) -> bool:
    is_test = node.type == "test_command" and not _source(node, text).startswith(("[[", "(("))
    return node.type in _COMMANDS or is_test


def _answers(node: "Node", text: str) -> bool:
    return node.type == "test_command" or programs.answers(_words(node, text))


def _words(node: "Node", text: str) -> tuple[Word, ...]:
    return tree.words_of(node, text) if node.type == "command" else ()


def _source(node: "Node | None", text: str) -> str:
    return text[node.start_byte : node.end_byte].removeprefix("time ") if node is not None else ""


def _is_check(words: Sequence[Word]) -> bool:
    if not words or words[0].kind != "literal":
        return False
    inner = wrappers.inner_of(words)
    if inner:
        return any(_is_check(command.words) for command in inner)
    rule = programs.find_rule(words)
    return bool(rule and rule.check) and not any(word.text in _ABOUT_ITSELF for word in words)
