"""Finds what may not be remembered: credentials, hidden characters, markers of chat formats, and
blatant orders to a model. It is a low fence: provenance keeps orders out. A finding never repeats
the text: its message goes to a model, a screen and a log.
"""

import re
import unicodedata
from functools import cache
from pathlib import Path
from typing import NamedTuple

from kode import credentials
from kode.errors import MemoryRefused

MAX_TEXT_CHARS = 65_536
"""Limit of one write: more is a document, which belongs in its own file."""


class ScanFinding(NamedTuple):
    """Why a text may not be remembered."""

    category: str
    """`credential`, `hidden characters`, or the heading of a phrase in `scan_phrases.txt`."""
    what: str
    """What is wrong: `it contains something like a credential (OpenAI key)`."""
    is_wording: bool = False
    """Whether it is only about the wording, so that a person may store it anyway."""


def find_danger(text: str) -> ScanFinding | None:
    """The first reason to refuse a text, or None. Never raises."""
    return _find_hidden_character(text) or _find_credential(text) or _find_phrase(text)


def check_text(text: str, *, max_chars: int = MAX_TEXT_CHARS, author: str = "model") -> str:
    """A line on the wording of a person's own text (`author` of "user"), which is not refused for
    it; "" for none. Raises: MemoryRefused with the reason if a text may not be remembered."""
    if len(text) > max_chars:
        raise MemoryRefused(
            f"Not remembered: it has {len(text):,} characters and may have {max_chars:,}. "
            "Shorten it, or keep it in a file and remember where that is."
        )
    finding = find_danger(text)
    if finding is None:
        return ""
    reason = f"({finding.category}): {finding.what}."
    if author == "user" and finding.is_wording:
        return f"Noticed {reason} It is yours, so it is kept; the model gets it with a warning."
    raise MemoryRefused(f"Not remembered {reason} Leave that part out and try again.")


# ── credentials ──────────────────────────────────────────────────────────────────────────────

_KEY_HEADER = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY")
"""The first line of a private key is enough: the rest may be cut off, or added later."""


def _find_credential(text: str) -> ScanFinding | None:
    forms = (text, unicodedata.normalize("NFKC", text))  # full-width, mathematical letters
    kinds = [secret.kind for form in forms for secret in credentials.find_credentials(form)]
    kinds += ["private key" for form in forms if _KEY_HEADER.search(form)]
    what = f"it contains something like a credential ({', '.join(kinds[:1])})"
    return ScanFinding("credential", what) if kinds else None


# ── phrases ──────────────────────────────────────────────────────────────────────────────────


MARKUP = "chat markup"
_WHAT = {
    "override": "it tells the reader to set its instructions aside",
    "concealment": "it tells the reader to hide something from the user",
    "exfiltration": "it tells the reader to give private data away",
    MARKUP: "it imitates the markup between a program and its model",
}
_QUOTES = (("`", "`"), ('"', '"'), ("“", "”"), ("„", "“"), ("«", "»"), (r"(?<!\w)'", "'"))
_QUOTED = re.compile(
    "|".join(rf"{opening}[^{closing}\n]{{0,400}}{closing}" for opening, closing in _QUOTES)
)
_BEGINS = r"(?:\A|(?<=[.!?:;,。！？：，>*#)\]\n—–-]))[\s*_#>-]{0,12}"
"""Where a sentence or a clause begins. "Never ignore ...", "the test says ..." are not orders."""
_GAP = r"[\W_]{0,12}"
"""Between two words. Bounded, so that the time is linear in any text."""
_UNSPACED = "\u0900"
"""From here on are scripts without spaces, or with marks inside words: boundaries do not help."""


def _find_phrase(text: str) -> ScanFinding | None:
    plain = _QUOTED.sub("\0", text)  # quoted text is mentioned, not said
    folded = _fold_text(plain)
    # Markers are matched as they are, anywhere; orders at the beginning of a sentence.
    markers, orders = _read_phrases()
    match = orders.search(folded)
    category = MARKUP if markers.search(plain) else match and match.lastgroup
    return ScanFinding(category, _WHAT[category], is_wording=True) if category else None


def _fold_text(text: str) -> str:
    """A text without compatibility forms, case, accents and curly apostrophes."""
    letters = unicodedata.normalize("NFKD", text.replace("’", "'")).casefold()
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


@cache
def _read_phrases() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """The patterns of the markers and of the orders in `scan_phrases.txt`, whose header describes
    its format. An order matches as a group with the name of its category."""
    phrases, category = dict[str, list[str]](), ""
    text = Path(__file__).with_name("scan_phrases.txt").read_text("utf-8")
    for line in text.splitlines():
        if line.startswith("== "):
            category = line.strip("= ")
        elif line and not line.startswith("#"):
            phrases.setdefault(category, []).append(line)
    markers = "|".join(map(re.escape, phrases.pop(MARKUP)))
    lead = "|".join(map(_compile_phrase, phrases.pop("before an order")))
    orders = (f"(?P<{it}>{'|'.join(map(_compile_phrase, rows))})" for it, rows in phrases.items())
    order = re.compile(f"{_BEGINS}(?:{lead}){{0,3}}(?:{'|'.join(orders)})")
    return re.compile(markers, re.IGNORECASE), order


