"""Captures the output of a command: cleaned as it arrives, with both ends in memory, the lines in
between that look like errors, and everything in a file (credentials masked) once it is too long.
Memory use is bounded."""

import codecs
import contextlib
import os
import re
import secrets
from pathlib import Path
from typing import IO

from kode import durable
from kode.credentials import redact
from kode.errors import StorageError
from kode.plain_text import ESCAPES

MAX_CHARS = 16_000
"""The most characters of a command's output that are shown whole. Longer output is cut to 3/4 of
this: to cut a little would cost a call that reads the rest, and save next to nothing."""

MAX_FILE_CHARS = 100_000_000  # a command that never stops printing must not fill the disk

_MAX_ERROR_LINES = 8  # kept from the start, and again from the end
_MAX_ERROR_LINE_CHARS = 200  # two lines
_LOOKS_LIKE_ERROR = re.compile(
    r"(?i:(?<![\w-])(?:error|fatal|panic(?:ked)?|exception|traceback|fail(?:ed|ure)"
    r"|undefined reference|assertion|segmentation fault|cannot|denied)(?![\w-]))"
    r"|^\s*[\w.]*(?:Error|Exception)\b|^E   "
)
_MAX_LINE_CHARS = 65_536  # longer lines are passed on in parts

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_CUT_ESCAPE = re.compile(r"\x1b[^A-Za-z\x07]*$")
_MAX_PARTIAL_CHARS = 1_000  # a prompt for input is far shorter
_OVERSTRIKE = re.compile(r"[^\x08\n]\x08")


def clean_line(line: str) -> str:
    """A line as a terminal would finally show it: no escape sequences or control characters, and
    only the last state of progress that overwrote itself."""
    if line.isprintable():
        return line
    text = ESCAPES.sub("", line)
    if "\b" in text:
        text = _OVERSTRIKE.sub("", text)
    if "\r" in text:
        states = [state for state in text.rstrip("\r").split("\r") if state]
        text = states[-1] if states else ""
    return _CONTROL.sub("", text)


class Capture:
    """Keeps both ends of what arrives, as cleaned text, and all of it in a file once it is too
    long."""

    def __init__(self, folder: Path, name: str, most: int = MAX_CHARS) -> None:
        """Up to `most` characters are shown whole; of longer output, 3/8 of `most` at each end."""
        self._most, self._end = most, most * 3 // 8
        self.total = 0
        """Characters so far."""
        self.path: Path | None = None
        """The file, once it exists."""
        self._problem = ""
        """Why the file is incomplete; "" if it is complete."""
        self._folder = folder
        self._name = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:60]
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        """The unfinished last line, as it came."""
        self._head = self._tail = ""
        self._errors: list[str] = []
        """Lines after the head that look like errors."""
        self._file: IO[str] | None = None
        self._written = 0
        self._writes_all = False

    def keep_whole(self) -> None:
        """From now on writes everything to the file, each line as it arrives."""
        self._writes_all = True
        self._write("")

    @property
    def partial(self) -> str:
        """The unfinished last line, which is not in the text, as a terminal would show it now."""
        return clean_line(_CUT_ESCAPE.sub("", self._rest[-_MAX_PARTIAL_CHARS:]))

    def take(self, data: bytes, *, final: bool = False) -> str:
        """Adds what arrived; returns the text that is complete now, with `final` all the rest."""
        *lines, self._rest = (self._rest + self._decoder.decode(data, final)).split("\n")
        text = "".join([f"{clean_line(line)}\n" for line in lines])
        if final or len(self._rest) > _MAX_LINE_CHARS:
            # Not within an escape sequence.
            escape = self._rest.rfind("\x1b", -256)
            position = escape if escape > 0 and not final else len(self._rest)
            text += clean_line(self._rest[:position])
            self._rest = self._rest[position:]
        self.total += len(text)
        if self.total > self._most or self._writes_all:
            self._write(text)
        room = max(0, self._end - len(self._head))
        self._head += text[:room]
        # While everything fits, the tail holds all that is not in the head.
        length = self._most - self._end if self.total <= self._most else self._end
        self._tail = (self._tail + text[room:])[-length:]
        beginnings = [line[:_MAX_ERROR_LINE_CHARS] for line in text[room:].split("\n")]
        self._errors += filter(_LOOKS_LIKE_ERROR.search, beginnings)
        del self._errors[_MAX_ERROR_LINES:-_MAX_ERROR_LINES]
        return text

    def close(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None

    def text(self) -> str:
        """The kept text, with a line in the middle on what was omitted."""
        if self.total <= self._most:
            return self._head + self._tail
        left_out = self.total - len(self._head) - len(self._tail)
        note = f" ({self._problem})" if self._problem else ""
        if self.path:
            whole = f"The whole output is in {self.path}{note}"
            note = f" {whole}: read it with read_file, or search it."
        if errors := "".join(f"{line}\n" for line in self._errors if line not in self._tail):
            count = 2 * _MAX_ERROR_LINES
            errors = f"[Lines in it that look like errors, at most {count}:]\n{errors}"
        return (
            f"{self._head.rstrip()}\n\n"
            f"[{left_out:,} of {self.total:,} characters left out here.{note}]\n"
            f"{errors}\n{self._tail.lstrip()}"
        )

    def _write(self, text: str) -> None:
        if self._problem:
            return
        try:
            if self._file is None:
                durable.make_folder(self._folder)
                path = self._folder / f"{self._name}-{secrets.token_hex(4)}.txt"
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                descriptor = os.open(path, flags, 0o600)
                self._file = os.fdopen(descriptor, "w", encoding="utf-8", newline="")
                self.path, text = path, self._head + self._tail + text
            # Whole lines arrive at a time, so a credential is seen in full.
            self._file.write(redact(text[: MAX_FILE_CHARS - self._written]))
            if self._writes_all:
                self._file.flush()
            self._written += len(text)
            if self._written >= MAX_FILE_CHARS:
                self._problem = f"its first {MAX_FILE_CHARS:,} characters"
        except (StorageError, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            self._problem = f"It could not be kept whole: {reason}"
        if self._problem:
            self.close()
