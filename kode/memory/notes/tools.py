"""The five tools of the notes: what the model can do with them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal

from kode.errors import MemoryRefused
from kode.memory import frame
from kode.memory.notes import layout
from kode.memory.policy import Addition, OpenMemory
from kode.memory.statement import Amendment, Author, Statement, StatementKind
from kode.memory.tools import answer, memory_tool
from kode.tool import ToolOutput

DEFAULT_K, MAX_K = 8, 20
"""Notes of one answer."""


@memory_tool(effect="memory", subject="content")
async def remember(
    memory: OpenMemory,
    content: Annotated[str, "one sentence, no secrets"],
    kind: Annotated[layout.Kind | None, "rule: in every prompt"] = None,
    tags: Annotated[list[str] | None, "to find it by"] = None,
    stability: Annotated[layout.Stability, "permanent never expires"] = "stable",
    ttl_days: Annotated[int | None, "it expires after"] = None,
    confidence: Annotated[float, "0 to 1; a rule: 0.8 or more"] = 1.0,
    evidence: Annotated[
        list[str] | None, "the user's exact words that state it, path:line; a rule needs one"
    ] = None,
    sensitivity: Annotated[
        Literal["normal", "sensitive"], "sensitive: no model sees it"
    ] = "normal",
    scope: Annotated[Literal["user", "project"] | None, "project: only here"] = None,
) -> ToolOutput:
    """Keep a note for later: what the user decides or prefers."""
    details: dict[str, object] = {"tags": tags, "evidence": evidence, "confidence": confidence}
    details |= {"stability": stability, "ttl_days": ttl_days}
    addition = Addition(target=kind or "log", text=content, scope=scope or "", details=details)
    addition = replace(addition, private=sensitivity == "sensitive")
    note = layout.new_note(memory, addition, _author(memory, evidence or ()))
    return answer(memory, await memory.save(note))


@memory_tool(effect="memory-read", subject="query", parallel=True)
async def recall(
    memory: OpenMemory,
    query: Annotated[str, "a few words"],
    k: Annotated[int, "how many"] = DEFAULT_K,
    tags: Annotated[list[str] | None, "with one of these"] = None,
) -> ToolOutput:
    """Search the notes; gives their ids."""
    if not query.strip():
        raise MemoryRefused("`query` is empty: give a few words of what you look for.")
    values = {
        note.id: note
        for note in visible_notes(memory, *layout.KINDS)
        if not tags or {*tags} & {*layout.detail(note, "tags")}
    }
    ranked = await memory.find(query, max(1, min(k, MAX_K)), values.__contains__)
    notes = [values[result.text.id] for result in ranked]
    if not notes:
        return ToolOutput(text=f"No note matches: {query}", summary="no match")
    listed = "\n\n".join(_with_id(memory, note) for note in notes)
    memory.mark_shown(frame.escape(listed), notes)
    about = f"Notes that match, best first. {frame.NOTES}"
    return ToolOutput(text=frame.wrap(about, listed), summary=f"{len(notes)} notes")


@memory_tool(effect="memory", subject="id")
async def update_memory(
    memory: OpenMemory,
    id: Annotated[str, "from recall"],
    content: Annotated[str, "the new text"],
    tags: Annotated[list[str] | None, "replace its tags"] = None,
    evidence: Annotated[str, "as for remember"] = "",
) -> ToolOutput:
    """Replace a note."""
    old = _find_note(memory, id)
    memory.check_replaced(old, content, "")
    new = memory.store.new_version(old, content, _author(memory, [evidence]))
    values = {} if tags is None else {"tags": tags}
    values |= {"evidence": [evidence]} if evidence else {}
    details = layout.make_details(**{**old.details, **values})
    new = layout.check_note(replace(new, details=details))
    if new.text != old.text:
        return answer(memory, await memory.save(new, old=old))
    amendment = Amendment(details={"tags": layout.detail(new, "tags")})
    outcome = await memory.store.amend(old.id, amendment, memory.author(), "retag")
    return answer(memory, memory.announce(outcome))


@memory_tool(effect="memory", subject="content")
async def update_soul(memory: OpenMemory, content: Annotated[str, "all of it"]) -> ToolOutput:
    """Replace who you are, only at the user's wish."""
    new = layout.new_note(memory, Addition(target="soul", text=content), memory.author())
    if old := soul_of(memory):
        memory.check_replaced(old, content, "")
    return answer(memory, await memory.save(new, old=old))


@memory_tool(effect="memory", subject="id")
async def forget(
    memory: OpenMemory,
    id: Annotated[str, "from recall"],
    bring_back: Annotated[bool | None, "restore what it replaced"] = None,
) -> ToolOutput:
    """Delete a note."""
    note, store = _find_note(memory, id), memory.store
    is_back = memory.settings.notes.forget_brings_back if bring_back is None else bring_back
    if is_back and note.replaces:  # as before it was written
        outcome = await store.undo(store.view().entries[note.id].change.id)
    else:
        outcome = await store.forget(note.id, memory.author())
    return answer(memory, memory.announce(outcome))


TOOLS = (remember, recall, update_memory, update_soul, forget)


def visible_notes(memory: OpenMemory, *kinds: StatementKind) -> list[Statement]:
    """The notes of these kinds that a model may see, newest first, also two in conflict."""
    notes, now = (*memory.visible_facts(), *memory.notes()), memory.context.now()
    chosen = [note for note in notes if note.kind in kinds and layout.is_active(note, now)]
    return sorted(chosen, key=lambda note: (note.claimed_at, note.id), reverse=True)


def describe_note(memory: OpenMemory, note: Statement) -> str:
    """A note as a model sees it: what was done with its project, what holds with its doubts."""
    return memory.note_text(note) if note.kind == "summary" else memory.describe(note)


def soul_of(memory: OpenMemory) -> Statement | None:
    """The soul that counts; None until one is written: the system prompt says who kode is."""
    second = [second for _, second in memory.store.view().conflicts()]
    return next((soul for soul in visible_notes(memory, "soul") if soul not in second), None)


def _author(memory: OpenMemory, evidence: Sequence[str]) -> Author:
    """The model, with the evidence that counts: what the person stated here, and lines of code."""
    authors = [memory.model_author(line, line)[0] for line in evidence]
    cited = next((author for author in authors if author.source), memory.author())
    return cited._replace(quote=next((author.quote for author in authors if author.quote), ""))


def _find_note(memory: OpenMemory, id: str) -> Statement:
    """The note that a model names by its id. Raises: MemoryRefused."""
    note = memory.store.find(id.strip().strip("[]"))
    if not memory.store.is_here(note.place):
        raise MemoryRefused(f"There is no note {id} here. `recall` gives the ids.")
    if note.kind == "soul":
        raise MemoryRefused("The soul is changed with update_soul. Nothing was changed.")
    return note


def _with_id(memory: OpenMemory, note: Statement) -> str:
    """A note with its id, for a model that wants to change it."""
    lasts, tags = layout.detail(note, "stability"), layout.detail(note, "tags")
    end = f" until {day}" if (day := layout.detail(note, "expires_at")[:10]) else ""
    head = f"[{note.id}] ({note.kind}, {lasts}{end}){''.join(f' #{tag}' for tag in tags)}"
    return f"{head}\n{describe_note(memory, note)}"
