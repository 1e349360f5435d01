"""What redirections do to files, and what here-documents and here-strings feed to a command."""

import functools
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from kode.permissions.shell.judge import Feed, Finding, Scene, destructive, unknown
from kode.permissions.shell.paths import reads_path, writes_path
from kode.permissions.shell.syntax import WORD_TYPES, descend, is_plain_text
from kode.permissions.shell.words import Word, source

if TYPE_CHECKING:
    from tree_sitter import Node

    from kode.permissions.shell.walk import Walk


def redirect(walk: "Walk", node: "Node", *, bare: bool) -> None:
    match node.type:
        case "heredoc_redirect":
            _heredoc(walk, node)
        case "herestring_redirect":
            walk.nested(node)
            words = [w for child in node.named_children for w in walk.expand(child)]
            known = len(words) == 1 and words[0].known
            walk.feed = Feed(text=words[0].text if known else None)
        case "file_redirect":
            _file_redirect(walk, node, bare=bare)
        case _:
            walk.statement(node)


def _heredoc(walk: "Walk", node: "Node") -> None:
    """A here-document feeds the command; a pipe or list after its word is parsed inside it."""
    text: str | None = ""
    for child in node.named_children:
        if child.type == "heredoc_body":
            if is_plain_text(node):
                text = source(child)
                continue
            walk.nested(child)
            _heredoc_body(walk, node, child)
            dynamic = any(c.type != "heredoc_content" for c in child.named_children)
            text = None if dynamic else source(child)
        elif child.type not in ("heredoc_start", "heredoc_end"):
            continue
    walk.feed = Feed(text=text)
    for child in node.named_children:
        if child.type in ("heredoc_start", "heredoc_body", "heredoc_end", "file_descriptor"):
            continue
        if child.type in WORD_TYPES:
            # The grammar takes words after the marker for more arguments of the command.
            walk.note(source(node), unknown("words after a here-document's marker"))
        elif child.type in ("file_redirect", "herestring_redirect", "heredoc_redirect"):
            redirect(walk, child, bare=False)
        else:
            if child.type == "pipeline":
                walk.feed = Feed(text=text)
            walk.statement(child)


def _heredoc_body(walk: "Walk", node: "Node", body: "Node") -> None:
    """The grammar overlooks some substitutions in a here-document: those are found here."""
    text = re.sub(r"\\.", "", source(body), flags=re.DOTALL)
    seen = sum(child.type == "command_substitution" for child in descend(body))
    if "`" in text or text.count("$(") - text.count("$((") > seen:
        walk.note(text[:80], unknown("a substitution in a here-document"))
        walk.parts.extend(walk.run_text(f': "{text.replace(chr(34), "")}"'))


def _file_redirect(walk: "Walk", node: "Node", *, bare: bool) -> None:
    operator = next((source(c) for c in node.children if not c.is_named), ">")
    targets = node.children_by_field_name("destination")
    for target in targets:
        walk.nested(target)
        for word in walk.expand(target):
            if operator in (">&", "<&") and re.fullmatch(r"\d*-?", word.text):
                continue
            finding = walk.worst(functools.partial(_opened, operator, word, bare))
            if finding.klass != "safe" or finding.secret or operator == "<":
                walk.note(source(node), finding)
            if operator in ("<", "<>"):
                walk.feed = Feed(parts=())


def _opened(operator: str, word: Word, bare: bool, scene: Scene) -> Finding:
    if operator in ("<", "<&"):
        return reads_path(word, scene)
    finding = writes_path(word, scene, replaces=operator in (">", ">|", "&>", ">&"))
    if bare and operator in (">", ">|", "&>", ">&") and finding.klass == "write":
        return replace(destructive("empties a file"), writes=finding.writes)
    return finding
