"""The five tools over the vault, for the model of a session and for the reflector."""

import json
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, Field

from kode.credentials import redact
from kode.errors import MemoryRefused
from kode.memory import frame, scan
from kode.memory.frame import check_read, mark_read, remarks
from kode.memory.markdown import plain_lines
from kode.memory.policy import Addition, OpenMemory
from kode.memory.rendering import fingerprint
from kode.memory.statement import Rank
from kode.memory.tools import Source, as_sentence, memory_tool
from kode.memory.vault import layout
from kode.messages import shorten
from kode.tool import ToolOutput

READ_CHARS = 40_000
"""No model sees a longer file in full."""


class Patch(BaseModel, extra="forbid"):
    """The other spelling is that of kode's tool for files, which models confuse with this one."""

    oldText: str = Field(validation_alias=AliasChoices("oldText", "old_text"))
    newText: str = Field(validation_alias=AliasChoices("newText", "new_text"))


@memory_tool(effect="memory-read")
async def memory_list(memory: OpenMemory) -> ToolOutput:
    """List the files of memory."""
    rows = index_rows(memory)
    return ToolOutput(text=json.dumps(rows, ensure_ascii=False), summary=f"{len(rows)} files")


@memory_tool(effect="memory-read", subject="path")
async def memory_read(
    memory: OpenMemory, path: Annotated[str, "facts/NAME.md or episodes/YYYY-MM.md"]
) -> ToolOutput:
    """Read one file of memory."""
    place, text = _read(memory, path)
    if len(text) <= READ_CHARS:
        mark_read(memory.seen, place, text)
    doubts = remarks(memory.store, memory.today())
    facts = (fact for fact in memory.store.view().current(place) if fact.id in doubts)
    lines = [f'- "{shorten(fact.text, 120)}": {doubts[fact.id]}' for fact in facts]
    more = "\n".join(("\n\nSince then:", *lines)) if lines else ""
    body = f"{text.rstrip()}{more}" or "(empty)"
    framed = frame.wrap(f"The memory file {layout.label(place)}.", body)
    return ToolOutput(text=framed, summary=f"{text.count(chr(10))} lines")


@memory_tool(effect="memory", subject="path")
async def memory_write(
    memory: OpenMemory,
    path: Annotated[str, "facts/NAME.md"],
    content: Annotated[str, "all of the file: `- Key: value` lines, no secrets"],
    quote: Annotated[str, "the user's exact words, only if they state this one line as true"] = "",
) -> ToolOutput:
    """Create or overwrite facts/NAME.md in memory, which you have read."""
    place, text = layout.place_in(memory.store.project, path), _check_text(content)
    text, name = layout.without_summary(text), layout.label(place)
    if layout.is_episodes(place):
        advice = "Use `memory_append` to add one, `memory_patch` to change one."
        raise MemoryRefused(f"{name} holds episodes, which are not overwritten. {advice}")
    check_read(memory.seen, place, memory.store.read_text(place) or "", text, label=name)
    return await _store(memory, place, text, "", quote)


@memory_tool(effect="memory", subject="path")
async def memory_patch(
    memory: OpenMemory,
    path: Annotated[str, "the file"],
    patches: Annotated[list[Patch], "in order, all or none"],
    source: Source = "",
    quote: Annotated[str, "as of memory_write"] = "",
) -> ToolOutput:
    """Change parts of a memory file; each oldText stands in it once."""
    place, before = _read(memory, path)
    text = _apply_patches(plain_lines(before), patches, layout.label(place))
    return await _store(memory, place, text, source, quote, patches=patches)


@memory_tool(effect="memory", subject="path")
async def memory_append(
    memory: OpenMemory,
    path: Annotated[str, "episodes/YYYY-MM.md, or facts/NAME.md"],
    entry: Annotated[str, "an episode: `## Title`, `- Summary: under ten words`, the lesson"],
    summary: Annotated[str, "replaces the file's generated summary"] = "",
    source: Annotated[str, "as of memory_patch"] = "",
    quote: Annotated[str, "as of memory_write"] = "",
) -> ToolOutput:
    """Append what a task has taught to a memory file."""
    place, block = layout.place_in(memory.store.project, path), _check_text(entry).strip()
    scan.check(summary)
    if layout.is_episodes(place):  # of the present month, whatever month the model takes it for
        now = memory.context.now()
        place, block = layout.month_place(memory.store.project, now), layout.as_episode(block, now)
    return await _store(memory, place, block, source, quote, summary=summary)


