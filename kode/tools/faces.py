"""Other forms in which the same tools are offered, to models that were trained on them.

A face only changes what is declared. A call in any form is understood whatever was offered, and its
parts are judged, run and undone as the tools they are.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from kode.contracts import Face, Tool
from kode.tools.apply_patch import apply_patch
from kode.tools.shell import shell
from kode.tools.text_editor import text_editor

FACES: Mapping[Face, Mapping[str, Tool | None]] = {
    "kode": {},
    "patch": {"write_file": None, "edit_file": apply_patch},
    "editor": {
        "read_file": text_editor,
        "write_file": None,
        "edit_file": None,
        "shell": replace(shell, name="bash", api_type="bash_20250124"),
    },
}
"""Face → tool → what is declared in its place; None: another covers it."""


def offered(tools: Sequence[Tool], face: Face) -> Iterator[Tool]:
    """What is declared to the model; without all tools that a face stands for, those as they
    are."""
    instead = FACES[face]
    if not set(instead) <= {tool.name for tool in tools}:
        instead = {}
    return (shown for tool in tools if (shown := instead.get(tool.name, tool)) is not None)


def with_faces(tools: Sequence[Tool]) -> dict[str, Tool]:
    """Every tool that a call may name: these, and the faces whose tools are all among them."""
    known = {tool.name: tool for tool in tools}
    for instead in FACES.values():
        if set(instead) <= set(known):
            parts = {tool.name: tool for tool in instead.values() if tool and tool.parts}
            known = {**parts, **known}
    return known
