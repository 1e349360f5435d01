"""The five tools of the notes: what the model may do with them, and the words it gets back."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from kode.contracts import Brief, Tool, ToolContext, ToolOutput
from kode.errors import ToolError
from kode.events import MemoryChanged
from kode.function_tool import tool
from kode.memory import frame, replacing
from kode.memory.frame import as_tool_errors
from kode.memory.notes.note import Sensitivity, Stability, in_words
from kode.memory.notes.pack import with_id
from kode.memory.notes.store import Wanted
from kode.memory.notes.write import Kept

if TYPE_CHECKING:
    from kode.memory.notes.opened import OpenedNotes

DEFAULT_K = 8
MAX_K = 20
SOUL = "the soul"
SHOWN_CHARS = 1_000
"""Of a note in the question whether it may be forgotten."""

RemembersKind = Literal["log", "summary", "rule"]

REMEMBER = """\
Keep a lasting preference, decision or fact, one a note; no secrets. A rule is in every prompt."""
UNLISTED = ("tags", "stability", "ttl_days", "confidence", "evidence", "sensitivity", "source")
"""What `remember` takes besides: as document 004 has it, and as earlier sessions called it."""


def note_tools(notes: "OpenedNotes") -> tuple[Tool, ...]:
    """The tools over one open memory, in their order."""

    @tool(
        effect="memory",
        subject="content",
        description=REMEMBER,
        brief=Brief(
            description="Keep a note for later sessions: what the user decides or prefers.",
            required=("content",),
        ),
        unlisted=UNLISTED,
    )
    async def remember(
        context: ToolContext,
        content: str,
        kind: RemembersKind | None = None,
        tags: list[str] | None = None,
        stability: Stability = "stable",
        ttl_days: int | None = None,
        confidence: float = 1.0,
        evidence: list[str] | None = None,
        sensitivity: Sensitivity = "normal",
        scope: Literal["user", "project"] | None = None,
        source: str | None = None,
    ) -> ToolOutput:
        with as_tool_errors():
            outcome = await notes.writer.remember(
                content,
                kind=kind or "log",
                tags=tuple(tags or ()),
                stability=stability,
                ttl_days=ttl_days,
                confidence=confidence,
                evidence=tuple(evidence or (notes.asked,) if kind == "rule" else evidence or ()),
                sensitivity=sensitivity,
                in_project=scope == "project",
                source=source,
            )
        return await _answer(context, notes, outcome)

    @tool(
        effect="memory-read",
        subject="query",
        parallel=True,
        brief=Brief(description="Search the notes of earlier sessions.", required=("query",)),
        unlisted=("k", "tags"),
    )
    async def recall(
        context: ToolContext, query: str, k: int = DEFAULT_K, tags: list[str] | None = None
    ) -> ToolOutput:
        """Search; gives ids."""
        if not query.strip():
            raise ToolError("`query` is empty: give a few words of what you look for.")
        with as_tool_errors():
            wanted = Wanted(tags=tuple(tags or ()), limit=max(1, min(k, MAX_K)))
            found = await notes.find(query, wanted)
        about = "Notes that match, best first."
        if not found or not found[0][0].score:
            about = f"No note matches: {query}"
            if not found:
                return ToolOutput(text=about, summary="no match")
            about += ". These are the newest."
        for _, note in found:
            replacing.note(notes.seen, f"note {note.id}", note.content)
        notes.look_again()
        shown = notes.marked(note for _, note in found)
        text = frame.wrap(about, "\n\n".join(map(with_id, shown)))
        return ToolOutput(text=text, summary=f"{len(found)} notes")

    @tool(effect="memory", subject="id", unlisted=("tags",))
    async def update_memory(
        context: ToolContext, id: str, content: str, tags: list[str] | None = None
    ) -> ToolOutput:
        """Replace a note."""
        with as_tool_errors():
            old = notes.store.find(id)
            replacing.check(
                notes.seen,
                f"note {old.id}",
                "" if old.kind == "soul" else old.content,  # the writer names its own tool
                content,
                to_read="`recall` shows it; then update it.",
                to_lose="Give all of it that still holds, or `forget` the note and `remember` "
                "another.",
            )
            outcome = await notes.writer.update(
                id, content, tags=None if tags is None else tuple(tags)
            )
        return await _answer(context, notes, outcome)

    @tool(effect="memory", subject="content")
    async def update_soul(context: ToolContext, content: str) -> ToolOutput:
        """Replace who you are, all of it; only at the user's wish."""
        with as_tool_errors():
            _check_soul(notes, content)
            outcome = await notes.writer.update_soul(content)
        return await _answer(context, notes, outcome)

    def forgotten(context: ToolContext, arguments: Mapping[str, Any]) -> str:
        with as_tool_errors():
            return in_words(notes.store.find(arguments["id"]), SHOWN_CHARS)

    @tool(effect="memory", subject="id", preview=forgotten, unlisted=("bring_back",))
    async def forget(context: ToolContext, id: str, bring_back: bool | None = None) -> ToolOutput:
        """Delete a note."""
        with as_tool_errors():
            outcome = await notes.writer.forget(id, bring_back=bring_back)
        return await _answer(context, notes, outcome)

    return remember, recall, update_memory, update_soul, forget


def _check_soul(notes: "OpenedNotes", content: str) -> None:
    """Raises: NotReplaced, with the soul where it was not shown: no tool reads it."""
    soul = notes.soul()
    shown = frame.wrap("The soul as it is now.", soul)
    try:
        replacing.check(
            notes.seen,
            SOUL,
            soul,
            content,
            to_read=f"This is all of it; keep what still holds.\n{shown}\n",
            to_lose="Give all of it that still holds.",
        )
    finally:
        replacing.note(notes.seen, SOUL, soul)


async def _answer(context: ToolContext, notes: "OpenedNotes", outcome: Kept) -> ToolOutput:
    if outcome.change_id:
        context.emit(MemoryChanged(text=outcome.line, change_id=outcome.change_id))
        await notes.after_change()
    if outcome.note is not None:
        name = SOUL if outcome.note.kind == "soul" else f"note {outcome.note.id}"
        replacing.note(notes.seen, name, outcome.note.content)
    nothing = "" if outcome.change_id else " Nothing was changed."
    line = outcome.line[:1].upper() + outcome.line[1:]
    detail = f" {outcome.detail}" if outcome.detail else ""
    return ToolOutput(text=f"{line}.{detail}{nothing}", summary=outcome.line)
