"""Where the tiered system keeps things: fact files with their archives, and episodes."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kode.errors import MemoryRefused
from kode.memory import scan
from kode.memory.change import Change
from kode.memory.lineage import Entry
from kode.memory.places import Piece, Places, Row, State, whole
from kode.memory.stored import plain_lines
from kode.memory.tiered.episode_files import Episode, EpisodeFiles, parse
from kode.memory.tiered.facts import (
    TARGET_PATH,
    TARGETS,
    FactFile,
    FactStore,
    Target,
    check_room,
    check_text,
)

MAX_EPISODE_CHARS = 20_000

ARCHIVED = "\x1f"
"""Begins an archived entry in a state; no text that is read back has it at its beginning."""


class TieredPlaces(Places):
    def __init__(self, store: FactStore) -> None:
        super().__init__(store.root, "tiered", rf"{TARGET_PATH.pattern}|episodes/[\w-]+\.md")
        self._store = store
        self._episodes = EpisodeFiles(store.root / "episodes")

    def is_here(self, target: str) -> bool:
        return target in self._store.names()

    def here(self) -> list[str]:
        """The fact files, global before project, then the episodes."""
        return [*self.of_facts(), *(f"episodes/{id}.md" for id in self._episodes.session_ids())]

    def of_facts(self) -> list[str]:
        return self._store.names()

    def entries_of(self, target: str, texts: Sequence[str]) -> list[Entry]:
        if self.is_of_entries(target):
            return [Entry(target=target, key=text, text=text) for text in map(_plain, texts)]
        return [_entry(parse(text, Path(target).stem, 0.0)) for text in texts]

    def called(self, target: str) -> str:
        return self._store.file(target).label if self.is_of_entries(target) else target

    def fill(self, target: str, state: State) -> str:
        return self._file(target, state).fill if self.is_of_entries(target) else ""

    def read(self, target: str) -> State:
        if not self.is_of_entries(target):
            return super().read(target)
        return state_of(self._store.read_named(target))

    def put(self, target: str, state: State) -> None:
        if self.is_of_entries(target):
            self._store.write(self._file(target, state))
            return
        session_id = Path(target).stem
        if state:
            self._episodes.put(session_id, f"{state[0]}\n")
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

    def rows(self) -> Iterator[Row]:
        """Every fact in file order, then every episode."""
        episodes = (f"episodes/{id}.md" for id in self._episodes.session_ids())
        for target in (*self._fact_files(), *episodes):
            for text in self.read(target):
                where: Row = {"system": self.system, "place": target}
                is_archived = {"archived": True} if text.startswith(ARCHIVED) else {}
                yield {**where, **is_archived, "content": _plain(text)}

    def target_of(self, row: Row) -> str:
        return super().target_of(row)

    def texts_of(self, row: Row) -> State:
        content = str(row["content"])
        if not self.is_of_entries(self.target_of(row)):
            scan.check(content, max_chars=MAX_EPISODE_CHARS)
            return whole(plain_lines(content))
        text = check_text(content)
        return (f"{ARCHIVED}{text}" if row.get("archived") is True else text,)

    def pieces_of(self, row: Row) -> Iterator[Piece]:
        origin, content = self.target_of(row), row["content"]
        if self.is_of_entries(origin):
            about: Target = self._store.file(origin).target
            folder = Path(origin).parent.name
            project = "" if folder == "facts" else folder
            yield Piece(content=content, kind="fact", about=about, project=project, origin=origin)
            return
        one = parse(content, Path(origin).stem, 0.0)
        yield Piece(
            content=one.text,
            kind="episode",
            session=one.session_id,
            origin=origin,
            untrusted=not one.recallable,
        )

    def joined(self, target: str, there: State, coming: State) -> State:
        """An episode takes the place of the one of the same session."""
        return super().joined(target, there, coming) if self.is_of_entries(target) else coming

    def reverted(self, target: str, state: State, change: Change) -> State:
        """An episode as it was before, if nobody has changed it since. Of facts what a change made
        is meant wherever it stands now, unless the change itself moved it to or from the
        archive. Raises: MemoryRefused."""
        if not self.is_of_entries(target):
            before, after = (whole("".join(side)) for side in (change.before, change.after))
            if state not in (before, after):
                raise MemoryRefused(
                    f"{target} was changed since {change.id}. Edit or delete {self.root / target} "
                    "by hand."
                )
            return before
        made = {*self.sides(change)[1]} - {*self.sides(change)[0]}
        plain = {_plain(text): text for text in state}
        moved = {_plain(text) for text in made} & {*change.before}
        meant = {plain[_plain(text)]: text for text in made if _plain(text) in plain.keys() - moved}
        state = tuple(meant.get(text, text) for text in state)
        if moved and change.position is not None:  # the archive is read behind all others
            came = tuple(text for text in state if text in made)
            rest = tuple(text for text in state if text not in made)
            state = (*rest[: change.position], *came, *rest[change.position :])
        reverted = super().reverted(target, state, change)
        back = {text: there for there, text in meant.items()}
        return tuple(back.get(text, text) for text in reverted)

    def check(self, target: str, before: State, after: State) -> None:
        if self.is_of_entries(target):
            check_room(self._file(target, before), self._file(target, after))

    def _fact_files(self) -> list[str]:
        found = [f"facts/{target}.md" for target in TARGETS]
        projects = self.root.glob("project-facts/*/**/*.md")
        paths = (path.relative_to(self.root).as_posix() for path in projects)
        names = sorted({path.replace("/archive/", "/") for path in paths})
        return found + list(filter(TARGET_PATH.fullmatch, names))

    def _file(self, target: str, state: State) -> FactFile:
        archived = frozenset(_plain(text) for text in state if text.startswith(ARCHIVED))
        entries = tuple(map(_plain, state))
        return replace(self._store.file(target), entries=entries, archived=archived)


def state_of(file: FactFile) -> State:
    """What stands in a fact file, with its archive."""
    return tuple(f"{ARCHIVED}{one}" if one in file.archived else one for one in file.entries)


def _marked(texts: tuple[str, ...], archived: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(f"{ARCHIVED}{text}" if at in archived else text for at, text in enumerate(texts))


def _archived_in(state: State) -> tuple[int, ...]:
    return tuple(at for at, text in enumerate(state) if text.startswith(ARCHIVED))


def _plain(text: str) -> str:
    return text.removeprefix(ARCHIVED)


def _entry(episode: Episode) -> Entry:
    waits = "" if episode.recallable else "\n(waits for approval)"
    id = episode.session_id
    text = f"{episode.text}{waits}"
    return Entry(target=f"episodes/{id}.md", key="", text=text, id=id, is_fact=False)
