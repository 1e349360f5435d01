"""The five tools of the notes: what the model can do with them."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any, Literal

from kode.contracts import Brief, Tool, ToolContext, ToolOutput
from kode.errors import MemoryRefused, ToolError
from kode.function_tool import tool
from kode.memory import frame
from kode.memory.notes.layout import (
    Kind,
    Stability,
    check_note,
    expires_at,
    is_active,
    make_details,
    stability,
    tags,
)
from kode.memory.policy import Addition, OpenMemory
from kode.memory.source import cite
from kode.memory.statement import Amendment, Author, Outcome, Statement
from kode.messages import shorten

DEFAULT_K, MAX_K = 8, 20
"""Notes of one answer."""
MAX_PREVIEW_CHARS = 1_000  # of a note in the question whether it may be forgotten

GetSoul = Callable[[OpenMemory], Statement | None]
Draft = Callable[[OpenMemory, Addition, Author], Statement]


def note_tools(memory: OpenMemory, get_soul: GetSoul, draft: Draft) -> tuple[Tool, ...]:
    """The tools over one open memory, in their order. `draft` makes and checks a new note."""

    @tool(
        effect="memory",
        subject="content",
        brief=Brief(
            description="Keep a note for later sessions: what the user decides or prefers.",
            required=("content",),
        ),
    )
    async def remember(
        context: ToolContext,
        content: Annotated[str, "one sentence, no secrets"],
        kind: Annotated[Kind | None, "rule: in every prompt"] = None,
        tags: Annotated[list[str] | None, "to find it by"] = None,
        stability: Annotated[Stability, "permanent never expires"] = "stable",
        ttl_days: Annotated[int | None, "it expires after"] = None,
        confidence: Annotated[float, "0 to 1; a rule: 0.8 or more"] = 1.0,
        evidence: Annotated[
            list[str] | None,
            "the user's exact words that state it, path:line; a rule needs one",
        ] = None,
        sensitivity: Annotated[
            Literal["normal", "sensitive"], "sensitive: no model sees it"
        ] = "normal",
        scope: Annotated[Literal["user", "project"] | None, "project: only here"] = None,
    ) -> ToolOutput:
        """Keep a lasting preference, decision or fact, one a note."""
        with frame.as_tool_errors():
            addition = Addition(
                target=kind or "log",
                text=content,
                scope=scope or "",
                private=sensitivity == "sensitive",
                details={
                    "tags": tags or [],
                    "stability": stability,
                    "ttl_days": ttl_days,
                    "confidence": confidence,
                    "evidence": evidence or [],
                },
            )
            author = _author(memory, evidence or [])
            outcome = await memory.save(draft(memory, addition, author))
        return _done(memory, outcome)

    @tool(
        effect="memory-read",
        subject="query",
        parallel=True,
        brief=Brief(description="Search the notes of earlier sessions.", required=("query",)),
    )
    async def recall(
        context: ToolContext,
        query: Annotated[str, "a few words"],
        k: Annotated[int, "how many"] = DEFAULT_K,
        tags: Annotated[list[str] | None, "with one of these"] = None,
    ) -> ToolOutput:
        """Search the notes; gives their ids."""
        if not query.strip():
            raise ToolError("`query` is empty: give a few words of what you look for.")
        with frame.as_tool_errors():
            notes = await _find(memory, query, max(1, min(k, MAX_K)), {*(tags or ())})
        if not notes:
            return ToolOutput(text=f"No note matches: {query}", summary="no match")
        listed = "\n\n".join(_with_id(memory, note) for note in notes)
        memory.mark_shown(frame.escape(listed), notes)
        about = f"Notes that match, best first. {frame.NOTES}"
        return ToolOutput(text=frame.wrap(about, listed), summary=f"{len(notes)} notes")

    @tool(effect="memory", subject="id")
    async def update_memory(
        context: ToolContext,
        id: Annotated[str, "from recall"],
        content: Annotated[str, "the new text"],
        tags: Annotated[list[str] | None, "replace its tags"] = None,
        evidence: Annotated[str | None, "as for remember"] = None,
    ) -> ToolOutput:
        """Replace a note."""
        with frame.as_tool_errors():
            old = _note(memory, id)
            memory.check_replaced(old, content, "")
            listed = None if evidence is None else [evidence]
            new = memory.store.new_version(old, content, _author(memory, listed or []))
            values = {"tags": tags, "evidence": listed}
            changed = {name: value for name, value in values.items() if value is not None}
            if changed:
                new = replace(new, details=make_details(**{**old.details, **changed}))
            check_note(new)
            if new.text == old.text:
                amendment = Amendment(details={"tags": new.details.get("tags", [])})
                amended = await memory.store.amend(old.id, amendment, memory.author(), "retag")
                return _done(memory, memory.announce(amended))
            outcome = await memory.save(new, replaced=old)
        return _done(memory, outcome)

    @tool(effect="memory", subject="content")
    async def update_soul(context: ToolContext, content: Annotated[str, "all of it"]) -> ToolOutput:
        """Replace who you are, only at the user's wish."""
        with frame.as_tool_errors():
            author, _ = memory.model_author("")
            new, old = (
                draft(memory, Addition(target="soul", text=content), author),
                get_soul(memory),
            )
            if old is not None:
                _check_soul(memory, old, content)
                outcome = await memory.save(new, replaced=old)
            else:
                outcome = await memory.save(new, is_judged=False)
        return _done(memory, outcome)

    def preview(context: ToolContext, arguments: Mapping[str, Any]) -> str:
        with frame.as_tool_errors():
            note = memory.store.find(str(arguments["id"]))
            return "a sensitive note" if note.private else shorten(note.text, MAX_PREVIEW_CHARS)

    @tool(effect="memory", subject="id", preview=preview)
    async def forget(
        context: ToolContext,
        id: Annotated[str, "from recall"],
        bring_back: Annotated[bool | None, "restore what it replaced"] = None,
    ) -> ToolOutput:
        """Delete a note."""
        with frame.as_tool_errors():
            note = _note(memory, id)
            default = memory.settings.notes.forget_brings_back
            is_back = default if bring_back is None else bring_back
            if is_back and note.replaces:  # as before it was written
                change = memory.store.view().entries[note.id].change
                outcome = await memory.store.undo(change.id)
            else:
                outcome = await memory.store.forget(note.id, memory.author())
        return _done(memory, memory.announce(outcome))

    return remember, recall, update_memory, update_soul, forget


