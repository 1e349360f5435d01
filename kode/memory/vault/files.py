"""Names, lists, reads and writes the files of the vault, as one project sees them.

    memory/vault/facts/user.md  preferences.md       of the person, the same in every project
    memory/vault/<path-hash>/facts/  episodes/       of one project, with its `pending/`

A name (`facts/user.md`) shows which of the two it is. A person may edit the files at any time.
"""

import re
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from kode import durable
from kode.errors import MemoryRefused
from kode.memory.project import ProjectFolder
from kode.memory.stored import locked, plain_lines, read_text
from kode.memory.vault.summary import summary_of
from kode.paths import real_path

FOLDERS = ("facts", "episodes")
SHARED = frozenset({"facts/user.md", "facts/preferences.md"})
"""Files about the person, one for all projects; every other one belongs to a project."""
MAX_NAME_CHARS = 100

_MONTH = re.compile(r"\d{4}-(?:0[1-9]|1[0-2])\.md")


def checked_name(path: str) -> str:
    """Normalizes `path` to a name below the vault, without `./` and doubled slashes.

    Raises: MemoryRefused that names the path and says what is allowed.
    """
    if not path.isprintable() or "\\" in path:
        raise _refused(path, "it holds characters that a name does not have")
    if path.startswith(("/", "~")):
        raise _refused(path, "it is absolute")
    parts = [part for part in path.strip().split("/") if part not in ("", ".")]
    if ".." in parts:
        raise _refused(path, "it leaves the memory folder")
    if len(parts) != 2 or parts[0] not in FOLDERS:
        raise _refused(path, "it is not directly in facts/ or episodes/")
    name = parts[1]
    if not name.endswith(".md") or name.startswith(".") or len(name) > MAX_NAME_CHARS:
        raise _refused(path, "it is not the name of a .md file")
    return f"{parts[0]}/{name}"


def month_file(now: datetime) -> str:
    """The episodes' file of the month; `now` is local time."""
    return f"episodes/{now:%Y-%m}.md"


def is_episodes(name: str) -> bool:
    return name.startswith("episodes/")


def is_facts(name: str) -> bool:
    return not is_episodes(name)


def is_month(name: str) -> bool:
    return is_episodes(name) and _MONTH.fullmatch(name.removeprefix("episodes/")) is not None


def title_of(name: str) -> str:
    """The heading of a new file: `# User Facts`, `# 2026-02 Episodes`."""
    folder, _, file = name.partition("/")
    stem = file.removesuffix(".md")
    if folder == "episodes":
        return f"# {stem} Episodes"
    return f"# {stem.replace('-', ' ').replace('_', ' ').title()} Facts"


def _refused(path: str, why: str) -> MemoryRefused:
    shown = path if path.isprintable() else repr(path)
    shown = shown if len(shown) <= 120 else shown[:119] + "…"
    return MemoryRefused(
        f"{shown}: no file of memory can be called that: {why}. Use facts/NAME.md or "
        "episodes/YYYY-MM.md; `memory_list` shows what there is."
    )


HEAD_BYTES = 4096
"""How much of a file is searched for the Summary line in a listing."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One file in the index."""

    path: str
    summary: str
    size: int
    """Bytes."""


SYSTEM = "vault"


class VaultFiles:
    """The files of one project. Creates nothing before the first write."""

    def __init__(self, folder: ProjectFolder) -> None:
        self.folder = folder

    def path(self, name: str) -> Path:
        """The path of a checked name. Raises: MemoryRefused for a link to outside."""
        root = self._base(name).path
        real = Path(real_path(root / name))
        if Path(real_path(root)) not in real.parents or real.suffix != ".md":
            raise _refused(name, "it is a link out of the memory folder")
        if real.exists() and not real.is_file():
            raise _refused(name, "it is not a file")
        return root / name

    def target(self, name: str) -> str:
        """A file's name in the history."""
        return self._base(name).target(name)

    def of_target(self, target: str) -> "tuple[VaultFiles, str]":
        """The files and the name for a name in the history. Raises: MemoryRefused."""
        folder, name = self.folder.of_target(target)
        return VaultFiles(folder), checked_name(name)

    def names(self) -> list[str]:
        """Every file: facts by name, then episodes, newest month first. Skips links to outside,
        other kinds of files and folders."""
        found: list[str] = []
        for folder in FOLDERS:
            names = sorted(self._names_in(folder), reverse=folder == "episodes")
            found += names
        return found

    def rows(self) -> list[Row]:
        """The index, in the order of `names`."""
        rows = []
        for name in self.names():
            with suppress(OSError):
                path = self.path(name)
                with path.open("rb") as file:
                    head = file.read(HEAD_BYTES)
                text = plain_lines(head.decode("utf-8-sig", "replace"))
                size = path.stat().st_size
                rows.append(Row(path=name, summary=summary_of(text), size=size))
        return rows

    def read(self, name: str) -> str | None:
        """The text of a checked name; None if there is no such file.

        Raises: MemoryRefused if it is a link to outside, or not readable UTF-8 text.
        """
        return read_text(self.path(name))

    def lock(self) -> AbstractAsyncContextManager[None]:
        """The lock of the vault. Read again inside it: another process may have written."""
        return locked(self.folder.system)

    def write(self, name: str, text: str) -> None:
        """Writes a file; the caller holds the lock. Raises: MemoryRefused, StorageError."""
        path = self.path(name)
        durable.make_folder(path.parent)
        durable.replace(path, text.encode(errors="replace"))

    def remove(self, name: str) -> None:
        """Raises: MemoryRefused, StorageError."""
        durable.remove(self.path(name))

    def _base(self, name: str) -> ProjectFolder:
        return ProjectFolder(self.folder.system, "") if name in SHARED else self.folder

    def _names_in(self, folder: str) -> Iterator[str]:
        names = {name for name in SHARED if name.startswith(f"{folder}/")}
        with suppress(OSError):
            names |= {f"{folder}/{p.name}" for p in (self.folder.path / folder).iterdir()}
        for name in names:
            with suppress(MemoryRefused, OSError):
                if self.path(checked_name(name)).is_file():
                    yield name


def size_words(size: int) -> str:
    """A size for the index: `320B`, `1.2KB`."""
    if size < 1024:
        return f"{size}B"
    if size < 1024 * 1024:
        return f"{size / 1024:.1f}KB"
    return f"{size / 1024 / 1024:.1f}MB"
