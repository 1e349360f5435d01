"""The five tools over the vault, with their documented names and parameters, for the model of a
session and for the reflector.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from kode.contracts import Brief, Tool, ToolContext, ToolOutput
from kode.credentials import redact
from kode.errors import MemoryRefused
from kode.function_tool import tool
from kode.memory import frame, scan
from kode.memory.frame import IN_PART, check_read, mark_read
from kode.memory.markdown import plain_lines
from kode.memory.policy import Addition, OpenMemory
from kode.memory.remarks import remarks
from kode.memory.statement import Author, Outcome, Rank
from kode.memory.vault.layout import (
    as_episode,
    clean_summary,
    is_episodes,
    label,
    month_place,
    place_in,
    summary_of,
    without_summary,
)
from kode.messages import shorten

READ_CHARS = 40_000
"""No model sees a longer file in full."""
Cited = Annotated[str, "path:line or path:first-last of the code that shows it"]
Quote = Annotated[
    str, "the user's exact words, only if they state this one line themselves as true"
]


class Patch(BaseModel):
    """The other spelling is that of kode's tool for files, which models confuse with this one."""

    model_config = ConfigDict(extra="forbid")

    oldText: str = Field(validation_alias=AliasChoices("oldText", "old_text"))
    newText: str = Field(validation_alias=AliasChoices("newText", "new_text"))


def vault_tools(memory: OpenMemory) -> tuple[Tool, ...]:
    """`memory_list`, `memory_read`, `memory_write`, `memory_patch`, `memory_append`."""
    project = memory.store.project

    @tool(effect="memory-read")
    async def memory_list(context: ToolContext) -> ToolOutput:
        """List the files of memory."""
        rows = index_rows(memory)
        text = json.dumps(rows, ensure_ascii=False)
        return ToolOutput(text=text, summary=f"{len(rows)} files")

    @tool(effect="memory-read", subject="path")
    async def memory_read(
        context: ToolContext, path: Annotated[str, "facts/NAME.md or episodes/YYYY-MM.md"]
    ) -> ToolOutput:
        """Read one file of memory."""
        with frame.as_tool_errors():
            place, text = _read(memory, path)
        body = "\n\n".join(part for part in (text.rstrip("\n"), _doubts(memory, place)) if part)
        framed = frame.wrap(f"The memory file {label(place)}.", body)
        return ToolOutput(text=framed, summary=f"{text.count(chr(10))} lines")

    @tool(
        effect="memory",
        subject="path",
        brief=Brief(
            description="Create or overwrite facts/NAME.md in memory: `- Key: value` lines.",
            required=("path", "content"),
        ),
    )
    async def memory_write(
        context: ToolContext,
        path: Annotated[str, "facts/NAME.md"],
        content: Annotated[str, "all of the file: `- Key: value` lines, no secrets"],
    ) -> ToolOutput:
        """Create or overwrite a file of facts that you have read."""
        with frame.as_tool_errors():
            place, text = place_in(project, path), without_summary(_checked(content))
            if is_episodes(place):
                raise MemoryRefused(
                    f"{label(place)} holds episodes, which are not overwritten. Use "
                    "`memory_append` to add one, `memory_patch` to change one."
                )
            before = memory.store.read_text(place) or ""
            check_read(
                memory.seen,
                place,
                before,
                text,
                label=label(place),
                to_read="Read it with `memory_read`, then write all of it; or change lines with "
                "`memory_patch`, add some with `memory_append`.",
                to_lose="Name what goes as `oldText` of `memory_patch`, or write what still holds.",
            )
            return _answer(await _change(memory, place, before, text))

    @tool(
        effect="memory",
        subject="path",
        brief=Brief(
            description="Change parts of a memory file; each oldText stands in it once.",
            required=("path", "patches"),
        ),
    )
    async def memory_patch(
        context: ToolContext,
        path: str,
        patches: Annotated[list[Patch], "in order, all or none; oldText occurs once"],
        source: Cited = "",
        quote: Quote = "",
    ) -> ToolOutput:
        """Change parts of a memory file."""
        with frame.as_tool_errors():
            place, before = _read(memory, path)
            text = _patched(plain_lines(before), patches, label(place))
            may_end = (
                Rank.OUTSIDE if any(patch.newText.strip() for patch in patches) else Rank.QUOTED
            )
            outcome = await _change(memory, place, before, text, source, quote, may_end)
        return _answer(outcome, appliedCount=len(patches))

    @tool(
        effect="memory",
        subject="path",
        brief=Brief(
            description="Append what a task has taught to episodes/YYYY-MM.md in memory.",
            required=("path", "entry"),
        ),
    )
    async def memory_append(
        context: ToolContext,
        path: Annotated[str, "episodes/YYYY-MM.md, or facts/NAME.md"],
        entry: Annotated[str, "an episode: `## Title`, `- Summary: under ten words`, the lesson"],
        summary: Annotated[str, "replaces the file's generated summary"] = "",
        source: Cited = "",
        quote: Quote = "",
    ) -> ToolOutput:
        """Append an entry to a memory file."""
        with frame.as_tool_errors():
            place, block, moved = place_in(project, path), _checked(entry).strip(), ""
            scan.check(summary)
            if is_episodes(place):
                now = memory.context.now()
                month, block = month_place(project, now), as_episode(block, now)
                if place != month:  # whatever month the model takes it for
                    place, moved = month, f"stored under {label(month)}, the present month"
            before = memory.store.read_text(place) or ""
            _check_budget(memory, place, before, f"{before}\n{block}")
            was_read = place in memory.seen and not memory.context.tainted()
            outcome = await _add(memory, place, block, source, quote, summary, moved)
            if was_read:
                mark_read(memory.seen, place, memory.store.read_text(place) or "")
        return _answer(outcome)

    return memory_list, memory_read, memory_write, memory_patch, memory_append


