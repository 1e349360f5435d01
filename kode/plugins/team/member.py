"""A copy of a team's notes in a session: kept up to date beside the work, never in its way, and
what colleagues changed meanwhile, for the person as lines and for the model with the next prompt.
"""

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

from kode.plugin import (
    BusyError,
    Emit,
    KodeError,
    LedgerLine,
    MemoryChanged,
    Notice,
    Replica,
    plural,
)
from kode.plugins.team.address import Address, project_name, team_of
from kode.plugins.team.exchange import LAST, MEMBER, Exchanged, exchange
from kode.plugins.team.server import RETRY_S, Start, Unreachable, describe_reach

LINES = 3
"""So many changes get a line each; more are counted."""
NEWS_CHARS = 3_000


def open_member(settings: Any, root: Path) -> "Member":
    """The way to the server that a config's `memory.notes` names, for a project. Raises:
    ConfigError."""
    return Member(team_of(settings), project_name(root))


class Member:
    def __init__(self, address: Address, project: str) -> None:
        self.address = address
        self.project = project
        self.answers = True
        self._task: asyncio.Task[None] | None = None
        self._not_before = 0.0
        self._is_away = False
        self._news: list[LedgerLine] = []

    @property
    def key(self) -> str:
        return self.address.key

    def join(self, replica: Replica, emit: Emit, start: Start) -> None:
        self.replica = replica
        self._emit = emit
        self._start = start

    async def update(self, wait_s: float) -> None:
        if task := self.begin():
            await asyncio.wait({task}, timeout=wait_s)

    def begin(self) -> "asyncio.Task[None] | None":
        """The update that runs, begun if there is none; None while the server is left alone."""
        running = self._task is not None and not self._task.done()
        if not running:
            if asyncio.get_running_loop().time() < self._not_before:
                return None
            self._task = self._start(self._run())
        return self._task

    async def finish(self, wait_s: float) -> None:
        await self.update(wait_s)
        if self.replica.waiting():  # written while the first ran
            await self.update(wait_s)

    def news(self) -> str:
        lines, self._news = self._news, []
        said = [text for line in lines for text in self.replica.news(line)]
        chosen: list[str] = []
        for line in dict.fromkeys(said):
            if sum(map(len, chosen)) + len(line) > NEWS_CHARS:
                chosen.append("(There is more: recall finds it.)")
                break
            chosen.append(line)
        return "\n".join(chosen)

    async def status(self) -> str:
        self.answers, reached = await describe_reach(self.address)
        waiting, seen_as = self.replica.waiting(), self.replica.kept(MEMBER)
        lines = [
            reached,
            f"last in step: {self.replica.kept(LAST) or 'never'}"
            + (f" as {json.loads(seen_as)[0]}" if seen_as else ""),
            f"waiting to be sent: {len(waiting)}",
            *(f"  refused: {line.reason}: {fault}" for line, fault in waiting if fault),
        ]
        return "\n".join(lines)

    # ── inside ───────────────────────────────────────────────────────────────────────────────

    async def _run(self) -> None:
        try:
            done = await exchange(self.replica, self.address)
        except BusyError:
            return  # another process of this copy does it
        except Unreachable as error:
            self._not_before = asyncio.get_running_loop().time() + RETRY_S
            if not self._is_away:
                self._is_away = True
                self._notice(
                    f"The notes of {self.address.label} cannot be reached ({error}). kode works "
                    "with the copy here; what is remembered is sent when the server is back."
                )
            return
        except KodeError as error:
            self._not_before = asyncio.get_running_loop().time() + RETRY_S
            self._notice(f"The notes of {self.address.label}: {error}")
            return
        self._report(done)

    def _report(self, done: Exchanged) -> None:
        if self._is_away:
            self._is_away = False
            sent = plural(len(done.sent), "change")
            text = f"The notes of {self.address.label} are back: {sent} sent."
            self._notice(text, is_warning=False)
        for fault in done.faults:
            self._notice(fault)
        if not done.arrived:
            return
        if done.is_first:
            text = (
                f"memory: {plural(len(done.arrived), 'change')} of {self.address.label} copied here"
            )
            return self._notice(text, is_warning=False)
        self._news += done.arrived
        if len(done.arrived) > LINES:
            counts = Counter(line.person for line in done.arrived)
            people = ", ".join(f"{person} ({count})" for person, count in counts.most_common())
            text = f"memory: {len(done.arrived)} changes by {people} (`kode memory log`)"
            return self._notice(text, is_warning=False)
        for line in done.arrived:
            self._emit(MemoryChanged(text=f"{line.person}: {line.reason}", change_id=line.id))

    def _notice(self, text: str, *, is_warning: bool = True) -> None:
        self._emit(Notice(text=text, level="warning" if is_warning else "info"))
