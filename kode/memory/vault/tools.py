"""The five tools over the vault, with their documented names and parameters, for the model of a
session and for the reflector.

A patch accepts both spellings (`oldText` and `old_text`), and an append accepts `content` for
`entry`: models confuse them.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any

from kode.contracts import Brief, Tool, ToolContext, ToolOutput
from kode.credentials import redact
from kode.errors import MemoryRefused
from kode.function_tool import tool
from kode.memory import frame, scan
from kode.memory.markdown import Format, display, plain_lines
from kode.memory.opened import OpenMemory
from kode.memory.quotes import verify_quote
from kode.memory.reading import IN_PART, Seen, check_read, mark_read
from kode.memory.remarks import remarks
from kode.memory.rendering import diff
from kode.memory.statement import Author, Outcome, Statement, statement_by, timestamp
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
TO_READ = (
    "Read it with `memory_read`, then write all of it; or change lines with `memory_patch`, add "
    "some with `memory_append`."
)
TO_LOSE = "Name what goes as `oldText` of `memory_patch`, or write what still holds."
Cited = Annotated[str, "path:line or path:first-last of the code that shows it"]


@dataclass(frozen=True)
class Patch:
    oldText: str
    newText: str
    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - read by pydantic, never changed


@dataclass(frozen=True, kw_only=True)
class VaultFiles:
    """The files of one project, as one author reads and writes them. What changes something raises
    MemoryRefused, StorageError and BusyError; then nothing was changed."""

    memory: OpenMemory
    seen: Seen
    """The versions of the files that the author was shown or has written."""
    author: Callable[[str], tuple[Author, str]]
    """(cited code) → the author of a change, and a remark on the citation."""
    outside: Callable[[], str]
    """Where outside text came from that the author has read; "" for none: then what it writes
    waits for the person."""
    now: Callable[[], datetime]

    def names(self) -> list[str]:
        """The places of all files: facts, then episodes, newest month first."""
        store = self.memory.store
        places = [*store.fact_places(), *reversed(store.record_places())]
        return [place for place in places if store.read_text(place) is not None]

    def read(self, path: str) -> tuple[str, str]:
        """Place and text of a file. Raises: MemoryRefused if there is none."""
        place = place_in(self.memory.store.project, path)
        text = self.memory.store.read_text(place)
        if text is None:
            listed = ", ".join(map(label, self.names()[:20])) or "nothing"
            raise MemoryRefused(f"There is no {label(place)}. Memory holds: {listed}.")
        if len(text) > READ_CHARS:
            self.seen[place] = IN_PART
        else:
            mark_read(self.seen, place, text)
        return place, text

    def rows(self) -> list[dict[str, Any]]:
        """The index for a model. A summary that looks like an attack is withheld: it is not
        framed."""
        rows = []
        for place in self.names():
            text = self.memory.store.read_text(place) or ""
            summary, size = summary_of(text), len(text.encode(errors="replace"))
            what = frame.suspicion(summary)
            shown = f"(not shown: it looks like {what})" if what else clean_summary(redact(summary))
            rows.append({"path": label(place), "summary": shown, "size": size})
        return rows

    async def write(self, path: str, content: str) -> Outcome:
        """Creates or overwrites a file."""
        place = place_in(self.memory.store.project, path)
        text = without_summary(_checked(content))
        before = self.memory.store.read_text(place) or ""
        check_read(self.seen, place, before, text, label=label(place), **_ADVICE)
        format = _format(self.memory, place)
        lost = [t for t in format.texts(without_summary(before)) if t not in format.texts(text)]
        if is_episodes(place) and lost:
            raise MemoryRefused(
                f'{label(place)} would lose {len(lost)} episodes, among them "{_quote(lost[0])}". '
                "Use `memory_append` to add one, or `memory_patch` to change one. Nothing was "
                "changed."
            )
        return await self._change(place, before, text, "")

    async def patch(self, path: str, patches: Sequence[Patch], cited: str) -> Outcome:
        """Applies patches in order, all or none."""
        place, before = self.read(path)
        if not patches:
            raise MemoryRefused("`patches` is empty: give at least one {oldText, newText}.")
        text = before = plain_lines(before)
        for number, patch in enumerate(patches, 1):
            scan.check(patch.newText)
            old = plain_lines(patch.oldText)
            count = text.count(old) if old else 0
            if count != 1:
                found = f"occurs {count} times" if count else "was not found"
                hint = "Quote more of the lines around it" if count else "Read the file again"
                raise MemoryRefused(
                    f'Patch {number} of {len(patches)}: oldText "{_quote(old)}" {found} in '
                    f"{label(place)}. {hint}, then send all patches again. Nothing was changed."
                )
            text = text.replace(old, plain_lines(patch.newText))
        if not scan.scan(before):  # two harmless patches may form one harmful text
            scan.check(text, max_chars=len(text))
        return await self._change(place, before, text, cited)

    async def append(self, path: str, entry: str, cited: str, summary: str) -> Outcome:
        """Appends an entry. Episodes go to the present month, whatever month was given."""
        memory, asked = self.memory, place_in(self.memory.store.project, path)
        place = month_place(memory.store.project, self.now()) if is_episodes(asked) else asked
        block = _checked(entry).strip()
        scan.check(summary)
        block = as_episode(block, self.now()) if is_episodes(place) else block
        before = memory.store.read_text(place) or ""
        self._check_budget(place, before, f"{before}\n{block}")
        author, remark = self.author(cited)
        format, texts = _format(memory, place), list[str]()
        for text in format.texts(block):
            texts += [text] if text not in texts else []
        details = {"summary": clean_summary(summary)} if summary.strip() else {}
        new = [self._statement(place, text, author, details) for text in texts]
        was_known = self.seen.get(place) is not None
        outcome = await memory.store.add_all(new)
        if was_known and not self.outside():
            mark_read(self.seen, place, memory.store.read_text(place) or "")
        moved = f"stored under {label(place)}, the present month" if asked != place else ""
        return memory.announce(outcome, "; ".join(filter(None, (moved, remark))))

    async def _change(self, place: str, before: str, text: str, cited: str) -> Outcome:
        """Makes `text` the text of a file. After outside text only what is new in it is stored, and
        waits for the person."""
        memory = self.memory
        self._check_budget(place, before, text)
        author, remark = self.author(cited)
        if self.outside():
            edit = diff(_format(memory, place), memory.store.view().current(place), text)
            new = [self._statement(place, new, author, {}) for new in edit.new]
            return memory.announce(await memory.store.add_all(new), remark)
        outcome = await memory.store.write_file(place, text, author)
        mark_read(self.seen, place, memory.store.read_text(place) or "")
        return memory.announce(outcome, remark)

    def _statement(
        self, place: str, text: str, author: Author, details: Mapping[str, Any]
    ) -> Statement:
        layout, project = self.memory.layout, self.memory.store.project
        new = statement_by(
            author,
            place,
            text,
            timestamp(self.now()),
            kind=layout.kind_of(place),
            project=project.hash if project.hash in place else "",
            details=details,
        )
        outside = self.outside()
        if outside and not verify_quote(display(text), self.memory.context.typed_messages()):
            return replace(new, state="waiting", source=outside)
        return new

    def _check_budget(self, place: str, before: str, after: str) -> None:
        """Raises: MemoryRefused if the facts would become larger than they may be."""
        budget = self.memory.settings.vault.facts_budget_bytes
        if budget is None or is_episodes(place):
            return
        store, own = self.memory.store, _counted(before)
        facts = sum(_counted(store.read_text(other) or "") for other in store.fact_places())
        total = facts - own + _counted(after)
        if total > budget and _counted(after) >= own:
            raise MemoryRefused(
                f"The facts would take {total:,} bytes, over their budget of {budget:,}; they take "
                f"{facts:,} now. Condense {label(place)} (say the same in less, drop what is no "
                "longer true), then try again. Nothing was changed."
            )


def vault_tools(files: VaultFiles) -> tuple[Tool, ...]:
    """`memory_list`, `memory_read`, `memory_write`, `memory_patch`, `memory_append`."""

    @tool(effect="memory-read")
    async def memory_list(context: ToolContext) -> ToolOutput:
        """List the files of memory."""
        rows = files.rows()
        text = json.dumps(rows, ensure_ascii=False)
        return ToolOutput(text=text, summary=f"{len(rows)} files")

    @tool(effect="memory-read", subject="path")
    async def memory_read(
        context: ToolContext, path: Annotated[str, "facts/NAME.md or episodes/YYYY-MM.md"]
    ) -> ToolOutput:
        """Read one file of memory."""
        with frame.as_tool_errors():
            place, text = files.read(path)
        notes = describe_doubts(files.memory, place)
        body = "\n\n".join(part for part in (text.rstrip("\n"), notes) if part)
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
            return _answer(await files.write(path, content))

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
    ) -> ToolOutput:
        """Change parts of a memory file."""
        with frame.as_tool_errors():
            outcome = await files.patch(path, patches, source)
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
    ) -> ToolOutput:
        """Append an entry to a memory file."""
        with frame.as_tool_errors():
            return _answer(await files.append(path, entry, source, summary))

    return (
        memory_list,
        memory_read,
        memory_write,
        _with_aliases(memory_patch, {"old_text": "oldText", "new_text": "newText"}),
        _with_aliases(memory_append, {"content": "entry"}),
    )


def describe_doubts(memory: OpenMemory, place: str) -> str:
    """What may not hold any more in a file, a line each; "" if all does."""
    doubts = remarks(memory.store, memory.today())
    facts = (fact for fact in memory.store.view().current(place) if fact.id in doubts)
    lines = [f'- "{shorten(fact.text, 120)}": {doubts[fact.id]}' for fact in facts]
    return "\n".join(("What may not hold any more:", *lines)) if lines else ""


def _with_aliases(base: Tool, names: Mapping[str, str]) -> Tool:
    """A tool whose parameters may have other names, which models confuse."""
    return replace(base, check=lambda arguments: base.check(_rename(arguments, names)))


def _rename(value: Any, names: Mapping[str, str]) -> Any:
    """Translates other names of known keys, unless the known key is given as well."""
    if isinstance(value, list):
        return [_rename(item, names) for item in value]
    if not isinstance(value, Mapping):
        return value
    return {
        names[key] if key in names and names[key] not in value else key: _rename(item, names)
        for key, item in value.items()
    }


def _answer(outcome: Outcome, **more: Any) -> ToolOutput:
    message = f"{outcome.text[:1].upper()}{outcome.text[1:]}."
    answer = {"success": True, **more, "message": message}
    return ToolOutput(text=json.dumps(answer, ensure_ascii=False), summary=outcome.text)


def _checked(content: str) -> str:
    """The text with normalized line ends. Raises: MemoryRefused."""
    text = plain_lines(content)
    if not text.strip():
        raise MemoryRefused("There is nothing to write: give the text in Markdown.")
    scan.check(text, author="model", max_chars=max(len(text), 1))
    return text


def _format(memory: OpenMemory, place: str) -> Format:
    format = memory.layout.format_of(place)
    assert format is not None
    return format


def _counted(text: str) -> int:
    """Bytes, without the summary, which nobody chose."""
    return len(without_summary(text).strip("\n").encode(errors="replace"))


def _quote(text: str) -> str:
    return shorten(text.lstrip("# "), 80)


_ADVICE = {"to_read": TO_READ, "to_lose": TO_LOSE}
