"""What may never be remembered: hidden characters, orders to a model, credentials.

One pure function of the text. Disguises are undone first (compatibility forms, look-alike letters,
marks, letters set apart, digits for letters, base64, escapes, rot13, reversal), then the text is
put to `characters`, `credentials` and `injection`. A finding names the category and the place and
never repeats what it found: the message goes to a model, a screen and a log.

Called on every write into memory, and again on what is shown, since files are edited by hand.
"""

import base64
import binascii
import codecs
import html
import re
import urllib.parse
from dataclasses import dataclass

from kode import credentials
from kode.errors import MemoryError_
from kode.memory.scan import characters, injection, languages
from kode.memory.scan.sentences import sentences

MAX_FACT_CHARS = 4_096
"""Longer facts are not compared with others."""
MAX_TEXT_CHARS = 65_536
"""Of one write: more is no note but a document, which belongs into a file of its own."""
ABOUT_CHARACTERS = frozenset(
    {
        "credential",
        "control characters",
        "hidden characters",
        "bidirectional characters",
        "look-alike letters",
    }
)
"""What is refused whoever wrote it; every other finding is about the wording."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Why a text may not be remembered."""

    category: str
    """`credential`, `control characters`, `hidden characters`, `bidirectional characters`,
    `look-alike letters`, `override`, `concealment`, `bypassing approval`, `exfiltration`,
    `dangerous command` or `chat markup`."""
    start: int
    """Where it begins in the text, in characters."""
    place: str
    """The same for a reader: `line 2, column 14`."""
    message: str
    """One sentence with the category, the place and what to do; never the text itself."""


def scan(text: str) -> Finding | None:
    """The first reason to refuse a text, or None. Never raises."""
    if not text:
        return None
    hidden = characters.hidden(text)
    if hidden:
        at, category, what = hidden
        return _finding(text, at, category, f"it has {what}")
    secret = _credential(text)
    if secret:
        at, kind = secret
        return _finding(text, at, "credential", f"it holds what looks like a credential ({kind})")
    order = _order(text)
    if order:
        at, category = order
        return _finding(text, at, category, _WHAT[category])
    return None


def check(text: str, *, max_chars: int = MAX_TEXT_CHARS, author: str = "model") -> str:
    """Raises MemoryError_ with the reason when a text may not be remembered.

    The length is looked at before anything else. What the person typed (`author` of "user") is
    never refused for its wording: then what was noticed is returned, "" for nothing.
    """
    if len(text) > max_chars:
        raise MemoryError_(
            f"Not remembered: it has {len(text):,} characters and may have {max_chars:,}. "
            "Shorten it, or keep it in a file and remember where that is."
        )
    finding = scan(text)
    if finding is None:
        return ""
    if author == "user" and finding.category not in ABOUT_CHARACTERS:
        return f"stored as you wrote it, though it looks like {finding.category} ({finding.place})"
    raise MemoryError_(finding.message)


_WHAT = {
    "override": "it tells the reader to set its instructions aside",
    "concealment": "it tells the reader to hide something from the user",
    "bypassing approval": "it tells the reader to act without the user's approval",
    "exfiltration": "it tells the reader to give private data away",
    "dangerous command": "it has a command that runs foreign code, leaks data or destroys it",
    "chat markup": "it imitates the markup between a program and its model",
}


def _finding(text: str, at: int, category: str, what: str) -> Finding:
    line = text.count("\n", 0, at) + 1
    column = at - text.rfind("\n", 0, at)
    place = f"line {line}, column {column}"
    return Finding(
        category=category,
        start=at,
        place=place,
        message=f"Not remembered ({category}): at {place} {what}. "
        "Leave that part out and try again.",
    )


# ── credentials ──────────────────────────────────────────────────────────────────────────────

_SPACED = re.compile(r"(?<![A-Za-z0-9_])(?:[A-Za-z0-9_-][ \t\n.|,]{1,2}){10,}[A-Za-z0-9_-]?")
_MANY_SINGLES = 6
_WORD_BEFORE = re.compile(r"\S{1,16}\s{1,2}$")
_GAPS = re.compile(r"[ \t\n.|,]+")
_PARTS = re.compile(
    r"\b(?:(?:part|half|piece|chunk|segment)s? (?:one|two|1|2|a|b|of)|"
    r"(?:first|second|1st|2nd|other) (?:part|half|piece|chunk|segment|bit)|"
    r"concat\w*|joined? (?:to|with|by)|followed by|then|plus|"
    r"(?:starts?|begins?|ends?) (?:with|in))\b",
    re.IGNORECASE,
)
_PART_REACH = 120
"""How far apart the parts of a split key may stand, in characters."""
_PREFIXES = re.compile(
    r"(?<![A-Za-z0-9])(?:sk-(?:ant-|proj-)?|gh[pousr]_|github_pat_|glpat-|AKIA|ASIA|AIza|xox[abprs]-|"
    r"[sr]k_(?:live|test)_|npm_|pypi-|hf_|SG\.|gsk_|eyJ)[A-Za-z0-9_-]{3,}"
)
_PREFIX_HINTS = ("sk-", "gh", "glpat-", "AKIA", "ASIA", "AIza", "xox", "k_", "npm_", "pypi-", "hf_",
                 "SG.", "gsk_", "eyJ")  # fmt: skip
