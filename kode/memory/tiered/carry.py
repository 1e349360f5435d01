"""Converts facts and episodes to rows of an export, and back; and to pieces for
display."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kode.errors import MemoryRefused
from kode.memory import scan
from kode.memory.exchange import Carrier, Piece, Row, path_hash_of
from kode.memory.history import Change
from kode.memory.tiered.episode_files import Episode, EpisodeFiles, render, summary_of, valid_id
from kode.memory.tiered.facts import TARGET_PATH, TARGETS, FactFile, FactStore, Target, check_room
from kode.memory.tiered.places import state_of
from kode.memory.tiered.write import SYSTEM, check_text

if TYPE_CHECKING:
    from kode.memory.tiered.system import Tiered

MAX_NARRATIVE_CHARS = 20_000


@dataclass
class _Filling:
    """A fact file with the entries to add, and those of them for its archive."""

    file: FactFile
    fresh: list[str] = field(default_factory=list)
    archived: set[str] = field(default_factory=set)

    def on(self, file: FactFile) -> FactFile:
        entries = [*file.entries, *(text for text in self.fresh if text not in file.entries)]
        archived = file.archived | self.archived - {*file.entries}
        return replace(file, entries=tuple(entries), archived=archived)


class TieredCarrier(Carrier):
    """One open tiered memory: all of its fact files, including other projects'."""

    def __init__(self, tiered: "Tiered") -> None:
        self._history = tiered.history
        self._root = tiered.history.path.parent
        limits: dict[Target, int] = {file.target: file.limit for file in tiered.layers()}
        self._store = FactStore(self._root, Path("/"), in_repository=False, limits=limits)
        self._episodes = EpisodeFiles(self._root / "episodes")
        self._fillings: dict[str, _Filling] = {}
        self._fresh: dict[str, Episode] = {}

    async def rows(self) -> list[Row]:
        """Every fact in file order, then every episode."""
        facts: list[Row] = []
        for name in self._fact_files():
            file = self._store.read_named(name)
            where = {"system": SYSTEM, "kind": "fact", "target": file.target}
            if file.scope == "project":
                where["project"] = file.path.parent.name
            facts += [{**where, "content": entry} for entry in file.standing]
            facts += [{**where, "archived": True, "content": entry} for entry in file.in_archive]
        return [*facts, *(_episode_row(episode) for episode in self._episodes.all())]

    async def pieces(self) -> list[Piece]:
        """Facts and episodes."""
        found = []
        for name in self._fact_files():
            file = self._store.read_named(name)
            project = file.path.parent.name if file.scope == "project" else ""
            found += [
                Piece(content=entry, kind="fact", about=file.target, project=project, origin=name)
                for entry in file.entries
            ]
        return found + [
            Piece(
                content=episode.text,
                kind="episode",
                session=episode.session_id,
                origin=f"episodes/{episode.session_id}.md",
                untrusted=not episode.recallable,
            )
            for episode in self._episodes.all()
        ]

    def place_row(self, row: Row) -> Literal["added", "changed", "known"]:
        """Adds a missing fact to its file, and stores an episode."""
        if row.get("kind") != "episode":
            name = _fact_file(row.get("target"), row.get("project"))
            is_new = self._fill(name, str(row["content"]), archived=row.get("archived") is True)
            return "added" if is_new else "known"
        episode = _episode_of(row)
        before = self._episodes.text(episode.session_id)
        if before == render(episode):
            return "known"
        self._fresh[episode.session_id] = episode
        return "changed" if before else "added"

    async def write(self, kind: str) -> list[str]:
        """Raises: MemoryRefused if a file was changed meanwhile and is full."""
        ids = [
            await self._write_facts(name, filling, kind)
            for name, filling in self._fillings.items()
            if filling.fresh
        ]
        for episode in self._fresh.values():
            async with self._episodes.lock():
                before = self._episodes.text(episode.session_id)
                change = Change.by(
                    self.author,
                    SYSTEM,
                    kind,
                    f"episodes/{episode.session_id}.md",
                    before=(before,) if before else (),
                    after=(render(episode),),
                    reason=summary_of(episode.narrative),
                )
                with self._history.making(change):
                    self._episodes.write(episode)
            ids.append(change.id)
        return ids

    # ── inside ───────────────────────────────────────────────────────────────────────────────

    def _fact_files(self) -> list[str]:
        found = [f"facts/{target}.md" for target in TARGETS]
        projects = self._root.glob("project-facts/*/**/*.md")
        paths = (path.relative_to(self._root).as_posix() for path in projects)
        names = sorted({path.replace("/archive/", "/") for path in paths})
        return found + list(filter(TARGET_PATH.fullmatch, names))

    def _fill(self, name: str, content: str, *, archived: bool = False) -> bool:
        """Whether the text is new to its file. Raises: MemoryRefused, also if it does not fit."""
        text = check_text(content)
        filling = self._fillings.setdefault(name, _Filling(self._store.read_named(name)))
        if text in filling.on(filling.file).entries:
            return False
        filling.fresh.append(text)
        filling.archived.update([text] if archived else [])
        try:
            check_room(filling.file, filling.on(filling.file))
        except MemoryRefused:
            filling.fresh.pop()
            raise
        return True

    async def _write_facts(self, name: str, filling: _Filling, kind: str) -> str:
        async with self._store.lock(self._store.read_named(name)):
            file = self._store.read_named(name)
            after = filling.on(file)
            check_room(file, after)
            fresh = tuple(text for text in after.entries if text not in file.entries)
            change = Change.by(
                self.author,
                SYSTEM,
                kind,
                name,
                after=fresh,
                position=len(file.entries),
                archived=tuple(at for at, text in enumerate(fresh) if text in after.archived),
            )
            with self._history.making(change, state_of(after)):
                self._store.write(after)
        return change.id


