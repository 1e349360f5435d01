"""The ways back in a conversation: undo and redo of file changes, rewinding to an earlier prompt,
undoing a compaction. What is dropped stays in the session's file."""

import asyncio
import os
from collections.abc import Callable
from contextlib import closing, suppress
from itertools import takewhile
from typing import TYPE_CHECKING

from kode import paths
from kode.assembly import open_saved_undo
from kode.errors import BusyError, SessionError, StorageError
from kode.events import Notice
from kode.messages import shorten, text_of
from kode.paths import relative_path
from kode.session import entries, log
from kode.session.entries import MessageEntry, RestoreEntry, RewindEntry, UndoEntry, is_turn
from kode.session.index import summarize_session
from kode.session.log import Session
from kode.session.messages import effective
from kode.undo.undo import FileDiff, Undo, UndoResult, describe_undo, file_diffs

if TYPE_CHECKING:
    from kode.conversation.conversation import Conversation


async def undo(conversation: "Conversation") -> str:
    """Undoes the newest turn that changed files; returns what was done. Raises: StorageError."""
    return await _change_files(conversation, Undo.undo)


async def redo(conversation: "Conversation") -> str:
    """Redoes the last undone turn; returns a message about it. Raises: StorageError."""
    return await _change_files(conversation, Undo.redo)


def list_diffs(conversation: "Conversation") -> list[FileDiff]:
    """The changes to files that this session made through tools, file by file."""
    return file_diffs(conversation.agent.undo, conversation.place.cwd)


def list_prompts(conversation: "Conversation") -> list[str]:
    """The person's prompt of each turn, oldest first."""
    return [text_of(message) for message in _prompts_of(conversation.session)]


def files_to_undo(conversation: "Conversation") -> list[list[str]]:
    """For each of `list_prompts`, the files that a rewind to it restores. Call it in a thread."""
    cwd, past = conversation.place.cwd, conversation.agent.undo.history()
    return [
        sorted({relative_path(path, cwd) for change in past.since(turn) for path in change.changed})
        for turn, _ in enumerate(_prompts_of(conversation.session), 1)
    ]


def is_cut_short(conversation: "Conversation") -> bool:
    """Whether kode was killed before the last message was answered."""
    kinds = (MessageEntry, entries.TurnEntry)
    past = [entry for entry in effective(conversation.session.entries) if isinstance(entry, kinds)]
    # What kode adds to the conversation, memory for example, asks for no answer.
    past = [entry for entry in past if is_turn(entry) or getattr(entry, "role", "") != "user"]
    return bool(past) and getattr(past[-1], "role", "assistant") != "assistant"


async def rewind(
    conversation: "Conversation", turn: int, *, files: bool, messages: bool
) -> list[str]:
    """Goes back to before this turn's prompt (from 1): `files` restores what changed since,
    `messages` drops what was said since; returns a line for each. Raises: StorageError."""
    lines = list[str]()
    if files:
        past = await asyncio.to_thread(conversation.agent.undo.history)
        lines = [await undo(conversation) for _ in past.since(turn)] or ["No files changed since."]
    if messages:
        _append(conversation, RewindEntry(to=_prompts_of(conversation.session)[turn - 1].id))
        lines.append(f"The conversation is rewound to prompt {turn}. `/rewind undo` restores it.")
    return lines


def undo_rewind(conversation: "Conversation") -> bool:
    """Restores what the last rewind dropped from the conversation; False if there is none, or if a
    message has come since. Raises: StorageError."""
    past = conversation.session.entries
    restored = {entry.of for entry in past if isinstance(entry, RestoreEntry)}
    newest = takewhile(lambda entry: not isinstance(entry, MessageEntry), reversed(past))
    rewinds = (entry.id for entry in newest if isinstance(entry, RewindEntry))
    if id := next((id for id in rewinds if id not in restored), None):
        _append(conversation, RestoreEntry(of=id))
    return id is not None


def undo_compaction(conversation: "Conversation") -> str | None:
    """Restores what the last compaction removed from the model's view; returns a message about it,
    None if there was none. Raises: StorageError."""
    past, agent = effective(conversation.session.entries), conversation.agent
    if not (ids := [entry.id for entry in past if isinstance(entry, entries.CompactionEntry)]):
        return None
    _append(conversation, RestoreEntry(of=ids[-1]))
    conversation.context.fruitless = 0
    size, limit = conversation.context_tokens, agent.provider.info.context_window
    text = f"Compaction undone: {size:,} of {limit:,} tokens are used."
    if size > limit * agent.config.context.compact_at:
        text += " The next request compacts it again: use a larger model or `context.compact_at`."
    return text


async def finish_undos(conversation: "Conversation") -> None:
    """Completes the undos and redos in this folder that were killed half-way."""
    place, config, ids = conversation.place, conversation.config, list[str]()
    with suppress(OSError):  # nearly always this folder is missing
        ids = sorted(os.listdir(paths.unfinished_folder(place.home)))
    for id in ids:
        text = ""
        try:
            if id == conversation.session.id:
                text = await _change_files(conversation, Undo.finish)
            elif (
                summary := summarize_session(paths.session_file(place.home, id), place.cwd)
            ) and summary.cwd:
                with (
                    suppress(BusyError, SessionError),
                    closing(log.load(place.home, id)[0]) as other,
                ):
                    undo = open_saved_undo(config, place.home, id)
                    text = await _change_files(conversation, Undo.finish, other, undo)
        except StorageError as error:  # the next start tries again
            text = str(error)
        if text:
            conversation.settings.emit(Notice(text=text))


async def _change_files(
    conversation: "Conversation",
    change: Callable[[Undo], UndoResult | None],
    session: Session | None = None,
    undo: Undo | None = None,
) -> str:
    """Does an undo or a redo, by default of the open session, and records it there, so that the
    next message mentions it; returns a text about it, "" if none was due. Raises: StorageError."""
    session, undo = session or conversation.session, undo or conversation.agent.undo
    undone, messages = await asyncio.to_thread(change, undo), _prompts_of(session)
    if undone is None:
        undo.confirm()
        return ""
    step, files, agent = undone.step, (*undone.changed_files,), conversation.agent
    # A kode that was killed may have recorded it.
    noted = {(entry.step, entry.files) for entry in session.entries if isinstance(entry, UndoEntry)}
    if files and (step.id, files) not in noted:
        (id, turn), redo = step.turn, step.kind == "redo"
        session.append(UndoEntry(turn=turn, redo=redo, files=files, of=id, step=step.id))
    undo.confirm()
    texts = [text_of(message) for message in messages if message.id == step.turn.id]
    texts = texts if session is conversation.session else [f"session {session.id}"]
    return describe_undo(undone, agent.place.cwd, shorten("".join(texts), 60))


def _append(conversation: "Conversation", entry: entries.Entry) -> None:
    """Adds an entry that changes which messages the model gets. Raises: StorageError."""
    conversation.session.append(entry)
    conversation.context.known_messages = 0


def _prompts_of(session: Session) -> list[MessageEntry]:
    """The person's messages that began a turn, oldest first."""
    return [*filter(is_turn, effective(session.entries))]
