"""Imports the tools of every session, in the order the model sees them."""

from pkgutil import resolve_name

from kode.contracts import Tool

NAMES = (
    "read_file",
    "write_file",
    "edit_file",
    "search_files",
    "list_files",
    "shell",
    "job",
    "fetch_url",
    "todo",
)
"""The order never changes within a version: providers cache requests with the same beginning."""

SMALL = ("read_file", "write_file", "edit_file", "shell")
"""The tools of the small profile: enough for every task, and few, so that a weak model chooses
better."""

BUILTIN: tuple[Tool, ...] = tuple(resolve_name(f"kode.tools.{name}:{name}") for name in NAMES)
