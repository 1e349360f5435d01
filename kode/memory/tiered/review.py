"""Pairs of facts that may be one: computes their similarity, and stores unjudged pairs until a
model can be asked, and contradicting ones until a person decides.

A pair is stored before its fact is written, and deleted after its answer is applied: a crash leaves
at most a pair with a missing text, which is skipped.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median

from kode import durable
from kode.memory import terms
from kode.memory.embed import Embedder
from kode.memory.stored import locked, read_row

MAX_PAIRS = 40
"""Pairs per question; the others wait for the next."""
MAX_ATTEMPTS = 5
"""Attempts without a usable word about a pair; then both texts stay."""
MOST_KEPT = 500
"""Facts are limited: older pairs are about texts that were replaced long ago."""


Side = tuple[str, str]
"""A fact file, as named in the history, and one of its entries."""


@dataclass(frozen=True, kw_only=True)
class WaitingPair:
    target: str
    """The fact file of the entry, as named in the history."""
    entry: str
    new: str
    new_target: str = ""
    """The fact file of the new text; "" for the same file."""
    attempts: int = 0
    """Questions asked about it."""
    contradict: bool = False
    """Whether the two contradict each other: then a person decides, not a model."""

    @property
    def sides(self) -> tuple[Side, Side]:
        """The older first."""
        return (self.target, self.entry), (self.new_target or self.target, self.new)

    @property
    def is_across(self) -> bool:
        """Whether the two are in different files."""
        return len({name for name, _ in self.sides}) > 1


class Review:
    """`review/pairs.json` of a memory folder, shared by processes."""

    def __init__(self, folder: Path, notice: Callable[[str], None]) -> None:
        self._folder = folder
        self._path = folder / "pairs.json"
        self._notice = notice

    def waiting(self) -> list[WaitingPair]:
        """All pairs, oldest first; none if the file is missing or damaged."""
        return self._read() or []

    async def note(
        self,
        target: str,
        entries: Sequence[str],
        new: str,
        *,
        new_target: str = "",
        contradict: bool = False,
    ) -> None:
        """Stores a pair of each entry and a new text, once. Raises: StorageError, BusyError."""
        fresh = WaitingPair(
            target=target, entry="", new=new, new_target=new_target, contradict=contradict
        )
        async with locked(self._folder):
            pairs = {pair.sides: pair for pair in self._read_or_set_aside()}
            for pair in (replace(fresh, entry=entry) for entry in entries):
                if contradict or pair.sides not in pairs:
                    pairs[pair.sides] = pair
            self._write(list(pairs.values()))

    async def hand_over(self, target: str, old: str, new: str) -> None:
        """Transfers a text's pairs to the one that superseded it. Raises as `note`."""
        replaced, others = (target, old), set[Side]()
        for pair in self.waiting():
            if replaced in pair.sides:
                others |= {*pair.sides} - {replaced}
        for where, other in sorted(others - {(target, new)}):
            await self.note(where, [other], new, new_target=target)

    async def take(self, targets: Collection[str]) -> list[WaitingPair]:
        """Returns the next pairs of these files to ask a model about, up to `MAX_PAIRS`. They stay
        on disk with the attempt counted, so that one without an answer is not asked forever. Raises
        as `note`."""
        if not self._path.exists():
            return []
        async with locked(self._folder):
            pairs = self._read_or_set_aside()
            ours = [
                one
                for one in pairs
                if not one.contradict and all(name in targets for name, _ in one.sides)
            ]
            ours = ours[:MAX_PAIRS]
            taken = {pair.sides: replace(pair, attempts=pair.attempts + 1) for pair in ours}
            self._write([taken.get(pair.sides, pair) for pair in pairs])
        return list(taken.values())

    async def remove(self, pairs: Collection[WaitingPair]) -> None:
        """Deletes pairs. Raises as `note`."""
        gone = {pair.sides for pair in pairs}
        async with locked(self._folder):
            self._write([pair for pair in self._read_or_set_aside() if pair.sides not in gone])

    def _read(self) -> list[WaitingPair] | None:
        """None if the file is unreadable."""
        try:
            return read_row(list[WaitingPair], self._path.read_bytes())
        except FileNotFoundError:
            return []
        except OSError:
            return None

    def _read_or_set_aside(self) -> list[WaitingPair]:
        pairs = self._read()
        if pairs is None:
            aside = durable.set_aside(self._path)
            self._notice(
                f"The pairs of facts that wait for a model's judgment cannot be read. They are in "
                f"{aside} now; no fact is lost, only a repetition may stay."
            )
        return pairs or []

    def _write(self, pairs: Sequence[WaitingPair]) -> None:
        if not pairs:
            durable.remove(self._path)
            return
        durable.make_folder(self._folder)
        rows = [asdict(pair) for pair in pairs[-MOST_KEPT:]]
        data = json.dumps(rows, ensure_ascii=False, indent=1).encode(errors="replace")
        durable.replace(self._path, data)


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
    # The embedder caches by content, so the fixed texts cost one request in a lifetime.
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
