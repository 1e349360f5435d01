"""The vault's files as rows (export, import) and as pieces (to and from other systems)."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kode.errors import MemoryError_
from kode.memory import scan
from kode.memory.exchange import Carried, Numbered, Piece, Row, Taken, misplaced, refuse
from kode.memory.history import Author
from kode.memory.vault.files import is_facts
from kode.memory.vault.names import checked_name
from kode.memory.vault.summary import blocks_of
from kode.memory.vault.write import MAX_WRITE_BYTES, SYSTEM, VaultWriter

if TYPE_CHECKING:
    from kode.memory.vault.system import Vault

ABOUT_THE_USER = frozenset({"user", "preferences", "profile"})
AUTHOR = Author(who="import")

_BULLET = re.compile(r"^[-*+]\s+")
_DATE = re.compile(r"\b(\d{4}-\d{2}-\d{2})\b")


class VaultCarrier:
    """One open vault."""

    def __init__(self, vault: "Vault") -> None:
        self._files = vault.files
        self._history = vault.history
        self._now = vault._context.now
        self._writer = VaultWriter(vault.files, vault.history, vault._settings.vault, {})

    async def rows(self) -> list[Row]:
        """Every file, whole."""
        return [
            {"system": SYSTEM, "path": name, "content": (self._files.read(name) or "").strip()}
            for name in self._files.names()
        ]

    async def take_rows(self, rows: Sequence[Numbered]) -> Taken:
        """Files that are not there are made, others replaced where they differ."""
        faults: list[str] = []
        fresh: list[tuple[str, str, bool]] = []
        for row in rows:
            try:
                name = checked_name(str(row.row.get("path", "")))
                text = str(row.row["content"]).strip()
                scan.check(text, max_chars=MAX_WRITE_BYTES)
                before = self._files.read(name)
                if before is None or before.strip() != text:
                    fresh.append((name, f"{text}\n", before is not None))
            except MemoryError_ as error:
                faults.append(f"line {row.line}: {error}")
        refuse(faults)
        ids = await self._write([(name, text) for name, text, _ in fresh])
        changed = sum(was_there for _, _, was_there in fresh)
        return Taken(
            added=len(fresh) - changed,
            changed=changed,
            known=len(rows) - len(fresh),
            change_ids=tuple(ids),
        )

    async def pieces(self) -> list[Piece]:
        """Each part of a facts file as a fact, each entry of a month as an episode."""
        found = []
        for name in self._files.names():
            for block in blocks_of(self._files.read(name) or ""):
                found.append(_piece(name, block))
        return found

    async def take(self, pieces: Sequence[Piece], *, dry_run: bool) -> list[Carried]:
        """Facts and rules go to `facts/user.md` or `facts/project.md`, episodes to this month."""
        there = [self._files.read(name) or "" for name in self._files.names()]
        return [await self._take_one(piece, there, dry_run) for piece in pieces]

    async def _take_one(self, piece: Piece, there: list[str], dry_run: bool) -> Carried:
        why = misplaced(piece, projects=False)
        if not why and piece.untrusted:
            why = "it came from untrusted content and was not approved"
        if why:
            return Carried(piece=piece, done="left", why=why)
        if any(piece.content in text for text in there):
            return Carried(piece=piece, done="known", why="a file holds it")
        path, entry = self._entry(piece)
        try:
            scan.check(entry, max_chars=MAX_WRITE_BYTES)
            if not dry_run:
                await self._writer.append(path, entry, AUTHOR, self._now())
        except MemoryError_ as error:
            return Carried(piece=piece, done="left", why=str(error))
        there.append(piece.content)
        return Carried(piece=piece, done="carried", why=path)

    async def _write(self, files: Sequence[tuple[str, str]]) -> list[str]:
        """All of them, or none: what was written before one is refused is taken back."""
        ids: list[str] = []
        try:
            for name, text in files:
                outcome = await self._writer.write(name, text, AUTHOR)
                ids += [outcome.change_id] if outcome.change_id else []
        except MemoryError_ as error:
            for id in reversed(ids):
                await self._writer.undo(self._history.find(id)[0], AUTHOR)
            raise MemoryError_(f"Nothing was imported. {error}") from error
        return ids

    def _entry(self, piece: Piece) -> tuple[str, str]:
        if piece.kind == "episode":
            when = piece.created_at[:10] or f"{self._now():%Y-%m-%d}"
            title = " ".join(piece.content.split()[:6])
            return (
                f"episodes/{self._now():%Y-%m}.md",
                f"## {title}\n- Date: {when}\n{piece.content}",
            )
        path = "facts/user.md" if piece.about == "user" else "facts/project.md"
        return path, piece.content if "\n" in piece.content else f"- {piece.content}"


def _piece(name: str, block: str) -> Piece:
    if is_facts(name):
        stem = name.removeprefix("facts/").removesuffix(".md")
        return Piece(
            content=_BULLET.sub("", block),
            kind="fact",
            about="user" if stem in ABOUT_THE_USER else "env",
            origin=name,
        )
    dated = _DATE.search(block)
    month = name.removeprefix("episodes/").removesuffix(".md")
    content = block.removeprefix("## ")
    return Piece(
        content=content,
        kind="episode",
        created_at=f"{dated[1] if dated else f'{month}-01'}T00:00:00+00:00",
        origin=f"{name} {' '.join(content.split()[:4])}",
    )
