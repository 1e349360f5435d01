"""A bundle for a person: every file, what each part may do, what is not used, and what an update
changes. Text of a bundle is shown with its control characters spelt, and without credentials."""

import difflib
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from kode.plugin import Item, credentials, visible
from kode.plugins.bundles.shelf import Approved
from kode.plugins.bundles.tree import File, Tree

MAY: Mapping[str, str] = {
    "skill": "The model loads it where it fits a task; its scripts run like any command: judged, "
    "in the sandbox.",
    "command": "You start it; its text goes to the model, and what it runs first is judged like "
    "any command.",
    "agent": "It instructs a subagent, whose calls are judged like any other.",
    "mcp": "It offers the model tools, and kode asks about their calls. A program runs in the "
    "sandbox: the project read-only, your home hidden, no network; what goes to an address leaves "
    "this machine.",
}
"""Kind → what a part may do once it is approved; a hook says it itself."""
NETWORK = "It may use the network."

Change = Literal["added", "removed", "changed"]


@dataclass(frozen=True, kw_only=True)
class Changed:
    """A file that an update changes."""

    path: str
    change: Change


def summary(
    approved: Approved, tree: Tree, items: Sequence[Item], problems: Sequence[str]
) -> Iterator[str]:
    """What a bundle is, and what each part may do."""
    parts = approved.parts
    version = f" {parts.version}" if parts.version else ""
    commit = f", commit {approved.commit[:12]}" if approved.commit else ""
    yield _plain(f"Bundle {parts.name}{version}, from {approved.source}{commit}")
    if parts.description:
        yield _plain(f"  {parts.description}")
    size = sum(len(file.data) for file in tree.files.values())
    yield f"  {len(tree.files)} files, {size:,} bytes, SHA-256 {approved.digest}"
    for kind in ("skill", "command", "agent", "hook", "mcp"):
        own = [item for item in items if item.kind == kind]
        if own and kind in MAY:
            said = f"{MAY[kind]} {NETWORK}" if kind == "mcp" and approved.network else MAY[kind]
            yield f"{'MCP server' if kind == 'mcp' else kind}s ({len(own)}): {said}"
        for item in own:
            yield _plain(f"  {kind} {item.name}{f': {item.can}' if item.can else ''}")
            if kind == "mcp":
                yield from (f"    {line}" for line in _plain(item.content).splitlines())
        if own and kind == "hook":
            written = json.dumps(parts.hooks, indent=2, ensure_ascii=False)
            yield from (f"    {line}" for line in _plain(written).splitlines())
    if not items:
        yield "It has no part that kode uses."
    if parts.unused or problems:
        yield "Not used:"
        yield from (_plain(f"  {what}: {why}") for what, why in parts.unused.items())
        yield from (_plain(f"  {problem}") for problem in problems)


def contents(tree: Tree) -> Iterator[str]:
    """Every file in full."""
    for path, file in tree.files.items():
        mark = ", executable" if file.executable else ""
        yield _plain(f"=== {path} ({len(file.data):,} bytes{mark})")
        yield from _plain(_text(file)).splitlines()


def changes(before: Tree, after: Tree) -> list[Changed]:
    """What an update changes, by path."""
    found = list[Changed]()
    for path in sorted({*before.files, *after.files}):
        old, new = before.files.get(path), after.files.get(path)
        if old != new:
            change: Change = "added" if old is None else "removed" if new is None else "changed"
            found.append(Changed(path=path, change=change))
    return found


def diff(before: Tree, after: Tree) -> Iterator[str]:
    """The changes of an update in full."""
    for one in changes(before, after):
        old, new = before.files.get(one.path), after.files.get(one.path)
        modes = [file.executable for file in (old, new) if file is not None]
        mark = ", now executable" if modes[-1] and not all(modes) else ""
        yield _plain(f"=== {one.path} ({one.change}{mark})")
        was, now = (_plain(_text(file)).splitlines() if file else [] for file in (old, new))
        yield from list(difflib.unified_diff(was, now, lineterm=""))[2:]


def _text(file: File) -> str:
    try:
        return file.data.decode()
    except UnicodeDecodeError:
        return f"[no text, SHA-256 {hashlib.sha256(file.data).hexdigest()}]"


def _plain(text: str) -> str:
    return visible(credentials.redact(text))
