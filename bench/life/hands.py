"""What a capable model writes with a system's own tools, and what it looks up before it answers.

How a call is made is the caller's: `InProcess` calls the tools of an open memory, through the gate
as in a session; a person who is asked about one says yes to what they said themselves, and no to
all else.
"""

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from bench.life.plain import Files
from bench.life.reader import values
from bench.life.story import Fact, Said
from kode.errors import KodeError
from kode.events import no_emit
from kode.memory.contract import MemorySystem
from kode.messages import Message, ToolCall, ToolResult
from kode.permissions import places
from kode.permissions.decide import Call, decide_call
from kode.tool import Action, Tool, ToolContext
from kode.workplace import NOWHERE

CITED = ("The lines before it\n", "have a length of their own\n")
"""What stands above the cited line, so that it is the third."""
_MARKS = re.compile(r" \([^()]*\)$")
"""What a fact is shown with: its date, its author, what to know of it."""
_ARCHIVED = re.compile(r"(?m)^\[(?:user|env \(project\)), archived\] (.*)$")
HEAD = "Since then:"
"""Begins what memory says below a note, of what does not hold any more."""
MOST_ARCHIVED = 3
"""Entries that the model archives for one new fact."""


Caller = Callable[[str, Mapping[str, Any], Fact | None], Awaitable[str]]
"""(tool, arguments, what is written: None to read) → the result. Raises: KodeError with the error
that the model gets."""


class InProcess:
    """Calls the tools of an open memory."""

    def __init__(self, system: MemorySystem) -> None:
        self._tools: Mapping[str, Tool] = {tool.name: tool for tool in system.tools()}
        self.tainted = False
        """Whether the session has read outside text."""

    async def __call__(self, name: str, arguments: Mapping[str, Any], fact: Fact | None) -> str:
        tool = self._tools[name]
        call = Call(
            mode="auto-edit",
            action=Action(call_id="", tool=tool, arguments=arguments),
            place=NOWHERE,
            where=places.path_rules(NOWHERE),
            tainted=lambda: self.tainted,
        )
        if fact and fact.by != "person" and decide_call(call).outcome == "ask":
            raise KodeError("The user said no.")
        context = ToolContext(place=NOWHERE, call_id="1", emit=no_emit)
        output = await tool.run(context, tool.check(arguments))
        return output if isinstance(output, str) else output.text


