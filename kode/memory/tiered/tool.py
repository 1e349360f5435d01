"""The `memory` tool: the model's operations on memory."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from kode.contracts import Brief, Effect, Tool, ToolContext, ToolOutput
from kode.errors import ToolError
from kode.events import MemoryChanged
from kode.function_tool import tool
from kode.memory import frame
from kode.memory.frame import as_tool_errors
from kode.memory.tiered.facts import TARGETS, Action, Scope, Target
from kode.memory.tiered.write import Outcome

if TYPE_CHECKING:
    from kode.memory.tiered.system import Tiered

Command = Literal[Action, "read", "search", "episodes"]

DESCRIPTION = """\
Remember things across sessions. Save what will still be true and useful next week: what the user \
prefers or corrects, and how this project is built, tested and laid out. One short fact per add. \
Do not save the current task, what the repository says itself, or secrets.
target: user (who the user is, preferences) or env (machine, tools, conventions, architecture).
add (content) · replace (old_text, content) · archive (old_text: out of the prompt, still found; \
when full) · remove (old_text: what is wrong or to be forgotten) · consolidate (say the same in \
less, when full) · read (all facts but archived ones) · search (query over facts, archived ones \
and past sessions) · episodes (query: the id of one, to read all of it; without, the newest).
A change is on disk at once and shows in the prompt of the next session."""

BRIEF = Brief(
    description="Keep what the user wants you to remember (add), drop it, or search what is known. "
    "target: user (who they are, what they prefer) or env (project, machine).",
    required=("action", "target", "content"),
    choices={"action": ("add", "remove", "search")},
)


def _effect_of(arguments: Mapping[str, Any]) -> Effect:
    reads = arguments.get("action") in ("read", "search", "episodes")
    return "memory-read" if reads else "memory"


def memory_tool(facts: "Tiered") -> Tool:
    """The tool over one open memory."""

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
        target: Annotated[Target | None, "for add, replace, archive, remove, consolidate"] = None,
        content: Annotated[str | None, "for add and replace: the fact"] = None,
        old_text: Annotated[
            str | None, "for replace, archive and remove: a part of the entry found in no other"
        ] = None,
        query: Annotated[str | None, "for search and episodes"] = None,
        source: Annotated[
            str | None, "for add and replace: the code it rests on, as path:line-line"
        ] = None,
        since: Annotated[str | None, "for add and replace: version or day it holds from"] = None,
        until: Annotated[str | None, "for add and replace: last day it holds, YYYY-MM-DD"] = None,
        scope: Annotated[
            Scope | None,
            "global: everywhere; project: here only. Default: user global, env project",
        ] = None,
    ) -> ToolOutput:
        with as_tool_errors():
            if action == "read":
                return ToolOutput(text=_everything(facts), summary="facts")
            if action == "search":
                return await _search(facts, query or content or old_text or "")
            if action == "episodes":
                text = await facts.read_episodes(query or content or old_text or "")
                return ToolOutput(text=text, summary="episodes")
            author = facts.author(source, since, until)
            if target is None:
                raise ToolError(
                    f"`{action}` needs `target`: {' or '.join(TARGETS)}. Nothing was changed."
                )
            old = old_text or ("" if action == "replace" else content) or ""
            outcome = await facts.change(action, target, scope, author, old=old, new=content or "")
        if outcome.change_id:
            context.emit(MemoryChanged(text=outcome.line, change_id=outcome.change_id))
        return ToolOutput(text=_words(outcome), summary=outcome.line)

    return memory


async def _search(facts: "Tiered", query: str) -> ToolOutput:
    if not query.strip():
        raise ToolError("`search` needs `query`: a few words of what you look for.")
    hits = await facts.search(query, 8)
    about = "What memory holds on this, best first."
    if not hits or not hits[0].score:
        none = f"No matching fact or episode for: {query}"
        if not hits:
            return ToolOutput(text=none, summary="no match")
        about = f"{none}. These are the newest episodes."
    listed = "\n\n".join(f"[{hit.where}] {hit.text}" for hit in hits)
    text = frame.wrap(about, listed)
    return ToolOutput(text=text, summary=f"{len(hits)} hits")


def _everything(facts: "Tiered") -> str:
    files = facts.layers()
    parts = [
        f"── {file.label} · {file.fill} ──\n" + ("\n§\n".join(file.shown) or "(empty)")
        for file in files
    ]
    return frame.wrap("All facts on disk now.", "\n\n".join(parts))


def _words(outcome: Outcome) -> str:
    lines = [outcome.line[:1].upper() + outcome.line[1:] + "."]
    if outcome.detail:
        lines.append(outcome.detail[:1].upper() + outcome.detail[1:] + ".")
    if not outcome.change_id:
        lines.append("Nothing was changed.")
    if outcome.file is not None:
        lines.append(f"{outcome.file.label} is now {outcome.file.fill} full.")
    return " ".join(lines)
