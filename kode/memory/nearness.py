"""Computes how near two facts are, to choose those that a judge is asked about."""

import math
from collections import Counter
from collections.abc import Sequence
from statistics import median

from kode.memory import terms
from kode.memory.embed import Embedder

COSINE_SCALE = 1.5
"""Cosines of counted words run low: two texts that share one of three specific words have 0.2,
where a question becomes worth its price, which is 0.3 on the scale of the thresholds."""
BACKGROUND_TEXTS = 5
"""Imaginary texts without any of the words: in a file of two entries every shared word would seem
common."""
SMALLEST_BAND = 0.05
"""Minimum distance of the two thresholds, whatever the embedder."""

SAME: tuple[tuple[str, str], ...] = (
    ("User prefers short answers", "The user likes brief replies"),
    ("The API server listens on port 8080", "API server port: 8080"),
    ("Secrets are stored in Vault", "Vault holds the secrets"),
    ("Tests are run with pytest", "pytest is the test runner"),
    ("CI runs on GitHub Actions", "GitHub Actions is the CI system"),
    ("Never push directly to main", "Do not push to main directly"),
)
"""Pairs of texts that state one fact."""

DIFFERENT: tuple[tuple[str, str], ...] = (
    ("User prefers short answers", "The API server listens on port 8080"),
    ("Secrets are stored in Vault", "User works in the Berlin timezone"),
    ("Tests are run with pytest", "The default branch is main"),
    ("CI runs on GitHub Actions", "User has a cat"),
    ("Frontend is built with Vite", "User dislikes emojis in output"),
    ("Backups are kept for 30 days", "User prefers tabs over spaces"),
)
"""Pairs of unrelated texts."""

TEXTS: tuple[str, ...] = tuple(text for pair in (*SAME, *DIFFERENT) for text in pair)
"""The texts to embed for `thresholds`, in order."""


def local_nearness(new: str, entries: Sequence[str]) -> list[float]:
    """Similarity to each entry between 0 and 1: the share of specific words in common, weighted by
    rarity."""
    bags = [terms.telling(text) for text in (*entries, new)]
    holding = Counter(term for bag in bags for term in bag)
    texts = len(bags) + BACKGROUND_TEXTS
    weight = {term: math.log((1 + texts) / count) ** 2 for term, count in holding.items()}
    lengths = [math.sqrt(math.fsum(weight[term] for term in bag)) for bag in bags]
    shared = (math.fsum(weight[term] for term in bag & bags[-1]) for bag in bags[:-1])
    return [
        min(1.0, COSINE_SCALE * common / (length * lengths[-1] or 1.0))
        for common, length in zip(shared, lengths, strict=False)
    ]


async def cosines(
    embedder: Embedder | None, text: str, entries: Sequence[str]
) -> list[float] | None:
    """Similarity to each entry between 0 and 1, by an embedder, on the scale of the thresholds;
    None without one, or while its server fails."""
    # One call: between two the server may fail, and their vectors be in two spaces. The embedder
    # caches by content, so the fixed texts cost one request in a lifetime.
    vectors = await embedder.embed([*TEXTS, text, *entries]) if embedder else None
    if vectors is None:
        return None
    known = len(TEXTS)
    band = thresholds([float(vectors[at] @ vectors[at + 1]) for at in range(0, known, 2)])
    found = vectors[known + 1 :] @ vectors[known]
    return [on_scale(float(value), band) for value in found]


def thresholds(cosines: Sequence[float]) -> tuple[float, float]:
    """An embedder's equivalents of 0.7 and 0.3, in this order, from its cosines of the pairs in
    `SAME` and then `DIFFERENT`.

    Cosines of neural embedders crowd in a narrow band: two unrelated facts may have 0.5. The
    thresholds are 0.7 and 0.3 of the way from unrelated to equal pairs.
    """
    unrelated = median(cosines[len(SAME) :])
    equal = max(median(cosines[: len(SAME)]), unrelated + SMALLEST_BAND / 0.4)
    width = equal - unrelated
    return unrelated + 0.7 * width, unrelated + 0.3 * width


def on_scale(cosine: float, band: tuple[float, float]) -> float:
    """Rescales a cosine to 0..1, so that its embedder's thresholds become 0.7 and 0.3."""
    merge_at, add_at = band
    return min(1.0, max(0.0, 0.3 + 0.4 * (cosine - add_at) / (merge_at - add_at)))
