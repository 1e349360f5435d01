"""The vault: Markdown files that the model lists, reads and writes by five tools, and a reflector.

Here: which moment of the contract does what. The parts are modules of their own: `names`, `files`,
`summary`, `write`, `tools`, `reflect`, `pending`, `report`.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from kode import credentials
from kode.contracts import (
    Drop,
    DropReason,
    Hit,
    Injection,
    InjectReason,
    MemoryContext,
    SnapshotSection,
    Tool,
    Turn,
)
from kode.errors import BusyError, KodeError, MemoryError_
from kode.events import MemoryChanged, Notice
from kode.memory import embed, when
from kode.memory.approval import only_waiting
from kode.memory.ask import Door
from kode.memory.history import Author, Change, History, Who
from kode.memory.locks import locked
from kode.memory.rank import Text
from kode.memory.search import Finder
from kode.memory.stored import may_name_a_file
from kode.memory.transcript import transcript
from kode.memory.vault import reflect, report
from kode.memory.vault.files import VaultFiles, fingerprint, is_facts
from kode.memory.vault.pending import Pending, PendingFolder
from kode.memory.vault.summary import blocks_of
from kode.memory.vault.tools import Desk, vault_tools
from kode.memory.vault.write import SYSTEM, VaultWriter
from kode.messages import Message
from kode.shorten import shorten

if TYPE_CHECKING:
    from kode.config import MemoryConfig

MAX_ATTEMPTS = 5
"""Reflections on one task that the provider failed; then it stays in `pending/` untried."""
ASIDE_S = 300.0
"""How long to wait for another process that reflects."""
LISTED_CHARS = 100


class Vault:
    """One session's vault. Nothing is read or written before `open`."""

    def __init__(self, settings: "MemoryConfig") -> None:
        self._settings = settings
        self._index_shown = False
        self._turn = 0
        self._reflecting: asyncio.Task[None] | None = None
        self._again = False

    @property
    def name(self) -> str:
        return SYSTEM

    @property
    def message_window(self) -> int | None:
        return None

    # ── the moments of the contract ──────────────────────────────────────────────────────────

    async def open(self, context: MemoryContext, state: Mapping[str, Any]) -> None:
        self._context = context
        self._door = Door(context.ask_model, context.ask_reply)
        embedder = embed.open_embedder(
            self._settings.embedding, context.root / "vectors", self._notice
        )
        self._finder = Finder(self._door, embedder, self.now, llm=self._settings.llm_search)
        self.history = History(context.root / "history.jsonl")
        """Every change, with its undo."""
        root = context.root / SYSTEM
        self.files = VaultFiles(root)
        self._pending = PendingFolder(root / "pending")
        self._writer = VaultWriter(self.files, self.history, self._settings.vault, {})
        self._index_shown = state.get("index_shown") is True
        self._turn = 0

    async def inject(self, reason: InjectReason) -> Injection:
        """The index comes once a session, before the first user message; again only when a
        compaction has taken it away. Then it is in the conversation."""
        if self._index_shown and reason != "compacted":
            return Injection()
        message = report.index_message(report.rows_of(self.files))
        for name in report.withheld(self.files) if message else ():
            self._notice(
                f"The summary of {name} in memory looks like an attempt to give orders. It is not "
                "shown to the model. `kode memory show` has it; edit or remove the line."
            )
        self._index_shown = bool(message)
        return Injection(first_user=message)

    async def recall(self, turn: Turn) -> str:
        self._turn = turn.number
        return ""

    def tools(self) -> tuple[Tool, ...]:
        if self._context.read_only:
            return ()
        desk = Desk(writer=self._writer, author=lambda: self._author("model"), now=self.now)
        return vault_tools(desk)

    async def after_turn(self, turn: Turn) -> None:
        self._turn = turn.number
        session = self._context.session_id
        off = self._context.read_only or not self._settings.llm_extract
        if off or session is None or not may_name_a_file(session) or not reflect.worth_it(turn):
            return
        self._pending.write(
            Pending(
                session=session,
                turn=turn.number,
                at=self.now().isoformat(timespec="seconds"),
                text=transcript(turn.messages),
                tainted=turn.tainted,
            )
        )
        if turn.tainted:
            self._notice(
                "This session took in outside text, so what it may leave in memory waits for "
                "`kode memory approve`.",
                level="info",
            )
            return
        self._start_reflecting()

    async def before_drop(self, messages: Sequence[Message], reason: DropReason) -> Drop:
        """Nothing is lost with the messages: each task was put down when it ended."""
        return Drop()

    async def maintain(self) -> None:
        """Finishes what earlier processes left."""
        if self._context.read_only:
            return
        for path in self._pending.set_aside_damaged():
            self._notice(f"A task that memory was to reflect on cannot be read. It is now {path}.")
        if self._pending.ids():
            self._start_reflecting()
            if self._reflecting is not None:
                await asyncio.shield(self._reflecting)

    async def search(self, query: str, k: int) -> list[Hit]:
        zone = self.now().tzinfo
        texts = [
            Text(name, block)
            if is_facts(name)
            else Text(name, block, when.first_in(block, zone), name)
            for name in self.files.names()
            for block in blocks_of(self._text(name))
        ]
        return await self._finder.rank(query, texts, k)

    async def snapshot(self) -> tuple[SnapshotSection, ...]:
        rows = report.rows_of(self.files)
        if not rows:
            return ()
        sections = [SnapshotSection(title="Memory Index", content=report.index_lines(rows))]
        for name in filter(is_facts, self.files.names()):
            text = credentials.redact(self._text(name)).strip()
            if text:
                sections.append(SnapshotSection(title=name, content=text))
        return tuple(sections)

    def state(self) -> Mapping[str, Any]:
        return {"index_shown": True} if self._index_shown else {}

    async def close(self, grace_s: float) -> None:
        """Waits for the reflector; what it cannot finish stays in `pending/` for the next start."""
        task = self._reflecting
        if task is None or task.done():
            return
        try:
            # A little less than the grace, so that ending the task fits into it as well.
            await asyncio.wait({task}, timeout=grace_s * 0.9)
        finally:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    # ── what the commands need ───────────────────────────────────────────────────────────────

    async def show(self) -> str:
        """What the next session will see, and where each file came from."""
        return report.shown(self.files, self.history)

    async def status(self) -> str:
        """Which system, how full, what is pending."""
        waits = [p for p in map(self._pending.read, self._pending.ids()) if p is not None]
        open_ = [p for p in waits if not p.tainted]
        given_up = sum(p.attempts >= MAX_ATTEMPTS for p in open_)
        return report.status(
            self.files,
            self._settings.vault.facts_budget_bytes,
            len(open_) - given_up,
            len(waits) - len(open_),
            given_up,
        )

    async def undo_change(self, change: Change) -> str:
        """Takes back one change. Raises: MemoryError_, StorageError, BusyError."""
        self._check_writable()
        outcome = await self._writer.undo(change, self._author("undo"))
        self._context.emit(MemoryChanged(text=outcome.line, change_id=outcome.change_id))
        return f"{outcome.line}\nundo with: kode memory undo {outcome.change_id}"

    async def approve(self, id: str | None) -> str:
        """Lets a task that took in untrusted content be reflected on; without an id, lists those
        that wait. Raises: MemoryError_, StorageError."""
        waits = [p for p in map(self._pending.read, self._pending.ids()) if p and p.tainted]
        if id is None:
            return "\n".join(map(_listed, waits)) or "Nothing waits for approval."
        self._check_writable()
        found = only_waiting("task", (pending.id for pending in waits), id)
        pending = next(pending for pending in waits if pending.id == found)
        async with locked(self._pending.folder):
            self._pending.write(replace(pending, tainted=False))
        return f"approved {found}: it is reflected on at the next start"

    def now(self) -> datetime:
        """In local time."""
        return self._context.now()

    # ── the reflector ────────────────────────────────────────────────────────────────────────

    def _start_reflecting(self) -> None:
        if self._reflecting is not None and not self._reflecting.done():
            self._again = True
            return
        self._reflecting = asyncio.ensure_future(self._reflect_on_all())

    async def _reflect_on_all(self) -> None:
        """Every task that waits, one after the other. The lock of `pending/` is the turn of one
        process to reflect; it guards no other file, so it may be held while the model works."""
        try:
            if not self._door.hands_tools:
                return
            async with locked(self._pending.folder, timeout_s=ASIDE_S):
                await self._reflect_on_each()
        except BusyError:
            return  # another process is at it, and does these too
        except Exception as error:
            # Nobody awaits this task: what is not told here is told nowhere.
            what = (
                str(error) if isinstance(error, KodeError) else f"{type(error).__name__}: {error}"
            )
            self._notice(f"Memory could not reflect on this task: {what} It is tried again later.")

    async def _reflect_on_each(self) -> None:
        """Inside the lock; ends when none is left, or the provider fails."""
        tried: set[str] = set()
        self._again = True
        while self._again:
            self._again = False
            for id in self._pending.ids():
                if id not in tried and not await self._reflect_on(id):
                    return
                tried.add(id)

    async def _reflect_on(self, id: str) -> bool:
        """One task; False when the provider failed, so that the others need not be tried."""
        pending = self._pending.read(id)
        if pending is None or pending.tainted or pending.attempts >= MAX_ATTEMPTS:
            return True
        seen: dict[str, str] = {}
        writer = VaultWriter(self.files, self.history, self._settings.vault, seen)
        for name in filter(is_facts, self.files.names()):
            seen[name] = fingerprint(self._text(name))
        author = Author(who="extraction", session=pending.session, turn=pending.turn)
        tools = vault_tools(Desk(writer=writer, author=lambda: author, now=self.now))[1:]
        done = list(pending.done)

        async def written(what: str) -> None:
            # Known to the next attempt, should this one not come to its end.
            done.append(what)
            self._pending.write(replace(pending, done=tuple(done)))

        found = await reflect.reflect(
            self._door,
            tools,
            reflect.instructions(self.files, self.now()),
            reflect.task(pending.text, pending.done),
            self._context.emit,
            written,
        )
        if found.failure:
            attempted = replace(pending, done=tuple(done), attempts=pending.attempts + 1)
            self._pending.write(attempted)
            self._notice(
                f"Memory could not reflect on this task ({found.failure}). It is tried again at "
                "the next start; `kode memory status` tells what waits."
            )
            return False
        if found.at_limit:
            self._notice(
                f"Memory's reflection was ended after {found.model_calls} calls of the model; "
                f"{found.tool_calls} calls of tools were carried out."
            )
        self._pending.remove(pending)
        return True

    # ── inside ───────────────────────────────────────────────────────────────────────────────

    def _text(self, name: str) -> str:
        """The text of a file; "" for one that cannot be read."""
        try:
            return self.files.read(name) or ""
        except MemoryError_:
            return ""

    def _author(self, who: Who) -> Author:
        return Author(who=who, session=self._context.session_id, turn=self._turn or None)

    def _check_writable(self) -> None:
        if self._context.read_only:
            raise MemoryError_("This memory was opened for reading only.")

    def _notice(self, text: str, *, level: Literal["info", "warning"] = "warning") -> None:
        self._context.emit(Notice(text=text, level=level))


def _listed(pending: Pending) -> str:
    begins = pending.text.strip().partition("\n")[0]
    return f"{pending.id}  {pending.at[:16]}  {shorten(begins, LISTED_CHARS)}"
