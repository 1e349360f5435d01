"""The sessions that memory has not summarized yet. Each has an empty marker file, locked by the
process that has the session open or is summarizing it. An attempt is stored before the model is
asked, and an answer before it is used, so that a kill costs at most one repeated question.
"""

import fcntl
import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from kode import durable
from kode.credentials import redact_secrets
from kode.messages import Message
from kode.values import Value, replace, serializer, validator

_ID = re.compile(r"(?!.*\.\.)(?!.*\.json$)[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""A usable session id: at most 100 characters, no path, not hidden, without the suffix `.json`."""


class SessionProgress(Value):
    """What has been done so far to summarize one session."""

    attempts: int = 0
    """How many times asking the model about the session was begun, with or without an answer."""
    answer: str = ""
    """The model's final answer, with credentials masked; "" if there is none yet."""
    messages: tuple[Message, ...] = ()
    """The conversation with the model so far, in a system that asks in several steps."""
    shown: tuple[str, ...] = ()
    """The ids of the known statements that the question shows, in the order of their numbers."""


class Pending:
    """The pending sessions of one memory folder. Use one object per process. Methods raise
    StorageError."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._locks: dict[str, int] = {}
        """Session → the descriptor of its marker file, whose lock this process holds."""

    def mark(self, session: str) -> None:
        """Durably marks a session as pending and claims it, discarding earlier progress. Ignores an
        invalid id and a session that another process holds: call it again after the next turn."""
        if session in self._locks or not _ID.fullmatch(session):
            return
        durable.make_folder(self._folder)
        if self.claim(session, create=True):
            durable.remove(self._file(session))  # it is about an earlier part of the session
            with durable.storage_errors(self._folder, "make durable"):
                durable.sync_folder(self._folder)

    def claim(self, session: str, *, create: bool = False) -> bool:
        """Claims a pending session by locking its marker, which `create` adds if it is missing.
        Returns False if there is no marker, or if another process holds the lock."""
        path, flags = self._folder / session, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT * create)
        while session not in self._locks:
            with durable.storage_errors(path, "open"):
                try:
                    descriptor = os.open(path, flags, 0o600)
                except FileNotFoundError:
                    return False
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                return False
            if os.fstat(descriptor).st_nlink:
                self._locks[session] = descriptor
            else:
                os.close(descriptor)  # another process has just removed the marker
        return True

    def release(self, session: str) -> None:
        """Releases the claim on a session, if there is one; the session stays pending."""
        if (descriptor := self._locks.pop(session, None)) is not None:
            durable.unlock(descriptor)
            os.close(descriptor)

    def sessions(self) -> list[str]:
        """Returns the pending sessions, oldest first, including those that are claimed."""
        with suppress(OSError):
            return sorted(filter(_ID.fullmatch, os.listdir(self._folder)))
        return []

    def progress(self, session: str) -> SessionProgress:
        """Returns the stored progress; a missing or damaged file counts as no progress."""
        with suppress(OSError, ValueError):
            text = self._file(session).read_bytes()
            progress: SessionProgress = validator(SessionProgress).validate_json(text)
            return progress
        return SessionProgress()

    def update(self, session: str, **values: Any) -> None:
        """Stores fields of `SessionProgress`, with credentials masked. Call it with an attempt
        before making the request, and with an answer before using it."""
        progress = replace(self.progress(session), **values)
        row = redact_secrets(serializer(SessionProgress).to_python(progress, mode="json"))
        text = json.dumps(row, ensure_ascii=False)
        durable.replace_file(self._file(session), text.encode(errors="replace"))

    def finish(self, session: str) -> None:
        """Ends a claimed session: removes its marker and its progress, and releases the claim."""
        durable.remove(self._folder / session)  # without its marker, it is no longer pending
        durable.remove(self._file(session))
        self.release(session)

    def _file(self, session: str) -> Path:
        return self._folder / f"{session}.json"
