"""The tools every session has, in the order the model is told of them.

One file a tool; the others hold what several share. Adding one: `docs/adding-a-tool.md`. Tools of
memory and of subagents live with those. What a call may do is the gate's decision, not a tool's.
"""

from kode.contracts import Tool
from kode.tools import (
    edit_file,
    fetch_url,
    list_files,
    read_file,
    search_files,
    shell,
    todo,
    write_file,
)

BUILTIN: tuple[Tool, ...] = (
    read_file.read_file,
    write_file.write_file,
    edit_file.edit_file,
    search_files.search_files,
    list_files.list_files,
    shell.shell,
    fetch_url.fetch_url,
    todo.todo,
)
"""The order never changes within a version: providers cache the requests that begin alike."""
