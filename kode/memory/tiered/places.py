"""Where the tiered system keeps things: fact files with their archives, and episodes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from kode.memory.history import Change
from kode.memory.places import Places, State
from kode.memory.tiered.episode_files import EpisodeFiles, parse
from kode.memory.tiered.facts import TARGET_PATH, TARGETS, FactFile, FactStore

ARCHIVED = "\x1f"
"""Begins an archived entry in a state; no text that is read back has it at its beginning."""


class TieredPlaces(Places):
    def __init__(self, store: FactStore) -> None:
        super().__init__(store.root, "tiered", rf"{TARGET_PATH.pattern}|episodes/[\w-]+\.md")
        self._store = store
        self._episodes = EpisodeFiles(store.root / "episodes")

    def is_here(self, target: str) -> bool:
        path = self.root / target
        return any(
            path in (self._store.path(one, "global"), self._store.path(one, "project"))
            for one in TARGETS
        )

    def read(self, target: str) -> State:
        if not self.is_of_entries(target):
            return super().read(target)
        return state_of(self._store.read_named(target))

    def put(self, target: str, state: State) -> None:
        if self.is_of_entries(target):
            file = replace(self._empty(target), entries=tuple(map(_plain, state)))
            archived = frozenset(_plain(text) for text in state if text.startswith(ARCHIVED))
            self._store.write(replace(file, archived=archived))
            return
        session_id = Path(target).stem
        if state:
            self._episodes.write(parse(state[0], session_id, 0.0))
        else:
            self._episodes.remove(session_id)

    def is_of_entries(self, target: str) -> bool:
        return TARGET_PATH.fullmatch(target) is not None

    def sides(self, change: Change) -> tuple[State, State]:
        if not self.is_of_entries(change.target):
            return super().sides(change)
        before = _marked(change.before, change.was_archived)
        return before, _marked(change.after, change.archived)

    def fields(self, before: State, after: State) -> dict[str, Any]:
        return {
            "before": tuple(map(_plain, before)),
            "was_archived": _archived_in(before),
            "after": tuple(map(_plain, after)),
            "archived": _archived_in(after),
        }

    def united(self, target: str, state: State, more: State) -> State:
        if not self.is_of_entries(target):
            return more or state
        there = set(map(_plain, more))
        return (*more, *(text for text in state if _plain(text) not in there))

    def _empty(self, target: str) -> FactFile:
        name = Path(target).stem
        return FactFile(
            path=self.root / target,
            target="user" if name == "user" else "env",
            scope="global" if target.startswith("facts/") else "project",
            entries=(),
            limit=0,
        )


def state_of(file: FactFile) -> State:
    """What stands in a fact file, with its archive."""
    return tuple(f"{ARCHIVED}{one}" if one in file.archived else one for one in file.entries)


def _marked(texts: tuple[str, ...], archived: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(f"{ARCHIVED}{text}" if at in archived else text for at, text in enumerate(texts))


def _archived_in(state: State) -> tuple[int, ...]:
    return tuple(at for at, text in enumerate(state) if text.startswith(ARCHIVED))


def _plain(text: str) -> str:
    return text.removeprefix(ARCHIVED)
