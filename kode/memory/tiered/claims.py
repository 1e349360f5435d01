"""What a fact claims: its concepts with their sign, its numbers, its order.

Here: reading one short text into a `Claim`, with the tables of `words`. Not here: comparing
two claims or deciding anything (`merge`).
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from kode.memory.tiered import vocabulary
from kode.memory.tiered.words.contrasts import NUMBERS

Kind = Literal["word", "number", "edge"]

_RAW = re.compile(r"\w[\w.+#/@:%°-]*|[.;,()!?:|—–]|[%€$]|\S")
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(am|pm)?$")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}$")
_NUMBER = re.compile(r"v?(\d+(?:\.\d+)*)(?:\.x)?$")
_NUMBER_UNIT = re.compile(r"(\d+(?:\.\d+)?)([a-z%€$]+)$")
_WORD_NUMBER = re.compile(r"([a-z]{4,})(\d[\d.]*)$|([a-z]{2,})(\d+\.[\d.]+)$")
_EDGES = frozenset(".;,()!?:|—–")
_SCOPE_ENDS = frozenset(
    "but for in on when if at as because so while during with then since by unless until".split()
)
_ENDS = ".,;:!?()[]{}\"'`“”‘’„«»…"
_SPELLED = re.compile(r"\w[/@_.]\w|[a-z][\w-]*-\w*\d|\w-\w+-\w")
_JOINTS = frozenset({"and", "or", "but", "while", "whereas", "then", ",", ";", "|"})
_FLAG = re.compile(r"(?<![^\s'\"`(])--?[A-Za-z][\w-]*")
_BE = frozenset({"is", "are", "be", "been", "being", "was", "were", "get", "gets"})
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]")


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
    numbers: dict[str, tuple[str, ...]] = field(hash=False)
    """Measure ("" for a bare number, "time", "size", ...) → numbers in their order; options of
    a command line ("-q") are kept here as "flag"."""
    exact: frozenset[str]
    """Spellings such as paths, hosts and identifiers, whole."""
    relations: dict[str, tuple[frozenset[str], frozenset[str]]] = field(hash=False)
    """Word of direction ("before", "from", "call") → concepts before and after it."""
    compounds: frozenset[str]
    """Neighbouring words written as one, for texts that write them so."""
    changes: bool
    """The text tells of a change ("now", "switched", "no longer")."""
    foreign: bool
    """Not English, as far as can be told: only literal comparison is safe."""
    negators: frozenset[str]
    """Negations of any language in the text."""
    restrictors: frozenset[str]
    """Words that narrow the statement: "only", "unless", "after"."""
    sequence: tuple[str, ...]
    """Concepts in their order, each where it first occurs."""
    neighbours: frozenset[tuple[str, str]]
    """Concepts that follow each other with no word between."""
    enumerates: bool
    """The text joins several parts: "and", a comma, "while"."""


@dataclass
class _Token:
    kind: Kind
    text: str
    stem: str = ""
    measure: str = ""
    spelled: bool = False
    """Part of a path, host or identifier, where every word tells."""
    compound: bool = False
    """Part of a hyphenated word: "none" in "arm-none-eabi" denies nothing."""


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
    if not foreign:
        rewritten = _rewrite(rewritten)
    tokens = list(_tokens(rewritten))
    _join_units(tokens)
    signs, denied, changes = _signs(tokens)
    heavy, light = set[str](), set[str]()
    for token in tokens:
        if token.kind != "word" or token.stem not in signs:
            continue
        is_light = token.stem in vocabulary.light() and not token.spelled
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
        denied=denied,
        numbers=numbers,
        exact=frozenset(_exact(rewritten)),
        relations=_relations(tokens),
        compounds=frozenset(_compounds(tokens)),
        changes=changes,
        foreign=foreign,
        negators=frozenset(
            word
            for word in words
            if word in vocabulary.foreign_negators() or word in vocabulary.negator_words()
        ),
        restrictors=frozenset(token.text for token in tokens) & vocabulary.restrictors(),
        sequence=tuple(dict.fromkeys(t.stem for t in tokens if t.stem in signs)),
        neighbours=frozenset(_neighbours(tokens, signs)),
        enumerates=any(token.text in _JOINTS for token in tokens),
    )


def _rewrite(text: str) -> str:
    for pattern, standing in vocabulary.phrases():
        text = pattern.sub(standing, text)
    return text


def _is_foreign(folded: str, words: list[str]) -> bool:
    letters = [char for char in folded if char.isalpha()]
    if sum(not char.isascii() for char in letters) * 5 > len(letters):
        return True
    strange = sum(word in vocabulary.foreign_words() for word in words)
    familiar = sum(word in vocabulary.stop() for word in words)
    return strange > familiar


def _tokens(text: str) -> Iterator[_Token]:
    for raw in _RAW.findall(text):
        if raw in _EDGES:
            yield _Token("edge", raw)
            continue
        if raw in "%€$":
            yield _Token("word", raw, raw)
            continue
        stripped = raw.rstrip(".:/-@")
        yield from _parts(stripped)
        if raw[-1] in ".:" and raw != stripped:
            yield _Token("edge", raw[-1])


def _parts(raw: str) -> Iterator[_Token]:
    if not raw or not any(char.isalnum() for char in raw):
        return
    clock = _CLOCK.match(raw)
    if clock:
        yield _Token("number", _clock(int(clock[1]), clock[2], clock[3] or ""))
        return
    if _DATE.match(raw):
        yield _Token("number", raw, measure="date")
        return
    if raw in vocabulary.synonyms():
        yield _Token("word", raw, vocabulary.concept(raw))
        return
    spelled = bool(_SPELLED.search(raw)) and raw != "and/or"
    compound = "-" in raw.strip("-")
    for part in re.split(r"[/:@_-]|\.(?=\.)", raw):
        for token in _part(part.strip(".")):
            token.spelled = spelled
            token.compound = compound
            yield token


def _part(part: str) -> Iterator[_Token]:
    if not part:
        return
    if part in NUMBERS:
        yield _Token("number", str(NUMBERS[part]))
        return
    number = _NUMBER.match(part)
    if number:
        yield _Token("number", _tidy(number[1]))
        return
    with_unit = _NUMBER_UNIT.match(part)
    if with_unit and with_unit[2] in ("am", "pm"):
        yield _Token("number", _clock(int(float(with_unit[1])), "00", with_unit[2]))
        return
    if with_unit and with_unit[2] == "k":
        yield _Token("number", _plain_number(float(with_unit[1]) * 1000))
        return
    if with_unit and with_unit[2] in vocabulary.units():
        yield _Token("number", with_unit[1])
        yield _Token("word", with_unit[2], with_unit[2])
        return
    glued = _WORD_NUMBER.match(part)
    if glued and part not in vocabulary.synonyms():
        word, digits = (glued[1], glued[2]) if glued[1] else (glued[3], glued[4])
        yield _Token("word", word, vocabulary.concept(word))
        yield _Token("number", _tidy(digits))
        return
    if _CJK.search(part):
        yield from (_Token("word", gram, gram) for gram in _bigrams(part))
        return
    yield _Token("word", part, vocabulary.concept(part))


def _bigrams(text: str) -> Iterable[str]:
    return [text[at : at + 2] for at in range(max(1, len(text) - 1))]


def _clock(hour: int, minutes: str, half: str) -> str:
    if half == "pm" and hour < 12:
        hour += 12
    if half == "am" and hour == 12:
        hour = 0
    return str(hour) if minutes == "00" else f"{hour}:{minutes}"


def _tidy(digits: str) -> str:
    """A number without leading zeros; a version stays as written."""
    digits = digits.rstrip(".")
    return digits.lstrip("0") or "0" if digits.isdigit() else digits


def _plain_number(value: float) -> str:
    return f"{value:.6g}" if value < 1e6 else f"{value:.0f}"


def _join_units(tokens: list[_Token]) -> None:
    """Give each number the measure of the unit after it, and drop that unit."""
    at = 0
    while at < len(tokens) - 1:
        number, unit = tokens[at], tokens[at + 1]
        at += 1
        if number.kind != "number" or unit.kind != "word" or number.measure:
            continue
        if unit.text in ("am", "pm") and number.text.isdigit():
            number.text = _clock(int(number.text), "00", unit.text)
            del tokens[at]
            continue
        known = vocabulary.units().get(unit.text) or vocabulary.units().get(unit.stem)
        if known is None or number.text.count(".") > 1 or ":" in number.text:
            continue
        measure, size = known
        number.measure = measure
        number.text = _plain_number(float(number.text) * size)
        del tokens[at]


def _signs(tokens: list[_Token]) -> tuple[dict[str, int], frozenset[str], bool]:
    """The sign of every concept, those that a negation reaches, and whether the text tells of a
    change.

    Rewrites a token that lies on a scale to the name of the scale.
    """
    signs: dict[str, int] = {}
    denied: set[str] = set()
    changes = False
    sign, spent, negated = 1, True, False
    clause: list[str] = []
    prefers = False
    for at, token in enumerate(tokens):
        word = token.text
        if token.kind == "edge":
            _dangle(signs, sign, spent)
            sign, spent, negated, prefers, clause = 1, True, False, False, []
            continue
        if token.kind == "number":
            _dangle(signs, sign, spent)
            spent = True
            continue
        if word in vocabulary.change_words() and not token.spelled:
            changes = True
            sign, spent = (-sign, False) if word == "nolonger" else (sign, spent)
            continue
        if word == "unwanted":
            for name in clause:
                signs[name] = -1
            continue
        if word in vocabulary.negator_words() and not token.compound:
            sign, spent, negated = -sign, False, True
            continue
        follows_verb = at + 1 < len(tokens) and tokens[at + 1].text in ("be", "have", "use")
        if word == "over" or (word == "to" and prefers and clause and not follows_verb):
            sign, prefers, spent, negated = -1, False, False, False
            continue
        if word in _SCOPE_ENDS and spent:
            sign, negated = 1, False
        if word.startswith(("prefer", "favor", "favour")):
            prefers, clause = True, []
        if word in vocabulary.stop() and not (token.spelled or token.compound):
            continue
        spent = True
        scale = vocabulary.scales().get(word) or vocabulary.scales().get(token.stem)
        if negated:
            denied.add(token.stem)
        if scale is not None:
            token.stem, end = scale
            _note(signs, token.stem, end * sign)
            sign = 1
            continue
        _note(signs, token.stem, sign)
        clause.append(token.stem)
    _dangle(signs, sign, spent)
    return signs, frozenset(denied), changes


def _dangle(signs: dict[str, int], sign: int, spent: bool) -> None:
    """Keep a negation that found nothing to deny, so that it is not overlooked."""
    if sign < 0 and not spent:
        _note(signs, "not", -1)


def _note(signs: dict[str, int], name: str, sign: int) -> None:
    signs[name] = sign if signs.get(name, sign) == sign else 0


def _relations(
    tokens: list[_Token],
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
        passive = name not in vocabulary.TIMES and at > 0 and texts[at - 1] in _BE
        if passive and "by" not in texts[at + 1 : at + 3]:
            continue
        if passive or name == "after":
            left, right = right, left
        found["before" if name in vocabulary.TIMES else name] = (left, right)
    return found


def _content(tokens: list[_Token]) -> frozenset[str]:
    return frozenset(
        token.stem
        for token in tokens
        if token.kind == "word" and token.text not in vocabulary.stop()
    )


def _exact(text: str) -> Iterator[str]:
    for raw in _RAW.findall(text):
        whole = raw.strip(".:/-@")
        if re.search(r"\w[/:@_.-]\w", whole) and not _NUMBER.match(whole):
            yield whole


def _compounds(tokens: list[_Token]) -> Iterator[str]:
    words = [token.text if token.kind == "word" else "" for token in tokens]
    for one, other in itertools.pairwise(words):
        if len(one) > 1 and len(other) > 1:
            yield vocabulary.concept(one + other)


def _neighbours(tokens: list[_Token], signs: dict[str, int]) -> Iterator[tuple[str, str]]:
    for one, other in itertools.pairwise(tokens):
        if one.spelled and other.spelled:
            continue
        if one.text in vocabulary.scales() or one.stem not in signs:
            continue
        if other.text not in vocabulary.scales() and other.stem in signs:
            yield one.stem, other.stem
