"""What 0.3 and 0.7 mean to an embedder other than the built-in one.

Cosines of neural embedders crowd in a narrow band of their own: two unrelated facts may well
have 0.5. Here: the band, found with a fixed list of pairs, and the way from a cosine to the
scale of the configured thresholds. Not here: embedding itself (`kode.memory.embed`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import median

Vectors = Sequence[Sequence[float]]

SAME: tuple[tuple[str, str], ...] = (
    ("User prefers short answers", "The user likes brief replies"),
    ("The API server listens on port 8080", "API server port: 8080"),
    ("Secrets are stored in Vault", "Vault holds the secrets"),
    ("Tests are run with pytest", "pytest is the test runner"),
    ("User works in the Berlin timezone", "The user's time zone is Berlin"),
    ("CI runs on GitHub Actions", "GitHub Actions is the CI system"),
    ("The default branch is main", "main is the default branch"),
    ("Never push directly to main", "Do not push to main directly"),
)
"""Pairs of texts that state one fact."""

DIFFERENT: tuple[tuple[str, str], ...] = (
    ("User prefers short answers", "The API server listens on port 8080"),
    ("Secrets are stored in Vault", "User works in the Berlin timezone"),
    ("Tests are run with pytest", "The default branch is main"),
    ("CI runs on GitHub Actions", "User has a cat"),
    ("Never push directly to main", "The icons are licensed from Phosphor"),
    ("User reads mail in the evening", "The database is PostgreSQL 15"),
    ("Frontend is built with Vite", "User dislikes emojis in output"),
    ("Backups are kept for 30 days", "User prefers tabs over spaces"),
)
"""Pairs of texts that have nothing to do with each other."""

TEXTS: tuple[str, ...] = tuple(text for pair in (*SAME, *DIFFERENT) for text in pair)
"""What to embed for `thresholds`, in its order."""

SMALLEST_BAND = 0.05
"""The two thresholds never come closer than this, whatever the embedder."""


def calibrate(embed: Callable[[Sequence[str]], Vectors]) -> tuple[float, float]:
    """`merge_threshold` and `add_threshold` for the cosines of `embed`, in this order."""
    return thresholds(embed(TEXTS))


def thresholds(vectors: Vectors) -> tuple[float, float]:
    """The same from the vectors of `TEXTS`, for a caller that embeds by itself.

    On the way from what unrelated pairs have to what equal pairs have, 0.3 and 0.7 of the
    distance are the two thresholds.
    """
    cosines = [cosine(vectors[at], vectors[at + 1]) for at in range(0, len(vectors) - 1, 2)]
    unrelated = median(cosines[len(SAME) :])
    equal = max(median(cosines[: len(SAME)]), unrelated + SMALLEST_BAND / 0.4)
    width = equal - unrelated
    return unrelated + 0.7 * width, unrelated + 0.3 * width


def on_scale(
    raw: float,
    calibrated: tuple[float, float],
    *,
    merge_threshold: float = 0.7,
    add_threshold: float = 0.3,
) -> float:
    """A raw cosine on the scale of the configured thresholds, between 0 and 1."""
    merge_at, add_at = calibrated
    share = (raw - add_at) / (merge_at - add_at)
    return min(1.0, max(0.0, add_threshold + share * (merge_threshold - add_threshold)))


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """Cosine of two vectors; 0 when one of them is null."""
    norm = math.sqrt(math.fsum(x * x for x in one) * math.fsum(x * x for x in other))
    if not norm:
        return 0.0
    return math.fsum(x * y for x, y in zip(one, other, strict=True)) / norm
