"""Finds what may not be remembered: credentials, hidden characters, markers of chat formats, and
orders to a model as blatant as those in `scan_phrases.txt`.

It is the first of several fences, and low: words alone do not show whether a text is an order.
Provenance keeps orders out: what a session that read outside text wants to remember waits for a
person. A finding never repeats the text: its message goes to a model, a screen and a log.
"""

import re
import unicodedata
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import NamedTuple

from kode import credentials
from kode.errors import MemoryRefused

MAX_TEXT_CHARS = 65_536
"""Limit of one write: more is a document, which belongs in its own file."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Why a text may not be remembered."""

    category: str
    """`credential`, `control characters`, `hidden characters`, `bidirectional characters`,
    `chat markup`, or the heading of a phrase in `scan_phrases.txt`."""
    start: int
    """Its start in the text, in characters."""
    place: str
    """The start for a reader: `line 2, column 14`."""
    what: str
    """What is wrong, without the text itself: `it holds a credential (OpenAI key)`."""
    is_wording: bool
    """Whether it is only about the wording, so that a person may store it anyway."""

    @property
    def message(self) -> str:
        """One sentence with the category, the place and what to do."""
        return (
            f"Not remembered ({self.category}): at {self.place} {self.what}. "
            "Leave that part out and try again."
        )


def scan(text: str) -> Finding | None:
    """The first reason to refuse a text, or None. Never raises."""
    if not text:
        return None
    hidden = _hidden_character(text)
    if hidden:
        at, category = hidden
        return _finding(text, at, category, f"it has {_describe(text[at])}")
    secret = _credential(text)
    if secret:
        at, kind = secret
        return _finding(text, at, "credential", f"it contains something like a credential ({kind})")
    order = _phrase(text)
    if order:
        at, category = order
        return _finding(text, at, category, _WHAT[category], is_wording=True)
    return None


def check(text: str, *, max_chars: int = MAX_TEXT_CHARS, author: str = "model") -> str:
    """Raises: MemoryRefused with the reason if a text may not be remembered.

    A person's own text (`author` of "user") is not refused for its wording: the finding is returned
    as a line for them; "" for none.
    """
    if len(text) > max_chars:
        raise MemoryRefused(
            f"Not remembered: it has {len(text):,} characters and may have {max_chars:,}. "
            "Shorten it, or keep it in a file and remember where that is."
        )
    finding = scan(text)
    if finding is None:
        return ""
    if author == "user" and finding.is_wording:
        return (
            f"Noticed ({finding.category}): at {finding.place} {finding.what}. It is yours, so it "
            "is kept as you typed it; the model gets it with a warning."
        )
    raise MemoryRefused(finding.message)


_WHAT = {
    "override": "it tells the reader to set its instructions aside",
    "concealment": "it tells the reader to hide something from the user",
    "exfiltration": "it tells the reader to give private data away",
    "chat markup": "it imitates the markup between a program and its model",
}


def _finding(text: str, at: int, category: str, what: str, *, is_wording: bool = False) -> Finding:
    place = f"line {text.count(chr(10), 0, at) + 1}, column {at - text.rfind(chr(10), 0, at)}"
    return Finding(category=category, start=at, place=place, what=what, is_wording=is_wording)


# ── credentials ──────────────────────────────────────────────────────────────────────────────

_KEY_HEADER = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY")
"""The first line of a private key is enough: the rest may be cut off, or added later."""


def _credential(text: str) -> tuple[int, str] | None:
    found = credentials.find(text)
    if not found and not text.isascii():
        # Full-width and mathematical letters; NFKC may shift their places, so they are approximate.
        found = credentials.find(unicodedata.normalize("NFKC", text))
    if found:
        return min(found[0].start, len(text) - 1), found[0].kind
    header = _KEY_HEADER.search(text)
    return (header.start(), "private key") if header else None


# ── phrases ──────────────────────────────────────────────────────────────────────────────────


class _Phrases(NamedTuple):
    markers: re.Pattern[str]
    """Markers of chat formats: matched anywhere."""
    orders: tuple[tuple[str, re.Pattern[str]], ...]
    """By category: matched at the beginning of a sentence."""


