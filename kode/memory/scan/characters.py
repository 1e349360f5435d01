"""Characters that hide something: invisible, bidirectional, control, look-alike letters.

Each is judged by its neighbours and its word, not by the whole text: a joiner belongs between
Persian letters and in a family emoji, and has no business inside an English word. What a text says
is judged elsewhere (`injection`).
"""

import re
import unicodedata

SUSPICIOUS = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffc"
    "\ud800-\udfff\ue000-\uf8ff\ufdd0-\ufdef\ufffe\uffff\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U0010ffff]|\r(?!\n)"
)
"""Everything that needs a look at its neighbours. An ordinary text holds none of it."""

_MARK_RUN = re.compile(r"[\u0300-\u036f\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]{5,}")
_MAX_FLAG_TAGS = 6
_CANCEL_TAG = 0xE007F
_NEARBY_CHARS = 48
"""How far a direction mark looks for the right-to-left text that explains it."""


def hidden(text: str) -> tuple[int, str, str] | None:
    """The first character that hides something: its place, its category and what it is."""
    for match in SUSPICIOUS.finditer(text):
        category = _judge(text, match.start())
        if category:
            return match.start(), category, _describe(text[match.start()])
    if text.isascii():
        return None
    run = _MARK_RUN.search(text)
    if run:
        return run.start(), "hidden characters", "a pile of combining marks"
    return lookalike(text)


def _judge(text: str, at: int) -> str:
    """The category of the character at `at`, or "" where its neighbours explain it."""
    code = ord(text[at])
    before = text[at - 1] if at else ""
    after = text[at + 1] if at + 1 < len(text) else ""
    natural = False
    match code:
        case 0x200C:
            natural = _joins(before) and _joins(after) and not _is_indic_break(before, after)
        case 0x200D:
            natural = _is_joined(before, after)
        case 0x200B:
            natural = _breaks_words(before) and _breaks_words(after)
        case 0x200E | 0x200F | 0x061C:
            natural = _is_direction_mark(text, at, before, after)
        case 0x2066 | 0x2067 | 0x2068 | 0x2069:
            natural = _is_isolate(text, at)
        case 0x2800:
            natural = "\u2801" <= before <= "\u28ff" or "\u2801" <= after <= "\u28ff"
        case _ if 0xFE00 <= code <= 0xFE0F:
            natural = _takes_variation(before, code)
        case _ if 0xE0100 <= code <= 0xE01EF:
            natural = _is_ideograph(before)
        case _ if 0xE0020 <= code <= _CANCEL_TAG:
            natural = _is_flag(text, at)
        case 0x180B | 0x180C | 0x180D | 0x180E | 0x180F:
            natural = "\u1820" <= before <= "\u18aa"
    if natural:
        return ""
    if code < 0x20 or 0x7F <= code <= 0x9F:
        return "control characters"
    if 0x202A <= code <= 0x202E or 0x2066 <= code <= 0x2069 or code in (0x200E, 0x200F, 0x061C):
        return "bidirectional characters"
    return "hidden characters"


def _joins(char: str) -> bool:
    """Letters and marks of scripts whose spelling uses joiners: Arabic, Syriac, Indic and kin."""
    return any(
        low <= char <= high
        for low, high in (
            ("\u0620", "\u06ff"), ("\u0700", "\u074f"), ("\u0750", "\u08ff"),
            ("\u0900", "\u0dff"), ("\u0f00", "\u109f"), ("\u1780", "\u17ff"),
            ("\u1820", "\u18aa"), ("\ufb50", "\ufdcf"), ("\ufe70", "\ufefc"),
        )
    ) and unicodedata.category(char)[0] in "LM"  # fmt: skip


def _is_indic_break(before: str, after: str) -> bool:
    """Joiners between letters of two scripts explain nothing."""
    return ("\u0900" <= before <= "\u0dff") != ("\u0900" <= after <= "\u0dff")


def _is_joined(before: str, after: str) -> bool:
    if _is_emoji(before) or before == "\ufe0f":
        return _is_emoji(after)
    if not _joins(before):
        return False
    # A half form or an Arabic abbreviation may end its word with the joiner.
    return after == "" or _joins(after) or not (after.isalnum() or SUSPICIOUS.match(after))


def _is_emoji(char: str) -> bool:
    if not char:
        return False
    code = ord(char)
    return 0x1F000 <= code <= 0x1FAFF or (
        0x2190 <= code <= 0x2BFF and unicodedata.category(char) in ("So", "Sm")
    )


def _breaks_words(char: str) -> bool:
    """Scripts that mark word ends with a zero-width space: Thai, Lao, Burmese, Khmer, Tibetan."""
    return "\u0e00" <= char <= "\u109f" or "\u1780" <= char <= "\u17ff"


