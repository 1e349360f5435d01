"""A bundle for a person: every file, what each part may do, what is not used, and what an update
changes. Text of a bundle is shown with its control characters spelt, and without credentials."""

import difflib
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kode.plugin import redact_secrets, visible
from kode.plugins.bundles.copies import ApprovedBundle
from kode.plugins.bundles.tree import File, Tree

ABILITIES: Mapping[str, str] = {
    "skill": "The model loads it where it fits a task; its scripts run in the sandbox.",
    "command": "You start it; its text goes to the model, and what it runs is judged as ever.",
    "agent": "It instructs a subagent, whose calls are judged like any other.",
    "hook": "Each says what it may do.",
    "mcp": "It offers the model tools, whose calls kode asks about. A program runs in the sandbox, "
    "without your home and the network; what goes to an address leaves this machine.",
}
"""Kind → what a part may do once it is approved."""


def summarize(
    approved: ApprovedBundle, tree: Tree, items: Sequence[Any], problems: Sequence[str]
) -> Iterator[str]:
    """What a bundle is, and what each part may do."""
    parts = approved.parts
    commit = f", commit {approved.commit[:12]}" if approved.commit else ""
    size = sum(len(file.data) for file in tree.files.values())
    yield f"Bundle {parts.name} {parts.version}, from {approved.source}{commit}"
    yield from [f"  {parts.description}"] if parts.description else ()
    yield f"  {len(tree.files)} files, {size:,} bytes, SHA-256 {approved.digest}"
    for kind, ability in ABILITIES.items():
        of_kind = [item for item in items if item.kind == kind]
        network = " It may use the network." if kind == "mcp" and approved.network else ""
        if of_kind:
            yield f"{'MCP server' if kind == 'mcp' else kind}s ({len(of_kind)}): {ability}{network}"
        for item in of_kind:
            yield f"  {kind} {item.name}{f': {item.can}' if item.can else ''}"
            yield from _indent(item.content if kind in ("mcp", "hook") else "")
    unused = [*(f"{what}: {why}" for what, why in parts.unused.items()), *problems]
    yield from ["Not used:", *(f"  {line}" for line in unused)] if unused else ()


def list_contents(tree: Tree) -> Iterator[str]:
    """Every file in full."""
    for path, file in tree.files.items():
        mark = ", executable" if file.executable else ""
        yield f"=== {path} ({len(file.data):,} bytes{mark})"
        yield from _lines(file)


def list_changes(before: Tree, after: Tree) -> Iterator[str]:
    """The changes of an update in full."""
    for path in sorted({*before.files, *after.files}):
        old, new = before.files.get(path), after.files.get(path)
        if old != new:
            change = "added" if old is None else "removed" if new is None else "changed"
            is_new_program = new and new.executable and not (old and old.executable)
            yield f"=== {path} ({change}{', now executable' if is_new_program else ''})"
            yield from [*difflib.unified_diff(_lines(old), _lines(new), lineterm="")][2:]


def printable(text: str) -> str:
    """A text without credentials and control characters."""
    return visible(redact_secrets(text))


def _indent(text: str) -> Iterator[str]:
    yield from (f"    {line}" for line in printable(text).splitlines())


def _lines(file: File | None) -> list[str]:
    if file is None:
        return []
    try:
        return printable(file.data.decode()).splitlines()
    except UnicodeDecodeError:
        return [f"[no text, SHA-256 {hashlib.sha256(file.data).hexdigest()}]"]
