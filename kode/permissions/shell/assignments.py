"""What sets variables: assignments, declarations, and commands that do so on the way.

What a variable's name means for other programs is `environment`'s.
"""

import re
from typing import TYPE_CHECKING

from kode.permissions.shell.environment import assignment_finding
from kode.permissions.shell.judge import unknown
from kode.permissions.shell.verbs import judge
from kode.permissions.shell.words import UNKNOWN, Word, source, value_of

if TYPE_CHECKING:
    from tree_sitter import Node

    from kode.permissions.shell.walk import Walk


def declare(walk: "Walk", node: "Node") -> None:
    verb = source(node.children[0])
    words = [Word(verb)]
    for child in node.children[1:]:
        if child.type == "variable_assignment":
            assign(walk, child, alone=True, keeps=verb in ("export", "declare", "typeset"))
            words.append(Word(source(child).split("=", 1)[0] + "="))
        elif child.is_named:
            walk.nested(child)
            words += walk.expand(child) if child.type != "variable_name" else [Word(source(child))]
    walk.add(walk.worst(lambda scene: judge(words, scene)), source(node), words)


def assign(walk: "Walk", node: "Node", *, alone: bool, keeps: bool = False) -> None:
    name_node = node.child_by_field_name("name")
    value_node = node.child_by_field_name("value")
    name = source(name_node) if name_node else ""
    walk.nested(node)
    if name_node is None or name_node.type != "variable_name" or "+=" in source(node)[:80]:
        value: Word = Word(UNKNOWN)
    elif value_node is not None and value_node.type == "array":
        value = Word(UNKNOWN)
    else:
        value = value_of(value_node, walk.state.variables, walk.where.home)
    bare_name = re.match(r"\w*", name)
    plain = bare_name[0] if bare_name else name
    finding = assignment_finding(plain, value, keeps=keeps)
    if finding.klass != "safe":
        walk.note(source(node), finding)
    if re.search(r"\$\(|`", value.text):
        walk.note(source(node), unknown("a value that may be evaluated"))
    if alone:
        set_variable(walk, plain, value if value.known else None)


def set_variable(walk: "Walk", name: str, value: Word | None) -> None:
    walk.state.variables[name] = value
    finding = assignment_finding(name, value or Word(UNKNOWN), keeps=False)
    if value is None and finding.klass != "safe":
        walk.note(f"{name}=...", finding)


def follow(walk: "Walk", words: list[Word]) -> None:
    """What a command changes for those after it: the folder, a variable."""
    texts = [word.text for word in words]
    if texts and texts[0] in ("builtin", "command", "time"):
        texts, words = texts[1:], words[1:]
    if not texts:
        return
    if texts[0] == "cd" or (texts[0] == "pushd" and len(texts) > 1):
        given = [word for word in words[1:] if not re.fullmatch(r"-[LPe@]+|--", word.text)]
        walk.state.move(given, walk.where.home)
    elif texts[0] in ("pushd", "popd"):
        walk.state.leave()
    if texts[0] in ("read", "mapfile", "readarray", "getopts", "printf", "unset", "let", "."):
        for name in texts[1:]:
            if texts[0] == "unset":
                walk.state.functions.pop(name, None)
            if re.fullmatch(r"[A-Za-z_]\w*", name):
                set_variable(walk, name, None)
    if texts[0] in ("eval", "source", "."):
        walk.state.variables = dict.fromkeys(walk.state.variables)


def splits_a_read(assignment: "Node", name: "Node | None") -> bool:
    """`IFS= read line`: how one line is split, and nothing else."""
    if name is None or source(name) not in ("read", "mapfile", "readarray"):
        return False
    return re.fullmatch(r"IFS=(?:[^$`]*|\$'[^'$`]*')", source(assignment)) is not None


ASSIGNED = re.compile(r"([A-Za-z_]\w*)\s*(?:[-+*/%&|^]?=(?!=)|<<=|>>=|\+\+|--)")
"""A variable that arithmetic sets."""