def index_rows(memory: OpenMemory) -> list[dict[str, Any]]:
    """The files for a model. A summary that looks like an attack is withheld: it is not framed."""
    rows = []
    for place in _places(memory):
        text = memory.store.read_text(place) or ""
        summary, size = summary_of(text), len(text.encode(errors="replace"))
        what = frame.suspicion(summary)
        shown = f"(not shown: it looks like {what})" if what else clean_summary(redact(summary))
        rows.append({"path": label(place), "summary": shown, "size": size})
    return rows


def _places(memory: OpenMemory) -> list[str]:
    """The places of all files: facts, then episodes, newest month first."""
    store = memory.store
    places = [*store.fact_places(), *reversed(store.record_places())]
    return [place for place in places if store.read_text(place) is not None]


def _read(memory: OpenMemory, path: str) -> tuple[str, str]:
    """Place and text of a file. Raises: MemoryRefused if there is none."""
    place = place_in(memory.store.project, path)
    text = memory.store.read_text(place)
    if text is None:
        listed = ", ".join(map(label, _places(memory)[:20])) or "nothing"
        raise MemoryRefused(f"There is no {label(place)}. Memory holds: {listed}.")
    mark_read(memory.seen, place, text)
    if len(text) > READ_CHARS:
        memory.seen[place] = IN_PART
    return place, text


def _patched(text: str, patches: Sequence[Patch], name: str) -> str:
    """A text after all patches. Raises: MemoryRefused if one of them does not fit."""
    if not patches:
        raise MemoryRefused("`patches` is empty: give at least one {oldText, newText}.")
    was_harmless = not scan.scan(text)
    for number, patch in enumerate(patches, 1):
        scan.check(patch.newText)
        old = plain_lines(patch.oldText)
        count = text.count(old) if old else 0
        if count != 1:
            fault = f"occurs {count} times" if count else "was not found"
            hint = "Quote more of the lines around it" if count else "Read the file again"
            raise MemoryRefused(
                f'Patch {number} of {len(patches)}: oldText "{shorten(old, 80)}" {fault} in '
                f"{name}. {hint}, then send all patches again. Nothing was changed."
            )
        text = text.replace(old, plain_lines(patch.newText))
    if was_harmless:  # two harmless patches may form one harmful text
        scan.check(text, max_chars=len(text))
    return text