def _compile_phrase(phrase: str) -> str:
    """The pattern of one line: words in order, `a/b` means either, `[a/b]` either or none."""
    phrase = _fold_text(phrase)
    start, gap, space = ("", "", r"\s*") if max(phrase) >= _UNSPACED else (r"\b", rf"\b{_GAP}", "")
    words = list[str]()
    for word in phrase.split():
        choices = re.escape(word.strip("[]")).replace("/", "|").replace("_", rf"\b{_GAP}")
        words.append(f"(?:(?:{choices}){gap})" + "?" * word.startswith("["))
    return start + space.join(words)


# ── hidden characters ────────────────────────────────────────────────────────────────────────

_SUSPICIOUS = (
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffc"
    "\ud800-\udfff\ue000-\uf8ff\ufdd0-\ufdef\ufffe\uffff\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U0010ffff"
)
"""Everything that its neighbours must explain. Ordinary text has none of it."""
_PILED_MARKS = "[\u0300-\u036f\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]{5,}"
_HIDDEN = re.compile(f"[{_SUSPICIOUS}]|\r(?!\n)|{_PILED_MARKS}")
_ARABIC = "\u0620-\u08ff\u0f00-\u109f\u1780-\u17ff\u1820-\u18aa\ufb50-\ufdcf\ufe70-\ufefc"
"""Scripts other than those of India that spell with joiners."""
_INDIC = "\u0900-\u0dff"
_SPACELESS = "\u0e00-\u109f\u1780-\u17ff"
"""Thai, Lao, Burmese, Khmer, Tibetan: a zero-width space may mark where a word ends."""
_EMOJI = "\u2190-\u2bff\U0001f000-\U0001faff"
_IDEOGRAPHS = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_NATURAL = (
    "\U0001f3f4[\U000e0061-\U000e007a\U000e0030-\U000e0039]{3,6}\U000e007f"  # flags of regions
    f"|(?<=[{_ARABIC}])\u200c(?=[{_ARABIC}])|(?<=[{_INDIC}])\u200c(?=[{_INDIC}])"
    # A half form or an Arabic abbreviation may end its word with the joiner.
    f"|(?<=[{_ARABIC}{_INDIC}])\u200d(?=[{_ARABIC}{_INDIC}]|[^\\w{_SUSPICIOUS}]|\\Z)"
    f"|(?<=[{_EMOJI}\ufe0f])\u200d(?=[{_EMOJI}])"
    f"|(?<=[{_SPACELESS}])\u200b(?=[{_SPACELESS}])"
    "|(?<=[\u2801-\u28ff])\u2800|\u2800(?=[\u2801-\u28ff])"  # between patterns of Braille
    f"|(?<=[#*0-9©®™‼⁉ℹ〰〽㊗㊙{_EMOJI}])[\ufe0e\ufe0f]"
    f"|(?<=[{_IDEOGRAPHS}\u2200-\u22ff\u2a00-\u2aff])[\ufe00-\ufe0d]"
    f"|(?<=[{_IDEOGRAPHS}])[\U000e0100-\U000e01ef]"
    "|(?<=[\u1820-\u18aa])[\u180b-\u180f]"
)
"""Hidden characters that belong to the spelling of a script, or to an emoji; compiled when used."""
_DIRECTION = (
    "[\u2066-\u2068][^\u2066-\u2069\n]{0,46}\u2069"  # around a few words
    # Not inside an English word, nor beside another hidden character.
    f"|(?<![{_SUSPICIOUS}])[\u061c\u200e\u200f](?![{_SUSPICIOUS}])"
    "(?:(?<![A-Za-z0-9].)|(?![A-Za-z0-9]))"
)
"""Marks of direction as right-to-left text has them."""
_MARKS = re.compile("[\u061c\u200e\u200f\u2066-\u2069]")
_RIGHT_TO_LEFT = re.compile("[\u0590-\u061b\u061d-\u08ff\ufb1d-\ufefc]")


def _find_hidden_character(text: str) -> ScanFinding | None:
    """The first character that hides something. Its neighbours decide: a joiner belongs between
    Persian letters, but not inside an English word."""
    if not _HIDDEN.search(text):
        return None
    plain = re.sub(_NATURAL, " ", text)
    if _RIGHT_TO_LEFT.search(text):
        plain = re.sub(_DIRECTION, lambda match: _MARKS.sub(" ", match[0]), plain)
    hidden = _HIDDEN.search(plain)
    if hidden is None:
        return None
    char = hidden[0][0]
    name = unicodedata.name(char, "a character without a name").lower()
    return ScanFinding("hidden characters", f"it has U+{ord(char):04X}, {name}")