_RUN = re.compile(r"[A-Za-z0-9+/_-]{16,}={0,2}")


def _credential(text: str) -> tuple[int, str] | None:
    found = credentials.find(text)
    if found:
        return found[0].start, found[0].kind
    if not text.isascii():
        # Full-width and mathematical letters; case matters, so no folding here.
        import unicodedata

        plain = unicodedata.normalize("NFKC", text)
        found = credentials.find(plain) if plain != text else []
        if found:
            return min(found[0].start, len(text) - 1), found[0].kind
    for spaced in _SPACED.finditer(text) if _is_set_apart(text) else ():
        before = _WORD_BEFORE.search(text, max(0, spaced.start() - 20), spaced.start())
        joined = _GAPS.sub("", spaced[0])
        found = credentials.find(joined)
        if not found and before:
            found = credentials.find(before[0].strip() + joined)
        if found:
            return spaced.start(), found[0].kind
    if any(hint in text for hint in _PREFIX_HINTS):
        prefix = _PREFIXES.search(text)
        if prefix and _has_rest_near(text, prefix):
            return prefix.start(), "in parts"
    if "revers" in text or "backward" in text:
        found = credentials.find(text[::-1])
        if found:
            return 0, f"{found[0].kind}, reversed"
    for word in _long_words(text):
        for run in _RUN.finditer(word):
            decoded = _decoded(run[0])
            found = credentials.find(decoded) if decoded else []
            if found:
                return text.find(word) + run.start(), f"{found[0].kind}, encoded"
    return None


def _is_set_apart(text: str) -> bool:
    """Whether letters stand alone more often than in any prose."""
    return list(map(len, text.split())).count(1) > _MANY_SINGLES


def _long_words(text: str) -> list[str]:
    """The words that may be an encoded text."""
    return [word for word in text.split() if len(word) >= 16]


def _has_rest_near(text: str, prefix: re.Match[str]) -> bool:
    """A split key: its beginning, and near it a word of parts, and one that looks like the rest."""
    before = text[max(0, prefix.start() - _PART_REACH) : prefix.start()]
    near = f"{before} {text[prefix.end() : prefix.end() + _PART_REACH]}"
    if not _PARTS.search(near):
        return False
    others = re.findall(r"[A-Za-z0-9_-]{8,}", near)
    return any(credentials.looks_random(other, min_chars=8) for other in others)


def _decoded(run: str) -> str:
    """What a run of base64 says, where that is plain text; else ""."""
    if len(run) > 6000 or run.islower() or run.isupper():
        return ""
    body = run.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        data = base64.b64decode(body + "=" * (-len(body) % 4), validate=True)
        decoded = data.decode("ascii")
    except (binascii.Error, ValueError):
        return ""
    return decoded if len(decoded) >= 8 and decoded.replace("\n", " ").isprintable() else ""


# ── orders ───────────────────────────────────────────────────────────────────────────────────

