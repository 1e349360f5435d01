"""A text as tokens: words with their concept, numbers with their measure, edges of clauses.

Not here: the tables (`words`, `vocabulary`), what a sentence says of its words (`signs`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from kode.memory.tiered import vocabulary
from kode.memory.tiered.words.contrasts import NUMBERS

Kind = Literal["word", "number", "edge"]

_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(am|pm)?$")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}$")
_NUMBER_UNIT = re.compile(r"(\d+(?:\.\d+)?)([a-z%€$]+)$")
_WORD_NUMBER = re.compile(r"([a-z]{4,})(\d[\d.]*)$|([a-z]{2,})(\d+\.[\d.]+)$")
_EDGES = frozenset(".;,()!?:|—–")
_SPELLED = re.compile(r"\w[/@_.]\w|[a-z][\w-]*-\w*\d|\w-\w+-\w")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]")


RAW = re.compile(r"\w[\w.+#/@:%°-]*|[.;,()!?:|—–]|[%€$]|\S")
NUMBER = re.compile(r"v?(\d+(?:\.\d+)*)(?:\.x)?$")


@dataclass
class Token:
    kind: Kind
    text: str
    stem: str = ""
    measure: str = ""
    spelled: bool = False
    """Part of a path, host or identifier, where every word tells."""
    name: bool = False
    """Written with a capital letter inside the sentence."""
    compound: bool = False
    """Part of a hyphenated word: "none" in "arm-none-eabi" denies nothing."""


def tokenize(text: str) -> Iterator[Token]:
    for raw in RAW.findall(text):
        if raw in _EDGES:
            yield Token("edge", raw)
            continue
        if raw in "%€$":
            yield Token("word", raw, raw)
            continue
        stripped = raw.rstrip(".:/-@")
        yield from _parts(stripped)
        if raw[-1] in ".:" and raw != stripped:
            yield Token("edge", raw[-1])


def _parts(raw: str) -> Iterator[Token]:
    if not raw or not any(char.isalnum() for char in raw):
        return
    clock = _CLOCK.match(raw)
    if clock:
        yield Token("number", _clock(int(clock[1]), clock[2], clock[3] or ""))
        return
    if _DATE.match(raw):
        yield Token("number", raw, measure="date")
        return
    if raw in vocabulary.synonyms():
        yield Token("word", raw, vocabulary.concept(raw))
        return
    spelled = bool(_SPELLED.search(raw)) and raw != "and/or"
    compound = "-" in raw.strip("-")
    for part in re.split(r"[/:@_-]|\.(?=\.)", raw):
        for token in _part(part.strip(".")):
            token.spelled = spelled
            token.compound = compound
            yield token


def _part(part: str) -> Iterator[Token]:
    if not part:
        return
    if part in NUMBERS:
        yield Token("number", str(NUMBERS[part]))
        return
    number = NUMBER.match(part)
    if number:
        yield Token("number", _tidy(number[1]))
        return
    with_unit = _NUMBER_UNIT.match(part)
    if with_unit and with_unit[2] in ("am", "pm"):
        yield Token("number", _clock(int(float(with_unit[1])), "00", with_unit[2]))
        return
    if with_unit and with_unit[2] == "k":
        yield Token("number", _plain_number(float(with_unit[1]) * 1000))
        return
    if with_unit and with_unit[2] in vocabulary.units():
        yield Token("number", with_unit[1])
        yield Token("word", with_unit[2], with_unit[2])
        return
    glued = _WORD_NUMBER.match(part)
    if glued and part not in vocabulary.synonyms():
        word, digits = (glued[1], glued[2]) if glued[1] else (glued[3], glued[4])
        yield Token("word", word, vocabulary.concept(word))
        yield Token("number", _tidy(digits))
        return
    if _CJK.search(part):
        yield from (Token("word", gram, gram) for gram in _bigrams(part))
        return
    yield Token("word", part, vocabulary.concept(part))


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


def join_units(tokens: list[Token]) -> None:
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
