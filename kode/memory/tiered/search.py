"""Searches facts and episodes, and selects what is recalled with a message."""

import hashlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from operator import itemgetter

from kode.contracts import Hit
from kode.errors import MemoryRefused
from kode.memory import rank, scan, when
from kode.memory.base import only_one
from kode.memory.queue import details
from kode.memory.rank import Ranked, Text, fits
from kode.memory.search import CANDIDATES, POOL, Finder, Found
from kode.memory.tiered import report
from kode.memory.tiered.episode_files import Episode, awaited
from kode.memory.tiered.episode_index import EpisodeIndex
from kode.memory.tiered.episodes import Ended, open_queue
from kode.memory.tiered.facts import FactFile
from kode.messages import keep_ends

Place = tuple[FactFile, str]
"""A file and one of its entries."""
Marked = Callable[[Sequence[FactFile], Collection[str]], Sequence[FactFile]]

RECALLED_A_TURN = 3
RECALLED_CHARS = 1_200
"""Limit of one episode in a user message."""
NEWEST_READ = 8
"""How many of a project's newest episodes are checked for one that may be shown."""
RECALLED_FACTS = 5
RECALLED_FACT_CHARS = 600
"""Limit of all archived facts in one user message."""
REMEMBERED_AS_SHOWN = 60
"""How many shown episodes and archived facts a session remembers; older ones may be shown again."""


@dataclass
class Searcher:
    """Facts and episodes, seen from one session, or from none (None)."""

    _index: EpisodeIndex
    _finder: Finder
    _session_id: str | None
    _noted: Callable[[str, str], str]
    """The text of an episode and its session → the text with what of it no longer holds."""
    _marked: Marked
    """The same for entries of fact files."""
    _now: Callable[[], datetime]
    shown: list[str] = field(default_factory=list)
    """The sessions whose episodes were shown, and fingerprints of archived facts, in order."""

    async def search(self, query: str, k: int, files: Sequence[FactFile]) -> list[Hit]:
        """The best `k`; empty if nothing matches."""
        places = {_text_of(file, entry): (file, entry) for file in files for entry in file.entries}
        by_words = await self._finder.find(query, list(places), k)
        shown = self._as_shown([places[text] for text, _ in by_words])
        found = [
            (replace(text, text=now), ranked)
            for (text, ranked), (_, now) in zip(by_words, shown, strict=True)
            if now
        ]
        noted: list[Found] = []
        for session_id, ranked in await self._index.search(query, 2 * max(k, CANDIDATES)):
            episode = self._index.files.read(session_id)
            if episode is not None and episode.recallable:
                noted.append((_text(episode), ranked))
        found = facts_first(found, noted)

        async def pool() -> list[Text]:
            newest = [_text(e) for e in await self._index.newest(POOL) if e.recallable]
            standing = [(file, entry) for file in files for entry in file.standing]
            facts = [Text(at.label, now) for (at, _), now in self._as_shown(standing) if now]
            return [*facts, *newest]

        hits = await self._finder.hits(query, found, pool, k)
        return [
            replace(hit, text=self._noted(hit.text, session))
            if (session := _session_of(hit))
            else hit
            for hit in hits
        ]

    async def recall(self, query: str, *, is_first: bool) -> list[str]:
        """Relevant episodes not yet shown in this session, as text; with a session's first message
        also the project's newest one."""
        chosen: list[tuple[Episode, str]] = []
        if is_first and (newest := await self._newest()):
            of_project = " of this project" if newest.project else ""
            chosen.append((newest, f"The latest session{of_project}:\n"))
        ranked = await self._index.search(
            query, 4 * RECALLED_A_TURN, typo_chars=rank.RECALL_TYPO_CHARS
        )
        for session_id, one in newest_first(ranked):
            known = (self._session_id, *self.shown, *(e.session_id for e, _ in chosen))
            episode = (
                None if session_id in known or not fits(one) else self._index.files.read(session_id)
            )
            if episode is not None and episode.recallable:
                chosen.append((episode, ""))
        chosen = chosen[:RECALLED_A_TURN]
        self.shown += [episode.session_id for episode, _ in chosen]
        return [head + self._as_recalled(episode) for episode, head in chosen]

    def recall_archived(self, query: str, files: Sequence[FactFile]) -> list[str]:
        """Relevant archived facts not yet shown in this session, as a model sees facts."""
        places = [(file, entry) for file in files for entry in file.in_archive]
        if not places:
            return []
        texts = [Text(file.label, entry) for file, entry in places]
        ranked = rank.rank(query, texts, self._now(), typo_chars=rank.RECALL_TYPO_CHARS)
        fitting = [places[one.index] for one in ranked if fits(one)]
        new = [one for one in fitting if _fingerprint(one[1]) not in self.shown]
        chosen: list[str] = []
        for (_, entry), shown in self._as_shown(new[: 2 * RECALLED_FACTS]):
            if shown and len("".join((*chosen, shown))) <= RECALLED_FACT_CHARS:
                chosen.append(shown)
                self.shown.append(_fingerprint(entry))
        return chosen

    def find(self, id: str) -> Episode:
        """The episode of a session, by a unique prefix of its id, or its name in a search.

        Raises: MemoryRefused.
        """
        wanted = id.strip().removeprefix("episodes/").removesuffix(".md")
        found = only_one(
            "episode", self._index.files.session_ids(), wanted, "`kode memory episodes`"
        )
        episode = self._index.files.read(found)
        if episode is None:
            raise MemoryRefused(f"The episode {found} cannot be read.")
        return episode

    def whole(self, episode: Episode) -> str:
        """An episode for a model, with what no longer holds."""
        return self._noted(report.episode(episode), episode.session_id)

    # ── inside ───────────────────────────────────────────────────────────────────────────────

    def _as_shown(self, places: Sequence[Place]) -> list[tuple[Place, str]]:
        """Each with the text for the model; "" if expired."""
        files = list({file.path: file for file, _ in places}.values())
        marked = {file.path: file for file in self._marked(files, {entry for _, entry in places})}
        return [((file, entry), marked[file.path].as_shown(entry)) for file, entry in places]

    def _as_recalled(self, episode: Episode) -> str:
        """As included in a user message."""
        head = f"[session {episode.session_id}, {episode.created_at[:10]}]"
        text = keep_ends(episode.text, RECALLED_CHARS)
        return f"{head}\n{self._noted(text, episode.session_id)}"

    async def _newest(self) -> Episode | None:
        """From another session, and allowed to be shown; without its note if that is pending."""
        found = [*self._pending(), *await self._index.newest(NEWEST_READ, of_project=True)]
        for episode in sorted(found, key=lambda one: one.updated_at, reverse=True):
            if episode.recallable and episode.session_id != self._session_id:
                return None if episode.session_id in self.shown else episode
        return None

    def _pending(self) -> list[Episode]:
        """This project's newest sessions whose notes are not written yet."""
        queue, project = open_queue(self._index.files.folder), self._index.project
        read = (queue.read(id) for id in queue.ids()[::-1][:NEWEST_READ])
        ended = ((one, details(Ended, one)) for one in read if one)
        here = (awaited(one, project) for one, at in ended if at and at.project == project)
        return [episode for episode in here if not scan.scan(episode.narrative)]