TOOLS = (memory_list, memory_read, memory_write, memory_patch, memory_append)
"""In their documented order."""


def index_rows(memory: OpenMemory) -> list[dict[str, Any]]:
    """The files for a model, newest month first. A summary like an attack is withheld."""
    rows, store = list[dict[str, Any]](), memory.store
    for place in (*store.fact_places(), *reversed(store.record_places())):
        if (text := store.read_text(place)) is not None:
            summary = layout.clean_summary(redact(layout.summary_of(text)))
            if what := frame.suspicion(summary):
                summary = f"(not shown: it looks like {what})"
            size = len(text.encode(errors="replace"))
            rows.append({"path": layout.label(place), "summary": summary, "size": size})
    return rows


def _read(memory: OpenMemory, path: str) -> tuple[str, str]:
    """Place and text of a file. Raises: MemoryRefused if there is none."""
    place = layout.place_in(memory.store.project, path)
    if (text := memory.store.read_text(place)) is not None:
        return place, text
    raise MemoryRefused(f"There is no {layout.label(place)}: `memory_list` shows what there is.")


def _apply_patches(text: str, patches: Sequence[Patch], name: str) -> str:
    """A text after all patches. Raises: MemoryRefused if one of them does not fit."""
    if not patches:
        raise MemoryRefused("`patches` is empty: give at least one {oldText, newText}.")
    was_harmless = not scan.scan(text)
    for number, patch in enumerate(patches, 1):
        scan.check(patch.newText)
        old = plain_lines(patch.oldText)
        if (count := text.count(old) if old else 0) != 1:
            advice = "Quote more of the lines around it" if count else "Read the file again"
            raise MemoryRefused(
                f'Patch {number} of {len(patches)}: oldText "{shorten(old, 80)}" occurs {count} '
                f"times in {name}. {advice}, then send all patches again. Nothing was changed."
            )
        text = text.replace(old, plain_lines(patch.newText))
    if was_harmless:  # two harmless patches may form one harmful text
        scan.check(text, max_chars=len(text))
    return text


async def _store(
    memory: OpenMemory,
    place: str,
    text: str,
    source: str,
    quote: str,
    *,
    summary: str | None = None,
    patches: Sequence[Patch] = (),
) -> ToolOutput:
    """Makes `text` the text of a file, or, with a summary, adds it as an entry. After outside text,
    of what does more than remove only the new is stored, and waits for the person."""
    store, texts, is_entry = memory.store, layout.format_of(place).texts, summary is not None
    before = store.read_text(place) or ""
    was_read = memory.seen.get(place, "") == fingerprint(before)
    parts = [part for part in texts(text) if is_entry or part not in texts(before)]
    is_single = len(parts) < 2
    author, remark = memory.model_author(quote if is_single else "", source)
    if quote.strip() and not is_single:
        remark = "`quote` was left out: it counts for one line. Write each by itself."
    details = {"summary": line} if (line := layout.clean_summary(summary or "")) else {}
    additions = (Addition(target=layout.label(place), text=part, details=details) for part in parts)
    new = [memory.new_statement(addition, author) for addition in additions]
    is_removal = bool(patches) and not any(patch.newText.strip() for patch in patches)
    if is_removal or not (is_entry or memory.context.tainted()):
        # What patches quote is named by them: it gives way to a line of its rank, and to a removal.
        least = Rank.QUOTED if is_removal else Rank.MODEL
        may_end = max(map(store.rank, new), default=least) if patches else least
        outcome = memory.announce(await store.write_file(place, text, author, may_end=may_end))
    elif is_single and new and memory.writer == "model" and not layout.is_episodes(place):
        outcome = await memory.save(new[0])  # which compares it with the lines of the file
    else:
        outcome = memory.announce(await store.add(*map(memory.hold_back, new)))
    if was_read:
        mark_read(memory.seen, place, store.read_text(place) or "")
    row: dict[str, object] = {"success": True} | ({"appliedCount": len(patches)} if patches else {})
    row |= {"message": as_sentence("\n".join(filter(None, (outcome.text, remark))))}
    return ToolOutput(text=json.dumps(row, ensure_ascii=False), summary=outcome.text)


def _check_text(content: str) -> str:
    """The text with normalized line ends. Raises: MemoryRefused."""
    text = plain_lines(content)
    if not text.strip():
        raise MemoryRefused("There is nothing to write: give the text in Markdown.")
    scan.check(text, max_chars=len(text))
    return text