async def _change(
    memory: OpenMemory,
    place: str,
    before: str,
    text: str,
    source: str = "",
    quote: str = "",
    may_end: Rank = Rank.OUTSIDE,
) -> Outcome:
    """Makes `text` the text of a file. After outside text only what is new in it is stored, and
    waits for the person. `may_end`: the highest rank of what it takes away, if it adds nothing."""
    _check_budget(memory, place, before, text)
    if memory.context.tainted():
        return await _add(memory, place, text, source, quote)
    new = {*_texts(memory, place, text)} - {*_texts(memory, place, before)}
    author, remark = _author(memory, source, quote, len(new))
    rank = Rank.OUTSIDE if new else may_end
    outcome = await memory.store.write_file(place, text, author, may_end=rank)
    mark_read(memory.seen, place, memory.store.read_text(place) or "")
    return memory.announce(outcome, remark)


async def _add(
    memory: OpenMemory,
    place: str,
    text: str,
    source: str,
    quote: str,
    summary: str = "",
    moved: str = "",
) -> Outcome:
    """Adds the statements of a text that the file does not have."""
    texts = _texts(memory, place, text)
    author, remark = _author(memory, source, quote, len(texts))
    details = {"summary": clean_summary(summary)} if summary.strip() else {}
    new = [
        memory.new_statement(Addition(target=label(place), text=part, details=details), author)
        for part in texts
    ]
    remark = "; ".join(filter(None, (moved, remark)))
    if len(new) == 1 and memory.writer == "model" and not is_episodes(place):
        outcome = await memory.save(new[0])  # which compares it with the lines of the file
        return replace(outcome, text="\n".join(filter(None, (outcome.text, remark))))
    outcome = await memory.store.add_all([memory.hold_back(statement) for statement in new])
    return memory.announce(outcome, remark)


def _texts(memory: OpenMemory, place: str, text: str) -> list[str]:
    format = memory.layout.format_of(place)
    return format.texts(text) if format else []


def _author(memory: OpenMemory, source: str, quote: str, count: int) -> tuple[Author, str]:
    """Who writes so many statements, and a remark: the person's words vouch for one."""
    if quote.strip() and count > 1:
        author, _ = memory.model_author("", source)
        return author, "`quote` was left out: it counts for one line. Write each by itself."
    return memory.model_author(quote, source)


def _check_budget(memory: OpenMemory, place: str, before: str, after: str) -> None:
    """Raises: MemoryRefused if the facts would become larger than they may be."""
    budget = memory.settings.vault.facts_budget_bytes
    if budget is None or is_episodes(place):
        return
    sizes = [_size(memory.store.read_text(other) or "") for other in memory.store.fact_places()]
    total = sum(sizes) - _size(before) + _size(after)
    if total > budget and _size(after) >= _size(before):
        raise MemoryRefused(
            f"The facts would take {total:,} bytes, over their budget of {budget:,}; they take "
            f"{sum(sizes):,} now. Condense {label(place)} (say the same in less, drop what is no "
            "longer true), then try again. Nothing was changed."
        )


def _size(text: str) -> int:
    """Bytes, without the summary, which nobody chose."""
    return len(without_summary(text).strip("\n").encode(errors="replace"))


def _doubts(memory: OpenMemory, place: str) -> str:
    """What may not hold any more in a file, a line each; "" if all does."""
    doubts = remarks(memory.store, memory.today())
    facts = (fact for fact in memory.store.view().current(place) if fact.id in doubts)
    lines = [f'- "{shorten(fact.text, 120)}": {doubts[fact.id]}' for fact in facts]
    return "\n".join(("What may not hold any more:", *lines)) if lines else ""


def _checked(content: str) -> str:
    """The text with normalized line ends. Raises: MemoryRefused."""
    text = plain_lines(content)
    if not text.strip():
        raise MemoryRefused("There is nothing to write: give the text in Markdown.")
    scan.check(text, max_chars=len(text))
    return text


def _answer(outcome: Outcome, **more: Any) -> ToolOutput:
    message = f"{outcome.text[:1].upper()}{outcome.text[1:]}."
    answer: Mapping[str, Any] = {"success": True, **more, "message": message}
    return ToolOutput(text=json.dumps(answer, ensure_ascii=False), summary=outcome.text)
