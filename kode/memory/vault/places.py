"""Where the vault keeps things: Markdown files, whose summaries follow from them."""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from kode.errors import MemoryRefused
from kode.memory import scan
from kode.memory.change import Change
from kode.memory.lineage import Entry
from kode.memory.places import Piece, Places, Row, State
from kode.memory.vault import summary as summaries
from kode.memory.vault.files import (
    SHARED,
    SYSTEM,
    VaultFiles,
    checked_name,
    is_episodes,
    is_facts,
)
from kode.memory.vault.summary import blocks_of
from kode.memory.vault.write import VaultWriter, with_entry, worded_in

ABOUT_THE_USER = frozenset({"user", "preferences", "profile"})
_BULLET = re.compile(r"^[-*+]\s+")


class VaultPlaces(Places):
    def __init__(self, files: VaultFiles, writer: Callable[[VaultFiles], VaultWriter]) -> None:
        pattern = r"vault/(?:[0-9a-f]{16}/)?(?:facts|episodes)/[^/]+\.md"
        super().__init__(files.folder.system.parent, SYSTEM, pattern)
        self._files = files
        self._writer = writer

    def tracks(self, target: str) -> bool:
        try:
            return super().tracks(target) and bool(target.endswith(".json") or self._of(target))
        except MemoryRefused:
            return False

    def is_here(self, target: str) -> bool:
        return target.endswith(".md") and self._files.target(self._of(target)[1]) == target

    def here(self) -> list[str]:
        return [self._files.target(name) for name in self._files.names()]

    def of_facts(self) -> list[str]:
        return [self._files.target(name) for name in self._files.names() if is_facts(name)]

    def entries_of(self, target: str, texts: Sequence[str]) -> list[Entry]:
        """Each line of facts, each episode of a month."""
        files, name = self._of(target)
        target = files.target(name)
        return [
            Entry(
                target=target, key=one, text=one, is_fact=is_facts(name) and not one.startswith("#")
            )
            for text in texts
            for one in (_lines(text) if is_facts(name) else blocks_of(text))
        ]

    def called(self, target: str) -> str:
        return self._of(target)[1]

    def lock(self, target: str) -> Path:
        return super().lock(target) if target.endswith(".json") else self._files.folder.system

    def read(self, target: str) -> State:
        if target.endswith(".json"):
            return super().read(target)
        files, name = self._of(target)
        return _state(files.read(name) or "")

    def put(self, target: str, state: State) -> None:
        if target.endswith(".json"):
            return super().put(target, state)
        files, name = self._of(target)
        if not state:
            return files.remove(name)
        made = summaries.made_from(state[0], episodes=is_episodes(name))
        made = worded_in(name, files.read(name) or "") or made
        files.write(name, summaries.with_summary(state[0], made) if made else state[0])

    def after(self, state: State, change: Change) -> State:
        if change.target.endswith(".json") or change.before == change.after:
            return super().after(state, change)
        if change.kind == "append":
            name = self._of(change.target)[1]
            return _state(with_entry(name, state[0] if state else None, change.after[0]))
        return _state("".join(change.after))

    def apart(self, target: str, old: State, new: State) -> dict[str, Any]:
        """Of a file that stands there the text with its summary, which an undo brings back."""
        fields = super().apart(target, old, new)
        files, name = self._of(target)
        there = files.read(name)
        if fields and there is not None and _state(there) == old:
            fields["before"] = (there,)
        return fields

    def rows(self) -> Iterator[Row]:
        """Every file in full: shared ones, then project by project."""
        for folder in self._files.folder.all():
            files = VaultFiles(folder)
            for name in files.names():
                if name in SHARED and folder != self._files.folder:
                    continue
                where = {"system": SYSTEM, "path": name}
                if name not in SHARED:
                    where["project"] = folder.project
                yield {**where, "content": (files.read(name) or "").strip()}

    def target_of(self, row: Row) -> str:
        folder = self._files.folder.of_row(row)
        return VaultFiles(folder).target(checked_name(str(row.get("path", ""))))

    def texts_of(self, row: Row) -> State:
        text = str(row["content"])
        scan.check(text)
        return _state(text)

    def pieces_of(self, row: Row) -> Iterator[Piece]:
        """Each part of a facts file as a fact, each entry of a month as an episode."""
        name, project, origin = row["path"], row.get("project", ""), self.target_of(row)
        about: Literal["user", "env"] = "user" if Path(name).stem in ABOUT_THE_USER else "env"
        for block in blocks_of(row["content"]):
            if is_facts(name):
                fact = _BULLET.sub("", block)
                yield Piece(content=fact, kind="fact", about=about, project=project, origin=origin)
            else:
                said = block.removeprefix("## ")
                first = " ".join(said.split()[:4])
                yield Piece(
                    content=said, kind="episode", project=project, origin=f"{origin} {first}"
                )

    def check(self, target: str, before: State, after: State) -> None:
        files, name = self._of(target)
        self._writer(files).check(name, *("".join(state) or None for state in (before, after)))

    def _of(self, target: str) -> tuple[VaultFiles, str]:
        return self._files.of_target(target)


def _state(text: str) -> State:
    while (rest := summaries.without_summary(text)) != text:
        text = rest
    return (text.strip("\n"),) if text.strip() else ()


def _lines(text: str) -> list[str]:
    lines = summaries.without_summary(text).split("\n")
    return [line.strip() for line in lines if line.strip() and not line.startswith("# ")]
