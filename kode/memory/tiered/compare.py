"""Comparing two claims: the same, another fact, or not for structure to say.

Here: the rules that make a merge safe without judgment, and those that make a call to the
judge worth it. Not here: reading a text (`claims`), choosing the entry (`merge`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from kode.memory.tiered.claims import Claim, read_claim
from kode.memory.tiered.vocabulary import (
    concept,
    opposites,
    predicate_sorts,
    restrictors,
    stop,
    things,
    when,
)

Verdict = Literal["same", "open", "other"]

HEAVY, LIGHT, NUMBER = 1.0, 0.35, 0.8
"""How much a shared concept of each sort counts for nearness."""

_ENDINGS = frozenset(
    " e er or r ion ation ition ment ing al ance ence able ible ed ist ity ness ure age".split(" ")
)

OVERLAP_SCALE = 1.2
"""What a threshold on the cosine is multiplied by for the overlap of concepts, which runs a
little higher because synonyms count in full."""


@dataclass(frozen=True)
class Comparison:
    """What structure says about two texts."""

    verdict: Verdict
    overlap: float
    """Share of what the two claim that they have in common, between 0 and 1."""
    keeps: Literal["new", "entry"]
    """Which text carries more, for `same`."""
    reason: str
    """Why, in plain words."""


@dataclass(frozen=True)
class _Sides:
    """What two claims share and what each has alone."""

    shared_heavy: frozenset[str]
    shared_light: frozenset[str]
    new_heavy: frozenset[str]
    entry_heavy: frozenset[str]
    new_light: frozenset[str]
    entry_light: frozenset[str]


def compare(new: Claim, entry: Claim, *, add_threshold: float = 0.3) -> Comparison:
    """Compare a new claim with a stored one.

    Below `add_threshold` the two have too little in common for a question to the judge.
    """
    sides = _sides(new, entry)
    overlap = _overlap(new, entry, sides)
    if new.plain == entry.plain and new.numbers == entry.numbers:
        return Comparison("same", 1.0, "entry", "it says the same")
    related = _related(new, sides, overlap, add_threshold)
    conflict = _conflict(new, entry, sides)
    if conflict and related:
        return Comparison("open", overlap, "new", conflict)
    if conflict:
        return Comparison("other", overlap, "new", "it is about something else")
    keeps = None if _denies_more(new, entry, sides) else _container(new, entry, sides)
    if keeps is not None and _literal(new, entry):
        longer = _longer(new, entry)
        return Comparison("same", max(overlap, 0.7), longer, "one text contains the other")
    if keeps is not None and _safe(new, entry, sides):
        return Comparison("same", overlap, keeps, "it says the same in other words")
    if bool(new.directive) != bool(entry.directive) and _reasoned(new, entry):
        longer = "new" if new.directive else "entry"
        return Comparison("same", max(overlap, 0.7), longer, "one gives the reason of the other")
    if related:
        return Comparison("open", overlap, "new", "it is about the same, but says something else")
    return Comparison("other", overlap, "new", "it is about something else")


def carries(new: Claim, entry: Claim) -> bool:
    """Whether the entry says everything that the new text says, and nothing against it."""
    sides = _sides(new, entry)
    if _conflict(new, entry, sides):
        return False
    if _literal(new, entry):
        return _longer(new, entry) == "entry"
    return _container(new, entry, sides) == "entry" and not _qualifies(new, entry, sides)


def _reasoned(new: Claim, entry: Claim) -> bool:
    """One demands exactly what the other demands for a reason that it gives."""
    one, other = (
        (read_claim(new.directive), entry) if new.directive else (new, read_claim(entry.directive))
    )
    if one.directive or other.directive:
        return False
    found = compare(one, other)
    return found.verdict == "same" and one.heavy == other.heavy and _pairs(one) == _pairs(other)


def _longer(new: Claim, entry: Claim) -> Literal["new", "entry"]:
    return "new" if len(new.plain) > len(entry.plain) else "entry"


def _sides(new: Claim, entry: Claim) -> _Sides:
    a, b = new.heavy | new.light, entry.heavy | entry.light
    shared = (a & b) | _compounded(new, entry)
    # a concept written as two words here and as one there counts as shared on both sides
    split_a = _split(new, entry)
    split_b = _split(entry, new)
    alone_a, alone_b = a - shared - split_a, b - shared - split_b
    kin = [(one, other) for one in alone_a for other in alone_b if akin(one, other)]
    shared |= {one for one, _ in kin}
    alone_a -= {one for one, _ in kin}
    alone_b -= {other for _, other in kin}
    heavy = new.heavy | entry.heavy
    return _Sides(
        shared & heavy,
        shared - heavy,
        alone_a & new.heavy,
        alone_b & entry.heavy,
        alone_a & new.light,
        alone_b & entry.light,
    )


def akin(one: str, other: str) -> bool:
    """Two stems of one root: track and tracker, approve and approval."""
    short, long = sorted((one, other), key=len)
    root = short.removesuffix("e")
    if len(root) < 4 or not long.startswith(root):
        return False
    return long[len(root) :] in _ENDINGS and short[len(root) :] in _ENDINGS


def _compounded(new: Claim, entry: Claim) -> frozenset[str]:
    ours, theirs = new.compounds.keys(), entry.compounds.keys()
    return frozenset((*(ours & entry.heavy), *(theirs & new.heavy)))


def _split(claim: Claim, other: Claim) -> frozenset[str]:
    """Concepts of `claim` that `other` writes in one word, or by their initials."""
    joined = claim.compounds.keys() & other.heavy
    return frozenset(part for whole in joined for part in claim.compounds[whole])


def _overlap(new: Claim, entry: Claim, sides: _Sides) -> float:
    shared = HEAVY * len(sides.shared_heavy) + LIGHT * len(sides.shared_light)
    shared += NUMBER * len(_pairs(new) & _pairs(entry))
    return shared / math.sqrt(_weight(new) * _weight(entry)) if shared else 0.0


def _weight(claim: Claim) -> float:
    weight = HEAVY * len(claim.heavy) + LIGHT * len(claim.light) + NUMBER * len(_pairs(claim))
    return weight or 1.0


def _pairs(claim: Claim) -> frozenset[tuple[str, str]]:
    return frozenset((measure, one) for measure, all_ in claim.numbers.items() for one in all_)


def _conflict(new: Claim, entry: Claim, sides: _Sides) -> str:
    """What makes the two exclude each other or be incomparable; "" when nothing does."""
    for name in sides.shared_heavy | sides.shared_light:
        if new.signs.get(name, 0) * entry.signs.get(name, 0) < 0 and not _topic(name, new, entry):
            return "one affirms what the other denies"
    for state in ("enabled", "allowed", "not"):
        # a text that does not mention the state takes it for given
        if new.signs.get(state, 1) * entry.signs.get(state, 1) < 0:
            return "one affirms what the other denies"
    if ("recur" in new.heavy) != ("recur" in entry.heavy):
        return "one tells how often, the other how long"
    if _opposed(sides):
        return "one says the opposite"
    if not _numbers_nested(new, entry):
        return "the numbers differ"
    if _reversed(new, entry):
        return "the order is the other way round"
    if (
        new.rates - entry.signs.keys()
        and entry.rates - new.signs.keys()
        and (not new.rates & entry.rates)
    ):
        return "it is per another unit"
    if new.changes or entry.changes:
        return "it tells of a change"
    if new.quoted and entry.quoted and new.quoted != entry.quoted:
        return "what they quote differs"
    if _exact_differs(new, entry):
        return "the names differ"
    if (new.foreign or entry.foreign) and new.negators != entry.negators:
        return "one denies something"
    return ""


def _topic(name: str, new: Claim, entry: Claim) -> bool:
    """The one thing that both deny is said of `name`, inside the negation here and before it
    there: "do not edit build/", "build/ must not be edited"."""
    both = (new.denied & entry.denied) - {name}
    return bool(both) and new.negations == entry.negations == 1


def _opposed(sides: _Sides) -> bool:
    ours, theirs = sides.new_heavy | sides.new_light, sides.entry_heavy | sides.entry_light
    return any(opposite in theirs for one in ours for opposite in opposites(one))


def _numbers_nested(new: Claim, entry: Claim) -> bool:
    """No number of one contradicts the other: same order, one side perhaps silent."""
    if not new.numbers or not entry.numbers:
        return True
    a, b = new.numbers, entry.numbers
    smaller, larger = (a, b) if len(_pairs(new)) <= len(_pairs(entry)) else (b, a)
    return all(_subsequence(values, larger.get(measure, ())) for measure, values in smaller.items())


def _subsequence(short: tuple[str, ...], long: tuple[str, ...]) -> bool:
    rest = iter(long)
    return all(one in rest for one in short)


def _reversed(new: Claim, entry: Claim) -> bool:
    for name in new.relations.keys() & entry.relations.keys():
        (left, right), (other_left, other_right) = new.relations[name], entry.relations[name]
        crossed = (left & other_right) - right and (right & other_left) - left
        straight = (left & other_left) - right and (right & other_right) - left
        if crossed and not straight:
            return True
    return False


def _exact_differs(new: Claim, entry: Claim) -> bool:
    """Two spellings that have a part in common: acme-logs and acme-logs-eu, src/api and api/src."""
    return any(
        _parts(one) & _parts(other)
        for one in new.exact - entry.exact
        for other in entry.exact - new.exact
    )


def _parts(spelling: str) -> frozenset[str]:
    return frozenset("".join(char if char.isalnum() else " " for char in spelling).split())


def _container(new: Claim, entry: Claim, sides: _Sides) -> Literal["new", "entry"] | None:
    """Which of the two carries everything of the other; None when each has something alone."""
    a = bool(sides.new_heavy) or bool(_pairs(new) - _pairs(entry))
    b = bool(sides.entry_heavy) or bool(_pairs(entry) - _pairs(new))
    if a and b:
        return None
    # a general word against a telling one may be another fact
    if a:
        return None if sides.entry_light else "new"
    if b:
        return None if sides.new_light else "entry"
    ours = (len(new.restrictors), len(sides.new_light))
    return "new" if ours > (len(entry.restrictors), len(sides.entry_light)) else "entry"


def _literal(new: Claim, entry: Claim) -> bool:
    """One text is a part of the other, and the rest is only more detail."""
    short, long = sorted((new, entry), key=lambda claim: len(claim.plain))
    before, found, after = f" {long.plain} ".partition(f" {short.plain} ")
    if not found or new.negators != entry.negators or new.restrictors != entry.restrictors:
        return False
    rest = [*before.split(), *after.split()]
    # one more word beside a name makes another name: React, React Native
    return not (len(rest) == 1 and rest[0].isalpha() and long.heavy - short.heavy)


def _safe(new: Claim, entry: Claim, sides: _Sides) -> bool:
    """Whether containment of concepts may be trusted although the words differ."""
    if new.foreign or entry.foreign:
        return False
    numbers = _pairs(new) & _pairs(entry)
    shared = len(sides.shared_heavy) + len(numbers)
    extra = len(sides.new_heavy) + len(sides.entry_heavy)
    extra += len(_pairs(new) ^ _pairs(entry))
    alike = not extra and sides.new_light == sides.entry_light and len(sides.shared_light) > 1
    if (shared == 0 and not alike) or _shuffled(new, entry, sides):
        return False
    if _exchanged(new, entry):
        return False
    if _done_otherwise(sides):
        return False
    if not new.exact & entry.exact and _rivals(new, entry, sides):
        return False
    if extra and bool(new.rates) != bool(entry.rates):
        return False
    narrower = sides.new_light if new.restrictors - entry.restrictors else sides.entry_light
    narrower -= predicate_sorts().keys()
    if new.restrictors != entry.restrictors and (extra or narrower):
        return False
    if extra == 0:
        return True
    if extra >= shared:
        return False
    if _heads(new, entry, sides):
        return False
    vouched = bool(new.exact & entry.exact)
    return vouched or not _qualifies(new, entry, sides)


def _qualifies(new: Claim, entry: Claim, sides: _Sides) -> bool:
    """A concept of one side only stands beside a shared one, and may make it another thing: a
    test database is not the database."""
    alone = sides.new_heavy | sides.entry_heavy
    shared = sides.shared_heavy | sides.shared_light
    narrowed = any(
        one in alone and other in shared for one, other in new.neighbours | entry.neighbours
    )
    return narrowed or _heads(new, entry, sides)


def _heads(new: Claim, entry: Claim, sides: _Sides) -> bool:
    """A concept of one side only follows a shared one and is what is spoken of: image
    signatures are no images."""
    alone = (sides.new_heavy | sides.entry_heavy) - new.verbs - entry.verbs
    return any(
        other in alone and one in sides.shared_heavy and (other not in when() or one in when())
        for one, other in new.neighbours | entry.neighbours
    )


def _denies_more(new: Claim, entry: Claim, sides: _Sides) -> bool:
    """A negation of one side reaches what the other does not speak of: "no mocks" and "no mocks
    of the database" are two statements."""
    ours, theirs = sides.new_heavy | sides.new_light, sides.entry_heavy | sides.entry_light
    empty = things() | predicate_sorts().keys()
    return bool((ours & new.denied or theirs & entry.denied) - empty)


