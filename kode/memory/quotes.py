"""Whether words that a model quotes are words in which the person states something.

It decides who said a fact, so nothing here guesses: the words stand in a message that the person
typed, letter by letter, and their sentence asks nothing.
"""

import re
from collections.abc import Iterable

from kode.memory.words import is_unspaced

MIN_WORDS = 2
"""One word of a person's stands everywhere."""
_SPACE = re.compile(r"\s+")
_MARKS = "\"'“”„«»‘’ "
_END = re.compile(r"[.!?]+(?=[\s\"'”»)]|$)|[。！？؟\n]+")


def verify_quote(quote: str, typed: Iterable[str]) -> str:
    """The quotation as it stands in one of the messages that the person typed; "" if it stands in
    none, is a part of a word, or its sentence ends in a question mark. Only white space may
    differ, and quotation marks around it."""
    wanted = _SPACE.sub(" ", quote).strip(_MARKS)
    if len(wanted.split()) < MIN_WORDS and not is_unspaced(wanted):
        return ""
    pattern = re.compile(r"\s+".join(map(re.escape, wanted.split(" "))))
    for message in typed:
        for match in pattern.finditer(message):
            if _is_whole(message, match.start(), match.end()) and not _asks(message, match.end()):
                return wanted
    return ""


def _is_whole(text: str, start: int, end: int) -> bool:
    """Whether no word goes on before or after."""
    return not any(
        0 < at < len(text)
        and text[at - 1].isalnum()
        and text[at].isalnum()
        and not is_unspaced(text[at - 1 : at + 1])
        for at in (start, end)
    )


def _asks(text: str, end: int) -> bool:
    """Whether the sentence in which a quotation ends is a question."""
    match = _END.search(text, end - 1)
    return match is not None and any(mark in match[0] for mark in "?？؟")
