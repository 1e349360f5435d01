"""How near a new fact is to each entry of a file, by whichever embedder is configured.

Cosines of a neural embedder crowd together (two unrelated sentences easily have 0.4), so that the
thresholds of the config would mean nothing: they are spread over what is usual in the file first.
"""

from collections.abc import Sequence

from kode.memory.embed import Embedder, Idf, LocalEmbedder

USUAL_NEURAL_COSINE = 0.45
"""Between unrelated short facts, taken where a file is too small to tell."""


class Nearness:
    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    async def cosines(self, text: str, entries: Sequence[str]) -> Sequence[float] | None:
        """Between 0 and 1 for each entry, on the scale that the thresholds are for; None for the
        built-in embedder, since `merge` counts the words of so few texts more exactly by itself."""
        if isinstance(self._embedder, LocalEmbedder):
            return None
        matrix = await self._embedder.embed([text, *entries], Idf.fit(entries))
        if not self._embedder.is_neural:
            return None
        found = [float(value) for value in matrix[1:] @ matrix[0]]
        usual = USUAL_NEURAL_COSINE
        if len(entries) >= 4:
            among = matrix[1:] @ matrix[1:].T
            count = len(entries)
            usual = float((among.sum() - among.trace()) / (count * (count - 1)))
        usual = min(max(usual, 0.0), 0.9)
        return [min(1.0, max(0.0, (value - usual) / (1.0 - usual))) for value in found]
