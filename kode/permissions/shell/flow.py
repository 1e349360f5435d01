"""Which commands of a line run, in what order and how often: lists, branches, loops, functions.

What one of them may have changed is known to those after it only as far as every way there agrees
(`state`). What a command does is not here.
"""

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kode.permissions.shell.assignments import set_variable
from kode.permissions.shell.judge import destructive
from kode.permissions.shell.state import ShellState, joined
from kode.permissions.shell.words import Word, source

if TYPE_CHECKING:
    from collections.abc import Callable

    from tree_sitter import Node

    from kode.permissions.shell.walk import Walk

MAX_LOOP_VALUES = 8

_LEAVES = ("exit", "return", "break", "continue")
_NEVER_FAILS = ("echo", "printf", "true", ":", "export", "set", "cd")


@dataclass(frozen=True, slots=True)
class _Item:
    """One command of a list."""

    operator: str
    """What stands before it: "", `&&` or `||`."""
    node: "Node"
    redirects: "tuple[Node, ...]" = ()
    """Redirections that the grammar hangs on the whole list, though they are the last command's."""


def in_sequence(walk: "Walk", node: "Node") -> None:
    """Commands one after the other; one with `&` behind it changes nothing for the next."""
    children = [child for child in node.children if child.is_named or child.type == "&"]
    for child, following in itertools.zip_longest(children, children[1:]):
        if child.type == "&":
            continue
        if following is None or following.type != "&":
            walk.statement(child)
            continue
        saved = walk.state.copy()
        walk.statement(child)
        walk.state = saved


def in_list(walk: "Walk", node: "Node") -> None:
    """`a && b || c`. What comes after the list cannot rely on `b` or `c`."""
    ways: list[ShellState] = []
    succeeded = True
    for item in _items(node):
        if item.operator == "&&" and succeeded:
            walk.state.instead = ()
        elif item.operator:
            succeeded = False
            after = walk.state
            walk.state = joined(*ways, walk.state)
            if _verb(item.node) in _LEAVES:
                walk.with_redirects(item.node, item.redirects)
                after.instead = ()
                walk.state, ways = after, []
                continue
        walk.with_redirects(item.node, item.redirects)
        if _may_fail(item.node, walk.state):
            ways.append(walk.state.copy())
    walk.state = joined(*ways, walk.state)


def _items(node: "Node") -> list[_Item]:
    body = node.child_by_field_name("body") if node.type == "redirected_statement" else None
    if body is not None and body.type == "list":
        *before, last = _items(body)
        redirects = tuple(child for child in node.named_children if child != body)
        return [*before, replace(last, redirects=(*last.redirects, *redirects))]
    if node.type != "list":
        return [_Item("", node)]
    items: list[_Item] = []
    operator = ""
    for child in node.children:
        if not child.is_named:
            operator = source(child)
            continue
        first, *rest = _items(child)
        items += [replace(first, operator=operator), *rest]
    return items


def _verb(node: "Node") -> str:
    """The first word of a command as it is written; "" for what is none."""
    words = source(node).split(maxsplit=1)
    return words[0] if words and node.type == "command" else ""


def _may_fail(node: "Node", state: ShellState) -> bool:
    text = source(node)
    if "$(" in text or "`" in text:
        return True
    if node.type in ("variable_assignment", "variable_assignments", "declaration_command"):
        return False
    verb = _verb(node)
    return verb not in _NEVER_FAILS or verb in state.functions or bool(state.instead)


def in_branches(walk: "Walk", node: "Node") -> None:
    """`if` and `case`: one branch runs, or none."""
    entry = walk.state.copy()
    ways: list[ShellState] = []
    complete = False
    for child in node.children:
        if child.type == "then":
            entry = walk.state.copy()
        elif child.type in ("elif_clause", "else_clause", "case_item"):
            ways.append(walk.state)
            # A branch of `case` may go on into the next one.
            walk.state = joined(entry, *ways) if child.type == "case_item" else entry.copy()
            in_sequence(walk, child)
            complete = complete or child.type == "else_clause"
        elif child.is_named:
            walk.statement(child)
    walk.state = joined(*ways, walk.state) if complete else joined(entry, *ways, walk.state)


def in_loop(walk: "Walk", run: "Callable[[], None]") -> None:
    """What runs any number of times: once as it stands, and again where it changed something that
    it may rely on."""
    entry = walk.state.copy()
    run()
    after = joined(entry, walk.state)
    if after.knows_less_than(entry):
        if after.cwd != entry.cwd or after.instead != entry.instead:
            after.leave()
        walk.state = after.copy()
        run()
        after = joined(after, walk.state)
    walk.state = after


def for_each(walk: "Walk", node: "Node") -> None:
    """`for` and `select`. With few values that are known, the body is judged with each."""
    variable = node.child_by_field_name("variable")
    body = node.child_by_field_name("body")
    name = source(variable) if variable else ""
    values: list[Word] = []
    for child in node.children_by_field_name("value"):
        walk.nested(child)
        values += walk.expand(child)
    if name:
        set_variable(walk, name, None)
    if body is None:
        return
    if not 0 < len(values) <= MAX_LOOP_VALUES or not all(word.known for word in values):
        in_loop(walk, lambda: walk.statement(body))
        return
    entry = walk.state.copy()
    for value in values:
        walk.state.variables[name] = value
        walk.statement(body)
    walk.state.variables[name] = None
    walk.state = joined(entry, walk.state)


def define(walk: "Walk", node: "Node") -> None:
    """A function: judged where it is defined, as it may be called unseen, and at each call."""
    name = node.child_by_field_name("name")
    called = source(name) if name else ""
    begin = len(walk.parts)
    walk.state.functions[called] = node
    saved, feed = walk.state.copy(), walk.feed
    _run_body(walk, called, node)
    walk.state, walk.feed = saved, feed
    if any(part.argv and part.argv[0] == called for part in walk.parts[begin:]):
        walk.note(source(node), destructive("a function that calls itself without end"))


def call(walk: "Walk", name: str) -> None:
    """A function with the folder, variables and input that it has now."""
    if name not in walk.calling:
        _run_body(walk, name, walk.state.functions[name])


def _run_body(walk: "Walk", called: str, node: "Node") -> None:
    name = node.child_by_field_name("name")
    walk.calling.add(called)
    for child in node.named_children:
        if child != name:
            walk.statement(child)
    walk.calling.discard(called)
