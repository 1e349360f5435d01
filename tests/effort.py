"""How much a test tries: everything in `make test-all`, else a sample.

`make test` tries a twentieth of the made-up examples, CI a tenth. A test of many moments or cases
(kills, power cuts, lines of attack) draws a part of them with `SAMPLE_SEED` as seed. CI takes the
commit as seed, so that over time all are tried; a failed sample is drawn again with the same seed.
"""

import os
import random
from collections.abc import Sequence
from typing import Any, TypeVar

import pytest
from hypothesis import settings

Item = TypeVar("Item")

EVERYTHING = os.environ.get("EVERYTHING") == "1"
SEED = os.environ.get("SAMPLE_SEED", "1")
IS_SEEDED = "SAMPLE_SEED" in os.environ and not EVERYTHING
"""Whether of the cases of a `sampled` test only a part runs: in CI, but not for who runs a file."""

ALL = 100
PART = 10 if IS_SEEDED else 5
"""Of each `ALL` examples, those that CI and `make test` try."""


def share(count: int) -> int:
    """Of so many examples, how many to try in this run."""
    return -(-count * settings.default.max_examples // ALL)


def draws(purpose: str) -> random.Random:
    """The random numbers of one test: the same for equal seeds, whatever ran before."""
    return random.Random(f"{SEED} {purpose}")


def sample(items: Sequence[Item], count: int, purpose: str) -> list[Item]:
    """So many of the items in their order, the first and the last among them; all of them in
    `make test-all`."""
    if EVERYTHING or len(items) <= count:
        return list(items)
    ends = {0, len(items) - 1} if count > 1 else set()
    others = [number for number in range(len(items)) if number not in ends]
    chosen = {*ends, *draws(purpose).sample(others, count - len(ends))}
    return [items[number] for number in sorted(chosen)]


def unsampled(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """The slow cases of `sampled` tests that this run leaves out.

    `@pytest.mark.sampled(of=4)` keeps one of each four cases of a test function, at least one; of
    functions without cases, one of each four in a file.
    """
    cases: dict[tuple[Any, int], list[pytest.Item]] = {}
    for item in items:
        mark = item.get_closest_marker("sampled")
        if mark is not None and item.get_closest_marker("slow") is not None:
            test, bracket, _ = item.nodeid.partition("[")
            name = test if bracket else test.partition("::")[0]
            cases.setdefault((name, mark.kwargs["of"]), []).append(item)
    left_out = []
    for (name, of), group in cases.items():
        chosen = draws(name).sample(range(len(group)), -(-len(group) // of))
        left_out += [item for number, item in enumerate(group) if number not in chosen]
    return left_out
