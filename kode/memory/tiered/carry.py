"""Facts and episodes as rows (export, import) and as pieces (to and from other systems)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from kode.errors import MemoryError_
from kode.memory import scan
from kode.memory.exchange import Carried, Numbered, Piece, Row, Taken, misplaced, refuse
from kode.memory.history import Change
from kode.memory.tiered.episode_files import Episode, EpisodeFiles, render, summary_of, valid_id
from kode.memory.tiered.facts import TARGETS, FactFile, FactStore, Target, check_room
from kode.memory.tiered.write import SYSTEM, checked

if TYPE_CHECKING:
    from kode.memory.tiered.system import Tiered

MAX_NARRATIVE_BYTES = 20_000
_HASH = re.compile(r"[0-9a-f]{16}")


@dataclass
class _Filling:
    """A fact file with what is to be added."""

    file: FactFile
    fresh: list[str] = field(default_factory=list)

    @property
    def entries(self) -> list[str]:
        return [*self.file.entries, *self.fresh]


class TieredCarrier:
    """One open tiered memory: all of its fact files, those of other projects too."""

    def __init__(self, tiered: "Tiered") -> None:
        self._history = tiered.history
        self._root = tiered.history.path.parent
        limits: dict[Target, int] = {file.target: file.limit for file in tiered.layers()}
        self._store = FactStore(self._root, Path("/"), in_repository=False, limits=limits)
        self._episodes = EpisodeFiles(self._root / "episodes")

    async def rows(self) -> list[Row]:
        """Every fact in the order of its file, then every episode."""
        facts: list[Row] = []
        for name in self._fact_files():
            file = self._store.read_named(name)
            where = {"system": SYSTEM, "kind": "fact", "target": file.target}
            if file.scope == "project":
                where["project"] = file.path.parent.name
            facts += [{**where, "content": entry} for entry in file.entries]
        return [*facts, *(_episode_row(episode) for episode in self._all_episodes())]

    async def take_rows(self, rows: Sequence[Numbered]) -> Taken:
        """Facts that are not there are added to their file, episodes put in place."""
        faults: list[str] = []
        fillings: dict[str, _Filling] = {}
        episodes: list[Episode] = []
        known = 0
        for row in rows:
            try:
                if row.row.get("kind") == "episode":
                    episode = _episode_of(row.row)
                    if self._episodes.text(episode.session_id) == render(episode):
                        known += 1
                    else:
                        episodes.append(episode)
                else:
                    name = _fact_file(row.row.get("target"), row.row.get("project"))
                    known += not self._fill(fillings, name, str(row.row["content"]))
            except MemoryError_ as error:
                faults.append(f"line {row.line}: {error}")
        for filling in fillings.values():
            try:
                check_room(filling.file, filling.entries)
            except MemoryError_ as error:
                faults.append(str(error))
        refuse(faults)
        changed = sum(bool(self._episodes.text(episode.session_id)) for episode in episodes)
        ids = await self._write(fillings, episodes, "import")
        facts = sum(len(filling.fresh) for filling in fillings.values())
        return Taken(
            added=facts + len(episodes) - changed, changed=changed, known=known, change_ids=ids
        )

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
        for episode in self._all_episodes():
            found.append(
                Piece(
                    content=episode.text,
                    kind="episode",
                    session=episode.session_id,
                    created_at=episode.created_at,
                    origin=f"episodes/{episode.session_id}.md",
                    untrusted=not episode.recallable,
                )
            )
        return found

    async def take(self, pieces: Sequence[Piece], *, dry_run: bool) -> list[Carried]:
        """Facts and rules go into the fact files as far as there is room, episodes into files."""
        fillings: dict[str, _Filling] = {}
        episodes: dict[str, Episode] = {}
        done = [self._take_one(piece, fillings, episodes) for piece in pieces]
        if not dry_run:
            await self._write(fillings, list(episodes.values()), "copy")
        return done

    # ── inside ───────────────────────────────────────────────────────────────────────────────

    def _take_one(
        self, piece: Piece, fillings: dict[str, _Filling], episodes: dict[str, Episode]
    ) -> Carried:
        why = misplaced(piece, projects=True)
        if why:
            return Carried(piece=piece, done="left", why=why)
        try:
            if piece.kind == "episode":
                return self._take_episode(piece, episodes)
            name = _fact_file(piece.about or "env", piece.project)
            if not self._fill(fillings, name, piece.content):
                return Carried(piece=piece, done="known", why=f"{name} has it")
            try:
                check_room(fillings[name].file, fillings[name].entries)
            except MemoryError_:
                fillings[name].fresh.pop()
                raise
            return Carried(piece=piece, done="carried", why=name)
        except MemoryError_ as error:
            return Carried(piece=piece, done="left", why=str(error))

    def _take_episode(self, piece: Piece, episodes: dict[str, Episode]) -> Carried:
        session = piece.session if valid_id(piece.session) else _session_like(piece)
        while session in episodes and episodes[session].narrative != piece.content:
            session += "-more"
        scan.check(piece.content, max_bytes=MAX_NARRATIVE_BYTES)
        known = self._episodes.read(session)
        if known is not None:
            return Carried(piece=piece, done="known", why=f"episodes/{session}.md is there")
        when = piece.created_at or datetime.now(UTC).isoformat(timespec="seconds")
        episodes[session] = Episode(
            session_id=session,
            turns=0,
            created_at=when,
            updated_at=when,
            narrative=piece.content,
            tainted=piece.untrusted,
        )
        return Carried(piece=piece, done="carried", why=f"episodes/{session}.md")

    def _fact_files(self) -> list[str]:
        found = [f"facts/{target}.md" for target in TARGETS]
        projects = self._root.glob("project-facts/*/*.md")
        names = sorted(path.relative_to(self._root).as_posix() for path in projects)
        return found + [name for name in names if _is_project_file(name)]

    def _all_episodes(self) -> list[Episode]:
        ids = (id for id in self._episodes.session_ids() if valid_id(id))
        return [episode for id in ids if (episode := self._episodes.read(id)) is not None]

    def _fill(self, fillings: dict[str, _Filling], name: str, content: str) -> bool:
        """Whether the text is new to its file. Raises: MemoryError_."""
        text = checked(content)
        filling = fillings.get(name) or _Filling(self._store.read_named(name))
        if text in filling.entries:
            return False
        filling.fresh.append(text)
        fillings[name] = filling
        return True

    async def _write(
        self, fillings: Mapping[str, _Filling], episodes: Sequence[Episode], kind: str
    ) -> tuple[str, ...]:
        """Raises: MemoryError_ when a file was changed meanwhile and has no room any more."""
        ids = []
        for name, filling in fillings.items():
            if filling.fresh:
                ids.append(await self._write_facts(name, filling.fresh, kind))
        for episode in episodes:
            async with self._episodes.lock():
                before = self._episodes.text(episode.session_id)
                after = (render(episode),)
                target = f"episodes/{episode.session_id}.md"
                reason = summary_of(episode.narrative)
                ids.append(self._record(kind, target, (before,) if before else (), after, reason))
                self._episodes.write(episode)
        return tuple(ids)

    async def _write_facts(self, name: str, texts: Sequence[str], kind: str) -> str:
        async with self._store.lock(self._store.read_named(name)):
            file = self._store.read_named(name)
            fresh = tuple(text for text in texts if text not in file.entries)
            entries = [*file.entries, *fresh]
            check_room(file, entries)
            id = self._record(kind, name, (), fresh, "", len(file.entries))
            self._store.write(file, entries)
        return id

    def _record(
        self,
        kind: str,
        target: str,
        before: tuple[str, ...],
        after: tuple[str, ...],
        reason: str,
        position: int | None = None,
    ) -> str:
        change = Change(
            kind=kind,
            target=target,
            system=SYSTEM,
            who="import",
            before=before,
            after=after,
            reason=reason,
            position=position,
        )
        return self._history.append(change).id


def _fact_file(target: object, project: object) -> str:
    """Raises: MemoryError_."""
    if target not in TARGETS:
        raise MemoryError_(f"`target` is {target!r}; allowed are {', '.join(TARGETS)}")
    if not project:
        return f"facts/{target}.md"
    if not isinstance(project, str) or not _HASH.fullmatch(project):
        raise MemoryError_(f"`project` is {project!r}, not 16 hex digits")
    return f"project-facts/{project}/{target}.md"


def _is_project_file(name: str) -> bool:
    _, project, file = name.split("/")
    return bool(_HASH.fullmatch(project)) and file in {f"{target}.md" for target in TARGETS}


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
    """Raises: MemoryError_."""
    session = row.get("session_id")
    if not isinstance(session, str) or not valid_id(session):
        raise MemoryError_(f"`session_id` is {session!r}, which names no session")
    facts = row.get("facts") or []
    if not isinstance(facts, list) or not all(isinstance(fact, str) for fact in facts):
        raise MemoryError_("`facts` is a list of texts")
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
        scan.check(text, max_bytes=MAX_NARRATIVE_BYTES)
    return episode


def _session_like(piece: Piece) -> str:
    """A name for an episode that belongs to no session, the same for the same piece."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", piece.origin).strip("-")
    return name[:80] if valid_id(name[:80]) else "copied"