def _is_direction_mark(text: str, at: int, before: str, after: str) -> bool:
    inside_word = before.isalnum() and after.isalnum()
    if inside_word and before.isascii() and after.isascii():
        return False
    if SUSPICIOUS.match(before) or SUSPICIOUS.match(after):
        return False
    return _has_rtl(text[max(0, at - _NEARBY_CHARS) : at + _NEARBY_CHARS])


def _has_rtl(text: str) -> bool:
    return any(
        ("\u0590" <= char <= "\u08ff" and char != "\u061c") or "\ufb1d" <= char <= "\ufefc"
        for char in text
    )


def _is_isolate(text: str, at: int) -> bool:
    """One balanced pair around a few words inside right-to-left text."""
    line_start = text.rfind("\n", 0, at) + 1
    line_end = text.find("\n", at)
    line = text[line_start : line_end if line_end >= 0 else len(text)]
    if not _has_rtl(text[max(line_start, at - _NEARBY_CHARS) : at + _NEARBY_CHARS]):
        return False
    depth = 0
    for char in line:
        if char in "\u2066\u2067\u2068":
            depth += 1
        elif char == "\u2069":
            depth -= 1
        if depth not in (0, 1):
            return False
    return depth == 0


def _takes_variation(before: str, code: int) -> bool:
    if code >= 0xFE0E:
        return before in tuple("#*0123456789©®™‼⁉ℹ〰〽㊗㊙") or _is_emoji(before)
    return _is_ideograph(before) or (before != "" and unicodedata.category(before) == "Sm")


def _is_ideograph(char: str) -> bool:
    return "\u3400" <= char <= "\u9fff" or "\uf900" <= char <= "\ufaff" or char >= "\U00020000"


def _is_flag(text: str, at: int) -> bool:
    """Tags spell a region after a black flag, and end with the cancel tag."""
    start = at
    while start > 0 and 0xE0020 <= ord(text[start - 1]) <= _CANCEL_TAG:
        start -= 1
        if at - start > _MAX_FLAG_TAGS:
            return False
    if start == 0 or text[start - 1] != "\U0001f3f4":
        return False
    end = start
    while end < len(text) and 0xE0020 <= ord(text[end]) < _CANCEL_TAG:
        end += 1
    closed = end < len(text) and ord(text[end]) == _CANCEL_TAG
    region = "".join(chr(ord(tag) - 0xE0000) for tag in text[start:end])
    return closed and re.fullmatch(r"[a-z]{2}[a-z0-9]{1,4}", region) is not None


# ── letters that look like others ────────────────────────────────────────────────────────────

_LOOKALIKES = {
    # The apostrophe that typesetters use
    "’": "'",
    # Cyrillic
    "а": "a", "с": "c", "е": "e", "о": "o", "р": "p", "х": "x", "у": "y", "і": "i", "ј": "j",
    "ѕ": "s", "һ": "h", "ԁ": "d", "ԛ": "q", "ԝ": "w", "ѵ": "v", "ѡ": "w", "ӏ": "l", "ո": "n",
    "к": "k", "т": "t", "м": "m", "в": "b", "н": "h", "г": "r", "п": "n", "ё": "e", "ѐ": "e",
    "ї": "i", "ӕ": "ae", "є": "e", "з": "3", "б": "6", "ь": "b",
    # Greek
    "α": "a", "β": "b", "ε": "e", "ι": "i", "κ": "k", "ν": "v", "ο": "o", "ρ": "p", "τ": "t",
    "υ": "u", "χ": "x", "γ": "y", "η": "n", "ω": "w", "ζ": "z", "ς": "s", "ϲ": "c", "ϳ": "j",
    # Armenian
    "օ": "o", "ս": "u", "հ": "h", "ց": "g", "զ": "q", "ա": "w", "ք": "p", "ռ": "n", "լ": "l",
    # Latin relatives
    "ı": "i", "ȷ": "j", "ɑ": "a", "ɡ": "g", "ɩ": "i", "ɪ": "i", "ʟ": "l", "ɴ": "n", "ʀ": "r",
    "ɢ": "g", "ʜ": "h", "ʙ": "b", "ʏ": "y", "ᴀ": "a", "ᴄ": "c", "ᴅ": "d", "ᴇ": "e", "ᴊ": "j",
    "ᴋ": "k", "ᴍ": "m", "ᴏ": "o", "ᴘ": "p", "ᴛ": "t", "ᴜ": "u", "ᴠ": "v", "ᴡ": "w", "ᴢ": "z",
    "ꜱ": "s", "ꜰ": "f", "ǫ": "q", "đ": "d", "ø": "o", "ł": "l", "ħ": "h", "ŧ": "t", "ƅ": "b",
}  # fmt: skip

_STROKED = {"ı": "i", "đ": "d", "ø": "o", "ł": "l", "ħ": "h", "ŧ": "t"}
"""Letters of Latin alphabets that no decomposition brings to their plain form."""

