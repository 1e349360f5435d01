"""The `memory` tool: the model's operations on memory."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Literal

from kode.contracts import Brief, Effect, Tool, ToolContext, ToolOutput
from kode.errors import ToolError
from kode.events import MemoryChanged
from kode.function_tool import tool
from kode.memory import frame
from kode.memory.frame import as_tool_errors
from kode.memory.tiered.by_hand import FactMemory
from kode.memory.tiered.facts import TARGETS, Action, Scope, Target
from kode.memory.tiered.write import Outcome

Command = Literal[Action, "read", "search", "episodes"]

DESCRIPTION = """\
Facts kept across sessions. Add, in one short sentence, what will be true and useful next week: \
what the user prefers or corrects (user), how the project is built and tested (env); not the task, \
nor what the repository says. `old_text` is part of one entry. search covers past sessions; \
episodes reads the one whose id is `query`."""

BRIEF = Brief(
    description="Keep what the user wants you to remember (add), drop it, or search what is known. "
    "target: user (who they are, what they prefer) or env (project, machine).",
    required=("action", "target", "content"),
    choices={"action": ("add", "remove", "search")},
)


def _effect_of(arguments: Mapping[str, Any]) -> Effect:
    reads = arguments.get("action") in ("read", "search", "episodes")
    return "memory-read" if reads else "memory"


def memory_tool(facts: FactMemory, read_episodes: Callable[[str], Awaitable[str]]) -> Tool:
    """The tool over one open memory; `read_episodes` gives the episode of an id, or lists them."""

    @tool(
        effect="memory",
        effect_of=_effect_of,
        subject="action",
        name="memory",
        description=DESCRIPTION,
        brief=BRIEF,
    )
    async def memory(
        context: ToolContext,
        action: Command = "add",
        target: Target | None = None,
        content: str | None = None,
        old_text: str | None = None,
        query: str | None = None,
        source: str | None = None,
        since: str | None = None,
        until: Annotated[str | None, "YYYY-MM-DD"] = None,
        scope: Scope | None = None,
    ) -> ToolOutput:
        with as_tool_errors():
            if action == "read":
                return ToolOutput(text=_everything(facts), summary="facts")
            if action == "search":
                return await _search(facts, query or content or old_text or "")
            if action == "episodes":
                text = await read_episodes(query or content or old_text or "")
                return ToolOutput(text=text, summary="episodes")
            author = facts.author(source, since, until)
            if target is None:
                raise ToolError(
                    f"`{action}` needs `target`: {' or '.join(TARGETS)}. Nothing was changed."
                )
            old = old_text or ("" if action == "replace" else content) or ""
            if action == "replace":
                facts.check_replaced(target, scope, old, content or "")
            outcome = await facts.change(action, target, scope, author, old=old, new=content or "")
        if outcome.change_id:
            context.emit(MemoryChanged(text=outcome.line, change_id=outcome.change_id))
            facts.note_shown(content or "", [outcome.file] if outcome.file else ())
        return ToolOutput(text=_words(outcome), summary=outcome.line)

    return memory


async def _search(facts: FactMemory, query: str) -> ToolOutput:
    if not query.strip():
        raise ToolError("`search` needs `query`: a few words of what you look for.")
    hits = await facts.search(query, 8)
    about = "What memory holds on this, best first."
    if not hits or not hits[0].score:
        none = f"No matching fact or episode for: {query}"
        if facts.unread:
            none += f" ({facts.unread} episodes were not looked at yet: search again)"
        if not hits:
            return ToolOutput(text=none, summary="no match")
        about = f"{none}. These are the newest episodes."
    listed = "\n\n".join(f"[{hit.where}] {hit.text}" for hit in hits)
    facts.note_shown(listed, facts.files())
    text = frame.wrap(about, listed)
    return ToolOutput(text=text, summary=f"{len(hits)} hits")


def _everything(facts: FactMemory) -> str:
    files = facts.layers()
    parts = [
        f"── {file.label} · {file.fill} ──\n" + ("\n§\n".join(file.shown) or "(empty)")
        for file in files
    ]
    text = "\n\n".join(parts)
    facts.note_shown(text, files)
    return frame.wrap("All facts on disk now.", text)


def _words(outcome: Outcome) -> str:
    lines = [outcome.line[:1].upper() + outcome.line[1:] + "."]
    if outcome.detail:
        lines.append(outcome.detail[:1].upper() + outcome.detail[1:] + ".")
    if not outcome.change_id:
        lines.append("Nothing was changed.")
    if outcome.file is not None:
        lines.append(f"{outcome.file.label} is now {outcome.file.fill} full.")
    return " ".join(lines)
