"""Fact files: entries of text separated by a line with only `§`, which a person may edit.

Beside each lies its archive, in the same format: entries left out of prompts, found when they fit a
request. Comparing, changing, undoing and tracing treat the two as one file.

This module defines the format and the places, and reads and replaces files under the folder's lock.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

from kode import credentials, durable
from kode import messages as plain
from kode.errors import MemoryRefused
from kode.memory import scan
from kode.memory.change import Who
from kode.memory.stale import Doubt
from kode.memory.stored import plain_lines, read_text
from kode.paths import path_hash

Target = Literal["user", "env"]
Scope = Literal["global", "project"]
Action = Literal["add", "replace", "archive", "remove", "consolidate"]
TARGETS: tuple[Target, ...] = get_args(Target)
SCOPES: tuple[Scope, ...] = get_args(Scope)

SEPARATOR = "\n§\n"
_SEPARATOR_LINE = re.compile(r"^[ \t]*§[ \t]*$", re.MULTILINE)
DISPUTED = "[not settled, another entry here says otherwise] "
UNJUDGED = "[not compared, a similar entry may say otherwise] "
TARGET_PATH = re.compile(r"(?:facts|project-facts/[0-9a-f]{16})/(user|env)\.md")


@dataclass(frozen=True, kw_only=True)
class FactFile:
    """One fact file at the time it was read."""

    path: Path
    target: Target
    scope: Scope
    entries: tuple[str, ...]
    """In file order, including the archive; trimmed, none empty."""
    limit: int
    """Characters the file may hold; the archive has no limit."""
    archived: frozenset[str] = frozenset()
    """The archived entries."""
    doubts: Mapping[str, Doubt] = field(default_factory=dict)
    """Entry → why it may not hold any more."""
    since: Mapping[str, str] = field(default_factory=dict)
    """Entry → the version or day from which it holds."""
    marks: Mapping[str, str] = field(default_factory=dict)
    """Entry → that it is in dispute, or not compared with a similar one."""
    dated: Mapping[str, str] = field(default_factory=dict)
    """Entry → the day it was said, where that tells it from an older or another one."""

    @property
    def standing(self) -> tuple[str, ...]:
        """The entries outside of the archive, in file order."""
        return tuple(entry for entry in self.entries if entry not in self.archived)

    @property
    def in_archive(self) -> tuple[str, ...]:
        """The archived entries, in archive order."""
        return tuple(entry for entry in self.entries if entry in self.archived)

    @property
    def archive_path(self) -> Path:
        return self.path.parent / "archive" / self.path.name

    @property
    def shown(self) -> tuple[str, ...]:
        """The entries outside of the archive as a model sees them."""
        return tuple(filter(None, map(self.as_shown, self.standing)))

    def as_shown(self, entry: str) -> str:
        """An entry as a model sees it: marked if it may be stale, contradicts a higher-ranking one,
        or may contradict another; "" if expired."""
        doubt = self.doubts.get(entry)
        if doubt is not None and doubt.expired:
            return ""
        mark = f"{self.marks.get(entry, '')}{doubt.mark if doubt else ''}"
        of = {"since": self.since.get(entry), "said": self.dated.get(entry)}
        times = ", ".join(f"{word} {time}" for word, time in of.items() if time)
        return f"{mark}{entry} ({times})" if times else f"{mark}{entry}"

    @property
    def size(self) -> int:
        """Characters used outside of the archive, separators included."""
        return len(render(self.standing))

    @property
    def label(self) -> str:
        return self.target if self.scope == "global" else f"{self.target} (project)"

    @property
    def fill(self) -> str:
        """`37% (561/1500 characters)`, and the number of archived entries."""
        percent = round(100 * self.size / self.limit) if self.limit else 100
        archived = f", {len(self.archived)} archived" if self.archived else ""
        return f"{percent}% ({self.size}/{self.limit} characters){archived}"


def parse(text: str) -> tuple[str, ...]:
    """The entries of a file, whoever wrote it: CRLF, a BOM and surrounding blank lines are
    dropped."""
    text = plain_lines(text).removeprefix("\ufeff")
    return tuple(entry for part in _SEPARATOR_LINE.split(text) if (entry := part.strip()))


def render(entries: Sequence[str]) -> str:
    """The file with these entries; no line feed at the end."""
    return SEPARATOR.join(entries)


def holds_separator(text: str) -> bool:
    """Whether a text would be read back as two entries."""
    return _SEPARATOR_LINE.search(plain_lines(text)) is not None


def check_text(content: str, who: Who = "model") -> str:
    """A text as it will be stored: trimmed, one entry, scanned as written by `who`.

    Raises: MemoryRefused naming what is wrong with it.
    """
    text = content.replace("\r\n", "\n").strip()
    if not text:
        raise MemoryRefused("content is empty: say in one sentence what to remember.")
    if holds_separator(text):
        raise MemoryRefused(
            "content holds a line with only §, which separates entries: write one fact at a time."
        )
    scan.check(text, author=who)
    return text


def find(file: FactFile, old_text: str) -> int:
    """The index of the one entry that `old_text` means: the full entry, else the only one that
    contains it.

    Raises: MemoryRefused if it is empty, or matches none or several.
    """
    wanted = old_text.replace("\r\n", "\n").strip()
    if not wanted:
        raise MemoryRefused(
            "old_text is empty: quote a part of the entry that occurs in no other entry."
        )
    if wanted in file.entries:
        return file.entries.index(wanted)
    hits = [index for index, entry in enumerate(file.entries) if wanted in entry]
    if len(hits) == 1:
        return hits[0]
    if hits:
        quoted = "; ".join(f'"{shorten(file.entries[index], 60)}"' for index in hits[:5])
        raise MemoryRefused(
            f'"{shorten(wanted, 60)}" occurs in {len(hits)} entries of {file.label}: {quoted}. '
            "Quote more of the one you mean. Nothing was changed."
        )
    held = "; ".join(f'"{shorten(entry, 60)}"' for entry in file.entries[:8])
    holds = f"holds {len(file.entries)}: {held}" if held else "is empty"
    raise MemoryRefused(
        f'No entry of {file.label} contains "{shorten(wanted, 60)}". '
        f"It {holds}. Nothing was changed."
    )


def check_room(file: FactFile, after: FactFile) -> None:
    """Raises: MemoryRefused with the sizes if a change would exceed the file's limit."""
    if after.size <= file.limit:
        return
    raise MemoryRefused(
        f"{file.label} would hold {after.size} characters, over its limit of {file.limit}; "
        f"it holds {file.size} now ({len(file.standing)} entries). Nothing was changed. "
        "Make room, then try again: `archive` what is seldom needed, `consolidate`, or `remove` "
        "what is wrong."
    )


