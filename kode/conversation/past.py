"""The ways back in a conversation: undo and redo of file changes, rewinding to an earlier prompt,
undoing a compaction. What is dropped stays in the session's file.
"""

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from kode.conversation.open_session import OpenSession
from kode.conversation.sessions import finish_undo, finish_undos_of_others, record_undo
from kode.engine.context import context_tokens
from kode.events import Notice
from kode.messages import shorten, text_of
from kode.results import relative_path
from kode.session.entries import (
    CompactionEntry,
    MessageEntry,
    PruneEntry,
    RestoreEntry,
    RewindEntry,
    TurnEntry,
    is_turn,
)
from kode.session.messages import effective
from kode.undo.text import undo_text
from kode.undo.undo import Undone

if TYPE_CHECKING:
    from kode.undo.text import FileDiff


@dataclass(frozen=True)
class Past:
    """The past of one session."""

    _opened: OpenSession

    def take_back_last_message(self) -> bool:
        """Rewinds the session to before the person's last message, to replace it; False if there is
        none. The message stays in the file, and file changes stay (see `undo`).

        Raises: StorageError.
        """
        turns = len(self.messages())
        if turns:
            self._drop_from(turns)
        return turns > 0

    def prompts(self) -> list[str]:
        """The person's prompt of each turn, oldest first."""
        return [text_of(entry) for entry in self.messages()]

    def messages(self) -> list[MessageEntry]:
        """The person's messages that began a turn, oldest first."""
        entries = effective(self._opened.session.entries)
        return [one for one in entries if isinstance(one, MessageEntry) and is_turn(one)]

    def is_cut_short(self) -> bool:
        """Whether kode was killed before the last message was answered."""
        kept, kinds = effective(self._opened.session.entries), (MessageEntry, TurnEntry)
        newest = next((entry for entry in reversed(kept) if isinstance(entry, kinds)), None)
        return isinstance(newest, MessageEntry) and newest.role != "assistant"

    def _drop_from(self, turn: int) -> None:
        """Rewinds the session to before the prompt of this turn (from 1). Raises: StorageError."""
        self._opened.session.append(RewindEntry(to=self.messages()[turn - 1].id))
        self._opened.context.known_messages = 0

    async def rewind(self, turn: int, *, files: bool, conversation: bool) -> list[str]:
        """Goes back to before this turn's prompt (from 1); returns one line for each thing done.
        What the conversation loses stays in the session's file; `redo` restores lost file changes.

        Raises: StorageError.
        """
        done: list[str] = []
        if files:
            past = await asyncio.to_thread(self._opened.undo.history)
            done = [await self.undo() for _ in past.since(turn)]
            if not done:
                done.append("No files changed since then.")
        if conversation:
            self._drop_from(turn)
            done.append(
                f"The conversation is rewound to prompt {turn}. `/rewind undo` restores it."
            )
        return done

    def undo_rewind(self) -> bool:
        """Restores what the last rewind dropped from the conversation; False if there is none, or
        if a message has come since. Raises: StorageError."""
        session = self._opened.session
        restored = {one.of for one in session.entries if isinstance(one, RestoreEntry)}
        for entry in reversed(session.entries):
            if isinstance(entry, MessageEntry):
                break
            if isinstance(entry, RewindEntry) and entry.id not in restored:
                session.append(RestoreEntry(of=entry.id))
                self._opened.context.known_messages = 0
                return True
        return False

    def would_undo(self) -> list[list[str]]:
        """For each of `prompts`, the files whose changes a rewind to it undoes. Reads the record
        of changes: call it in a thread."""
        cwd, past = self._opened.place.cwd, self._opened.undo.history()
        return [
            sorted({relative_path(path, cwd) for one in past.since(turn) for path in one.changed})
            for turn in range(1, len(self.messages()) + 1)
        ]

    def undo_compaction(self) -> str | None:
        """`/compact undo`: restores what the last compaction or pruning of tool output removed from
        the model's view; returns a message about it, or None if there was none.

        Raises: StorageError.
        """
        reductions = [
            one
            for one in effective(self._opened.session.entries)
            if isinstance(one, CompactionEntry | PruneEntry)
        ]
        if not reductions:
            return None
        self._opened.session.append(RestoreEntry(of=reductions[-1].id))
        self._opened.context.known_messages, self._opened.context.fruitless = 0, 0
        agent = self._opened.agent
        size, limit = context_tokens(self._opened.context), agent.provider.info.context_window
        what = "Compaction" if isinstance(reductions[-1], CompactionEntry) else "Output dropping"
        again = ""
        if size > limit * agent.limits.compact_at:
            again = (
                " The next request would compact it again: switch to a model with a larger "
                "window first (/model), or raise `context.compact_at`."
            )
        return f"{what} undone: {size:,} of {limit:,} tokens are used.{again}"

    async def undo(self) -> str:
        """Undoes the newest turn that changed files and is not undone; returns a message about it.

        Raises: StorageError.
        """
        return _record_undo(self._opened, await asyncio.to_thread(self._opened.undo.undo))

    async def redo(self) -> str:
        """Redoes the last undone turn; returns a message about it. Raises: StorageError."""
        return _record_undo(self._opened, await asyncio.to_thread(self._opened.undo.redo))

    def diffs(self) -> "list[FileDiff]":
        """The changes to files that this session made through tools, file by file."""
        from kode.undo.text import file_diffs

        return file_diffs(self._opened.undo, self._opened.place.cwd)


async def finish_undos(opened: OpenSession) -> None:
    """Completes what undos and redos in this folder left half done when they were killed, and says
    so. Raises: StorageError."""
    undo, place = opened.undo, opened.place
    is_cut = opened.resumed and undo.marker is not None and undo.marker.exists()
    if is_cut and (undone := await asyncio.to_thread(finish_undo, opened.session, undo)):
        opened.emit(Notice(text=_show_undo(opened, undone)))
    others = await asyncio.to_thread(
        finish_undos_of_others, place.home, place.cwd, opened.config, opened.session.id
    )
    for session_id, one in others:
        asked = f"session {session_id}".format
        opened.emit(Notice(text=undo_text(one, place.cwd, asked)))


def _record_undo(opened: OpenSession, undone: Undone) -> str:
    """Records an undo or redo, of which the next message tells; returns a message about it. Raises:
    StorageError."""
    record_undo(opened.session, opened.undo, undone)
    return _show_undo(opened, undone)


def _show_undo(opened: OpenSession, undone: Undone) -> str:
    """Has the session's tools see what was changed; returns a message about it."""
    for path in undone.touched:
        opened.agent.seen_files.pop(path, None)
    if opened.agent.sandbox is not None:
        opened.agent.sandbox.show(undone.touched)
    return undo_text(undone, opened.place.cwd, partial(_prompt_start, opened))


def _prompt_start(opened: OpenSession, turn: int) -> str:
    """The beginning of a turn's prompt; "" if it is unknown."""
    prompts = Past(opened).prompts()
    return shorten(prompts[turn - 1], 60) if 0 < turn <= len(prompts) else ""