def _fact_file(target: object, project: object) -> str:
    """Raises: MemoryRefused."""
    if target not in TARGETS:
        raise MemoryRefused(f"`target` is {target!r}; allowed are {', '.join(TARGETS)}")
    if not project:
        return f"facts/{target}.md"
    return f"project-facts/{path_hash_of(project)}/{target}.md"


def _episode_row(episode: Episode) -> Row:
    row = {
        "system": SYSTEM,
        "kind": "episode",
        "session_id": episode.session_id,
        "turns": episode.turns,
        "created_at": episode.created_at,
        "updated_at": episode.updated_at,
        "facts": list(episode.facts),
    }
    if episode.project:
        row["project"] = episode.project
    if episode.tainted:
        row["untrusted"] = "approved" if episode.approved else "waits"
    return {**row, "content": episode.narrative}


def _episode_of(row: Row) -> Episode:
    """Raises: MemoryRefused."""
    session = row.get("session_id")
    if not isinstance(session, str) or not valid_id(session):
        raise MemoryRefused(f"`session_id` is {session!r}, which names no session")
    facts = row.get("facts") or []
    if not isinstance(facts, list) or not all(isinstance(fact, str) for fact in facts):
        raise MemoryRefused("`facts` is a list of texts")
    turns = row.get("turns")
    now = datetime.now(UTC).isoformat(timespec="seconds")
    created = str(row.get("created_at") or now)
    episode = Episode(
        session_id=session,
        turns=turns if isinstance(turns, int) else 0,
        created_at=created,
        updated_at=str(row.get("updated_at") or created),
        narrative=str(row["content"]).strip(),
        facts=tuple(facts),
        tainted=bool(row.get("untrusted")),
        approved=row.get("untrusted") == "approved",
        project=str(row.get("project") or ""),
    )
    for text in (episode.narrative, *episode.facts, created, episode.updated_at):
        scan.check(text, max_chars=MAX_NARRATIVE_CHARS)
    return episode
