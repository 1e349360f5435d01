"""The ways back in a conversation: undo and redo of file changes, rewinding to an earlier prompt,
undoing a compaction. What is dropped stays in the session's file.
"""

import asyncio
import contextlib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kode import durable, paths
from kode.assembly import undo_of_session
from kode.beneath import TEMPORARY_PREFIX
from kode.engine.context import context_tokens
from kode.errors import BusyError, SessionError
from kode.events import Notice
from kode.messages import shorten, text_of
from kode.paths import relative_path
from kode.session import log
from kode.session.entries import (
    AnyEntry,
    CompactionEntry,
    MessageEntry,
    RestoreEntry,
    RewindEntry,
    TurnEntry,
    UndoEntry,
    is_turn,
)
from kode.session.index import folder_of
from kode.session.log import Session
from kode.session.messages import effective
from kode.session.upkeep import is_open
from kode.undo.text import undo_text
from kode.undo.undo import Undo, Undone

if TYPE_CHECKING:
    from kode.conversation.conversation import Conversation
    from kode.undo.text import FileDiff


async def undo(conversation: "Conversation") -> str:
    """Undoes the newest turn that changed files and is not undone; returns a message about it.
    Raises: StorageError."""
    return _conclude(conversation, await asyncio.to_thread(conversation.agent.undo.undo))


async def redo(conversation: "Conversation") -> str:
    """Redoes the last undone turn; returns a message about it. Raises: StorageError."""
    return _conclude(conversation, await asyncio.to_thread(conversation.agent.undo.redo))


def diffs(conversation: "Conversation") -> "list[FileDiff]":
    """The changes to files that this session made through tools, file by file."""
    from kode.undo.text import file_diffs

    return file_diffs(conversation.agent.undo, conversation.place.cwd)


def prompts(conversation: "Conversation") -> list[str]:
    """The person's prompt of each turn, oldest first."""
    return [text_of(entry) for entry in _prompts_of(conversation.session)]


def would_undo(conversation: "Conversation") -> list[list[str]]:
    """For each of `prompts`, the files whose changes a rewind to it undoes. Reads the record of
    changes: call it in a thread."""
    cwd, past = conversation.place.cwd, conversation.agent.undo.history()
    return [
        sorted({relative_path(path, cwd) for change in past.since(turn) for path in change.changed})
        for turn in range(1, len(_prompts_of(conversation.session)) + 1)
    ]


def is_cut_short(conversation: "Conversation") -> bool:
    """Whether kode was killed before the last message was answered."""
    entries, kinds = effective(conversation.session.entries), (MessageEntry, TurnEntry)
    newest = next((entry for entry in reversed(entries) if isinstance(entry, kinds)), None)
    return isinstance(newest, MessageEntry) and newest.role != "assistant"


async def rewind(
    conversation: "Conversation", turn: int, *, files: bool, messages: bool
) -> list[str]:
    """Goes back to before this turn's prompt (from 1): with `files` what changed since, with
    `messages` what was said; returns one line for each thing done. What the conversation loses
    stays in the session's file; `redo` restores lost file changes.

    Raises: StorageError.
    """
    lines = list[str]()
    if files:
        past = await asyncio.to_thread(conversation.agent.undo.history)
        lines = [await undo(conversation) for _ in past.since(turn)]
        lines = lines or ["No files changed since then."]
    if messages:
        _append(conversation, RewindEntry(to=_prompts_of(conversation.session)[turn - 1].id))
        lines.append(f"The conversation is rewound to prompt {turn}. `/rewind undo` restores it.")
    return lines


def take_back_last_message(conversation: "Conversation") -> bool:
    """Rewinds the session to before the person's last message, to replace it; False if there is
    none. The message stays in the file, and file changes stay (see `undo`). Raises: StorageError.
    """
    messages = _prompts_of(conversation.session)
    if messages:
        _append(conversation, RewindEntry(to=messages[-1].id))
    return bool(messages)


def undo_rewind(conversation: "Conversation") -> bool:
    """Restores what the last rewind dropped from the conversation; False if there is none, or if a
    message has come since. Raises: StorageError."""
    entries = conversation.session.entries
    restored = {entry.of for entry in entries if isinstance(entry, RestoreEntry)}
    for entry in reversed(entries):
        if isinstance(entry, MessageEntry):
            break
        if isinstance(entry, RewindEntry) and entry.id not in restored:
            _append(conversation, RestoreEntry(of=entry.id))
            return True
    return False