def _text_of(file: FactFile, entry: str) -> Text:
    return Text(f"{file.label}, archived" if entry in file.archived else file.label, entry)


def _fingerprint(entry: str) -> str:
    """A short key that distinguishes shown facts from session ids."""
    return hashlib.sha256(entry.encode(errors="replace")).hexdigest()[:16]


def facts_first(facts: Sequence[Found], noted: Sequence[Found]) -> list[Found]:
    """The best fact, which says what holds, then notes on sessions, which say what was said on
    their day, and further facts, by score. Those that share only common words come last, the same
    way.

    Alternating the two instead loses a fact in 60 from the first ten (`bench.retrieval`).
    """
    ordered: list[Found] = []
    for telling in (True, False):
        first, rest = (
            sorted((one for one in side if fits(one[1]) is telling), key=_score)
            for side in (facts, noted)
        )
        ordered += [*first[:1], *sorted((*first[1:], *rest), key=_score)]
    return ordered


def _score(found: Found) -> float:
    return -found[1].score


def newest_first(found: Sequence[tuple[str, Ranked]]) -> list[tuple[str, Ranked]]:
    """Prefers a newer session to one that covers no more of the request: what was said last is more
    likely to hold than what matches best."""
    rest, ordered = list(found), list[tuple[str, Ranked]]()
    while rest:
        wanted = set(rest[0][1].matched)
        newest = max((one for one in rest if wanted <= set(one[1].matched)), key=itemgetter(0))
        rest.remove(newest)
        ordered.append(newest)
    return ordered


def _text(episode: Episode) -> Text:
    at = when.stamp_of(episode.updated_at)
    return Text(_name(episode.session_id), episode.text, at)


def _name(session_id: str) -> str:
    return f"episodes/{session_id}.md"


def _session_of(hit: Hit) -> str:
    """The session whose episode was found; "" for a fact."""
    name = hit.where.removeprefix("episodes/")
    return name.removesuffix(".md") if name != hit.where else ""