async def _find(memory: OpenMemory, query: str, k: int, wanted: set[str]) -> list[Statement]:
    """Notes, best first; with one of the wanted tags, if there are any."""
    now = memory.context.now()
    notes = {
        note.id: note
        for note in (*memory.visible_facts(), *memory.notes())
        if note.kind != "soul" and is_active(note, now) and (not wanted or wanted & {*tags(note)})
    }
    ranked = await memory.find(query, k, notes.__contains__)
    return [notes[result.text.id] for result in ranked]


def _author(memory: OpenMemory, evidence: Sequence[str]) -> Author:
    """The model, with the evidence that counts: the person's words in this session in which they
    ask nothing, and lines of code."""
    quote = next(filter(memory.verify_quote, evidence), "")
    author = memory.author()._replace(quote=quote)
    for line in evidence:
        with suppress(MemoryRefused):
            where, source_hash = cite(memory.store.project.root, line)
            return author._replace(source=where, source_hash=source_hash)
    return author


def _note(memory: OpenMemory, id: str) -> Statement:
    """The note that a model names by its id. Raises: MemoryRefused."""
    note = memory.store.find(id.strip().strip("[]"))
    if not memory.store.is_here(note.place):
        raise MemoryRefused(f"There is no note {id} here. `recall` gives the ids.")
    if note.kind == "soul":
        raise MemoryRefused("The soul is changed with update_soul. Nothing was changed.")
    return note


def _check_soul(memory: OpenMemory, soul: Statement, content: str) -> None:
    """Raises: MemoryRefused, with the soul where it was not shown: no tool reads it."""
    try:
        memory.check_replaced(soul, content, "")
    except MemoryRefused as error:
        text = frame.wrap("The soul as it is now.", soul.text)
        memory.mark_shown(frame.escape(soul.text), [soul])
        raise MemoryRefused(f"{error}\n{text}") from error


def _with_id(memory: OpenMemory, note: Statement) -> str:
    """A note with its id, for a model that wants to change it."""
    lasts = stability(note)
    if expires_at(note):
        lasts += f" until {expires_at(note)[:10]}"
    words = f" #{' #'.join(tags(note))}" if tags(note) else ""
    text = memory.note_text(note) if note.kind == "summary" else memory.describe(note)
    return f"[{note.id}] ({note.kind}, {lasts}){words}\n{text}"


def _done(memory: OpenMemory, outcome: Outcome) -> ToolOutput:
    """What an operation did, for the model."""
    lines = [f"{outcome.text[:1].upper()}{outcome.text[1:]}."]
    lines += [] if outcome.change else ["Nothing was changed."]
    if outcome.statement:
        memory.mark_shown(frame.escape(outcome.statement.text), [outcome.statement])
        lines.append(f"It is note {outcome.statement.id}.")
    return ToolOutput(text=" ".join(lines), summary=outcome.text)
