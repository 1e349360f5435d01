"""Where the journal keeps things: MEMORY.md as a whole, and the entries of its history."""

from datetime import datetime
from typing import Any

from kode.memory.history import Change
from kode.memory.journal.files import HISTORY, MEMORY, SYSTEM, JournalFiles
from kode.memory.places import Places, State
from kode.memory.project import ProjectFolder


class JournalPlaces(Places):
    def __init__(self, folder: ProjectFolder) -> None:
        pattern = rf"journal/(?:[0-9a-f]{{16}}/)?(?:{MEMORY}|{HISTORY})"
        super().__init__(folder.system.parent, SYSTEM, pattern)
        self._folder = folder

    def is_here(self, target: str) -> bool:
        return target in (self._folder.target(MEMORY), self._folder.target(HISTORY))

    def read(self, target: str) -> State:
        if not target.endswith(HISTORY):
            return super().read(target)
        return tuple(f"## {one.at}\n\n{one.text}" for one in self._files(target).entries())

    def put(self, target: str, state: State) -> None:
        files, was = self._files(target), self.read(target)
        if target.endswith(MEMORY):
            files.write_memory("".join(state))
        elif target.endswith(HISTORY):
            for block in was:
                if block not in state:
                    files.remove_block(f"{block}\n\n")
            self.finish(target, state)
        else:
            super().put(target, state)

    def finish(self, target: str, state: State) -> None:
        """Each entry stands in the file of its month too."""
        for block in state if target.endswith(HISTORY) else ():
            stamp = block.partition("\n")[0].removeprefix("## ")
            at = datetime.fromisoformat(stamp)
            self._files(target).append_block(f"{block}\n\n", at, recovering=True)

    def is_of_entries(self, target: str) -> bool:
        return target.endswith(HISTORY)

    def sides(self, change: Change) -> tuple[State, State]:
        before, after = super().sides(change)
        return tuple(map(str.strip, before)), tuple(map(str.strip, after))

    def fields(self, before: State, after: State) -> dict[str, Any]:
        blocks = (tuple(f"{text}\n\n" for text in side) for side in (before, after))
        return dict(zip(("before", "after"), blocks, strict=True))

    def _files(self, target: str) -> JournalFiles:
        return JournalFiles(self._folder.of_target(target)[0])
