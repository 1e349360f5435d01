"""The `memory` tool: what the model can do with facts, and where it looks up past sessions."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from kode.errors import MemoryRefused
from kode.memory import frame
from kode.memory.learn import consolidate
from kode.memory.policy import Addition, OpenMemory
from kode.memory.statement import Amendment
from kode.memory.tiered.layout import Scope, Target, place_of, target_of
from kode.memory.tools import Source, answer, memory_tool
from kode.tool import Brief, Effect, ToolOutput

Action = Literal["add", "replace", "remove", "archive", "consolidate", "read", "search", "episodes"]
MAX_HITS = 8  # about 600 tokens
MAX_LISTED = 20  # one line each
BRIEF = Brief(
    description="Keep what the user wants you to remember (add), drop it, or search what is known. "
    "target: user (who they are, what they prefer) or env (project, machine).",
    required=("action", "target", "content"),
    choices={"action": ("add", "remove", "search")},
)


def _effect_of(arguments: Mapping[str, Any]) -> Effect:
    is_reading = arguments.get("action") in ("read", "search", "episodes")
    return "memory-read" if is_reading else "memory"


@memory_tool(effect="memory", effect_of=_effect_of, subject="action", name="memory", brief=BRIEF)
async def use_memory(
    memory: OpenMemory,
    action: Action = "add",
    target: Annotated[
        Target | None, "user: who they are, what they want; env: project and machine"
    ] = None,
    content: Annotated[str, "the fact, for add and replace"] = "",
    old_text: Annotated[str, "part of the one entry to replace, remove or archive"] = "",
    query: Annotated[
        str, "words to search facts and past sessions; for episodes a session id"
    ] = "",
    quote: Annotated[
        str,
        "the user's exact words, only if they state this themselves as true: not a question, not "
        "what others say",
    ] = "",
    source: Source = "",
    since: Annotated[str, "version or day from which it holds"] = "",
    until: Annotated[str, "its last day, YYYY-MM-DD"] = "",
    scope: Annotated[Scope | None, "default: user global, env project"] = None,
) -> ToolOutput:
    """Facts kept across sessions; all current ones are in the system prompt. Save, in one short
    sentence, what will still be true and useful next week: what the user prefers or corrects, how
    the project is built, tested and run. Not the task at hand, nor what the repository says; no
    secrets. A fact that changed: replace, not add."""
    text, store, author = query or content or old_text, memory.store, memory.author()
    match action:
        case "read":
            return _read(memory)
        case "search":
            return await _search(memory, text)
        case "episodes":
            return _show_episodes(memory, text)
        case "consolidate":
            place = place_of(target or "", scope or "", store.project)
            if not memory.settings.llm_consolidate:
                raise MemoryRefused(
                    "Consolidating by a model is off (memory.llm_consolidate). Replace or remove "
                    "single entries instead."
                )
            outcome = await consolidate(memory, place, memory.visible_facts([place]))
            return answer(memory, memory.announce(outcome), memory.fill(place))
        case "remove" | "archive":
            id = store.find(old_text or content, target or "").id
            if action == "remove":
                outcome = await store.forget(id, author)
            else:
                outcome = await store.amend(id, Amendment(state="archived"), author, "archive")
            return answer(memory, memory.announce(outcome))
        case "replace":
            old = store.find(old_text, target or "")
            memory.check_replaced(old, content, old_text)
            author, remark = memory.model_author(quote, source)
            outcome = await memory.save(store.new_version(old, content, author), old=old)
            return answer(memory, outcome, remark)
        case "add":
            addition = Addition(
                target=target or "", text=content, scope=scope or "", since=since, until=until
            )
            author, remark = memory.model_author(quote, source)
            outcome = await memory.save(memory.new_statement(addition, author))
            return answer(memory, outcome, remark)


def _read(memory: OpenMemory) -> ToolOutput:
    facts, sections = memory.visible_facts(), list[str]()
    for place in memory.store.fact_places():
        texts = [memory.describe(fact) for fact in facts if fact.place == place]
        sections.append(f"── {memory.fill(place)} ──\n" + ("\n§\n".join(texts) or "(empty)"))
    text = "\n\n".join(sections)
    memory.mark_shown(frame.escape(text), facts)
    return ToolOutput(text=frame.wrap(frame.FACTS, text), summary="facts")


async def _search(memory: OpenMemory, query: str) -> ToolOutput:
    if not query.strip():
        raise MemoryRefused("`search` needs `query`: a few words of what you look for.")
    hits = await memory.search(query, MAX_HITS)
    if not hits:
        return ToolOutput(text=f"No matching fact or note for: {query}", summary="no match")
    listed = "\n\n".join(f"[{hit.where}, {hit.match}] {hit.text}" for hit in hits)
    memory.mark_shown(frame.escape(listed), memory.store.statements())
    about = f"What memory has on this, best first. {frame.NOTES}"
    return ToolOutput(text=frame.wrap(about, listed), summary=f"{len(hits)} hits")


def _show_episodes(memory: OpenMemory, id: str) -> ToolOutput:
    if not id.strip():
        listed = memory.list_notes(MAX_LISTED)
        return ToolOutput(text=frame.wrap(frame.NOTES, listed), summary="episodes")
    matches = [note for note in memory.notes() if target_of(note.place).startswith(id.strip())]
    if len(matches) != 1:
        fault = "Several notes" if matches else "No note"
        raise MemoryRefused(f"{fault} begin with {id!r}. `episodes` without a query lists them.")
    return ToolOutput(text=memory.show_notes(matches), summary="episodes")