def _rivals(new: Claim, entry: Claim, sides: _Sides) -> bool:
    """Two general words after the same word, or two general things beside it: API changes and API
    reads, the gateway module and the gateway service."""
    sorts = predicate_sorts()
    return any(
        ours in sides.new_light
        and theirs in sides.entry_light
        and not sorts.get(ours, frozenset()) & sorts.get(theirs, frozenset())
        and (place == 0 or {ours, theirs} <= things())
        for place in (0, 1)
        for at, ours in _placed(new, place)
        for beside, theirs in _placed(entry, place)
        if at == beside
    )


def _placed(claim: Claim, place: int) -> Iterator[tuple[str, str]]:
    """Each concept after the word that stands at `place` beside it."""
    return ((pair[place], pair[1 - place]) for pair in claim.neighbours)


def _done_otherwise(sides: _Sides) -> bool:
    """Docs that are built somewhere are not said to be stored there."""
    sorts = predicate_sorts()
    ours = frozenset().union(*(sorts[name] for name in sides.new_light if name in sorts))
    theirs = frozenset().union(*(sorts[name] for name in sides.entry_light if name in sorts))
    return bool(ours and theirs) and not ours & theirs


def _exchanged(new: Claim, entry: Claim) -> bool:
    """The same words exactly, in other places: a turned sentence would change its little words.

    "X is Y" and "Y is X" are the exception.
    """
    if sorted(new.plain.split()) != sorted(entry.plain.split()):
        return False
    for verb in (" is ", " are "):
        left, _, right = new.plain.partition(verb)
        if f"{right}{verb}{left}" == entry.plain:
            return False
    return _timeless(new) != _timeless(entry) or not when() & set(new.sequence)


