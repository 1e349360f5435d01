"""Merge on write, measured: `python -m bench.merge [--data PATH] [--json]`.

Replays labelled writes into stores, once with a judge that is always right and once with none, and
prints what was decided without a call and what went wrong, beside two baselines in the same run.
Pairs that nobody judged are not settled here: without a judge, what is left is what is left until a
session with a model ends. Not here: the decision itself (`kode.memory.judge`).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import re
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from bench.corpora import DATA, rows
from kode.config.model import MemoryConfig
from kode.memory.judge import find_near

Label = Literal["distinct", "similar", "duplicate", "update"]


@dataclass(frozen=True)
class Decision:
    action: Literal["add", "judge", "duplicate"]
    candidates: tuple[int, ...]
    """The indices of the entries that it is about."""


Policy = Callable[[str, Sequence[str]], Decision]

ORDINARY_DAY: dict[Label, float] = {
    "distinct": 0.80,
    "similar": 0.08,
    "duplicate": 0.08,
    "update": 0.04,
}


@dataclass(frozen=True)
class Write:
    id: int
    store: str
    target: str
    label: Label
    ref: int | None
    text: str


@dataclass
class Stored:
    """An entry of a replayed store, with the fact it stands for."""

    text: str
    fact: int
    """Id of the write that first stated the fact."""


@dataclass
class Tally:
    """What a replay counted."""

    writes: int = 0
    asked: int = 0
    by_label: Counter[str] = field(default_factory=Counter)
    asked_by_label: Counter[str] = field(default_factory=Counter)
    lost: list[tuple[str, str]] = field(default_factory=list)
    contradictions: list[tuple[str, str]] = field(default_factory=list)
    duplicates_added: list[str] = field(default_factory=list)
    updates_kept_stale: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Figures:
    """One row of the table; shares between 0 and 1, the rest are numbers of writes."""

    writes: int
    decided: float
    decided_weighted: float
    lost: int
    contradictions: int
    duplicates_added: float
    duplicates_added_with_judge: float
    updates_kept_stale: float
    ms_per_write: float


def replay(
    writes: Sequence[Write], policy: Policy, *, judge: bool, newer_stays: bool = False
) -> Tally:
    """Write everything in order; without a judge, a fact that needs one is added. `newer_stays`: of
    two texts that the policy takes for one by itself, as the baselines do."""
    tally = Tally()
    stores: dict[str, list[Stored]] = {}
    facts = _facts(writes)
    for write in writes:
        entries = stores.setdefault(write.store, [])
        decision = policy(write.text, [entry.text for entry in entries])
        tally.writes += 1
        tally.by_label[write.label] += 1
        candidates = [entries[at] for at in decision.candidates]
        if decision.action == "judge":
            tally.asked += 1
            tally.asked_by_label[write.label] += 1
            # A judge that is always right, or nobody.
            candidates = [old for old in candidates if judge and old.fact == facts[write.id]]
        if not candidates:
            _count_added(write, entries, facts, tally)
            entries.append(Stored(write.text, facts[write.id]))
            continue
        is_newer = newer_stays or decision.action == "judge"
        text = write.text if is_newer else candidates[0].text
        _count_merged(write, candidates[0], text, facts, tally)
        candidates[0].text = text
    return tally


def measure(
    writes: Sequence[Write], policy: Policy, *, newer_stays: bool = False
) -> tuple[Figures, Tally, Tally]:
    """The figures of a policy, and both replays they come from."""
    start = time.perf_counter()
    judged = replay(writes, policy, judge=True, newer_stays=newer_stays)
    elapsed_ms = (time.perf_counter() - start) * 1000
    alone = replay(writes, policy, judge=False, newer_stays=newer_stays)
    duplicates = max(1, judged.by_label["duplicate"])
    weighted = sum(
        weight * (1 - judged.asked_by_label[label] / max(1, judged.by_label[label]))
        for label, weight in ORDINARY_DAY.items()
        if judged.by_label[label]
    ) / (sum(weight for label, weight in ORDINARY_DAY.items() if judged.by_label[label]) or 1)
    figures = Figures(
        writes=judged.writes,
        decided=round(1 - judged.asked / max(1, judged.writes), 4),
        decided_weighted=round(weighted, 4),
        lost=max(len(judged.lost), len(alone.lost)),
        contradictions=max(len(judged.contradictions), len(alone.contradictions)),
        duplicates_added=round(len(alone.duplicates_added) / duplicates, 4),
        duplicates_added_with_judge=round(len(judged.duplicates_added) / duplicates, 4),
        updates_kept_stale=round(
            len(judged.updates_kept_stale) / max(1, judged.by_label["update"]), 4
        ),
        ms_per_write=round(elapsed_ms / max(1, judged.writes), 3),
    )
    return figures, judged, alone


def structure(new: str, entries: Sequence[str]) -> Decision:
    """What kode does."""
    if new in entries:
        return Decision("duplicate", (entries.index(new),))
    nearest = asyncio.run(find_near(new, entries, MemoryConfig()))
    return Decision("judge" if nearest else "add", tuple(nearest))


def plain_projection(new: str, entries: Sequence[str]) -> Decision:
    """Baseline: random projection over the words of the store, cosine at 0.7 and 0.3."""
    import numpy as np

    vocabulary = sorted({word for entry in entries for word in _words(entry)})

    def vector(text: str) -> Any:
        total = np.zeros(256)
        for word in _words(text):
            if word in vocabulary:
                total += np.random.default_rng(zlib.crc32(word.encode())).choice((-1, 1), 256)
        return total / (np.linalg.norm(total) or 1.0)

    at_new = vector(new)
    return _by_cosine(new, entries, [float(vector(entry) @ at_new) for entry in entries])


def char_tfidf(new: str, entries: Sequence[str]) -> Decision:
    """Baseline: TF-IDF over character n-grams of 3 to 5, cosine at 0.7 and 0.3."""
    bags = [_ngrams(text) for text in (*entries, new)]
    seen = Counter(gram for bag in bags for gram in bag)
    vectors = [
        {gram: n * math.log((1 + len(bags)) / seen[gram]) for gram, n in bag.items()}
        for bag in bags
    ]
    return _by_cosine(new, entries, [_cosine(vectors[-1], other) for other in vectors[:-1]])


BASELINES: tuple[tuple[str, Policy], ...] = (
    ("plain projection 0.7/0.3", plain_projection),
    ("TF-IDF char n-grams 0.7/0.3", char_tfidf),
)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.merge", description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA / "merge.jsonl")
    parser.add_argument("--json", action="store_true", help="one JSON object for kode's row")
    parser.add_argument("--detail", action="store_true", help="list every write that went wrong")
    options = parser.parse_args(argv)
    writes = read(options.data)
    figures, judged, alone = measure(writes, structure)
    if options.json:
        print(json.dumps(asdict(figures)))
        return 0
    rows = [("kode", figures)]
    rows += [(name, measure(writes, policy, newer_stays=True)[0]) for name, policy in BASELINES]
    _print_table(rows)
    if options.detail:
        _print_detail(judged, alone)
    return 0


def read(path: Path) -> list[Write]:
    """The writes of a corpus, in order."""
    return [Write(**row) for row in rows(path, "merge")]


def _facts(writes: Sequence[Write]) -> dict[int, int]:
    """For each write, the id of the write that first stated the same fact."""
    facts: dict[int, int] = {}
    for write in writes:
        restates = write.label in ("duplicate", "update") and write.ref is not None
        facts[write.id] = facts[write.ref] if restates and write.ref is not None else write.id
    return facts


def _count_added(
    write: Write, entries: Sequence[Stored], facts: dict[int, int], tally: Tally
) -> None:
    if write.label == "duplicate":
        tally.duplicates_added.append(write.text)
    if write.label == "update" and any(entry.fact == facts[write.id] for entry in entries):
        tally.updates_kept_stale.append(write.text)


def _count_merged(
    write: Write, entry: Stored, text: str, facts: dict[int, int], tally: Tally
) -> None:
    if entry.fact != facts[write.id]:
        tally.lost.append((write.text, entry.text))
        return
    if write.label != "update":
        return
    if text == entry.text:
        tally.updates_kept_stale.append(write.text)
    old, new, now = (set(_words(part)) for part in (entry.text, write.text, text))
    if (old - new) & now and (new - old) & now:
        tally.contradictions.append((write.text, entry.text))


def _by_cosine(new: str, entries: Sequence[str], cosines: Sequence[float]) -> Decision:
    if not entries:
        return Decision("add", ())
    index = max(range(len(entries)), key=lambda at: cosines[at])
    nearness = cosines[index]
    if nearness > 0.7:
        return Decision("duplicate", (index,))
    if nearness < 0.3:
        return Decision("add", ())
    return Decision("judge", (index,))


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _ngrams(text: str) -> Counter[str]:
    padded = f" {text.lower()} "
    return Counter(padded[at : at + n] for n in (3, 4, 5) for at in range(len(padded) - n + 1))


def _cosine(a: dict[str, float], b: dict[str, float]) -> float:
    norm = math.sqrt(sum(x * x for x in a.values()) * sum(x * x for x in b.values()))
    return sum(x * b.get(gram, 0.0) for gram, x in a.items()) / norm if norm else 0.0


def _print_table(rows: Sequence[tuple[str, Figures]]) -> None:
    names = list(asdict(rows[0][1]))
    width = max(len(name) for name in names)
    print(" " * width, *(f"{title:>28}" for title, _ in rows))
    for name in names:
        print(f"{name:<{width}}", *(f"{getattr(figures, name):>28}" for _, figures in rows))


def _print_detail(judged: Tally, alone: Tally) -> None:
    print("\ncalls by label:", dict(judged.asked_by_label), "of", dict(judged.by_label))
    for title, items in (
        ("lost with a judge", judged.lost),
        ("lost without", alone.lost),
        ("contradictions", judged.contradictions),
        ("duplicates added with a judge", judged.duplicates_added),
        ("duplicates added without", alone.duplicates_added),
        ("updates kept stale", judged.updates_kept_stale),
    ):
        print(f"\n{title}: {len(items)}")
        for item in items:
            print("  ", item)


if __name__ == "__main__":
    sys.exit(main())