class Hands:
    """What one session writes and looks up. `facts` is all that was ever said, by value: how the
    model knows what an entry is about."""

    def __init__(
        self, name: str, facts: Mapping[str, Fact], call: Caller, plain: Files | None = None
    ) -> None:
        self.name = name
        self._plain = plain
        self._facts = facts
        self._call = call
        self.refused = 0
        """Writes that the system or the person turned down."""

    async def look_up(self, query: str, subject: str) -> str:
        """What one reasonable call finds; "" where there is none to make."""
        match self.name:
            case "tiered":
                return await self._read("memory", action="search", query=query)
            case "vault":
                return await self._read("memory_read", path=_vault_file(subject))
            case "journal":
                return await self._read("history_search", query=query, limit=10)
            case "notes":
                return await self._read("recall", query=query)
        return self._plain.grep(subject) if self._plain else ""

    async def keep(self, said: Said, fact: Fact, at: str) -> None:
        """Writes what a turn gave to remember. A system without tools for it learns by itself."""
        try:
            match self.name:
                case "tiered":
                    await self._keep_tiered(said, fact)
                case "vault":
                    await self._keep_vault(said, fact)
                case "notes":
                    await self._keep_note(said, fact)
            if self._plain and said.kind == "forget":
                self._plain.drop(fact.value)
            elif self._plain:
                self._plain.keep(fact, at)
        except KodeError:
            self.refused += 1

    # ── tiered ───────────────────────────────────────────────────────────────────────────────

    async def _keep_tiered(self, said: Said, fact: Fact) -> None:
        target = {"target": fact.about}
        is_known = said.kind == "forget" or said.noticed
        old = await self._entry_of(fact, among_archived=is_known)
        if said.kind == "forget":
            if old is None:
                return
            await self._tiered(fact, action="remove", old_text=old, **target)
            return
        terms = {"source": fact.source} if fact.source else {}
        terms |= {"quote": said.text} if fact.by == "person" else {}
        terms |= {"until": fact.until} if fact.until else {}
        if old is not None and said.noticed:
            await self._tiered(
                fact, action="replace", old_text=old, content=fact.text, **target, **terms
            )
            return
        for attempt in range(MOST_ARCHIVED + 2):
            try:
                await self._tiered(fact, action="add", content=fact.text, **target, **terms)
                return
            except KodeError as error:
                if "Make room" not in str(error):
                    raise
                if attempt == 0:
                    await self._tiered(fact, action="consolidate", **target)
                else:
                    least = await self._least_needed(fact.about)
                    await self._tiered(fact, action="archive", old_text=least, **target)
        self.refused += 1

    async def _tiered(self, fact: Fact, **arguments: Any) -> None:
        try:
            await self._write("memory", fact, **arguments)
        except KodeError:
            if arguments["action"] not in ("consolidate", "archive", "remove"):
                raise

    async def _least_needed(self, about: str) -> str:
        """What it archives: an entry that is marked, else the oldest."""
        entries = await self._entries(about)
        return _MARKS.sub("", next((entry for entry in entries if "; " in entry), entries[0]))

    async def _entries(self, about: str) -> list[str]:
        """The entries of the file that the model writes to, as it reads them."""
        text = await self._read("memory", action="read")
        label = "user" if about == "user" else "env (project)"
        section = re.search(
            rf"(?s)── {re.escape(label)}: [^\n]*\n(.*?)(?:\n\n──|\n</memory>)", text
        )
        return section[1].split("\n§\n") if section else []

    async def _entry_of(self, fact: Fact, *, among_archived: bool) -> str | None:
        """The entry about the same thing."""
        entries = await self._entries(fact.about)
        if among_archived:
            query = " ".join(fact.key)
            entries += _ARCHIVED.findall(await self._read("memory", action="search", query=query))
        for entry in entries:
            if self._is_about(fact.key, entry):
                return _MARKS.sub("", entry)
        return None

    # ── vault ────────────────────────────────────────────────────────────────────────────────

    async def _keep_vault(self, said: Said, fact: Fact) -> None:
        path = _vault_file(fact.key[0])
        until = f" (until {fact.until})" if fact.until else ""
        terms = {"source": fact.source} if fact.source else {}
        terms |= {"quote": said.text} if fact.by == "person" else {}
        lines = self._lines_of(fact.key, await self._read("memory_read", path=path))
        old = next(iter(lines), "")
        if said.kind == "forget":
            if lines:  # what is to be forgotten may have been put down more than once
                patches = [{"oldText": f"{line}\n", "newText": ""} for line in lines]
                await self._write("memory_patch", fact, path=path, patches=patches)
        elif old and said.noticed:
            patch = {"oldText": old, "newText": f"- {fact.text}{until}"}
            await self._write("memory_patch", fact, path=path, patches=[patch], **terms)
        else:
            entry = f"- {fact.text}{until}"
            await self._write("memory_append", fact, path=path, entry=entry, **terms)

    def _lines_of(self, key: tuple[str, str], text: str) -> list[str]:
        """The lines of a file about one thing, without what memory says of them below."""
        lines = text.partition(f"\n{HEAD}\n")[0].split("\n")
        return [line for line in lines if line.startswith("- ") and self._is_about(key, line)]

    # ── notes ────────────────────────────────────────────────────────────────────────────────

    async def _keep_note(self, said: Said, fact: Fact) -> None:
        evidence = said.text if fact.by == "person" else fact.source
        terms: dict[str, Any] = {"evidence": [evidence]} if evidence else {}
        if fact.until:
            terms |= {"stability": "volatile", "ttl_days": 3}
        old = ""
        if said.noticed or said.kind == "forget":
            text = await self._read("recall", query=" ".join(fact.key), k=20)
            parts = re.split(r"(?m)^\[(s\w{10})\] ", text)
            ids = zip(parts[1::2], parts[2::2], strict=True)
            old = next((id for id, text in ids if self._is_about(fact.key, text)), "")
        if said.kind == "forget":
            if old:
                await self._write("forget", fact, id=old)
        elif old and not fact.until and not fact.source:
            await self._write("update_memory", fact, id=old, content=fact.text, evidence=evidence)
        else:
            await self._write("remember", fact, content=fact.text, tags=[fact.key[0]], **terms)

    # ── inside ───────────────────────────────────────────────────────────────────────────────

    def _is_about(self, key: tuple[str, str], text: str) -> bool:
        return any(self._facts[v].key == key for v in values(text) if v in self._facts)

    async def _read(self, name: str, **arguments: Any) -> str:
        """What a call that changes nothing gives; "" where it fails."""
        try:
            return await self._call(name, arguments, None)
        except KodeError:
            return ""

    async def _write(self, name: str, fact: Fact, **arguments: Any) -> str:
        """Raises: KodeError with the error that the model gets."""
        return await self._call(name, arguments, fact)


def _vault_file(subject: str) -> str:
    return f"facts/{subject.replace(' ', '-').lower()}.md"


def write_cited(project: Path, fact: Fact, value: str, *, above: int = 0) -> None:
    """The lines that a fact cites, as they are or with another value, moved down by some lines."""
    file = project / fact.source.partition(":")[0]
    file.parent.mkdir(exist_ok=True)
    file.write_text("# moved\n" * above + "".join(CITED) + f'limit = "{value}"\n')


def read_cited(project: Path, fact: Fact) -> tuple[Message, Message]:
    """A call that reads the file of these lines, and what it shows."""
    name = fact.source.partition(":")[0]
    lines = enumerate((project / name).read_text().splitlines(), 1)
    call = ToolCall(id=fact.value, name="read_file", arguments=json.dumps({"path": name}))
    text = "\n".join(f"{number}\t{line}" for number, line in lines)
    result = ToolResult(call_id=call.id, name=call.name, text=text)
    return Message(role="assistant", parts=(call,)), Message(role="tool", parts=(result,))
