"""The `memory` tool: what the model can do with facts, and where it looks up past sessions."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from kode.contracts import Brief, Effect, Tool, ToolContext, ToolOutput
from kode.errors import MemoryRefused, ToolError
from kode.function_tool import tool
from kode.memory import frame
from kode.memory.learn import consolidate
from kode.memory.policy import NO_NOTES, Addition, OpenMemory
from kode.memory.statement import Amendment, Outcome
from kode.memory.tiered.layout import TARGETS, Scope, Target, place_of, target_of

Action = Literal["add", "replace", "remove", "archive", "consolidate", "read", "search", "episodes"]
MAX_HITS = 8  # about 600 tokens
MAX_LISTED = 20  # one line each

DESCRIPTION = (
    "Facts kept across sessions; all current ones are in the system prompt. Save, in one short "
    "sentence, what will still be true and useful next week: what the user prefers or corrects, "
    "how the project is built, tested and run. Not the task at hand, nor what the repository says; "
    "no secrets. A fact that changed: replace, not add."
)

BRIEF = Brief(
    description="Keep what the user wants you to remember (add), drop it, or search what is known. "
    "target: user (who they are, what they prefer) or env (project, machine).",
    required=("action", "target", "content"),
    choices={"action": ("add", "remove", "search")},
)


def _effect_of(arguments: Mapping[str, Any]) -> Effect:
    is_reading = arguments.get("action") in ("read", "search", "episodes")
    return "memory-read" if is_reading else "memory"


def memory_tool(memory: OpenMemory) -> Tool:
    """The tool over one open memory."""

    @tool(
        effect="memory",
        effect_of=_effect_of,
        subject="action",
        name="memory",
        description=DESCRIPTION,
        brief=BRIEF,
    )
    async def memory_(
        context: ToolContext,
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
            "the user's exact words, only if they state this themselves as true: not a question, "
            "not what others say",
        ] = "",
        source: Annotated[str, "path:line or path:first-last of the code that shows it"] = "",
        since: Annotated[str, "version or day from which it holds"] = "",
        until: Annotated[str, "its last day, YYYY-MM-DD"] = "",
        scope: Annotated[Scope | None, "default: user global, env project"] = None,
    ) -> ToolOutput:
        text = query or content or old_text
        with frame.as_tool_errors():
            match action:
                case "read":
                    return _read(memory)
                case "search":
                    return await _search(memory, text)
                case "episodes":
                    return _episodes(memory, text)
                case "consolidate":
                    return await _consolidate(memory, _named(target), scope or "")
                case "add":
                    addition = Addition(
                        target=_named(target),
                        text=content,
                        scope=scope or "",
                        since=since,
                        until=until,
                    )
                    author, remark = memory.model_author(quote, source)
                    outcome = await memory.save(memory.new_statement(addition, author))
                    return _done(memory, outcome, remark)
                case "replace":
                    old = memory.store.find(old_text, target or "")
                    memory.check_replaced(old, content, old_text)
                    author, remark = memory.model_author(quote, source)
                    new = memory.store.new_version(old, content, author)
                    outcome = await memory.save(new, replaced=old)
                    return _done(memory, outcome, remark)
                case "remove" | "archive":
                    id = memory.store.find(old_text or content, target or "").id
                    author, archived = memory.author(), Amendment(state="archived")
                    if action == "remove":
                        outcome = await memory.store.forget(id, author)
                    else:
                        outcome = await memory.store.amend(id, archived, author, "archive")
                    return _done(memory, memory.announce(outcome))

    return memory_


def _named(target: Target | None) -> Target:
    if target is None:
        raise MemoryRefused(f"`target` is missing: {' or '.join(TARGETS)}. Nothing was changed.")
    return target


def _read(memory: OpenMemory) -> ToolOutput:
    facts = memory.visible_facts()
    sections = []
    for place in memory.store.fact_places():
        texts = [memory.describe(fact) for fact in facts if fact.place == place]
        heading = f"── {memory.fill(place)} ──"
        sections.append("\n".join((heading, "\n§\n".join(texts) or "(empty)")))
    text = "\n\n".join(sections)
    memory.mark_shown(frame.escape(text), facts)
    return ToolOutput(text=frame.wrap(frame.FACTS, text), summary="facts")


async def _search(memory: OpenMemory, query: str) -> ToolOutput:
    if not query.strip():
        raise ToolError("`search` needs `query`: a few words of what you look for.")
    hits = await memory.search(query, MAX_HITS)
    if not hits:
        return ToolOutput(text=f"No matching fact or note for: {query}", summary="no match")
    listed = "\n\n".join(f"[{hit.where}, {hit.match}] {hit.text}" for hit in hits)
    memory.mark_shown(frame.escape(listed), memory.store.statements())
    about = f"What memory has on this, best first. {frame.NOTES}"
    return ToolOutput(text=frame.wrap(about, listed), summary=f"{len(hits)} hits")


def _episodes(memory: OpenMemory, id: str) -> ToolOutput:
    if not id.strip():
        listed = memory.list_notes(MAX_LISTED)
        text = frame.wrap(frame.NOTES, listed) if listed else NO_NOTES
        return ToolOutput(text=text, summary="episodes")
    matches = [note for note in memory.notes() if target_of(note.place).startswith(id.strip())]
    if len(matches) != 1:
        fault = "Several notes" if matches else "No note"
        raise MemoryRefused(f"{fault} begin with {id!r}. `episodes` without a query lists them.")
    return ToolOutput(text=memory.show_notes(matches), summary="episodes")


async def _consolidate(memory: OpenMemory, target: Target, scope: str) -> ToolOutput:
    place = place_of(target, scope, memory.store.project)
    if not memory.settings.llm_consolidate:
        raise MemoryRefused(
            "Consolidating by a model is off (memory.llm_consolidate). Replace or remove single "
            "entries instead."
        )
    outcome = await consolidate(memory, place, memory.visible_facts([place]))
    text = memory.announce(outcome).text
    return ToolOutput(text=f"{text}. {memory.fill(place)}", summary=text)


def _done(memory: OpenMemory, outcome: Outcome, remark: str = "") -> ToolOutput:
    """What an operation did, for the model."""
    lines = [f"{outcome.text[:1].upper()}{outcome.text[1:]}."]
    lines += [] if outcome.change else ["Nothing was changed."]
    if outcome.statement:
        memory.mark_shown(frame.escape(outcome.statement.text), [outcome.statement])
        lines.append(f"{memory.fill(outcome.statement.place)}.")
    lines += [remark] if remark else []
    return ToolOutput(text=" ".join(lines), summary=outcome.text)
