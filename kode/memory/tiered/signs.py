"""What a sentence does to its words: which it denies, and whether it tells of a change.

Not here: the tokens themselves (`tokens`), comparing two texts (`compare`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kode.memory.tiered import vocabulary
from kode.memory.tiered.tokens import Token

_SCOPE_ENDS = frozenset(
    "but for in on when if at as because so while during with then since by unless until".split()
)
_PLACES = frozenset("for in on at with by".split())
"""What follows these is no longer denied itself, but narrows what is."""
_BE = frozenset({"is", "are", "be", "been", "was", "were", "has", "have", "had", "got"})
_MODALS = frozenset({"should", "must", "shall", "can", "may", "could", "might", "to"})
_ADVERBS = frozenset("now nolonger anymore since meanwhile lately recently newly formerly".split())
_RELATIVE = frozenset({"that", "which", "who", "what"})


@dataclass(frozen=True)
class Reading:
    """What a sentence says of its concepts."""

    signs: dict[str, int]
    """Concept → 1 asserted, -1 denied or dispreferred, 0 both."""
    denied: frozenset[str]
    """Concepts that a negation reaches."""
    negations: int
    """How often the text denies."""
    changes: bool
    """The text tells of a change."""


class _Scope:
    """The signs of a text so far, and what the next word is subject to."""

    def __init__(self) -> None:
        self.signs: dict[str, int] = {}
        self.denied: set[str] = set()
        self.negations = 0
        self.changes = False
        self.sign = 1
        self.spent = True
        """The word of denial has found what it denies."""
        self.negated = False
        self.prefers = False
        self.clause: list[str] = []

    def edge(self) -> None:
        self.dangle()
        self.sign, self.spent, self.negated, self.prefers, self.clause = 1, True, False, False, []

    def deny(self) -> None:
        self.sign, self.spent, self.negated = -self.sign, False, True
        self.negations += 1

    def over(self) -> None:
        self.sign, self.spent, self.negated, self.prefers = -1, False, False, False

    def unwanted(self) -> None:
        """Denies what the clause spoke of; in "no X without Y" it is Y that is wanted."""
        self.negations += 1
        inner = [name for name in self.clause if self.signs[name] < 0]
        for name in inner or self.clause:
            self.signs[name] = 1 if inner else -1
        self.denied.difference_update(inner)
        self.denied.update(() if inner else self.clause)

    def note(self, name: str, sign: int) -> None:
        self.signs[name] = sign if self.signs.get(name, sign) == sign else 0
        if self.negated:
            self.denied.add(name)

    def dangle(self) -> None:
        """Keep a negation that found nothing to deny, so that it is not overlooked."""
        if self.sign < 0 and not self.spent:
            self.note("not", -1)


def read_signs(tokens: list[Token]) -> Reading:
    """The sign of every concept, those that a negation reaches, and whether the text tells of a
    change. Rewrites a token that lies on a scale to the name of the scale.
    """
    scope = _Scope()
    for at, token in enumerate(tokens):
        if token.kind == "edge":
            scope.edge()
        elif token.kind == "number":
            scope.dangle()
            scope.spent = True
        else:
            _read_word(scope, tokens, at)
    scope.dangle()
    return Reading(scope.signs, frozenset(scope.denied), scope.negations, scope.changes)


def _read_word(scope: _Scope, tokens: Sequence[Token], at: int) -> None:
    token = tokens[at]
    word = token.text
    if word in vocabulary.change_words() and not token.spelled and _tells(tokens, at):
        scope.changes = True
        if word == "nolonger":
            scope.deny()
        return
    if word == "unwanted":
        scope.unwanted()
        return
    if word in vocabulary.negator_words() and not token.compound:
        if word != "against" or not _compares(tokens, at):
            scope.deny()
        return
    if word == "over" or (word in ("to", "than") and _prefers(scope, tokens, at)):
        scope.over()
        return
    if word in _SCOPE_ENDS and scope.spent:
        scope.sign = 1
        scope.negated = scope.negated and word in _PLACES
    if word.startswith(("prefer", "favor", "favour")):
        scope.prefers, scope.clause = True, []
    if word in vocabulary.stop() and not (token.spelled or token.compound):
        return
    scope.spent = True
    scale = vocabulary.scales().get(word) or vocabulary.scales().get(token.stem)
    if scale is None:
        scope.note(token.stem, scope.sign)
        scope.clause.append(token.stem)
        return
    token.stem, end = scale
    scope.note(token.stem, end * scope.sign)
    scope.sign, scope.negated = 1, False


def _compares(tokens: Sequence[Token], at: int) -> bool:
    """Tests run against staging: nobody is against staging."""
    return at > 0 and tokens[at - 1].text not in _BE | {"user", "advises", "decided"}


def _prefers(scope: _Scope, tokens: Sequence[Token], at: int) -> bool:
    follows = tokens[at + 1].text if at + 1 < len(tokens) else ""
    return scope.prefers and bool(scope.clause) and follows not in ("be", "have", "use")


def _tells(tokens: Sequence[Token], at: int) -> bool:
    """Whether a word of change tells that the fact changed, and does not merely speak of changes:
    "300 changed lines", "the files that were renamed", "should be replaced"."""
    word = tokens[at].text
    before = tokens[at - 1].text if at else ""
    earlier = tokens[at - 2].text if at > 1 else ""
    if word in ("was", "were"):
        return before not in _RELATIVE
    determined = before in vocabulary.stop() | vocabulary.TIMES
    determined = determined and before not in ("user", "now", "just", "already", "and", "has")
    if not word.endswith("ed"):
        return word in _ADVERBS or not determined
    if before in _BE:
        return earlier not in _MODALS and earlier not in _RELATIVE
    follows = tokens[at + 1] if at + 1 < len(tokens) else Token("edge", "")
    telling = follows.kind == "word" and follows.text not in vocabulary.stop()
    if word == "changed":
        rest = {token.text for token in tokens[at:]}
        return before == "user" or follows.text == ":" or bool(rest & {"from", "to", "into"})
    return not (telling and determined)
