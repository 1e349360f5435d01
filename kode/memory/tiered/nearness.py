"""How near a new fact is to each entry of a file, by whichever embedder is configured.

Cosines of a neural embedder crowd together, so that the thresholds of the config would mean
nothing: `calibrate` brings them to the scale the thresholds are for, by a fixed list of texts that
is embedded along (the embedder caches by content, so this costs one request in a lifetime).
"""

from collections.abc import Sequence

from kode.memory.embed import Embedder, LocalEmbedder
from kode.memory.tiered import calibrate


class Nearness:
    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    async def cosines(self, text: str, entries: Sequence[str]) -> Sequence[float] | None:
        """Between 0 and 1 for each entry, on the scale that the thresholds are for; None for the
        built-in embedder, whose cosines `merge` takes by itself."""
        if isinstance(self._embedder, LocalEmbedder):
            return None
        # One call: between two the server may fail, and their vectors be of two spaces.
        vectors = await self._embedder.embed([*calibrate.TEXTS, text, *entries])
        if not self._embedder.is_neural:
            return None
        known = len(calibrate.TEXTS)
        thresholds = calibrate.thresholds(vectors[:known].tolist())
        found = vectors[known + 1 :] @ vectors[known]
        return [calibrate.on_scale(float(value), thresholds) for value in found]
