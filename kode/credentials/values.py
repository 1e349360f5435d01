"""Judges one value without its context: whether it looks issued, chosen, or like a placeholder.

`rules` and `assigned` find values in a text.
"""

import itertools
import math
import re
from collections import Counter

_PLACEHOLDER = re.compile(
    r"\$\{|\$\(|\{\{|\.\.\.|…|\*\*\*|••|xxxx|your|example|change-?me|redacted|masked|placeholder|"
    r"dummy|sample|replace|op://|vault:|secretsmanager|arn:aws|ssm:|env:|environ|process\.|getenv|"
    r"%\(|^%s|^\$[a-z_]|^\{[a-z_.]+\}|^\[|^<|^@|^none\b|^null\b|^true\b|^false\b"
)
_CALL = re.compile(r"[A-Za-z_][\w.]*[(\[]")
_TECHNICAL = re.compile(
    r"(?:sha|md|argon|bcrypt|scrypt|pbkdf|base|utf|oauth|rsa|aes|hmac|hs|rs|es|ed|v|p|id|type|"
    r"version|level|step|line|page|test|user|admin|field|input|form|key|token|password)"
    r"-?_?\d{1,4}[a-z]{0,3}",
    re.IGNORECASE,
)
_HASH = re.compile(r"(?:sha\d{1,3}|md5|blake\w{1,3})[:-]", re.IGNORECASE)
UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_SYSTEM_PATH = re.compile(
    r"~/|\.{1,2}/|/(?:home|usr|etc|var|tmp|opt|run|root|mnt|srv|app|dev|proc|Users|workspace)/"
)
_PARTS = re.compile(r"[-_./:@+=~#]+")
_WORD_PART = re.compile(r"[A-Za-z]?[a-z]*|[A-Z]+|\d{1,4}|[vV]\d{1,3}|[a-z]{2,}\d{1,2}")


def looks_random(value: str, *, min_chars: int = 16) -> bool:
    """Whether a value looks like an issued secret: mixed letters and digits that form no words."""
    if len(value) < min_chars or is_placeholder(value):
        return False
    if _consists_of_words(value):
        return False
    has_letter = any(map(str.isalpha, value))
    if has_letter and any(map(str.isdigit, value)):
        counts = Counter(value).values()
        entropy_bits = -sum(n / len(value) * math.log2(n / len(value)) for n in counts)
        return entropy_bits >= 2.8
    flips = sum(a.islower() and b.isupper() for a, b in itertools.pairwise(value))
    return has_letter and flips * 5 >= len(value)


def is_placeholder(value: str) -> bool:
    """Whether a value is a placeholder: `${TOKEN}`, `<your key>`, `xxxx`, `AKIA...EXAMPLE`."""
    lowered = value.lower()
    return bool(_PLACEHOLDER.search(lowered)) or set(lowered) <= set("x0-_.*")


def is_scrambled(body: str) -> bool:
    """Whether letters alone look random by their mixed case."""
    if len(body) < 28 or not body.isalnum():
        return False
    upper = sum(c.isupper() for c in body)
    changes = sum(a.islower() != b.islower() for a, b in itertools.pairwise(body))
    return len(body) < 5 * upper < 4 * len(body) and changes * 3 >= len(body)


def is_mixed(value: str) -> bool:
    """Whether it has upper and lower case letters and digits, as issued secrets have."""
    return all(any(map(has, value)) for has in (str.islower, str.isupper, str.isdigit))


def is_password(value: str, *, is_assigned: bool) -> bool:
    """Whether a value looks like a password, in an assignment (`is_assigned`) or a sentence."""
    if len(value) < (6 if is_assigned else 8) or not is_value(value) or UUID.fullmatch(value):
        return False
    if _TECHNICAL.fullmatch(value):
        return False
    if is_assigned and _is_scrambled_password(value.rstrip("!#?*")):
        return True
    lower, upper, digit = (any(map(has, value)) for has in (str.islower, str.isupper, str.isdigit))
    if digit and (lower or upper):
        is_one_word = is_assigned and not _PARTS.search(value)
        return is_one_word or not _consists_of_words(value)
    has_symbol = any(not c.isalnum() and c not in "-_./:" for c in value[:-1])
    return lower and upper and has_symbol


def _is_scrambled_password(value: str) -> bool:
    """Letters of mixed case, unlike words or identifiers."""
    if len(value) < 10 or not value.isalpha():
        return False
    ups = sum(a.islower() and b.isupper() for a, b in itertools.pairwise(value))
    downs = sum(a.isupper() and b.islower() for a, b in itertools.pairwise(value))
    short = sum(1 for part in re.findall(r"[A-Z]?[a-z]+", value) if len(part) < 4)
    return ups + downs >= len(value) // 3 and short * 2 > ups


def is_value(value: str) -> bool:
    """Whether it is not a reference, a call, a path, a hash or a URL."""
    return not (
        is_placeholder(value)
        or _CALL.match(value)
        or _SYSTEM_PATH.match(value)
        or _HASH.match(value)
        or "://" in value
    )


def _consists_of_words(value: str) -> bool:
    return all(map(_WORD_PART.fullmatch, _PARTS.split(value)))
