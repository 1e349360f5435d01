"""Where the vault keeps things: Markdown files, whose summaries follow from them."""

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Literal

from kode.errors import MemoryRefused
from kode.memory import scan
from kode.memory.change import Change
from kode.memory.lineage import Entry
from kode.memory.places import Piece, Row, State
from kode.memory.project import ProjectPlaces
from kode.memory.stored import plain_lines
from kode.memory.vault import summary as summaries
from kode.memory.vault.files import (
    SHARED,
    SYSTEM,
    VaultFiles,
    checked_name,
    is_episodes,
    is_facts,
    month_file,
    title_of,
)
from kode.memory.vault.summary import blocks_of, key_of
from kode.memory.vault.write import VaultWriter, as_entry, holds, regenerated, with_entry, worded_in

ABOUT_THE_USER = frozenset({"user", "preferences", "profile"})
_BULLET = re.compile(r"^[-*+]\s+")


class VaultPlaces(ProjectPlaces):
    def __init__(self, files: VaultFiles, writer: Callable[[VaultFiles], VaultWriter]) -> None:
        pattern = r"vault/(?:[0-9a-f]{16}/)?(?:facts|episodes)/[^/]+\.md"
        super().__init__(files.folder, pattern, SHARED)
        self._files = files
        self._writer = writer

    def tracks(self, target: str) -> bool:
        try:
            return super().tracks(target) and bool(self._of(target))
        except MemoryRefused:
            return False

    def is_here(self, target: str) -> bool:
        return self.now_at(target) == target

    def here(self) -> list[str]:
        return [self._files.target(name) for name in self._files.names()]

    def of_facts(self) -> list[str]:
        return [self._files.target(name) for name in self._files.names() if is_facts(name)]

    def entries_of(self, target: str, texts: Sequence[str]) -> list[Entry]:
        """Each line of facts, each episode of a month."""
        name, target = self.called(target), self.now_at(target)
        return [
            Entry(
                target=target,
                key=one,
                text=one,
                is_fact=is_facts(name) and not one.startswith("#"),
                subject=key_of(one) if is_facts(name) else "",
            )
            for text in texts
            for one in (_lines(text) if is_facts(name) else blocks_of(text))
        ]

    def called(self, target: str) -> str:
        return self._of(target)[1]

    def now_at(self, target: str) -> str:
        """What was kept for all projects stands in this one's folder."""
        files, name = self._of(target)
        return files.target(name)

    def lock(self, target: str) -> Path:
        return self._files.folder.system

    def read(self, target: str) -> State:
        files, name = self._of(target)
        return _state(files.read(name) or "")

    def put(self, target: str, state: State) -> None:
        files, name = self._of(target)
        if not state:
            return files.remove(name)
        worded = worded_in(name, files.read(name) or "")
        text = summaries.with_summary(state[0], worded) if worded else regenerated(name, state[0])
        files.write(name, text.rstrip("\n") + "\n")

    def sides(self, change: Change) -> tuple[State, State]:
        before, after = super().sides(change)
        if change.kind == "append" or before == after:
            return before, after
        return _state("".join(before)), _state("".join(after))

    def after(self, state: State, change: Change) -> State:
        before, after = self.sides(change)
        if change.kind == "append":
            return _state(with_entry(self.called(change.target), "".join(state) or None, after[0]))
        return state if before == after else after

    def reverted(self, target: str, state: State, change: Change) -> State:
        """An entry is removed wherever it stands by now; a file with a title alone goes."""
        name = self.called(target)
        if change.kind != "append":
            after = super().reverted(target, state, change)
        elif holds("".join(state), entry := change.after[0]):
            head, _, rest = f"\n{state[0]}\n".rpartition(f"\n{entry}\n")
            after = _state(f"{head.rstrip(chr(10))}\n{rest}")
        else:
            return state
        return () if "".join(after).strip() == title_of(name) else after

    def placed(self, name: str, text: str, now: datetime) -> tuple[str, str]:
        """By the name of a file of facts, or `episodes` for this month."""
        text = plain_lines(text)
        if name == "episodes" or is_episodes(name):
            path = month_file(now)
        else:
            path = name if "/" in name else f"facts/{name.removesuffix('.md')}.md"
            is_line = "\n" not in text and not text.startswith(("-", "*", "#"))
            text = f"- {text}" if is_line else text
        return self._files.target(checked_name(path)), as_entry(path, text, now)

    def grown(self, target: str, state: State, text: str) -> State:
        there = "".join(state)
        if holds(there, text):
            return state
        return _state(with_entry(self.called(target), there or None, text))

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
