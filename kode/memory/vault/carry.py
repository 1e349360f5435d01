"""Converts the vault's files to rows of an export, and back; and to pieces for display."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from kode.errors import MemoryRefused
from kode.memory import scan
from kode.memory.exchange import Carrier, Piece, Row, path_hash_of
from kode.memory.lines import unite_lines
from kode.memory.project import ProjectFolder
from kode.memory.vault.files import SHARED, SYSTEM, VaultFiles, checked_name, is_facts
from kode.memory.vault.summary import blocks_of, without_summary

if TYPE_CHECKING:
    from kode.memory.vault.system import Vault

ABOUT_THE_USER = frozenset({"user", "preferences", "profile"})

_BULLET = re.compile(r"^[-*+]\s+")


class VaultCarrier(Carrier):
    """One open vault: the files of all its projects."""

    def __init__(self, vault: "Vault") -> None:
        self._vault = vault
        self._files = vault.files
        self._whole: list[tuple[VaultFiles, str, str]] = []

    async def rows(self) -> list[Row]:
        """Every file in full: shared ones, then project by project."""
        found: list[Row] = []
        for files, name in self._all():
            where = {"system": SYSTEM, "path": name}
            if name not in SHARED:
                where["project"] = files.folder.project
            found.append({**where, "content": (files.read(name) or "").strip()})
        return found

    async def pieces(self) -> list[Piece]:
        """Each part of a facts file as a fact, each entry of a month as an episode."""
        return [
            _piece(files, name, block)
            for files, name in self._all()
            for block in blocks_of(files.read(name) or "")
        ]

    def place_row(self, row: Row) -> Literal["added", "changed", "known"]:
        """Creates a missing file; one that differs gets the lines that it lacks."""
        files, name = self._of(row.get("project")), checked_name(str(row.get("path", "")))
        text = str(row["content"]).strip()
        scan.check(text)
        before = files.read(name)
        if before is not None:
            there = without_summary(before).strip()
            text = unite_lines(there, without_summary(text).strip())
            if text == there:
                return "known"
        self._whole.append((files, name, f"{text}\n"))
        return "added" if before is None else "changed"

    async def write(self, kind: str) -> list[str]:
        """Raises: MemoryRefused; then earlier writes are undone."""
        done: list[tuple[VaultFiles, str]] = []
        try:
            for files, name, text in self._whole:
                outcome = await self._vault.writer(files, {}).write(name, text, self.author)
                done += [(files, outcome.change_id)] if outcome.change_id else []
        except MemoryRefused as error:
            for files, id in reversed(done):
                change = self._vault.history.find(id)[0]
                await self._vault.writer(files, {}).undo(change, self.author)
            raise MemoryRefused(f"Nothing was imported. {error}") from error
        return [id for _, id in done]

    def _all(self) -> Iterator[tuple[VaultFiles, str]]:
        for folder in self._files.folder.all():
            files = VaultFiles(folder)
            for name in files.names():
                if name not in SHARED or folder == self._files.folder:
                    yield files, name

    def _of(self, project: object) -> VaultFiles:
        if not project:
            return self._files
        return VaultFiles(ProjectFolder(self._files.folder.system, path_hash_of(project)))


def _piece(files: VaultFiles, name: str, block: str) -> Piece:
    project = "" if name in SHARED else files.folder.project
    if is_facts(name):
        stem = name.removeprefix("facts/").removesuffix(".md")
        return Piece(
            content=_BULLET.sub("", block),
            kind="fact",
            about="user" if stem in ABOUT_THE_USER else "env",
            project=project,
            origin=files.target(name),
        )
    content = block.removeprefix("## ")
    return Piece(
        content=content,
        kind="episode",
        project=project,
        origin=f"{files.target(name)} {' '.join(content.split()[:4])}",
    )
