"""The ways back in a conversation: undo and redo of file changes, rewinding to an earlier prompt,
undoing a compaction. What is dropped stays in the session's file.
"""

import asyncio
from typing import TYPE_CHECKING

from kode.conversation.sessions import finish_undos
from kode.engine.context import context_tokens
from kode.events import Notice
from kode.messages import Text, shorten, text_of
from kode.session.checkpoints import Undone
from kode.session.entries import (
    CompactionEntry,
    MessageEntry,
    PruneEntry,
    RestoreEntry,
    RewindEntry,
    UndoEntry,
    is_turn,
)
from kode.session.file_diffs import FileDiff
from kode.session.messages import effective
from kode.session.undo_text import undo_text

if TYPE_CHECKING:
    from kode.conversation.conversation import Conversation


class Past:
    """The past of one conversation."""

    def __init__(self, talk: "Conversation") -> None:
        self._talk = talk

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
        entries = effective(self._talk.session.entries)
        return [one for one in entries if isinstance(one, MessageEntry) and is_turn(one)]

    def _drop_from(self, turn: int) -> None:
        """Rewinds the session to before the prompt of this turn (from 1). Raises: StorageError."""
        self._talk.session.append(RewindEntry(to=self.messages()[turn - 1].id))
        self._talk.context.known_messages = 0

    async def rewind(self, turn: int, *, files: bool, conversation: bool) -> list[str]:
        """Goes back to before this turn's prompt (from 1); returns one line for each thing done.
        What the conversation loses stays in the session's file; `redo` restores lost file changes.

        Raises: StorageError.
        """
        done = []
        if files:
            undone = await asyncio.to_thread(self._talk.checkpoints.undo_from, turn)
            for one in undone:
                done.append(undo_text(one, self._talk.cwd, self._prompt_start))
                self._record_undo(one)
            if not undone:
                done.append("No files changed since then.")
        if conversation:
            self._drop_from(turn)
            done.append(f"The conversation is back to before prompt {turn}.")
        return done

    def undo_compaction(self) -> str | None:
        """`/compact undo`: restores what the last compaction or pruning of tool output removed from
        the model's view; returns a message about it, or None if there was none.

        Raises: StorageError.
        """
        reductions = [
            one
            for one in effective(self._talk.session.entries)
            if isinstance(one, CompactionEntry | PruneEntry)
        ]
        if not reductions:
            return None
        self._talk.session.append(RestoreEntry(of=reductions[-1].id))
        self._talk.context.known_messages, self._talk.context.fruitless = 0, 0
        agent = self._talk.agent
        size, limit = context_tokens(self._talk.context), agent.provider.info.context_window
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
        undone = await asyncio.to_thread(self._talk.checkpoints.undo)
        self._record_undo(undone)
        return undo_text(undone, self._talk.cwd, self._prompt_start)

    async def redo(self) -> str:
        """Redoes the last undone turn; returns a message about it. Raises: StorageError."""
        undone = await asyncio.to_thread(self._talk.checkpoints.redo)
        self._record_undo(undone)
        return undo_text(undone, self._talk.cwd, self._prompt_start)

    async def finish_undos(self) -> None:
        """Completes what undos and redos in this folder left half done when they were killed, and
        says so. Raises: StorageError."""
        talk = self._talk
        own = talk.checkpoints
        is_cut = talk.resumed and own.marker is not None and own.marker.exists()
        if is_cut and (undone := await asyncio.to_thread(own.finish)):
            self._record_undo(undone)
            talk.emit(Notice(text=undo_text(undone, talk.cwd, self._prompt_start)))
        others = await asyncio.to_thread(
            finish_undos, talk.home, talk.cwd, talk.config, talk.session.id
        )
        for session_id, one in others:
            asked = f"session {session_id}".format
            talk.emit(Notice(text=undo_text(one, talk.cwd, asked)))

    def _record_undo(self, undone: Undone) -> None:
        """Records an undo or redo, and adds a note to the next message. Raises: StorageError."""
        if undone.turn is None or not undone.touched:
            return
        self._talk.session.append(
            UndoEntry(turn=undone.turn, redo=undone.redo, files=undone.touched)
        )
        for path in undone.touched:
            self._talk.agent.seen_files.pop(path, None)
        if self._talk.agent.sandbox is not None:
            self._talk.agent.sandbox.show(undone.touched)
        did = "redid" if undone.redo else "undid"
        note = f"[The person {did} your changes to: {', '.join(undone.touched)}. Read them again.]"
        self._talk.attachments += (Text(text=note, source="note"),)

    def _prompt_start(self, turn: int) -> str:
        """The beginning of a turn's prompt; "" if it is unknown."""
        prompts = self.prompts()
        return shorten(prompts[turn - 1], 60) if 0 < turn <= len(prompts) else ""

    def diffs(self) -> list[FileDiff]:
        """The changes to files that this session made through tools, file by file."""
        return self._talk.checkpoints.diffs(self._talk.cwd)
