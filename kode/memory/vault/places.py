"""Where the vault keeps things: Markdown files, whose summaries follow from them."""

from pathlib import Path

from kode.errors import MemoryRefused
from kode.memory.history import Change
from kode.memory.places import Places, State
from kode.memory.vault import summary as summaries
from kode.memory.vault.files import SYSTEM, VaultFiles, is_episodes
from kode.memory.vault.write import with_entry


class VaultPlaces(Places):
    def __init__(self, files: VaultFiles) -> None:
        pattern = r"vault/(?:[0-9a-f]{16}/)?(?:facts|episodes)/[^/]+\.md"
        super().__init__(files.folder.system.parent, SYSTEM, pattern)
        self._files = files

    def tracks(self, target: str) -> bool:
        try:
            return super().tracks(target) and bool(target.endswith(".json") or self._of(target))
        except MemoryRefused:
            return False

    def is_here(self, target: str) -> bool:
        return target.endswith(".md") and self._files.target(self._of(target)[1]) == target

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
        files.write(name, summaries.with_summary(state[0], made) if made else state[0])

    def after(self, state: State, change: Change) -> State:
        if change.target.endswith(".json") or change.before == change.after:
            return super().after(state, change)
        if change.kind == "append":
            name = self._of(change.target)[1]
            return _state(with_entry(name, state[0] if state else None, change.after[0]))
        return _state("".join(change.after))

    def _of(self, target: str) -> tuple[VaultFiles, str]:
        return self._files.of_target(target)


def _state(text: str) -> State:
    while (rest := summaries.without_summary(text)) != text:
        text = rest
    return (text.strip("\n"),) if text.strip() else ()