def shorten(text: str, max_chars: int) -> str:
    """`text` for quoting in a sentence: on one line, credentials masked, cut with an ellipsis."""
    return plain.shorten(credentials.redact(text), max_chars)


@dataclass
class FactStore:
    """The fact files of one memory folder, seen from one project, each with its archive. A file is
    named as in the history, by its path below the folder."""

    root: Path
    project: Path
    """The canonical project root, or the working directory outside a repository."""
    in_repository: bool
    limits: Mapping[Target, int]

    def default_scope(self, target: Target) -> Scope:
        return "project" if target == "env" and self.in_repository else "global"

    def name(self, target: Target, scope: Scope) -> str:
        folder = "facts" if scope == "global" else f"project-facts/{path_hash(self.project)}"
        return f"{folder}/{target}.md"

    def names(self) -> list[str]:
        """Those of this project, global before project."""
        return [self.name(target, scope) for target in TARGETS for scope in SCOPES]

    def name_of(self, file: FactFile) -> str:
        return file.path.relative_to(self.root).as_posix()

    def files(self, notice: Callable[[str], None]) -> list[FactFile]:
        """The files that apply here; an unreadable one is skipped and reported to `notice`."""
        read = []
        for name in self.names():
            try:
                read.append(self.read_named(name))
            except MemoryRefused as error:
                notice(str(error))
        return read

    def read(self, target: Target, scope: Scope) -> FactFile:
        return self.read_named(self.name(target, scope))

    def read_named(self, name: str) -> FactFile:
        """Reads the file of this name, of any project; a missing one is empty.

        Raises: MemoryRefused if it is not readable UTF-8 text, or has no such name.
        """
        file = self.file(name)
        entries = parse(read_text(file.path) or "")
        archived = dict.fromkeys(parse(read_text(file.archive_path) or ""))
        for entry in entries:
            archived.pop(entry, None)
        return replace(file, entries=(*entries, *archived), archived=frozenset(archived))

    def file(self, name: str) -> FactFile:
        """The file of this name without entries. Raises: MemoryRefused."""
        match = TARGET_PATH.fullmatch(name)
        if match is None:
            raise MemoryRefused(f"{name!r} is no fact file.")
        target: Target = "user" if match[1] == "user" else "env"
        scope: Scope = "global" if name.startswith("facts/") else "project"
        return FactFile(
            path=self.root / name,
            target=target,
            scope=scope,
            entries=(),
            limit=self.limits[target],
        )

    def write(self, file: FactFile) -> None:
        """Writes the entries; the caller holds the lock and has read the file inside it. Writes the
        archive first if it gains an entry: an interruption leaves an entry in both, where it counts
        as not archived, never in none.

        Raises: StorageError; then the old files are there, or such an entry in both.
        """
        archive, before = file.in_archive, parse(read_text(file.archive_path) or "")
        gains = not set(archive) <= set(before)
        if gains:
            _put(file.archive_path, archive)
        durable.make_folder(file.path.parent)
        durable.replace(file.path, render(file.standing).encode())
        if not gains and archive != before:
            _put(file.archive_path, archive)


def _put(path: Path, entries: Sequence[str]) -> None:
    """Writes an archive; without entries deletes it."""
    if entries:
        durable.make_folder(path.parent)
        durable.replace(path, render(entries).encode())
    else:
        durable.remove(path)
