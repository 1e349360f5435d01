"""A session as memory summarizes it, read from its file."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from kode import paths
from kode.errors import SessionError, StorageError
from kode.messages import Message, Text
from kode.values import Value


class Project(NamedTuple):
    """The folder that memory belongs to."""

    root: Path
    """The repository root, or the working directory outside a repository; symlinks resolved."""
    hash: str
    """`paths.path_hash` of the root."""
    in_repository: bool


class SessionRecord(Value):
    """All that memory needs of a session."""

    id: str
    project: Project
    messages: Sequence[Message]
    """Also those that were compacted away; an undo and a redo are messages of their own."""
    typed: Sequence[str]
    """See `typed_texts`."""
    turns: int
    started_at: datetime
    """Aware, in local time."""
    ended_at: datetime
    """The time of its last entry; aware, in local time."""
    tainted_by: str = ""
    """The source of the first outside text that the session read; "" if none."""
    skipped: int = 0
    """How many messages before these are left out."""

    @property
    def end(self) -> int:
        """How many messages the session has up to the last of these."""
        return self.skipped + len(self.messages)


def session_record(home: Path, id: str) -> SessionRecord | None:
    """The record of a session; None if it has no file that can be read, or nothing was said."""
    # Imported here, since opening memory does not need them.
    from kode.session.index import read, session_path
    from kode.session.log import Session
    from kode.session.messages import conversation_messages

    try:
        header, entries, _ = read(session_path(home, id))
    except (SessionError, StorageError):
        return None
    session = Session(header=header, path=None)
    session.append(*entries)
    if not (messages := conversation_messages(session.entries)):
        return None
    root = paths.repository_root(Path(header.cwd))
    project = root or paths.project_root(Path(header.cwd))
    return SessionRecord(
        id=id,
        project=Project(project, paths.path_hash(project), root is not None),
        messages=messages,
        typed=typed_texts(messages),
        turns=session.turns,
        started_at=datetime.fromisoformat(header.created_at).astimezone(),
        ended_at=datetime.fromisoformat(session.entries[-1].at).astimezone(),
        tainted_by=session.tainted_by,
    )


def typed_texts(messages: Iterable[Message]) -> tuple[str, ...]:
    """What the person typed, message by message; not what they pasted as a block or piped."""
    texts = (
        part.text if part.typed is None else part.typed
        for message in messages
        if message.role == "user"
        for part in message.parts
        if isinstance(part, Text) and part.source in ("", "steering")
    )
    return tuple(text for text in texts if text.strip())