_IN_LATIN_WORDS = frozenset("асеорхуіјѕһԁԛԝѵѡӏкαειοκνρτυχγηωςϲϳօսհցզոռլ") | frozenset(
    "АВЕКМНОРСТУХІЈЅΑΒΕΖΗΙΚΜΝΟΡΤΥΧ"
)
"""Letters that pass for Latin ones in a Latin word. Not μ, λ, π, Δ, σ, β: they are units and
symbols, and look like no Latin letter."""

_NEVER_MIXED = re.compile(
    "[A-Za-z][\u13a0-\u13ff\uab70-\uabbf\ua4d0-\ua4ff\u2c80-\u2cff\u1400-\u167f\u16a0-\u16ff]|"
    "[\u13a0-\u13ff\uab70-\uabbf\ua4d0-\ua4ff\u2c80-\u2cff\u1400-\u167f\u16a0-\u16ff][A-Za-z]"
)
"""Cherokee, Lisu, Coptic, Canadian and runic letters beside a Latin one: no word is so spelt."""
_SUSPECT = re.compile(f"[{''.join(sorted(_IN_LATIN_WORDS))}]")
_WORD = re.compile(r"[^\W\d_]{3,}")
_DECLINED = re.compile(r"[A-Z]{2,}[а-яё]{1,3}")


def lookalike(text: str) -> tuple[int, str, str] | None:
    """The first word that mixes Latin letters with others that look the same."""
    rare = _NEVER_MIXED.search(text)
    if rare:
        return rare.start(), "look-alike letters", "letters of another script in a Latin word"
    if _SUSPECT.search(text) is None:
        return None
    for word in _WORD.finditer(text):
        letters = word[0]
        if letters.isascii():
            continue
        foreign = [char for char in letters if char in _IN_LATIN_WORDS]
        if not foreign:
            continue
        latin = sum(char.isascii() for char in letters)
        disguised = latin >= 2 and all(
            char.isascii() or char in _IN_LATIN_WORDS for char in letters
        )
        if disguised and not _DECLINED.fullmatch(letters):
            return word.start(), "look-alike letters", "letters of another script in a Latin word"
        if latin == 0 and len(foreign) == len(letters) >= 4 and _stands_alone(text, word):
            return word.start(), "look-alike letters", "a word in letters that imitate Latin ones"
    return None


def _stands_alone(text: str, word: re.Match[str]) -> bool:
    """No other word of the text is in the script of this one."""
    rest = text[: word.start()] + text[word.end() :]
    return not any("\u0370" <= char <= "\u058f" and char != "\u03bc" for char in rest)


class _Folds(dict[str, str]):
    """Characters to what they read as, worked out once per character."""

    def __init__(self, lookalikes: bool) -> None:
        super().__init__()
        self._lookalikes = lookalikes

    def __missing__(self, char: str) -> str:
        folded = self[char] = self._fold(char)
        return folded

    def _fold(self, char: str) -> str:
        code = ord(char)
        if 0xAC00 <= code <= 0xD7A3:
            return char
        if 0x1F1E6 <= code <= 0x1F1FF:
            return chr(code - 0x1F1E6 + ord("a"))
        if 0x1F130 <= code <= 0x1F189:
            return chr((code - 0x1F130) % 32 % 26 + ord("a"))
        if 0xE0020 <= code <= 0xE007E:
            return chr(code - 0xE0000).lower()
        plain = "".join(
            part
            for part in unicodedata.normalize("NFKD", char).casefold()
            if unicodedata.category(part) not in ("Mn", "Me", "Cf")
        )
        if not self._lookalikes:
            return "".join(_STROKED.get(part, part) for part in plain)
        return "".join(_LOOKALIKES.get(part, part) for part in plain)


_LATIN = _Folds(lookalikes=True)
_NATIVE = _Folds(lookalikes=False)


def folded(text: str, *, latin: bool = True) -> str:
    """The text as it reads: without compatibility forms, case, marks and (`latin`) look-alikes."""
    if text.isascii():
        return text.lower()
    return "".join(map((_LATIN if latin else _NATIVE).__getitem__, text))


def origin(text: str, at: int, *, latin: bool = True) -> int:
    """Where in the text the character at `at` of the folded text came from."""
    if text.isascii():
        return at
    folds = _LATIN if latin else _NATIVE
    for place, char in enumerate(text):
        at -= len(folds[char])
        if at < 0:
            return place
    return max(0, len(text) - 1)


def _describe(char: str) -> str:
    code = ord(char)
    if char == "\r":
        return "a carriage return inside a line"
    if 0xE000 <= code <= 0xF8FF or code >= 0xF0000:
        return f"U+{code:04X}, a private character"
    if code < 0x20 or 0x7F <= code <= 0x9F:
        return f"control character U+{code:04X}"
    return f"U+{code:04X} {unicodedata.name(char, 'without a name').lower()}"
