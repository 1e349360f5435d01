"""What a fact claims: its concepts with their sign, its numbers, its order.

Here: reading one short text into a `Claim`. Not here: its tokens (`tokens`), what it denies
(`signs`), comparing two claims (`compare`) or deciding anything (`merge`).
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from kode.memory.tiered import vocabulary
from kode.memory.tiered.signs import read_signs
from kode.memory.tiered.tokens import RAW, Token, join_units, tokenize
from kode.memory.tiered.words.contrasts import NUMBERS

_ENDS = ".,;:!?()[]{}\"'`“”‘’„«»…"
_QUOTED = re.compile(r"(?<!\w)['\"`]([^'\"`]{2,60})['\"`](?!\w)")
_NUMBER_WORD = re.compile(rf"(?<![\w-])(?:{'|'.join(NUMBERS)})(?![\w-])")
_NAME = re.compile(r"(?<=[\w,):] )(?:[A-Z]\w*[a-z]\w*|[A-Z]{2,}\b)")
_REASONED = (
    re.compile(r"(?P<why>.+?),? so (?!that |far |on )(?P<what>.+)", re.IGNORECASE),
    re.compile(r"because (?P<why>[^,]+), (?P<what>.+)", re.IGNORECASE),
    re.compile(r"(?P<what>.+?),? because (?P<why>.+)", re.IGNORECASE),
    re.compile(r"(?P<what>.+?)[;:] (the )?user (has|is) (?P<why>.+)", re.IGNORECASE),
)
_JOINTS = frozenset({"and", "or", "but", "while", "whereas", "then", ",", ";", "|"})
_FLAG = re.compile(r"(?<![^\s'\"`(])--?[A-Za-z][\w-]*")
_AFTER_PLURAL = frozenset({"should", "must", "can", "may", "shall", "are", "in", "of"})
"""What follows a noun, not a verb: "imports should", "reports of"."""
_AFTER_VERB = frozenset(
    "the a an any all every each no its his her their our this to up down with into from on over "
    "by as at via through only atmost atleast".split()
)
_BE = frozenset({"is", "are", "be", "been", "being", "was", "were", "get", "gets"})


@dataclass(frozen=True)
class Claim:
    """A text, as far as structure can read it."""

    plain: str
    """The text without case, punctuation at its ends, and spacing: for literal comparison."""
    heavy: frozenset[str]
    """Concepts that make this fact this fact."""
    light: frozenset[str]
    """Concepts that only say what sort of thing is meant."""
    signs: dict[str, int] = field(hash=False)
    """Concept → 1 asserted, -1 denied or dispreferred, 0 both."""
    denied: frozenset[str]
    """Concepts in the reach of a negation: more detail about these is another statement."""
    negations: int
    """How often the text denies."""
    numbers: dict[str, tuple[str, ...]] = field(hash=False)
    """Measure ("" for a bare number, "time", "size", ...) → numbers in their order; options of
    a command line ("-q") are kept here as "flag"."""
    exact: frozenset[str]
    """Spellings such as paths, hosts and identifiers, whole."""
    relations: dict[str, tuple[frozenset[str], frozenset[str]]] = field(hash=False)
    """Word of direction ("before", "from", "call") → concepts before and after it."""
    compounds: dict[str, frozenset[str]] = field(hash=False)
    """Neighbouring words written as one, or by their initials, for texts that write them so →
    their concepts."""
    changes: bool
    """The text tells of a change ("now", "switched", "no longer")."""
    foreign: bool
    """Not English, as far as can be told: only literal comparison is safe."""
    negators: frozenset[str]
    """Negations of any language in the text."""
    restrictors: frozenset[str]
    """Words that narrow the statement: "only", "unless", "after"."""
    quoted: frozenset[str]
    """What stands in quotation marks: commands, names."""
    rates: frozenset[str]
    """What a quantity is per: user, address; measures of time are numbers."""
    directive: str
    """The text without the reason that it gives ("..., so", "because ..."); "" without one."""
    sequence: tuple[str, ...]
    """Concepts in their order, each where it first occurs."""
    neighbours: frozenset[tuple[str, str]]
    """Concepts that follow each other with no word between."""
    verbs: frozenset[str]
    """Concepts that are verbs by what follows them: "draws the", "scales up"."""
    enumerates: bool
    """The text joins several parts: "and", a comma, "while"."""


@lru_cache(maxsize=4096)
def read_claim(text: str) -> Claim:
    """The claim a text makes. Never raises; any text gives a claim, if an empty one."""
    folded = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    words = re.findall(r"[^\W_]+", folded)
    # a dash in front may be a sign or an option
    spelled = [word.strip(_ENDS).rstrip("-–—") for word in folded.split()]
    foreign = _is_foreign(folded, words)
    flags = tuple(_FLAG.findall(unicodedata.normalize("NFKC", text)))
    rewritten = re.sub(r"(?<=\d),(?=\d{3}\b)", "", _FLAG.sub(" ", folded))
    rewritten = re.sub(r"(?<![\w.)])-(?=\d)", "minus ", rewritten)
    rewritten = re.sub(r"(?<!\S)\.(?=\w)", "", rewritten)
    rewritten = _NUMBER_WORD.sub(lambda found: str(NUMBERS[found[0]]), rewritten)
    if not foreign:
        rewritten = _rewrite(rewritten)
    tokens = list(tokenize(rewritten))
    _keep_names(tokens, unicodedata.normalize("NFKC", text))
    join_units(tokens)
    reading = read_signs(tokens)
    signs = reading.signs
    heavy, light = set[str](), set[str]()
    for token in tokens:
        if token.kind != "word" or token.stem not in signs:
            continue
        is_light = token.stem in vocabulary.light() and not (token.spelled or token.name)
        (light if is_light else heavy).add(token.stem)
    numbers: dict[str, tuple[str, ...]] = {"flag": flags} if flags else {}
    for token in tokens:
        if token.kind == "number":
            numbers[token.measure] = (*numbers.get(token.measure, ()), token.text)
    return Claim(
        plain=" ".join(word for word in spelled if word),
        heavy=frozenset(heavy),
        light=frozenset(light),
        signs=signs,
        denied=reading.denied,
        negations=reading.negations,
        numbers=numbers,
        exact=frozenset(_exact(rewritten)),
        relations=_relations(tokens),
        compounds=_compounds(tokens),
        changes=reading.changes,
        foreign=foreign,
        negators=frozenset(
            word
            for word in words
            if word in vocabulary.foreign_negators() or word in vocabulary.negator_words()
        ),
        restrictors=frozenset(token.text for token in tokens) & vocabulary.restrictors(),
        quoted=frozenset(found[1].strip() for found in _QUOTED.finditer(folded)),
        rates=frozenset(
            other.stem for one, other in itertools.pairwise(tokens) if one.text == "per"
        )
        - vocabulary.units().keys(),
        directive=_directive(text),
        sequence=tuple(dict.fromkeys(t.stem for t in tokens if t.stem in signs)),
        neighbours=frozenset(_neighbours(tokens, signs)),
        verbs=_verbs(tokens),
        enumerates=any(token.text in _JOINTS for token in tokens),
    )


def _keep_names(tokens: list[Token], text: str) -> None:
    """A name is what it is: no stem, no synonym by its stem alone, and never a general word."""
    names = {name.casefold() for name in _NAME.findall(text)}
    for token in tokens:
        if token.kind != "word" or token.text not in names:
            continue
        token.name = not vocabulary.is_light(token.text)
        known = token.text in vocabulary.synonyms() or token.stem == vocabulary.stem(token.text)
        if not known:
            token.stem = token.text


def _directive(text: str) -> str:
    """What a text demands, without the reason it gives; "" when it gives none."""
    for pattern in _REASONED:
        found = pattern.fullmatch(text.strip().rstrip("."))
        if found:
            return found["what"]
    return ""


def _rewrite(text: str) -> str:
    for pattern, standing in vocabulary.phrases():
        text = pattern.sub(standing, text)
    return text


def _is_foreign(folded: str, words: list[str]) -> bool:
    letters = [char for char in folded if char.isalpha()]
    if sum(not char.isascii() for char in letters) * 5 > len(letters):
        return True
    strange = sum(word in vocabulary.foreign_words() for word in words if len(word) > 1)
    familiar = sum(word in vocabulary.stop() for word in words)
    return strange > familiar


def _relations(
    tokens: list[Token],
) -> dict[str, tuple[frozenset[str], frozenset[str]]]:
    found: dict[str, tuple[frozenset[str], frozenset[str]]] = {}
    texts = [token.text for token in tokens]
    for at, token in enumerate(tokens):
        name = token.text if token.text in vocabulary.TIMES else token.stem
        if token.text == "from" and "to" in texts[at:]:
            to = texts.index("to", at)
            found["from"] = (_content(tokens[at:to]), _content(tokens[to:]))
        if token.kind != "word" or name not in vocabulary.directed():
            continue
        left, right = _content(tokens[:at]), _content(tokens[at + 1 :])
        if token.text == "fronting":
            left, right = right, left
        if token.text.endswith("s") and "".join(texts[at + 1 : at + 2]) in _AFTER_PLURAL:
            continue
        by = "by" in texts[at + 1 : at + 3]
        passive = name not in vocabulary.TIMES and at > 0
        passive = passive and (texts[at - 1] in _BE or (by and token.text.endswith("ed")))
        if passive and not by:
            continue
        if passive or name == "after":
            left, right = right, left
        found["before" if name in vocabulary.TIMES else name] = (left, right)
    return found


def _content(tokens: list[Token]) -> frozenset[str]:
    return frozenset(
        token.stem
        for token in tokens
        if token.kind == "word" and token.text not in vocabulary.stop()
    )


def _exact(text: str) -> Iterator[str]:
    for raw in RAW.findall(text):
        whole = raw.strip(".:/-@")
        if re.search(r"\w[/:@_.-]\w", whole) and re.search(r"[^\W\d_]", whole):
            yield whole


def _compounds(tokens: list[Token]) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    told = [token.kind == "word" and token.text not in vocabulary.stop() for token in tokens]
    for start in range(len(tokens)):
        for end in range(start + 2, min(start + 5, len(tokens) + 1)):
            parts = tokens[start:end]
            if not all(told[start:end]):
                break
            stems = frozenset(part.stem for part in parts)
            # two initials stand for too much
            joined = [part.text if len(parts) == 2 else part.text[0] for part in parts]
            found[vocabulary.concept("".join(joined))] = stems
    return found


def _verbs(tokens: list[Token]) -> frozenset[str]:
    return frozenset(
        token.stem
        for token, follows in itertools.pairwise(tokens)
        if token.kind == "word"
        and token.text.endswith(("s", "ed"))
        and (follows.kind == "number" or follows.text in _AFTER_VERB)
    )


def _neighbours(tokens: list[Token], signs: dict[str, int]) -> Iterator[tuple[str, str]]:
    for one, other in itertools.pairwise(tokens):
        if one.spelled and other.spelled:
            continue
        if one.text in vocabulary.scales() or one.stem not in signs:
            continue
        if other.text not in vocabulary.scales() and other.stem in signs:
            yield one.stem, other.stem
