"""Where the journal keeps things: MEMORY.md as a whole, and the entries of its history."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from kode.memory.change import Change
from kode.memory.journal.files import (
    HISTORY,
    MEMORY,
    OUTSIDE,
    SYSTEM,
    JournalFiles,
    as_read,
    block_of,
    parse,
    size_of,
)
from kode.memory.lineage import Entry
from kode.memory.places import Piece, Row, State
from kode.memory.project import ProjectFolder, ProjectPlaces


class JournalPlaces(ProjectPlaces):
    def __init__(self, folder: ProjectFolder, limit_bytes: int) -> None:
        pattern = rf"journal/(?:[0-9a-f]{{16}}/)?(?:{MEMORY}|{HISTORY})"
        super().__init__(folder, pattern)
        self._limit_bytes = limit_bytes
        """Of MEMORY.md; over it, the next consolidation says it in less."""

    def is_here(self, target: str) -> bool:
        return target in (self._folder.target(MEMORY), self._folder.target(HISTORY))

    def here(self) -> list[str]:
        return [self._folder.target(MEMORY), self._folder.target(HISTORY)]

    def of_facts(self) -> list[str]:
        return [self._folder.target(MEMORY)]

    def entries_of(self, target: str, texts: Sequence[str]) -> list[Entry]:
        """Every line of MEMORY.md, every entry of the history."""
        folder, name = self._folder.of_target(target)
        target = folder.target(name)
        if name == HISTORY:
            noted = [one for text in texts for one in parse(text)]
            keys = (f"{one.at} {one.text}" for one in noted)  # two may have the same millisecond
            return [
                Entry(target=target, key=key, text=one.text, id=one.at, is_fact=False)
                for one, key in zip(noted, keys, strict=True)
            ]
        lines = (line.strip() for text in texts for line in text.split("\n"))
        return [
            Entry(target=target, key=line, text=line, is_fact=not line.startswith("#"))
            for line in lines
            if line
        ]

    def placed(self, name: str, text: str, now: datetime) -> tuple[str, str]:
        if name != "memory":
            return self._folder.target(HISTORY), block_of(text, now).strip()
        text = as_read(text)
        line = text if text.startswith(("-", "*", "#")) or "\n" in text else f"- {text}"
        return self._folder.target(MEMORY), line

    def now_at(self, target: str) -> str:
        """What was kept for all projects stands in this one's folder."""
        folder, name = self._folder.of_target(target)
        return folder.target(name)

    def called(self, target: str) -> str:
        return self._folder.of_target(target)[1]

    def fill(self, target: str, state: State) -> str:
        size, limit = size_of("".join(state)), self._limit_bytes
        is_memory = target.endswith(MEMORY)
        return f"{round(100 * size / limit)}% ({size:,}/{limit:,} bytes)" if is_memory else ""

    def read(self, target: str) -> State:
        if not target.endswith(HISTORY):
            return super().read(target)
        return tuple(f"## {one.at}\n\n{one.text}" for one in self._files(target).entries())

    def put(self, target: str, state: State) -> None:
        if not self.is_of_entries(target):
            return super().put(target, tuple(f"{text}\n" for text in state))
        was = self.read(target)
        for block in was:
            if block not in state:
                self._files(target).remove_block(f"{block}\n\n")
        self.finish(target, tuple(block for block in state if block not in was))

    def finish(self, target: str, state: State) -> None:
        """Each entry stands in the file of its month too."""
        for block in state if target.endswith(HISTORY) else ():
            stamp = block.partition("\n")[0].removeprefix("## ")
            at = datetime.fromisoformat(stamp)
            self._files(target).append_block(f"{block}\n\n", at)

    def is_of_entries(self, target: str) -> bool:
        return target.endswith(HISTORY)

    def sides(self, change: Change) -> tuple[State, State]:
        before, after = super().sides(change)
        return tuple(map(str.strip, before)), tuple(map(str.strip, after))

    def fields(self, before: State, after: State) -> dict[str, Any]:
        blocks = (tuple(f"{text}\n\n" for text in side) for side in (before, after))
        return dict(zip(("before", "after"), blocks, strict=True))

    def rows(self) -> Iterator[Row]:
        """Of each project MEMORY.md in full, then every entry of the history."""
        for folder in self._folder.all():
            for target in (folder.target(MEMORY), folder.target(HISTORY)):
                where = {"system": SYSTEM, "project": folder.project, "place": target}
                yield from ({**where, "content": text} for text in self.read(target))

    def target_of(self, row: Row) -> str:
        return self._folder.of_row(row).target(Path(super().target_of(row)).name)

    def pieces_of(self, row: Row) -> Iterator[Piece]:
        """Without the headings of MEMORY.md, and without bullets."""
        for one in super().pieces_of(row):
            if not one.content.startswith("#"):
                yield replace(
                    one,
                    content=one.content.lstrip("-*+ "),
                    project=row.get("project", ""),
                    untrusted=one.content.startswith(OUTSIDE),
                )

    def _files(self, target: str) -> JournalFiles:
        return JournalFiles(self._folder.of_target(target)[0])
