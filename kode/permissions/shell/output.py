"""What a command of a line prints, where that can be known beforehand.

Texts alone are `pipes`'s.
"""

import os
from typing import TYPE_CHECKING

from kode.permissions.shell.pipes import printed
from kode.permissions.shell.words import Word, source

if TYPE_CHECKING:
    from tree_sitter import Node

    from kode.permissions.shell.walk import Walk


def printed_by(walk: "Walk", node: "Node", given: str | None) -> str | None:
    """What a command prints, where that is known; `given` is what it reads."""
    if node.type == "redirected_statement":
        body = node.child_by_field_name("body")
        read = _read_by(walk, node)
        return printed_by(walk, body, read) if body and read is not None else None
    if node.type == "pipeline":
        for child in node.named_children:
            given = printed_by(walk, child, given)
        return given
    if node.type != "command":
        return None
    words = walk.words(node)
    if not words or any(not word.known or word.glob for word in words):
        return None
    if words[0].text in walk.state.functions:
        return None
    if words == [Word("pwd")]:
        return None if walk.state.instead else walk.state.cwd
    if [word.text for word in words] == ["git", "rev-parse", "--show-toplevel"]:
        return _repository(walk.state.cwd) if not walk.state.instead else None
    return printed([word.text for word in words], given)


def _read_by(walk: "Walk", node: "Node") -> str | None:
    """The text of a command's here-document or here-string, where it is known."""
    redirects = [child for child in node.named_children if child.type.endswith("_redirect")]
    if len(redirects) != 1 or redirects[0].type == "file_redirect":
        return None
    if redirects[0].type == "herestring_redirect":
        words = [w for child in redirects[0].named_children for w in walk.expand(child)]
        return words[0].text if len(words) == 1 and words[0].known else None
    bodies = [c for c in redirects[0].named_children if c.type == "heredoc_body"]
    if len(bodies) != 1 or any(c.type != "heredoc_content" for c in bodies[0].named_children):
        return None
    return source(bodies[0])


def _repository(cwd: str | None) -> str | None:
    """The top folder of the repository that a folder is in, by its looks."""
    folder = cwd
    while folder and folder != "/":
        if os.path.exists(f"{folder}/.git"):
            return folder
        folder = os.path.dirname(folder)
    return None
