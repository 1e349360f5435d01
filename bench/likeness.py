"""Learns what orders to a model are like: `python -m bench.likeness [--folds N]`.

Writes `kode/memory/scan/likeness.json` from `tests/memory/data/orders.jsonl` (orders, each with its
kind, and facts that use the same words) and from what `bench.order_texts` puts together. The prose
of the standard library stands for all the rest that is no order. `--folds N` writes nothing: it
learns N times from all but one part of the texts and says how many of that part are judged rightly.
Not here: the judging (`kode.memory.scan.likeness`).
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import sys
import sysconfig
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench.order_texts import composed
from kode.memory.scan import characters
from kode.memory.scan.likeness import KINDS, WEIGHTS, Model, features, score
from kode.memory.scan.senses import senses_of
from kode.memory.scan.sentences import sentences

DATA = Path(__file__).parent.parent / "tests" / "memory" / "data" / "orders.jsonl"
EPOCHS = 60
PROSE_LINES = 9000
PROSE_WEIGHT = 0.7
ORDER_WEIGHT = 1.5
DECAY = 6e-4
SMALLEST = 0.2
"""A weight below this is left out of the file."""
LEAST = 1.3
"""The score of an order. Of facts made to look like orders one in eighty has it unseen."""
SPARED = 0.002
"""The share of orders that the first look may pass over."""

Rows = list[tuple[str, str]]
"""Texts, each with its kind; that of a fact is `fact`."""


def main(argv: list[str] | None = None) -> int:
    """Learns and writes, or with `--folds` measures."""
    parser = argparse.ArgumentParser(prog="bench.likeness")
    parser.add_argument("--folds", type=int, default=0)
    options = parser.parse_args(argv)
    rows = read(DATA)
    rows += [(text.lower(), kind) for text, kind in composed()]
    prose = _prose()
    if options.folds:
        _measure(rows, prose, options.folds)
        return 0
    model = learn(rows, prose)
    WEIGHTS.write_text(json.dumps(_as_json(model), ensure_ascii=False, indent=0) + "\n", "utf-8")
    print(f"{len(model.features):,} weights, {WEIGHTS.stat().st_size:,} bytes")
    return 0


def read(path: Path) -> Rows:
    """The texts of a file, folded, each with its kind."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [(characters.folded(row["text"]), row["kind"]) for row in rows]


def learn(rows: Rows, prose: Sequence[str]) -> Model:
    """The model that tells the orders among `rows` from the facts and the prose."""
    texts = [text for text, _ in rows] + list(prose)
    wanted = [1.0 if kind != "fact" else 0.0 for _, kind in rows] + [0.0] * len(prose)
    weight = [ORDER_WEIGHT if want else 1.0 for want in wanted[: len(rows)]]
    weight += [PROSE_WEIGHT] * len(prose)
    sets = [features(text) for text in texts]
    counts = Counter(one for present in sets[: len(rows)] for one in present)
    known = {one for one, count in counts.items() if count > 2}
    weights, bias = _descend(sets, known, wanted, weight)
    model = Model(
        keys={},
        keys_least=0.0,
        features={one: round(w, 1) for one, w in weights.items() if abs(w) >= SMALLEST},
        bias=round(bias, 3),
        least=LEAST,
        kinds=_kinds(rows),
    )
    found = [at for at, text in enumerate(texts[: len(rows)])
             if wanted[at] and score(model, text) >= LEAST]  # fmt: skip
    keys, keys_least = _first_look(texts, wanted, weight, found)
    return replace(model, keys=keys, keys_least=keys_least)


