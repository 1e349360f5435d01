"""How much a sentence is like an order to a model: a linear model of its words and their senses.

Frames know the orders they were written for; this knows what such orders have in common. A sentence
is the set of its words, of neighbours, and of pairs of senses within a few words; each has a weight
(`likeness.json`), learnt from orders and facts by `python -m bench.likeness`. A first look at
single words passes over nearly all sentences of a text. What excuses an order is
`injection`.
"""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kode.memory.scan.senses import senses_of
from kode.memory.scan.sentences import Sentence

KINDS = ("override", "concealment", "bypassing approval", "exfiltration")
"""The categories of orders, in the order of the model's weights for them."""

WEIGHTS = Path(__file__).with_name("likeness.json")

_TOKEN = re.compile(r"[.~/$]*[a-z0-9_](?:[\w'.@/:$-]*[a-z0-9_])?|[,:()\"`;!?]")
_STEM_CHARS = 7
_FEWEST_WORDS = 3
"""Of fewer words there is too little to tell by: people say `run it` all day."""
_REACH = 4
"""How many words apart the senses of a pair may stand."""


@dataclass(frozen=True, slots=True)
class Model:
    """What was learnt."""

    keys: dict[str, float]
    """For the first look: the weight of a word's key."""
    keys_least: float
    """The least sum of those with which a sentence gets a second look."""
    features: dict[str, float]
    bias: float
    least: float
    """The least score of an order."""
    kinds: dict[str, tuple[float, ...]]
    """What a sense says of the kind of an order, a weight for each of `KINDS`."""


def features(text: str) -> set[str]:
    """The words of a folded sentence, neighbours, and pairs of senses, each as a name."""
    found: set[str] = set()
    before: list[tuple[str, tuple[str, ...]]] = [("^", ("^",))]
    for word in _TOKEN.findall(text):
        stem = word[:_STEM_CHARS] if word[0].isalnum() else word[:3]
        senses = senses_of(word)
        found.add(stem)
        found.add(f"{before[-1][0]} {stem}")
        found.update(senses)
        for steps, (earlier, earlier_senses) in enumerate(reversed(before[-_REACH:])):
            found.update(f"{one}>{other}" for one in earlier_senses for other in senses)
            if steps < 2:
                found.update(f"{earlier}>{sense}" for sense in senses)
                found.update(f"{sense}>{stem}" for sense in earlier_senses)
        before.append((stem, senses))
    return found


def score(model: Model, text: str) -> float:
    """Above 0 the more, the more a folded sentence is like an order."""
    present = features(text)
    weights = model.features
    total = sum(weights[one] for one in present if one in weights)
    return total / math.sqrt(max(1, len(present))) + model.bias


def find(text: str, parts: Sequence[Sentence]) -> list[tuple[int, int, str]]:
    """The sentences of a folded text that are like orders: start, end and category of each.
    A question is none."""
    model = _model()
    keys = model.keys
    found = []
    for part in parts:
        if len(part.keys) < _FEWEST_WORDS:
            continue
        if sum([keys.get(key, 0.0) for key in part.keys]) < model.keys_least:
            continue
        sentence = text[part.start : part.end].strip()
        if not sentence.endswith("?") and score(model, sentence) >= model.least:
            found.append((part.start, part.end, _kind(model, sentence)))
    return found


def _kind(model: Model, sentence: str) -> str:
    sums = [0.0] * len(KINDS)
    for word in _TOKEN.findall(sentence):
        for sense in senses_of(word):
            for place, weight in enumerate(model.kinds.get(sense, ())):
                sums[place] += weight
    return KINDS[sums.index(max(sums))]


@cache
def _model() -> Model:
    learnt = json.loads(WEIGHTS.read_text(encoding="utf-8"))
    return Model(
        keys=learnt["keys"],
        keys_least=learnt["keys_least"],
        features=learnt["features"],
        bias=learnt["bias"],
        least=learnt["least"],
        kinds={sense: tuple(weights) for sense, weights in learnt["kinds"].items()},
    )
