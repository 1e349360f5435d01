"""Texts that are attached to a message. A file's in the working folders is the person's; everything
else is outside text, and so is a file left by a session that had read outside text."""

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from kode.errors import UserError
from kode.messages import Text
from kode.paths import real_path
from kode.plain_text import fence_text
from kode.session.provenance import Provenance

MAX_ATTACHED_BYTES = 256 * 1024  # about 64,000 tokens: a third of a 200,000 window


def file_part(
    name: str, text: str, path: Path | None, roots: Sequence[Path], marks: Provenance
) -> Text:
    """A file's text as a message part, under the name it was given by; `path` is None if it is not
    a file of this machine. Raises: UserError if it is too long."""
    if len(text) > MAX_ATTACHED_BYTES:
        raise UserError(
            f"{name} has more than {MAX_ATTACHED_BYTES // 1024} KB. Link to it, or name it in the "
            "task, so that kode reads the parts it needs."
        )
    return text_part(f'<file path="{name}">\n{text}\n</file>', path, roots, marks, source=name)


def text_part(
    text: str, path: Path | None, roots: Sequence[Path], marks: Provenance, *, source: str = ""
) -> Text:
    """A text about the file or folder `path` as a message part; without a path it comes from
    `source`."""
    if path is not None:
        source = marks.find_source([str(path)]) if path.is_file() else ""
        real = Path(real_path(path))
        if not any(real.is_relative_to(Path(real_path(root))) for root in roots):
            source = str(path)
    return outside_part(text, source) if source else Text(text=text, source="attachment")


def outside_part(text: str, source: str) -> Text:
    """A text from outside as a message part, fenced as such."""
    return Text(text=fence_text(text, source), source="outside")


def read_text(path: Path) -> str:
    """Reads a text file, or a pipe as in `<(command)`.

    Raises: UserError if it is missing, too large, or not text.
    """
    try:
        with path.open("rb") as file:
            # A device may never end.
            kind = os.fstat(file.fileno()).st_mode
            readable = stat.S_ISREG(kind) or stat.S_ISFIFO(kind)
            data = file.read(MAX_ATTACHED_BYTES + 1) if readable else b"\0"
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise UserError(f"{why}. Name a file that can be read.") from error
    if len(data) > MAX_ATTACHED_BYTES or b"\0" in data:
        raise UserError(
            "only text files of at most 256 KB, and images, can be attached. "
            "Name it in the task instead, so that kode reads the parts it needs."
        )
    return data.decode("utf-8", errors="replace")