def undo_compaction(conversation: "Conversation") -> str | None:
    """`/compact undo`: restores what the last compaction removed from the model's view; returns a
    message about it, or None if there was none. Raises: StorageError."""
    entries = effective(conversation.session.entries)
    compactions = [entry for entry in entries if isinstance(entry, CompactionEntry)]
    if not compactions:
        return None
    _append(conversation, RestoreEntry(of=compactions[-1].id))
    conversation.context.fruitless, agent = 0, conversation.agent
    size, limit = context_tokens(conversation.context), agent.provider.info.context_window
    text = f"Compaction undone: {size:,} of {limit:,} tokens are used."
    if size > limit * agent.limits.compact_at:
        text += (
            " The next request would compact it again: switch to a model with a larger window "
            "first (/model), or raise `context.compact_at`."
        )
    return text


async def finish_undos(conversation: "Conversation") -> None:
    """Completes what undos and redos in this folder left half done when they were killed, and says
    so. Raises: StorageError."""
    session, emit = conversation.session, conversation.settings.emit
    for mark in _unfinished_marks(conversation.place.home):
        if mark.name == session.id:
            undone = await asyncio.to_thread(_finish, session, conversation.agent.undo)
            if undone is not None:
                emit(Notice(text=_show(conversation, undone)))
        else:
            undone = await asyncio.to_thread(_finish_other, conversation, mark)
            if undone is not None:
                prompt_of = f"session {mark.name}".format
                emit(Notice(text=undo_text(undone, conversation.place.cwd, prompt_of)))


def _unfinished_marks(home: Path) -> list[Path]:
    """What has begun and is not done; not what another kode is writing just now."""
    with contextlib.suppress(OSError):  # nearly always there is none
        marks = paths.unfinished_folder(home).iterdir()
        return sorted(mark for mark in marks if not mark.name.startswith(TEMPORARY_PREFIX))
    return []


def _finish_other(conversation: "Conversation", mark: Path) -> Undone | None:
    """Finishes the undo of another session, if it is of this folder and not open. Raises:
    StorageError."""
    home, path = conversation.place.home, paths.session_file(conversation.place.home, mark.name)
    if not path.exists():
        durable.remove(mark)
        return None
    if folder_of(path) != log.writable_path(conversation.place.cwd) or is_open(path):
        return None
    undo = undo_of_session(conversation.config, home, mark.name)
    try:
        session, _ = log.load(home, mark.name)
    except BusyError:
        return None
    except SessionError:
        return undo.finish()
    with contextlib.closing(session):
        return _finish(session, undo)


def _finish(session: Session, undo: Undo) -> Undone | None:
    """Completes an undo or a redo that was cut short, and its entry in the session; None if there
    was nothing to do. Raises: StorageError."""
    undone = undo.finish()
    of_undone = undone and undone.step and (undone.step.id, undone.touched)
    entries = (entry for entry in session.entries if isinstance(entry, UndoEntry))
    if undone is None or any((entry.step, entry.files) == of_undone for entry in entries):
        undo.confirm()
        return None
    _record(session, undo, undone)
    return undone


def _conclude(conversation: "Conversation", undone: Undone) -> str:
    """Records an undo or redo, of which the next message tells; returns a message about it. Raises:
    StorageError."""
    _record(conversation.session, conversation.agent.undo, undone)
    return _show(conversation, undone)


def _record(session: Session, undo: Undo, undone: Undone) -> None:
    """Records what an undo or a redo did to files, if anything. Raises: StorageError."""
    if (step := undone.step) is None:
        return
    if undone.touched:
        is_said = any(message.id == step.turn.id for message in _prompts_of(session))
        session.append(
            UndoEntry(
                turn=step.turn.number,
                redo=undone.redo,
                files=undone.touched,
                of=step.turn.id if is_said else "",
                step=step.id,
            )
        )
    if not undone.failed:
        undo.confirm()


def _show(conversation: "Conversation", undone: Undone) -> str:
    """Has the session's tools see what was changed; returns a message about it."""
    agent = conversation.agent
    for path in undone.touched:
        agent.seen_files.pop(path, None)
    if agent.sandbox is not None:
        agent.sandbox.refresh_running_commands(undone.touched)
    return undo_text(undone, agent.place.cwd, partial(_prompt_start, conversation.session))


def _append(conversation: "Conversation", entry: AnyEntry) -> None:
    """Adds an entry that changes which messages the model gets. Raises: StorageError."""
    conversation.session.append(entry)
    conversation.context.known_messages = 0


def _prompts_of(session: Session) -> list[MessageEntry]:
    """The person's messages that began a turn, oldest first."""
    entries = effective(session.entries)
    return [entry for entry in entries if isinstance(entry, MessageEntry) and is_turn(entry)]


def _prompt_start(session: Session, turn: int) -> str:
    """The beginning of a turn's prompt; "" if it is unknown."""
    messages = _prompts_of(session)
    return shorten(text_of(messages[turn - 1]), 60) if 0 < turn <= len(messages) else ""
