"""The tools every session has, in the order the model sees them.

One file a tool, which holds a function of the same name; the others hold what several share. Adding
one: `docs/adding-a-tool.md`. Tools of memory and of subagents live with those. What a call may do
is the gate's decision, not a tool's.
"""

from pkgutil import resolve_name

from kode.contracts import Tool

NAMES = (
    "read_file",
    "write_file",
    "edit_file",
    "search_files",
    "list_files",
    "shell",
    "fetch_url",
    "todo",
)
"""The order never changes within a version: providers cache the requests that begin alike."""

SMALL = ("read_file", "write_file", "edit_file", "shell")
"""Those of the small profile: with them every task can be done, and a weak model chooses better
among few."""

BUILTIN: tuple[Tool, ...] = tuple(resolve_name(f"kode.tools.{name}:{name}") for name in NAMES)