_QUOTES = (("`", "`"), ('"', '"'), ("“", "”"), ("„", "“"), ("«", "»"), (r"(?<!\w)'", "'"))
_QUOTED = re.compile(
    "|".join(rf"{opening}[^{closing}\n]{{0,400}}{closing}" for opening, closing in _QUOTES)
)
_BEGINS = r"(?:\A|(?<=[.!?:;,。！？：，>*#)\]\n—–-]))[\s*_#>-]{0,12}"
"""Where a sentence or a clause begins. "Never ignore ...", "the test says ..." are not orders."""
_GAP = r"[\W_]{0,12}"
"""Between two words. Bounded, so that the time is linear in any text."""
_UNSPACED = re.compile(r"[\u0900-\u097f\u1100-\u11ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
"""Scripts in which word boundaries do not help: without spaces, or with marks inside words."""


def _phrase(text: str) -> tuple[int, str] | None:
    phrases = _read_phrases()
    # Quoted text is mentioned, not said. Replaced in place, so that positions stay.
    plain = _QUOTED.sub(lambda quoted: "\0" * len(quoted[0]), text)
    marker = phrases.markers.search(plain)
    if marker:
        return marker.start(), "chat markup"
    folded = "".join(map(_fold, plain))
    for category, order in phrases.orders:
        found = order.search(folded)
        if found:
            return found.start("order"), category
    return None


@cache
def _fold(char: str) -> str:
    """Normalizes one character to one: compatibility forms, case, accents and curly apostrophes."""
    if char == "’":
        return "'"
    plain = unicodedata.normalize("NFKD", char).casefold()
    return plain[0] if plain else char


@cache
def _read_phrases() -> _Phrases:
    """Loads `scan_phrases.txt`, whose header describes its format."""
    listed: dict[str, list[str]] = {}
    category = ""
    text = resources.files(__package__ or "").joinpath("scan_phrases.txt").read_text("utf-8")
    for line in text.splitlines():
        if line.startswith("== "):
            category = line.strip("= ")
        elif line and not line.startswith("#"):
            listed.setdefault(category, []).append(line)
    markers = "|".join(re.escape(marker) for marker in listed.pop("chat markup"))
    lead = "|".join(map(_pattern, listed.pop("before an order")))
    orders = (
        (name, re.compile(f"{_BEGINS}(?:{lead}){{0,3}}(?P<order>{'|'.join(map(_pattern, lines))})"))
        for name, lines in listed.items()
    )
    return _Phrases(re.compile(markers, re.IGNORECASE), tuple(orders))


def _pattern(phrase: str) -> str:
    """The pattern of one line: words in order, `a/b` means either, `[a/b]` either or none."""
    phrase = "".join(map(_fold, phrase))
    if _UNSPACED.search(phrase):
        return r"\s*".join(_one_of(word) for word in phrase.split())
    words = [_one_of(word) + (rf"\b{_GAP}" if word[0] != "[" else "") for word in phrase.split()]
    return r"\b" + "".join(words)


def _one_of(word: str) -> str:
    listed = (
        re.escape(choice).replace("_", rf"\b{_GAP}") for choice in word.strip("[]").split("/")
    )
    choices = "|".join(listed)
    if not word.startswith("["):
        return f"(?:{choices})"
    return f"(?:{choices})?" if _UNSPACED.search(word) else rf"(?:(?:{choices})\b{_GAP})?"


# ── hidden characters ────────────────────────────────────────────────────────────────────────

_SUSPICIOUS = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffc"
    "\ud800-\udfff\ue000-\uf8ff\ufdd0-\ufdef\ufffe\uffff\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U0010ffff]|\r(?!\n)"
)
"""Everything that must be judged by its neighbours. Ordinary text has none of it."""
_PILED_MARKS = re.compile(r"[\u0300-\u036f\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]{5,}")
_FLAG = re.compile("\U0001f3f4[\U000e0061-\U000e007a\U000e0030-\U000e0039]{3,6}\U000e007f")
_POP_ISOLATE = "\u2069"
_NEARBY_CHARS = 48
"""How far to look for right-to-left text that explains a direction mark."""


def _hidden_character(text: str) -> tuple[int, str] | None:
    """Place and category of the first character that hides something. Each is judged by its
    neighbours: a joiner belongs between Persian letters, but not inside an English word."""
    flags = {at for flag in _FLAG.finditer(text) for at in range(*flag.span())}
    for match in _SUSPICIOUS.finditer(text):
        at = match.start()
        if at in flags or _is_natural(text, at):
            continue
        code = ord(text[at])
        if code < 0x20 or 0x7F <= code <= 0x9F:
            return at, "control characters"
        if 0x202A <= code <= 0x202E or 0x2066 <= code <= 0x2069 or code in _MARKS:
            return at, "bidirectional characters"
        return at, "hidden characters"
    piled = None if text.isascii() else _PILED_MARKS.search(text)
    return (piled.start(), "hidden characters") if piled else None


_MARKS = (0x200E, 0x200F, 0x061C)  # of direction


