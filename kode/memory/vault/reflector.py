"""What becomes of the tasks in a vault's queue: one reflection on what a session has gathered."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path

from kode.events import Emit
from kode.memory.ask import MemoryModel
from kode.memory.change import Author
from kode.memory.queue import Item, Queue
from kode.memory.replacing import IN_PART, Seen
from kode.memory.source import citing
from kode.memory.stored import read_row, version_of
from kode.memory.vault import reflect
from kode.memory.vault.files import VaultFiles, is_facts
from kode.memory.vault.tools import Desk, vault_tools
from kode.memory.vault.write import VaultWriter
from kode.messages import Message

MAX_ATTEMPTS = 5
"""Reflections that did not finish; then the task stays in `pending/` untried."""


@dataclass(frozen=True, kw_only=True)
class Reflector:
    """The `Job` of an open vault's queue."""

    queue: Queue
    files: VaultFiles
    door: MemoryModel
    project: Path
    writer: Callable[[Seen], VaultWriter]
    """From the files that a model was shown, each with the version of what it said."""
    text: Callable[[str], str]
    """A file's text; "" if unreadable."""
    emit: Emit
    notice: Callable[[str], None]
    attempts: int = MAX_ATTEMPTS

    def waiting(self, session: str | None = None) -> list[Item]:
        """The tasks that may be reflected on, of all sessions or one."""
        items = self.queue.items(session)
        return [item for item in items if not item.tainted and not item.given_up]

    def is_answered(self, item: Item) -> bool:
        return False

    async def do(self, item: Item) -> str:
        queue, files = self.queue, self.files
        if not item.answer:
            others = [one for one in self.waiting(item.session) if not one.attempts]
            same = [one for one in others if one.approved == item.approved]
            item = queue.join(item, reflect.gathered([item, *same])[1:])
        at = datetime.fromisoformat(item.at)
        shown = reflect.shown(files, at)
        facts = filter(is_facts, files.names())
        seen = {name: version_of(self.text(name)) for name in facts}
        author = Author(
            who="extraction",
            session=item.session,
            turn=item.turn,
            words=item.asked,
            source="a task with outside text, which you approved" if item.approved else "",
        )
        desk = Desk(
            writer=self.writer(seen | dict.fromkeys(shown.in_part, IN_PART)),
            author=lambda source: citing(author, self.project, source),
            now=lambda: at,
        )

        def keep(messages: Sequence[Message]) -> None:
            queue.write(replace(item, answer=_stored(messages)))

        done = await reflect.reflect(
            self.door,
            vault_tools(desk)[1:],
            shown.system,
            _restored(item.answer) or (reflect.first_message(item.text),),
            self.emit,
            keep,
        )
        if done.failure:
            return done.failure
        if done.at_limit:
            self.notice(
                f"Memory's reflection was ended after {done.model_calls} calls of the model; "
                f"{done.tool_calls} calls of tools were carried out."
            )
        queue.finish(item)
        return ""

    async def fail(self, item: Item, why: str) -> None:
        self.notice(
            f"Memory could not reflect on this task ({why}). It is tried again at "
            "the next start; `kode memory status` lists what waits."
        )

    async def give_up(self, item: Item, why: str) -> None:
        self.queue.write(replace(item, given_up=True))
        self.notice(
            f"Memory has given up reflecting on the task {item.id} after {MAX_ATTEMPTS} "
            f"attempts ({why}). What was said in it stays in {self.queue.folder}."
        )


def _stored(messages: Sequence[Message]) -> str:
    return json.dumps([asdict(message) for message in messages], ensure_ascii=False)


def _restored(answer: str) -> tuple[Message, ...]:
    return read_row(tuple[Message, ...], answer.encode(errors="replace")) or ()
