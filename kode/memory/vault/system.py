"""The vault: Markdown files that the model reads and writes with five tools, and a reflector."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

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
from kode.errors import BusyError, MemoryRefused
from kode.memory import embed, frame, stale, when
from kode.memory.ask import MemoryModel
from kode.memory.base import Outcome, reason_of
from kode.memory.change import Author
from kode.memory.project import ProjectMemory
from kode.memory.queue import Item, work_through
from kode.memory.rank import Text
from kode.memory.replacing import Seen
from kode.memory.search import Finder, with_note
from kode.memory.stored import locked, may_name_a_file, version_of
from kode.memory.vault import reflect, report
from kode.memory.vault.files import SYSTEM, VaultFiles, is_facts
from kode.memory.vault.places import VaultPlaces
from kode.memory.vault.summary import blocks_of
from kode.memory.vault.tools import Desk, vault_tools
from kode.memory.vault.write import VaultWriter
from kode.memory.waiting import Proposal, came_from, hold
from kode.memory.withdrawn import HEAD, unsettled
from kode.messages import Message, keep_ends, shorten

SHORT_CHARS = 1_000
"""Facts files of at most this total size are included in full with the index."""
ABOUT_SHORT = "What the files of facts say."
LISTED_CHARS = 100
ASIDE_S = 300.0
"""How long to wait for another process that reflects."""


class Vault(ProjectMemory):
    system = SYSTEM

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
        self._queue = reflect.open_queue(self.folder.path)
        self._reflector = reflect.Reflector(
            queue=self._queue,
            files=self.files,
            door=self._door,
            facts=reflect.FileLines(
                system=self.name,
                history=self.history,
                ledger=self.ledger,
                project=self.project,
                read=self.facts,
            ),
            now=self.now,
            writer=lambda seen: self.writer(self.files, seen),
            emit=context.emit,
        )
        self._writer = self.writer(self.files, self.seen)
        index = state.get("index")
        self._index = index if isinstance(index, str) else ""
        facts = state.get("facts")
        self._facts = facts if isinstance(facts, str) else ""
        self._reflecting: asyncio.Task[None] | None = None

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
        desk = Desk(writer=self._writer, author=self._citing_model, now=self.now, marks=self._marks)
        return vault_tools(desk)

    async def after_turn(self, turn: Turn) -> None:
        """Puts every task of a person down for the reflector, which judges what is worth
        remembering once the session ends or enough has gathered."""
        self._hear(turn)
        session = self._context.session_id
        off = self._context.read_only or not self._settings.llm_extract or not turn.text.strip()
        if off or session is None or not may_name_a_file(session):
            return
        tainted = turn.tainted or self._context.tainted()
        task = Item(
            id=f"{session}.{turn.number:04d}",
            session=session,
            turn=turn.number,
            at=self.now().isoformat(timespec="seconds"),
            text=keep_ends(frame.transcript(turn.messages), reflect.TASK_CHARS),
            asked=credentials.redact(self.asked),
            outside=self._context.outside() if tainted else "",
        )
        if tainted:
            hold(self.history, self.proposal(task), self._author("extraction"))
            self._notice(
                "This session read outside text, so what it may leave in memory waits for "
                "`kode memory approve`.",
                level="info",
            )
            return
        self._queue.write(task)
        waiting = self._reflector.waiting(session)
        if sum(len(item.text) for item in waiting) >= reflect.GATHERED_CHARS:
            self._start_reflecting()

    async def before_drop(self, messages: Sequence[Message], reason: DropReason) -> Drop:
        if reason != "window" and not self._context.read_only:
            self._reflector.facts.pair_up(self._author("merge"))
        return Drop()

    async def maintain(self) -> None:
        """Finishes what earlier processes left."""
        if self._context.read_only:
            return
        for path in self._queue.set_aside_damaged():
            self._notice(f"A task that memory was to reflect on cannot be read. It is now {path}.")
        if self._settings.llm_extract and self._queue.ids():
            await asyncio.shield(self._start_reflecting())

    async def close(self, grace_s: float) -> None:
        """Reflects on the session's tasks; what is not finished within `grace_s` is done at the
        next start."""
        session = self._context.session_id
        if not self._context.read_only and session and self._reflector.waiting(session):
            self._start_reflecting()
        await super().close(grace_s)

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
        return [with_note(hit, self.since_then(hit.text)) for hit in hits]

    async def snapshot(self) -> tuple[SnapshotSection, ...]:
        rows = report.rows_of(self.files)
        if not rows:
            return ()
        sections = [SnapshotSection(title="Memory Index", content=report.index_lines(rows))]
        for name in filter(is_facts, self.files.names()):
            text = credentials.redact(self._text(name)).strip()
            if text:
                marked = credentials.redact(self._marked(name, text))
                sections.append(SnapshotSection(title=name, content=marked))
        return tuple(sections)

    def state(self) -> Mapping[str, Any]:
        shown = {"index": self._index, "facts": self._facts}
        return {name: value for name, value in shown.items() if value}

    # ── what the commands need ───────────────────────────────────────────────────────────────

    @property
    def unfinished(self) -> int:
        return len(self._reflector.waiting())

    async def figures(self) -> Mapping[str, object]:
        sizes = [row.size for row in self.files.rows() if is_facts(row.path)]
        budget = self._settings.vault.facts_budget_bytes
        return {
            "bytes of facts": f"{sum(sizes):,}" + (f" of {budget:,}" if budget else ""),
            "tasks given up after several attempts, in pending/": sum(
                item.given_up for item in self._queue.items() if not item.tainted
            ),
        }

    async def accept(self, proposal: Proposal) -> Outcome:
        """As in any system; what a task with outside text waits for is to be reflected on."""
        self.check_writable()
        if not proposal.place:
            return await super().accept(proposal)
        session, _, turn = proposal.id.rpartition(".")
        item = Item(
            id=proposal.id,
            session=session,
            turn=int(turn),
            at=proposal.at,
            text=proposal.text,
            asked=proposal.title,
            approved=True,
        )
        async with locked(self._queue.folder):
            self._queue.write(item)
        return Outcome(line=f"approved {proposal.id}: it is reflected on at the next start")

    async def reject(self, proposal: Proposal) -> None:
        if proposal.place:
            async with locked(self._queue.folder):
                self._queue.remove(proposal.id)

    def proposal(self, task: Item) -> Proposal:
        """A task with outside text, as it waits for approval."""
        return Proposal(
            id=task.id,
            text=task.text,
            title=shorten(task.asked, LISTED_CHARS) or "a task",
            source=came_from(task.session, task.outside),
            place=self.folder.target(""),
        )

    def now(self) -> datetime:
        """In local time."""
        return self._context.now()

    def writer(self, files: VaultFiles, seen: Seen) -> VaultWriter:
        return VaultWriter(files, self.history, self._settings.vault, seen)

    def _start_reflecting(self) -> "asyncio.Task[None]":
        if self._reflecting is None or self._reflecting.done():
            self._reflecting = self._work.start(self._reflect())
        return self._reflecting

    async def _reflect(self) -> None:
        """Reflects on every waiting task; when the session ends, only its own are still started."""

        def ids() -> list[str]:
            own = self._context.session_id if self._work.is_closing else None
            return [item.id for item in self._reflector.waiting(own)] if self._door.usable else []

        try:
            await work_through(self._queue, self._reflector, ids, timeout_s=ASIDE_S)
        except BusyError:
            return  # another process is working on these too
        except Exception as error:
            # Usually nobody awaits this task: an error not reported here is lost.
            why = reason_of(error)
            self._notice(f"Memory could not reflect on this task: {why} It is tried again later.")

    # ── inside ───────────────────────────────────────────────────────────────────────────────

    def _text(self, name: str) -> str:
        """The text of a file; "" if unreadable."""
        try:
            return self.files.read(name) or ""
        except MemoryRefused:
            return ""

    def _marks(self, name: str) -> str:
        """What may not hold any more in a file, a heading and a line each; "" if all does."""
        text, target = self._text(name), self.files.target(name)
        if not is_facts(name):
            return self.since_then(text)
        doubts = stale.doubts(self.ledger, self.project, self.now().date())
        marks = {place: f"may be stale: {one.why}" for place, one in doubts.items()}
        lines = [
            f'- "{key}": {why}'
            for (where, key), why in (*marks.items(), *unsettled(self.ledger, self.project).items())
            if where == target and key in text
        ]
        return "\n".join([HEAD, *lines]) if lines else ""

    def _marked(self, name: str, text: str) -> str:
        return "\n\n".join(filter(None, (text.rstrip("\n"), self._marks(name))))

    def _citing_model(self, source: str | None) -> Author:
        return self._author("model", source=source)

    def _short_facts(self) -> str:
        """The content of short facts files, except what the model has already seen."""
        read = {name: self._text(name).strip() for name in filter(is_facts, self.files.names())}
        texts = {name: text for name, text in read.items() if not frame.suspicion(text)}
        digest = version_of("\n".join(texts.values()))
        if sum(map(len, texts.values())) > SHORT_CHARS or digest == self._facts:
            return ""
        self._facts = digest
        self.seen.update({name: version_of(self.files.read(name)) for name in texts})
        body = "\n\n".join(f"{name}\n{self._marked(name, text)}" for name, text in texts.items())
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
