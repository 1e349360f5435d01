"""Lists a folder named after `@`, or with `--ctx`, as a part of the message.

`files` finds the files; the tool `list_files` lists one for the model.
"""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kode.cli.prompt.files import list_files
from kode.cli.prompt.mentions import mentions
from kode.messages import Text, plural
from kode.paths import real_path

MAX_LISTED = 200
"""In a folder with more files, only direct contents are listed, with the number of files in
each."""


@dataclass(frozen=True)
class Folder:
    """A listing to attach to a message."""

    name: str
    """As the person wrote it."""
    files: int
    text: Text

    @property
    def summary(self) -> str:
        """In a few words: `12 files in src`."""
        return f"{plural(self.files, 'file')} in {self.name}"


def read_folder(name: str, path: Path) -> Folder | None:
    """A folder's listing, without what `.gitignore` names; None if `path` is not a folder. Slow for
    a large one."""
    if not os.path.isdir(path):  # an impossible path is not a folder either
        return None
    files = list_files(path)
    lines = sorted(files) if len(files) <= MAX_LISTED else _direct(files)
    note = []
    if len(lines) > MAX_LISTED:
        note = [f"[{len(lines) - MAX_LISTED:,} more: list_files shows them]"]
    body = "\n".join([*lines[:MAX_LISTED], *note])
    text = Text(text=f'<folder path="{name}">\n{body}\n</folder>', source="attachment")
    return Folder(name, len(files), text)


def mentioned_folders(text: str, cwd: Path) -> Iterator[Folder]:
    """The folders below `cwd` that are named after `@` in a message."""
    below, seen = Path(real_path(cwd)), set()
    for name in mentions(text):
        try:
            path = Path(real_path(cwd / name))
        except (OSError, ValueError):
            continue
        if path in seen or not path.is_relative_to(below):
            continue
        folder = read_folder(name, path)
        if folder is not None:
            seen.add(path)
            yield folder


def _direct(found: list[str]) -> list[str]:
    """The files of a folder itself, and its subfolders with the number of files in each."""
    here = [path for path in found if "/" not in path]
    folders = Counter(path.partition("/")[0] for path in found if "/" in path)
    named = [f"{name}/ ({plural(number, 'file')})" for name, number in folders.items()]
    return sorted(named) + sorted(here)
