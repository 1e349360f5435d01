"""The five tools over the vault, with their documented names and parameters.

A patch accepts both spellings (`oldText` and `old_text`), and an append accepts `content` for
`entry`: models confuse them.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from kode.contracts import Brief, Tool, ToolContext, ToolOutput
from kode.events import MemoryChanged
from kode.function_tool import tool
from kode.memory import frame
from kode.memory.base import Outcome
from kode.memory.change import Author
from kode.memory.frame import as_tool_errors
from kode.memory.vault.report import rows_of
from kode.memory.vault.write import VaultWriter


@dataclass(frozen=True)
class Patch:
    oldText: str
    newText: str
    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - read by pydantic, never changed


Source = str | None


@dataclass(frozen=True, kw_only=True)
class Desk:
    """What the tools need: a writer, an author, and the clock."""

    writer: VaultWriter
    author: Callable[[str | None], Author]
    """(cited code) → the author of a change."""
    now: Callable[[], datetime]
    marks: Callable[[str], str] = lambda name: ""
    """File name → what may not hold any more in it, a line each."""


def vault_tools(desk: Desk) -> tuple[Tool, ...]:
    """`memory_list`, `memory_read`, `memory_write`, `memory_patch`, `memory_append`."""
    writer = desk.writer

    @tool(effect="memory-read")
    async def memory_list(context: ToolContext) -> ToolOutput:
        """List files."""
        rows = rows_of(writer.files)
        listed = [{"path": r.path, "summary": r.summary, "size": r.size} for r in rows]
        text = json.dumps(listed, ensure_ascii=False)
        return ToolOutput(text=text, summary=f"{len(rows)} files")

    @tool(effect="memory-read", subject="path")
    async def memory_read(context: ToolContext, path: str) -> ToolOutput:
        """Read one."""
        with as_tool_errors():
            name, text = writer.read(path)
        body = "\n\n".join(filter(None, (text.rstrip("\n"), desk.marks(name))))
        framed = frame.wrap(f"The memory file {name}.", body)
        return ToolOutput(text=framed, summary=f"{text.count(chr(10))} lines")

    @tool(
        effect="memory",
        subject="path",
        brief=Brief(
            description="Create or overwrite facts/NAME.md in memory: `- Key: value` lines.",
            required=("path", "content"),
        ),
    )
    async def memory_write(context: ToolContext, path: str, content: str) -> ToolOutput:
        """Write facts/NAME.md: `- Key: value`, no secrets."""
        with as_tool_errors():
            outcome = await writer.write(path, content, desk.author(None))
        return _answer(context, outcome)

    @tool(
        effect="memory",
        subject="path",
        brief=Brief(
            description="Change parts of a memory file; each oldText stands in it once.",
            required=("path", "patches"),
        ),
        unlisted=("source",),
    )
    async def memory_patch(
        context: ToolContext, path: str, patches: list[Patch], source: Source = None
    ) -> ToolOutput:
        """oldText occurs once."""
        with as_tool_errors():
            pairs = [(patch.oldText, patch.newText) for patch in patches]
            outcome = await writer.patch(path, pairs, desk.author(source))
        return _answer(context, outcome, appliedCount=len(patches))

    @tool(
        effect="memory",
        subject="path",
        brief=Brief(
            description="Append what a task has taught to episodes/YYYY-MM.md in memory.",
            required=("path", "entry"),
        ),
        unlisted=("summary", "source"),
    )
    async def memory_append(
        context: ToolContext,
        path: str,
        entry: str,
        summary: str | None = None,
        source: Source = None,
    ) -> ToolOutput:
        """Add to episodes/YYYY-MM.md: `## Title`, `- Summary: `."""
        with as_tool_errors():
            author = desk.author(source)
            outcome = await writer.append(path, entry, author, desk.now(), summary=summary)
        return _answer(context, outcome)

    return (
        memory_list,
        memory_read,
        memory_write,
        _known_as(memory_patch, {"old_text": "oldText", "new_text": "newText"}),
        _known_as(memory_append, {"content": "entry"}),
    )


def _known_as(one: Tool, names: Mapping[str, str]) -> Tool:
    """A tool whose parameters may have other names, which models confuse."""
    check = one.check
    return replace(one, check=lambda arguments: check(_renamed(arguments, names)))


def _renamed(given: Any, names: Mapping[str, str]) -> Any:
    """Translates other names of known keys, unless the known key is given as well."""
    if isinstance(given, list):
        return [_renamed(one, names) for one in given]
    if not isinstance(given, Mapping):
        return given
    return {
        names[key] if key in names and names[key] not in given else key: _renamed(value, names)
        for key, value in given.items()
    }


def _answer(context: ToolContext, outcome: Outcome, **more: Any) -> ToolOutput:
    if outcome.change_id:
        context.emit(MemoryChanged(text=outcome.line, change_id=outcome.change_id))
    sentences: Sequence[str] = [s for s in (outcome.line, outcome.detail) if s]
    message = " ".join(s[:1].upper() + s[1:] + "." for s in sentences)
    answer = {"success": True, **more, "message": message}
    return ToolOutput(text=json.dumps(answer, ensure_ascii=False), summary=outcome.line)
