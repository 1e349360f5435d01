"""The vault: Markdown files that the model reads and writes with five tools, and a reflector."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from kode import credentials
from kode.contracts import Hit, Injection, InjectReason, MemoryContext, SnapshotSection, Tool, Turn
from kode.errors import BusyError
from kode.memory import embed, frame, stale, when
from kode.memory.ask import MemoryModel
from kode.memory.base import WORDS_CHARS, Outcome, reason_of
from kode.memory.folder_tool import folder_tool
from kode.memory.history import Author, Change
from kode.memory.rank import Text
from kode.memory.replacing import IN_PART, Seen
from kode.memory.search import Finder, with_note
from kode.memory.source import citing
from kode.memory.stored import locked, may_name_a_file, version_of
from kode.memory.vault import reflect, report
from kode.memory.vault.by_hand import VaultByHand
from kode.memory.vault.files import (
    SHARED,
    VaultFiles,
    is_facts,
)
from kode.memory.vault.folder import VaultFolder
from kode.memory.vault.places import VaultPlaces
from kode.memory.vault.reflect import Pending, PendingFolder
from kode.memory.vault.summary import blocks_of
from kode.memory.vault.tools import Desk, vault_tools
from kode.memory.vault.write import VaultWriter
from kode.memory.waiting import hold
from kode.messages import Message, shorten

MAX_ATTEMPTS = 5
"""Reflections on one task that did not finish; then it stays in `pending/` untried."""
SHORT_CHARS = 1_000
"""Facts files of at most this total size are included in full with the index."""
ABOUT_SHORT = "What the files of facts say."
ASIDE_S = 300.0
"""How long to wait for another process that reflects."""


class Vault(VaultByHand):
    shared = SHARED
    left_from_before = ("facts/*.md", "episodes", "pending")

    # ── the moments of the contract ──────────────────────────────────────────────────────────

    async def open(self, context: MemoryContext, state: Mapping[str, Any]) -> None:
        await super().open(context, state)
        self._door = MemoryModel(context.ask_reply, expected_s=context.expected_s)
        embedder = embed.open_embedder(
            self._settings.embedding, context.root / "vectors", self._notice
        )
        self._finder = Finder(self._door, embedder, self.now, llm=self._settings.llm_search)
        self.files = VaultFiles(self.folder)
        self.history.places = VaultPlaces(self.files, lambda files: self.writer(files, {}))
        self._pending = PendingFolder(self.folder.path / "pending")
        self._writer = self.writer(self.files, self.seen)
        index = state.get("index")
        self._index = index if isinstance(index, str) else ""
        facts = state.get("facts")
        self._facts = facts if isinstance(facts, str) else ""
        self._reflecting: asyncio.Task[None] | None = None
        self._again = False

    async def inject(self, reason: InjectReason) -> Injection:
        """The index, as the first user message. A resumed session has it already, unless messages
        were dropped."""
        if self._index and reason == "resume":
            return Injection()
        self._index = self._facts = ""
        return Injection(first_user=self._changed_index())

    async def recall(self, turn: Turn) -> str:
        """The index again if it has changed since the model saw it, and the content of short facts
        files: reading them would cost a request, which a weak model does not make."""
        self._hear(turn)
        return "\n\n".join(filter(None, (self._changed_index(), self._short_facts())))

    def tools(self) -> tuple[Tool, ...]:
        if self._context.read_only:
            return ()
        desk = Desk(
            writer=self._writer, author=self._citing_model, now=self.now, stale=self._stale_in
        )
        if self._settings.tool_face == "native":
            return vault_tools(desk)
        return (folder_tool(VaultFolder(desk)),)

    async def after_turn(self, turn: Turn) -> None:
        """Passes every task of a person to the reflector, which judges what is worth
        remembering."""
        self._hear(turn)
        session = self._context.session_id
        off = self._context.read_only or not self._settings.llm_extract or not turn.text.strip()
        if off or session is None or not may_name_a_file(session):
            return
        task = Pending(
            session=session,
            turn=turn.number,
            at=self.now().isoformat(timespec="seconds"),
            text=frame.transcript(turn.messages),
            asked=credentials.redact(self.asked),
        )
        if turn.tainted or self._context.tainted():
            hold(
                self.history,
                self.proposal(task, self._context.outside()),
                self._author("extraction"),
            )
            self._notice(
                "This session read outside text, so what it may leave in memory waits for "
                "`kode memory approve`.",
                level="info",
            )
            return
        self._pending.write(task)
        self._start_reflecting()

    async def maintain(self) -> None:
        """Finishes what earlier processes left."""
        if self._context.read_only:
            return
        for path in self._pending.set_aside_damaged():
            self._notice(f"A task that memory was to reflect on cannot be read. It is now {path}.")
        if self._settings.llm_extract and self._pending.ids():
            await asyncio.shield(self._start_reflecting())

    async def search(self, query: str, k: int) -> list[Hit]:
        zone = self.now().tzinfo
        texts = [
            Text(name, block)
            if is_facts(name)
            else Text(name, block, when.first_in(block, zone), name)
            for name in self.files.names()
            for block in blocks_of(self._text(name))
        ]
        hits = await self._finder.rank(query, texts, k)
        return [
            hit if is_facts(hit.where) else with_note(hit, self.since_then(hit.text))
            for hit in hits
        ]

    async def snapshot(self) -> tuple[SnapshotSection, ...]:
        rows = report.rows_of(self.files)
        if not rows:
            return ()
        sections = [SnapshotSection(title="Memory Index", content=report.index_lines(rows))]
        for name in filter(is_facts, self.files.names()):
            text = credentials.redact(self._text(name)).strip()
            if text:
                doubtful = credentials.redact(self._stale_in(name)).strip()
                content = f"({doubtful})\n{text}" if doubtful else text
                sections.append(SnapshotSection(title=name, content=content))
        return tuple(sections)

    def state(self) -> Mapping[str, Any]:
        shown = {"index": self._index, "facts": self._facts}
        return {name: value for name, value in shown.items() if value}

    # ── what the commands need ───────────────────────────────────────────────────────────────

    @property
    def unfinished(self) -> int:
        return len(self._pending.ids())

    async def show(self) -> str:
        return report.show(self.files, self.history)

    async def status(self) -> str:
        open_ = [p for p in map(self._pending.read, self._pending.ids()) if p is not None]
        given_up = sum(p.attempts >= MAX_ATTEMPTS for p in open_)
        return report.status(
            self.files,
            self._settings.vault.facts_budget_bytes,
            len(open_) - given_up,
            given_up,
        )

    def writer(self, files: VaultFiles, seen: Seen) -> VaultWriter:
        return VaultWriter(files, self.history, self._settings.vault, seen)

    # ── the reflector ────────────────────────────────────────────────────────────────────────

    def _start_reflecting(self) -> "asyncio.Task[None]":
        self._again = True
        if self._reflecting is None or self._reflecting.done():
            self._reflecting = self._work.start(self._reflect_on_all())
        return self._reflecting

    async def _reflect_on_all(self) -> None:
        """Reflects on every waiting task in turn. The lock of `pending/` lets one process reflect
        at a time; it guards no other file, so it may be held while the model works."""
        try:
            if not self._door.usable:
                return
            async with locked(self._pending.folder, timeout_s=ASIDE_S):
                await self._reflect_on_each()
        except BusyError:
            return  # another process is working on these too
        except Exception as error:
            # Usually nobody awaits this task: an error not reported here is lost.
            why = reason_of(error)
            self._notice(f"Memory could not reflect on this task: {why} It is tried again later.")

    async def _reflect_on_each(self) -> None:
        """Call with the lock held; ends when none is left or the provider fails. When the session
        ends, only its own tasks are still started."""
        tried: set[str] = set()
        self._again = True
        while self._again:
            self._again = False
            for id in self._pending.ids():
                if self._work.is_closing and not id.startswith(f"{self._context.session_id}."):
                    continue
                if id not in tried and not await self._reflect_on(id):
                    return
                tried.add(id)

    async def _reflect_on(self, id: str) -> bool:
        """One task; False if the provider failed, so that the others need not be tried."""
        found = self._pending.read(id)
        if found is None or found.tainted:
            return True
        if found.attempts >= MAX_ATTEMPTS:
            self._give_up(found)
            return True
        pending = replace(found, attempts=found.attempts + 1)
        when = datetime.fromisoformat(pending.at)
        shown = reflect.shown(self.files, when)
        facts = filter(is_facts, self.files.names())
        seen = {name: version_of(self._text(name)) for name in facts}
        writer = self.writer(self.files, seen | dict.fromkeys(shown.in_part, IN_PART))
        asked = shorten(pending.text.partition("\n")[0].removeprefix("User: "), WORDS_CHARS)
        author = Author(who="extraction", session=pending.session, turn=pending.turn, words=asked)
        if pending.approved:
            author = replace(author, source="a task with outside text, which you approved")
        desk = Desk(
            writer=writer,
            author=lambda source: citing(author, self.project, source),
            now=lambda: when,
        )

        def keep(messages: Sequence[Message]) -> None:
            nonlocal pending
            pending = replace(pending, messages=tuple(messages))
            self._pending.write(pending)

        keep(pending.messages or (reflect.first_message(pending.text),))
        done = await reflect.reflect(
            self._door,
            vault_tools(desk)[1:],
            shown.system,
            pending.messages,
            self._context.emit,
            keep,
        )
        if done.failure:
            if pending.attempts >= MAX_ATTEMPTS:
                self._give_up(pending, done.failure)
                return False
            self._notice(
                f"Memory could not reflect on this task ({done.failure}). It is tried again at "
                "the next start; `kode memory status` lists what waits."
            )
            return False
        if done.at_limit:
            self._notice(
                f"Memory's reflection was ended after {done.model_calls} calls of the model; "
                f"{done.tool_calls} calls of tools were carried out."
            )
        self._pending.remove(pending.id)
        return True

    def _give_up(self, pending: Pending, why: str = "kode ended in the middle of it") -> None:
        """Notifies the person once that a task is given up."""
        if not pending.given_up:
            self._pending.write(replace(pending, given_up=True))
            self._notice(
                f"Memory has given up reflecting on the task {pending.id} after {MAX_ATTEMPTS} "
                f"attempts ({why}). What was said in it stays in {self._pending.folder}."
            )

    # ── inside ───────────────────────────────────────────────────────────────────────────────

    def _stale_in(self, name: str) -> str:
        if not is_facts(name):
            note = self.since_then(self._text(name))
            return f" {note}\n" if note else ""
        doubts = stale.of_texts(stale.doubts(self, self.now().date()), self.files.target(name))
        held = [text for text in doubts if text in self._text(name)]
        return "".join(f' May be stale: "{text}" ({doubts[text].why}).' for text in held)

    def _citing_model(self, source: str | None) -> Author:
        return self._author("model", source=source)

    async def _undo(self, change: Change, batch: str) -> Outcome:
        return self._report(await self._writer.undo(change, self._author("undo", batch=batch)))

    def _short_facts(self) -> str:
        """The content of short facts files, except what the model has already seen."""
        read = {name: self._text(name).strip() for name in filter(is_facts, self.files.names())}
        texts = {name: text for name, text in read.items() if not frame.suspicion(text)}
        digest = version_of("\n".join(texts.values()))
        if sum(map(len, texts.values())) > SHORT_CHARS or digest == self._facts:
            return ""
        self._facts = digest
        self.seen.update({name: version_of(self.files.read(name)) for name in texts})
        body = "\n\n".join(f"{name}{self._stale_in(name)}\n{text}" for name, text in texts.items())
        return self._frame(ABOUT_SHORT, body) if body else ""

    def _changed_index(self) -> str:
        """The index for the model; "" if it saw the same last time."""
        message = report.index_message(report.rows_of(self.files))
        digest = version_of(message)
        if not message or digest == self._index:
            return ""
        self._index = digest
        for name in report.withheld(self.files):
            self._notice(
                f"The summary of {name} in memory looks like an attempt to give orders. It is not "
                "shown to the model. `kode memory show` has it; edit or remove the line."
            )
        return message