def _timeless(claim: Claim) -> list[str]:
    """The telling words in their order, without those of time, which may stand anywhere."""
    words = (word for word in claim.plain.split() if word.isalpha())
    words = (word for word in words if word not in stop() or word in restrictors())
    return [word for word in words if concept(word) not in when()]


def _shuffled(new: Claim, entry: Claim, sides: _Sides) -> bool:
    """Four or more shared concepts of two lists stand in an order no turned sentence explains.

    A sentence can be turned ("Vault holds the secrets", "secrets are in Vault"), which rotates
    or reverses its parts; anything else may swap who has what.
    """
    if not (new.enumerates and entry.enumerates):
        return False
    shared = sides.shared_heavy | sides.shared_light
    ours = [name for name in new.sequence if name in shared]
    theirs = [name for name in entry.sequence if name in shared]
    order = [theirs.index(name) for name in ours if name in theirs]
    blocks = [at for n, at in enumerate(order) if n == 0 or order[n - 1] != at - 1]
    ranks = [sorted(blocks).index(at) for at in blocks]
    count = len(ranks)
    if count < 4:
        return False
    turns = [[(start + at) % count for at in range(count)] for start in range(count)]
    return ranks not in turns and ranks != list(reversed(range(count)))


def _related(new: Claim, sides: _Sides, overlap: float, add_threshold: float) -> bool:
    """Whether a model should be asked: a repetition or an update may hide here."""
    if new.changes and sides.shared_heavy:
        return True
    return overlap >= add_threshold * OVERLAP_SCALE
