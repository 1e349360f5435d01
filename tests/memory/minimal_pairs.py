"""Pairs of facts that differ in one thing and are two facts: a name, a path, a number, a word, the
case of a letter, or where it holds. Put together from `data/minimal_pairs.json` by a seed."""

import json
import random
from itertools import product
from pathlib import Path
from typing import NamedTuple

PARTS = Path(__file__).parent / "data" / "minimal_pairs.json"


class MinimalPair(NamedTuple):
    kind: str
    first: str
    second: str


def minimal_pairs(seed: int, *, a_kind: int = 96) -> list[MinimalPair]:
    """`a_kind` pairs of each kind, or as many as there are; half of them the other way round."""
    chance = random.Random(seed)
    found = []
    for kind, parts in json.loads(PARTS.read_text("utf-8")).items():
        pairs = [
            MinimalPair(kind, text.format(one), text.format(other))
            for text, (one, other) in product(parts["texts"], parts["differ"])
        ]
        for pair in chance.sample(pairs, min(a_kind, len(pairs))):
            turned = MinimalPair(kind, pair.second, pair.first)
            found.append(turned if chance.random() < 0.5 else pair)
    return found
