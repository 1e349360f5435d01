"""Which episodes fit a query: their whole texts, ranked by words. Read from the files as needed."""

import math
from collections import Counter
from collections.abc import Sequence

from kode.memory import terms
from kode.memory.embed import Embedder
from kode.memory.tiered.episode_files import Episode, EpisodeFiles, parse, valid_id


class EpisodeIndex:
    def __init__(self, files: EpisodeFiles, embedder: Embedder, *, read_only: bool) -> None:
        self._files = files
        self._texts: dict[str, tuple[int, str]] = {}

    async def search(self, query: str, k: int) -> list[tuple[str, float]]:
        """Session ids with scores, best first; nothing where no word of the query occurs."""
        await self.refresh()
        ids = list(self._texts)
        scores = scored(query, [self._texts[id][1] for id in ids])
        return [(ids[index], score) for index, score in scores[:k]]

    async def put(self, episode: Episode) -> None:
        """Nothing to do: the file is found by its time."""

    async def refresh(self) -> None:
        """Takes in what came, went or changed on disk."""
        texts = {}
        for id in filter(valid_id, self._files.session_ids()):
            try:
                stat = self._files.path(id).stat()
            except OSError:
                continue
            known = self._texts.get(id)
            if known is None or known[0] != stat.st_mtime_ns:
                known = (stat.st_mtime_ns, parse(self._files.text(id), id, 0.0).text)
            texts[id] = known
        self._texts = texts


def scored(query: str, texts: Sequence[str]) -> list[tuple[int, float]]:
    """BM25: (index, score), best first, those without a word of the query left out."""
    wanted = set(terms.search_terms(query))
    counts = [Counter(terms.search_terms(text)) for text in texts]
    usual = sum(sum(count.values()) for count in counts) / len(counts) if counts else 1.0
    holding = {term: sum(1 for count in counts if term in count) for term in wanted}
    scores = []
    for index, count in enumerate(counts):
        length = 0.25 + 0.75 * sum(count.values()) / (usual or 1.0)
        score = sum(
            math.log(1 + (len(texts) - holding[term] + 0.5) / (holding[term] + 0.5))
            * count[term]
            * 2.2
            / (count[term] + 1.2 * length)
            for term in wanted
        )
        if score > 0:
            scores.append((index, score))
    return sorted(scores, key=lambda found: -found[1])
