"""The tools of every session, and the other formats in which they are offered to models that were
trained on those formats.

A format only changes what is declared. A call in any format is understood, whichever was offered,
and its parts are judged, run and undone as calls of kode's own tools.
"""

from collections.abc import Iterator, Mapping, Sequence

from kode.provider import ToolFormat
from kode.tool import Tool
from kode.tools.apply_patch import apply_patch, text_editor
from kode.tools.background import job
from kode.tools.edit import edit_file, write_file
from kode.tools.fetch_url import fetch_url
from kode.tools.read_file import read_file
from kode.tools.search import list_files, search_files
from kode.tools.shell import shell
from kode.tools.todo import todo
from kode.values import replace

BUILTIN: tuple[Tool, ...] = (
    read_file,
    write_file,
    edit_file,
    search_files,
    list_files,
    shell,
    job,
    fetch_url,
    todo,
)
"""The order never changes within a version: providers cache requests with the same beginning."""

SMALL = ("read_file", "write_file", "edit_file", "shell")
"""The tools of the small profile: few, so that a weak model chooses better."""

_FORMATS: Mapping[ToolFormat, Mapping[str, Tool | None]] = {
    "kode": {},
    "patch": {"write_file": None, "edit_file": apply_patch},
    "editor": {
        "read_file": text_editor,
        "write_file": None,
        "edit_file": None,
        "shell": replace(shell, name="bash", api_type="bash_20250124"),
    },
}
"""For each format: tool → the tool declared in its place, or None if another covers it."""


def format_tools(tools: Sequence[Tool], tool_format: ToolFormat) -> Iterator[Tool]:
    """The tools declared to the model: a format replaces tools only if all of its own are there."""
    replacements = _FORMATS[tool_format]
    if not set(replacements) <= {tool.name for tool in tools}:
        replacements = {}
    return filter(None, (replacements.get(tool.name, tool) for tool in tools))


def find_tool(tools: Sequence[Tool], name: str) -> Tool | None:
    """The tool that a call names: one of `tools`, or of a format that can replace its own here."""
    for tool in tools:
        if tool.name == name:
            return tool
    names = {tool.name for tool in tools}
    formats = [replacements for replacements in _FORMATS.values() if set(replacements) <= names]
    parts = (tool for each in formats for tool in each.values() if tool and tool.parts)
    return next((part for part in parts if part.name == name), None)