def _descend(
    sets: Sequence[set[str]], known: set[str], wanted: Sequence[float], importance: Sequence[float]
) -> tuple[dict[str, float], float]:
    """Logistic regression by stochastic gradients, each weight with a step of its own (Adagrad)."""
    weights = dict.fromkeys(sorted(known), 0.0)
    seen = dict.fromkeys(weights, 1.0)
    bias, bias_seen = 0.0, 1.0
    present = [[one for one in sorted(one_set) if one in weights] for one_set in sets]
    norms = [math.sqrt(max(1, len(one_set))) for one_set in sets]
    order = list(range(len(sets)))
    chance = random.Random(0)
    for _ in range(EPOCHS):
        chance.shuffle(order)
        for place in order:
            total = sum(weights[one] for one in present[place]) / norms[place] + bias
            error = (1 / (1 + math.exp(-max(-30.0, min(30.0, total))))) - wanted[place]
            error *= importance[place]
            if abs(error) < 0.01:
                continue
            for one in present[place]:
                slope = error / norms[place] + DECAY * weights[one]
                seen[one] += slope * slope
                weights[one] -= 0.5 * slope / math.sqrt(seen[one])
            bias_seen += error * error
            bias -= 0.5 * error / math.sqrt(bias_seen)
    return weights, bias


def _first_look(
    texts: Sequence[str],
    wanted: Sequence[float],
    importance: Sequence[float],
    orders: Sequence[int],
) -> tuple[dict[str, float], float]:
    """Weights of single words, and the least sum of those that `orders` (by place) have."""
    sets = [set(_keys(text)) for text in texts]
    counts = Counter(key for keys in sets for key in keys)
    known = {key for key, count in counts.items() if count > 2}
    learnt, _ = _descend(sets, known, wanted, importance)
    weights = {key: round(weight, 1) for key, weight in learnt.items() if abs(weight) >= SMALLEST}
    sums = sorted(sum(weights.get(key, 0.0) for key in _keys(texts[place])) for place in orders)
    return weights, round(sums[int(len(sums) * SPARED)], 2)


def _keys(text: str) -> list[str]:
    return [key for part in sentences(text) for key in part.keys]


def _kinds(rows: Rows) -> dict[str, tuple[float, ...]]:
    """How much more often each kind of order has a sense than the others do."""
    counts = {kind: Counter[str]() for kind in KINDS}
    totals = Counter(kind for _, kind in rows)
    for text, kind in rows:
        if kind in counts:
            counts[kind].update({sense for word in re.findall(r"[\w'-]+", text)
                                 for sense in senses_of(word)})  # fmt: skip
    found = {}
    for sense in sorted({sense for count in counts.values() for sense in count}):
        rates = [(counts[kind][sense] + 1) / (totals[kind] + 4) for kind in KINDS]
        mean = sum(rates) / len(rates)
        found[sense] = tuple(round(math.log(rate / mean), 1) for rate in rates)
    return found


def _prose() -> list[str]:
    """Lines of what the standard library's modules say of themselves."""
    lines: set[str] = set()
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("**/*.py")):
        if {"test", "tests", "site-packages"}.intersection(path.parts):
            continue
        for line in re.findall(r"(?:^\s*#|^)\s{1,8}([A-Z][^=\n]{30,160})$",
                               path.read_text("utf-8", "replace"), re.MULTILINE):  # fmt: skip
            lines.add(line.strip().lower())
    chosen = sorted(lines)
    random.Random(0).shuffle(chosen)
    return chosen[:PROSE_LINES]


def _measure(rows: Rows, prose: Sequence[str], folds: int) -> None:
    chosen = list(rows)
    random.Random(1).shuffle(chosen)
    caught = orders = wrong = facts = 0
    for fold in range(folds):
        model = learn([row for at, row in enumerate(chosen) if at % folds != fold], prose)
        for text, kind in chosen[fold::folds]:
            like = any(score(model, text[part.start : part.end].strip()) >= model.least
                       for part in sentences(text))  # fmt: skip
            orders += kind != "fact"
            facts += kind == "fact"
            caught += like and kind != "fact"
            if like and kind == "fact":
                wrong += 1
                print(f"taken for an order: {text[:100]}")
    print(f"caught {caught / orders:.1%} of {orders}, wrongly {wrong / facts:.1%} of {facts}")


def _as_json(model: Model) -> dict[str, object]:
    return {
        "keys": model.keys,
        "keys_least": model.keys_least,
        "features": model.features,
        "bias": model.bias,
        "least": model.least,
        "kinds": model.kinds,
    }


if __name__ == "__main__":
    sys.exit(main())