_LEET_LETTERS = str.maketrans("013457@$!|", "oleastasil")
_LEET_SIGNS = "013457@$!|"
_LEET = re.compile(r"[a-z][013457@$!|]{1,2}[a-z]")
_APART = re.compile(r"(?:(?<![a-z0-9])[a-z0-9][\s._*|/~-]{1,3}){7,}[a-z0-9](?![a-z0-9])")
_LETTERS = re.compile(r"[^a-z]+")
_BREAK = re.compile(r"(?<=[a-z])[._*|~-](?=[a-z])")
_TELLING = (
    "ignor", "disregard", "forget", "overrid", "bypass", "tell", "previous", "prior", "instruction",
    "rule", "prompt", "user",
)  # fmt: skip
_MANY_BREAKS = 3
"""Signs inside words (`ig-no-re pre.vious`) before they are taken for a disguise."""
_ESCAPED = re.compile(r"\\u00[0-9a-f]{2}|\\x[2-7][0-9a-f]|%[2-7][0-9a-f]|&#x?[0-9a-f]{2,4};")
_HEX = re.compile(r"(?:[2-7][0-9a-f]){12,}")
_ESCAPE_CODES = re.compile(r"\\u00([0-9a-f]{2})|\\x([0-9a-f]{2})")
_FAMOUS_INSTALLERS = re.compile(
    r"https://(?:astral\.sh/|sh\.rustup\.rs|get\.docker\.com|deno\.land/|bun\.sh/|get\.pnpm\.io|"
    r"install\.python-poetry\.org|raw\.githubusercontent\.com/(?:homebrew|nvm-sh|pyenv)/|"
    r"get\.helm\.sh|starship\.rs|mise\.run|nixos\.org/|fnm\.vercel\.app|get\.volta\.sh|"
    r"claude\.ai/install|get\.sdkman\.io)"
)


def _reversed(text: str) -> str:
    return text[::-1]


def _rot13(text: str) -> str:
    return codecs.encode(text, "rot13")


_MIRRORS = tuple(
    (
        tuple(
            undo(word) for word in ("ignor", "disregard", "forget", "override", "bypass", "tell ")
        ),
        undo,
    )
    for undo in (_reversed, _rot13)
)
"""Ways to write a text that undo themselves, each with the verbs of orders so written."""


def _order(text: str) -> tuple[int, str] | None:
    plain = characters.folded(text)
    parts = sentences(plain)
    found = injection.find(plain, parts)
    if found and found[2] == "dangerous command" and _is_famous(plain, found[0], found[1]):
        found = None
    if found:
        return characters.origin(text, found[0]), found[2]
    native = characters.folded(text, latin=False)
    found = languages.find(native, parts if native == plain else sentences(native))
    if found and not injection.excused(native, *found):
        return characters.origin(text, found[0], latin=False), found[2]
    disguised = _disguised(plain, text)
    return (0, disguised) if disguised else None


def _is_famous(text: str, start: int, end: int) -> bool:
    """An installer everybody knows, piped to a shell as its own page says."""
    return _FAMOUS_INSTALLERS.search(text, start, end) is not None


def _disguised(plain: str, text: str) -> str:
    """The category of an order that shows only when a disguise is undone, or ""."""
    leet = any(sign in plain for sign in _LEET_SIGNS) and len(_LEET.findall(plain)) > 1
    letters = plain.translate(_LEET_LETTERS) if leet else ""
    ones_as_i = plain.replace("1", "i").translate(_LEET_LETTERS) if letters else ""
    joined, breaks = _BREAK.subn("", plain)
    joined = joined if breaks >= _MANY_BREAKS else ""
    for variant in (letters, ones_as_i, joined):
        found = injection.find_core(variant) if _says_more(variant, plain) else None
        if found:
            return found[2]
    long_words = _long_words(text)
    if any(injection.SQUEEZED.search(word.lower()) for word in long_words):
        return "override"
    if _is_set_apart(plain):
        runs = (run[0].translate(_LEET_LETTERS) for run in _APART.finditer(plain))
        if injection.SQUEEZED.search("".join(_LETTERS.sub("", run) for run in runs)):
            return "override"
    for hints, undo in _MIRRORS:
        if any(hint in plain for hint in hints):
            found = injection.find_core(undo(plain))
            if found:
                return found[2]
    for hidden in filter(None, dict.fromkeys(_encoded(plain, long_words))):
        lowered = hidden.lower()
        found = injection.find(lowered, sentences(lowered))
        if found:
            return found[2]
    return ""


def _says_more(variant: str, plain: str) -> bool:
    """Whether a word that orders need shows only in the variant."""
    return any(word in variant and variant.count(word) > plain.count(word) for word in _TELLING)


def _encoded(plain: str, long_words: list[str]) -> list[str]:
    hidden = []
    if ("\\" in plain or "%" in plain or "&#" in plain) and _ESCAPED.search(plain):
        unescaped = _ESCAPE_CODES.sub(lambda code: chr(int(code[1] or code[2], 16)), plain)
        hidden.append(html.unescape(urllib.parse.unquote(unescaped, errors="replace")))
    for word in long_words:
        hidden += [_decoded(run[0]) for run in _RUN.finditer(word)]
        runs = _HEX.finditer(word.lower()) if len(word) >= 24 else ()
        hidden += [bytes.fromhex(run[0]).decode("ascii", "replace") for run in runs]
    return hidden
