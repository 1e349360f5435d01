"""The sessions that memory has yet to sum up: an empty file for each, locked by the process that
has it open or sums it up. Attempts are counted before a model is asked, and an answer is on disk
before it is used: a kill loses nothing, and nothing is paid for twice.
"""

import fcntl
import functools
import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from kode import durable
from kode.credentials import redact_values
from kode.messages import Message
from kode.values import dataclass, replace

_ID = re.compile(r"(?!.*\.\.)(?!.*\.json$)[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""What may name a file: no path, nothing hidden."""


@dataclass(frozen=True, kw_only=True)
class SessionProgress:
    """How far one session has come."""

    attempts: int = 0
    """Requests that were begun."""
    answer: str = ""
    """The model's last answer, without credentials; "" for none so far."""
    messages: tuple[Message, ...] = ()
    """The conversation up to it, where a system holds one."""
    shown: tuple[str, ...] = ()
    """The ids of the known statements in the question, in the order of their numbers."""


@functools.cache
def _format() -> TypeAdapter[SessionProgress]:
    return TypeAdapter(SessionProgress)


class Pending:
    """The pending sessions of one memory folder. Use one object per process. Methods raise
    StorageError."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._locks: dict[str, int] = {}
        """Session → the open file whose lock this process holds."""

    def mark(self, session: str) -> None:
        """Notes durably that a session has to be summed up. While another process sums up an
        earlier part of it, nothing is noted: mark it again after the next turn."""
        if session in self._locks or not _ID.fullmatch(session):
            return
        durable.make_folder(self._folder)
        if self.claim(session, create=True):
            durable.remove(self._file(session))  # about an earlier part of the session
            with durable.storage_errors(self._folder, "make durable"):
                durable.sync_folder(self._folder)

    def claim(self, session: str, *, create: bool = False) -> bool:
        """Takes the right to sum up a pending session; False if it is not pending any more, or
        another process has it open."""
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
                os.close(descriptor)  # another process has just ended it
        return True

    def release(self, session: str) -> None:
        """Gives that right back; the session stays pending."""
        if (descriptor := self._locks.pop(session, None)) is not None:
            durable.unlock(descriptor)
            os.close(descriptor)

    def sessions(self) -> list[str]:
        """The pending sessions, oldest first, also those that another process has open."""
        with suppress(OSError):
            return sorted(filter(_ID.fullmatch, os.listdir(self._folder)))
        return []

    def progress(self, session: str) -> SessionProgress:
        """As far as it is known: damage costs a repeated question at most."""
        with suppress(OSError, ValueError):
            return _format().validate_json(self._file(session).read_bytes())
        return SessionProgress()

    def update(self, session: str, **values: Any) -> None:
        """Stores fields of `SessionProgress`, without credentials: an attempt before its request is
        made, an answer before it is used."""
        progress = replace(self.progress(session), **values)
        row = redact_values(_format().dump_python(progress, mode="json"))
        text = json.dumps(row, ensure_ascii=False)
        durable.replace_file(self._file(session), text.encode(errors="replace"))

    def finish(self, session: str) -> None:
        """Ends what this process took: nothing is left to do about it."""
        durable.remove(self._folder / session)  # without its mark, it is no longer pending
        durable.remove(self._file(session))
        self.release(session)

    def _file(self, session: str) -> Path:
        return self._folder / f"{session}.json"