def _is_natural(text: str, at: int) -> bool:
    """Whether its neighbours explain the character at `at`."""
    code = ord(text[at])
    before, after = text[at - 1 : at], text[at + 1 : at + 2]
    match code:
        case 0x200C:
            both_indic = _is_indic(before) == _is_indic(after)
            return _takes_joiners(before) and _takes_joiners(after) and both_indic
        case 0x200D if _is_emoji(before) or before == "\ufe0f":
            return _is_emoji(after)
        case 0x200D:
            # A half form or an Arabic abbreviation may end its word with the joiner.
            ends = not after or not (after.isalnum() or _SUSPICIOUS.match(after))
            return _takes_joiners(before) and (ends or _takes_joiners(after))
        case 0x200B:
            return _marks_word_ends(before) and _marks_word_ends(after)
        case 0x200E | 0x200F | 0x061C:
            inside = before.isalnum() and after.isalnum() and (before + after).isascii()
            alone = not _SUSPICIOUS.match(before) and not _SUSPICIOUS.match(after)
            nearby = text[max(0, at - _NEARBY_CHARS) : at + _NEARBY_CHARS]
            return alone and not inside and _has_right_to_left(nearby)
        case 0x2066 | 0x2067 | 0x2068 | 0x2069:
            return _is_isolate(text, at)
        case 0x2800:
            return "\u2801" <= before <= "\u28ff" or "\u2801" <= after <= "\u28ff"
        case 0xFE0E | 0xFE0F:
            return before in tuple("#*0123456789©®™‼⁉ℹ〰〽㊗㊙") or _is_emoji(before)
        case _ if 0xFE00 <= code <= 0xFE0D:
            return _is_ideograph(before) or (before != "" and unicodedata.category(before) == "Sm")
        case _ if 0xE0100 <= code <= 0xE01EF:
            return _is_ideograph(before)
        case _ if 0x180B <= code <= 0x180F:
            return "\u1820" <= before <= "\u18aa"
        case _:
            return False


_JOINING = re.compile(
    "[\u0620-\u074f\u0750-\u08ff\u0900-\u0dff\u0f00-\u109f\u1780-\u17ff\u1820-\u18aa"
    "\ufb50-\ufdcf\ufe70-\ufefc]"
)


def _takes_joiners(char: str) -> bool:
    """Letters and marks of scripts that spell with joiners: Arabic, Syriac, Indic and related."""
    return bool(_JOINING.match(char)) and unicodedata.category(char)[0] in "LM"


def _is_indic(char: str) -> bool:
    return "\u0900" <= char <= "\u0dff"


def _is_emoji(char: str) -> bool:
    if not char:
        return False
    code = ord(char)
    return 0x1F000 <= code <= 0x1FAFF or (
        0x2190 <= code <= 0x2BFF and unicodedata.category(char) in ("So", "Sm")
    )


def _marks_word_ends(char: str) -> bool:
    """Scripts that mark word ends with a zero-width space: Thai, Lao, Burmese, Khmer, Tibetan."""
    return "\u0e00" <= char <= "\u109f" or "\u1780" <= char <= "\u17ff"


def _has_right_to_left(text: str) -> bool:
    return any(
        ("\u0590" <= char <= "\u08ff" and char != "\u061c") or "\ufb1d" <= char <= "\ufefc"
        for char in text
    )


def _is_isolate(text: str, at: int) -> bool:
    """Whether it belongs to a pair around a few words, with none inside, in right-to-left text."""
    before = text[max(0, at - _NEARBY_CHARS) : at].rpartition("\n")[2]
    after = text[at + 1 : at + _NEARBY_CHARS].partition("\n")[0]
    if not _has_right_to_left(before + after):
        return False
    if text[at] == _POP_ISOLATE:
        return re.findall("[\u2066-\u2069]", before)[-1:] not in ([], [_POP_ISOLATE])
    return re.findall("[\u2066-\u2069]", after)[:1] == [_POP_ISOLATE]


def _is_ideograph(char: str) -> bool:
    return "\u3400" <= char <= "\u9fff" or "\uf900" <= char <= "\ufaff" or char >= "\U00020000"


def _describe(char: str) -> str:
    code = ord(char)
    if char == "\r":
        return "a carriage return inside a line"
    if 0xE000 <= code <= 0xF8FF or code >= 0xF0000:
        return f"U+{code:04X}, a private character"
    if code < 0x20 or 0x7F <= code <= 0x9F:
        return f"control character U+{code:04X}"
    if unicodedata.combining(char):
        return "a pile of combining marks"
    return f"U+{code:04X} {unicodedata.name(char, 'without a name').lower()}"
