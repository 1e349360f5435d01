"""The sessions that memory has yet to sum up: a file for each, whatever happens to its process.

The session's own log is the raw material, so a mark is an empty file. The process that has a
session open, or sums it up, holds the lock of its file; the lock ends with the process. Attempts
are counted before a model is asked, and an answer is on disk before it is used: a kill loses
nothing, and nothing is paid for twice.
"""

import fcntl
import json
import os
import re
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from kode import durable
from kode.errors import StorageError

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far one session has come."""

    attempts: int = 0
    """Requests that were begun."""
    answer: str = ""
    """The model's answer, without credentials; "" for none so far."""
    shown: tuple[str, ...] = ()
    """The ids of the known statements in the question, in the order of their numbers."""


class Pending:
    """The pending sessions of one memory folder. Use one object per process. Methods raise
    StorageError."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: dict[str, int] = {}
        """Session → the open file whose lock this process holds."""

    def mark(self, session: str) -> bool:
        """Notes durably that a session has to be summed up. Returns False while another process
        sums up an earlier part of it: then mark it again after the next turn."""
        if session in self._held:
            return True
        if not may_name_a_file(session):
            return False
        durable.make_folder(self._folder)
        held = self._take(session, create=True)
        if held:
            self._remove(session, ".json")  # an answer about an earlier part of the session
            with durable.storage_errors(self._path(session), "make durable"):
                durable.sync_folder(self._folder)
        return held

    def take(self, session: str) -> bool:
        """Takes the right to sum up a pending session; False if it is not pending any more, or
        another process has it open."""
        return session in self._held or self._take(session, create=False)

    def leave(self, session: str) -> None:
        """Gives that right back; the session stays pending."""
        descriptor = self._held.pop(session, None)
        if descriptor is not None:
            durable.unlock(descriptor)
            os.close(descriptor)

    def sessions(self) -> list[str]:
        """The pending sessions, oldest first, of this process and others. Those that are open
        cannot be taken."""
        with suppress(OSError):
            names = [name for name in os.listdir(self._folder) if not name.startswith(".")]
            return sorted(name for name in names if not name.endswith(".json"))
        return []

    def progress(self, session: str) -> Progress:
        """As far as it is known: damage costs a repeated question at most."""
        with suppress(OSError, ValueError):
            return _progress().validate_json(self._path(session, ".json").read_bytes())
        return Progress()

    def count_attempt(self, session: str) -> int:
        """Counts a request before it is made; returns how many there are now."""
        progress = self.progress(session)
        progress = replace(progress, attempts=progress.attempts + 1)
        self._write(session, progress)
        return progress.attempts

    def answer(self, session: str, text: str, shown: tuple[str, ...]) -> None:
        """Stores the answer of a model before it is used."""
        progress = self.progress(session)
        self._write(session, replace(progress, answer=text, shown=shown))

    def done(self, session: str) -> None:
        """Ends what this process took: nothing is left to do about it."""
        self._remove(session)  # without its mark, a session is no longer pending
        self._remove(session, ".json")
        self.leave(session)

    # ── inside ───────────────────────────────────────────────────────────────────────────────

    def _path(self, session: str, suffix: str = "") -> Path:
        return self._folder / f"{session}{suffix}"

    def _remove(self, session: str, suffix: str = "") -> None:
        if self._path(session, suffix).exists():
            durable.remove(self._path(session, suffix))

    def _write(self, session: str, progress: Progress) -> None:
        row = json.dumps(asdict(progress), ensure_ascii=False)
        durable.replace(self._path(session, ".json"), row.encode(errors="replace"))

    def _take(self, session: str, *, create: bool) -> bool:
        path, flags = self._path(session), os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT * create)
        while True:
            try:
                descriptor = os.open(path, flags, 0o600)
            except FileNotFoundError:
                return False
            except OSError as error:
                raise StorageError(f"Could not open {path} ({error.strerror}).") from error
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                return False
            if os.fstat(descriptor).st_nlink:
                self._held[session] = descriptor
                return True
            os.close(descriptor)  # another process has just ended it


def may_name_a_file(session: str) -> bool:
    """Whether a session id can be a file name: no path, nothing hidden."""
    is_plain = _ID.fullmatch(session) is not None and ".." not in session
    return is_plain and not session.endswith(".json")


@cache
def _progress() -> "TypeAdapter[Progress]":
    from pydantic import TypeAdapter

    return TypeAdapter(Progress)
