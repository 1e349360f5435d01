"""Which commands of a line check the project, and where each stands in its pipeline.

Decides nothing: bash tells how each of them ended, and this says how to find that. The grammar's
precedence is not bash's (`a && b 2>&1 | c` is one pipeline in it), so only the order of commands
and operators counts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kode.permissions.shell import programs
from kode.permissions.shell.line import CheckPart
from kode.permissions.shell.parse import TooLong, Word, root_of, source_of, words_of

if TYPE_CHECKING:
    from tree_sitter import Node

_ABOUT_ITSELF = frozenset({"--version", "--help", "-h", "--collect-only", "--co", "--dry-run"})
"""With one of these a program does not check anything."""

_LISTS = ("list", "pipeline", "redirected_statement", "negated_command")
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
    in_background: bool = False


def find_checks(text: str) -> tuple[tuple[CheckPart, ...], bool]:
    """The checks of a line, and whether its exit status 1 is an answer and no failure. Nothing is
    found in a line that takes too long to parse."""
    try:
        root = root_of(text)
        pipelines, _ = _find_pipelines(root)
        last = pipelines[-1].elements[-1] if pipelines else None
        parts = list(_checks_in(root, text, is_watched=not _sets_traps(root, text)))
        is_answer = last is not None and (
            last.type == "test_command" or programs.answers(_words(last, text))
        )
    except (TooLong, RecursionError):
        return (), False
    statements = [child for child in root.children if child.type != "comment"]
    if len(statements) == 1 and statements[0].type == "redirected_statement":
        statements = [it for it in statements[0].children if "redirect" not in it.type]
    if last is not None and [node.type for node in statements] == ["command"]:
        parts = [replace(part, alone=_source(last, text) == part.command) for part in parts]
    by_command = {part.command: part for part in parts}
    for part in parts:  # the same words in two places: nothing tells which run is which
        if by_command[part.command] != part:
            by_command[part.command] = replace(part, of=0)
    return tuple(by_command.values()), is_answer


def _find_pipelines(node: "Node") -> "tuple[list[_Pipeline], list[Node]]":
    """The pipelines of a node, and its other parts, which may hold some."""
    pipelines: list[_Pipeline] = []
    others: list[Node] = []
    chain: list[_Pipeline] = []
    """Those that a `&` would send to the background."""
    operator = ""
    for child in _flatten(node):
        if child.type in _COMMANDS or child.type in _OTHERS:
            if operator in ("|", "|&"):
                chain[-1].elements.append(child)
            else:
                pipelines.append(_Pipeline([child]))
                chain = [*chain, pipelines[-1]] if operator else pipelines[-1:]
            operator = ""
        elif child.type in ("&&", "||") or (child.type in ("|", "|&") and chain):
            operator = child.type
        elif child.type == "&":
            for pipeline in chain:
                pipeline.in_background = True
        elif child.is_named:
            others.append(child)
    return pipelines, others


def _flatten(node: "Node") -> "Iterator[Node]":
    """The children of a node, with those of lists and pipelines in their place."""
    for child in node.children:
        if child.type in _LISTS:
            yield from _flatten(child)
        else:
            yield child


def _checks_in(node: "Node", text: str, *, is_watched: bool) -> Iterator[CheckPart]:
    pipelines, others = _find_pipelines(node)
    for pipeline in pipelines:
        is_seen = is_watched and not pipeline.in_background
        simple = [_is_simple(element, text) for element in pipeline.elements]
        for index, element in enumerate(pipeline.elements):
            if _is_check(_words(element, text)):
                yield CheckPart(
                    command=_source(element, text),
                    at=index,
                    of=len(simple) if is_seen else 0,
                    behind=sum(simple[index + 1 :]),
                    forks=simple.count(False),
                )
            yield from _checks_in(element, text, is_watched=is_seen)
    for child in others:
        yield from _checks_in(child, text, is_watched=is_watched)


def _sets_traps(node: "Node", text: str) -> bool:
    """Whether the line may replace the traps that tell."""
    words = _words(node, text)
    is_trap = bool(words) and words[0].text == "trap"
    return is_trap or any(_sets_traps(child, text) for child in node.named_children)


def _is_simple(node: "Node", text: str) -> bool:
    is_test = node.type == "test_command" and not _source(node, text).startswith(("[[", "(("))
    return node.type in _COMMANDS or is_test


def _words(node: "Node", text: str) -> tuple[Word, ...]:
    return words_of(node, text) if node.type == "command" else ()


def _source(node: "Node", text: str) -> str:
    return source_of(node, text).removeprefix("time ")


def _is_check(words: Sequence[Word]) -> bool:
    if not words or words[0].kind != "literal":
        return False
    inner = programs.inner_of(words)
    if inner:
        return any(_is_check(command.words) for command in inner)
    rule = programs.find_rule(words)
    return bool(rule and rule.check) and not any(word.text in _ABOUT_ITSELF for word in words)
