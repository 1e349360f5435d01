"""Finds and masks credentials in a text, by their form or because they are keys in use.

`rules` recognizes them. Hashes, UUIDs, public keys, placeholders and references to a vault do not
count. Patterns match forward from a rare string, so that any text takes linear time."""

import base64
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from kode.credentials.rules import HINTED, TOKENS, CredentialRule, find_assigned, is_placeholder

MIN_CHARS = 8  # no credential is shorter
_LONG_WORD = re.compile(r"\S{15,}")  # no token with a prefix is shorter

_KEYS: dict[str, None] = {}
"""The keys this process uses. Many have no telling shape: 32 hex digits could be a hash."""

_URL_SAFE = str.maketrans("+/", "-_")
_NO_KEYS = frozenset(("lm-studio", "not-needed", "no-key-required", "sk-no-key-required"))

_KEY_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_BODY = re.compile(r"[A-Za-z0-9+/=\s\\]+")
_KEY_LINE = re.compile(r"[A-Za-z0-9+/=]{16}")
_MAX_KEY_CHARS = 20_000  # an RSA key of 16,384 bits has about 13,000


class Credential(NamedTuple):
    """One credential in a text: `text[start:end]` is its value, `kind` says what it is."""

    start: int
    end: int
    kind: str


def keep_secret(key: str) -> None:
    """Makes `find_credentials` and `redact` recognize this key everywhere, in this process."""
    if is_key(key):
        _KEYS.update(dict.fromkeys(spellings(key)))
        redact.cache_clear()


def spellings(key: str) -> tuple[str, ...]:
    """How a key may appear in a text: unchanged, and in the base64 of a text that contains it, such
    as a header quoted by a server. Of the base64, only the part that the key alone determines."""
    data = key.encode("utf-8", "surrogatepass")
    texts = {key: None}
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + data).decode()
        middle = encoded[-(-8 * before // 6) : 8 * (before + len(data)) // 6]
        texts |= dict.fromkeys((middle, middle.translate(_URL_SAFE)))
    return tuple(texts)


def is_key(value: str) -> bool:
    """Whether a configured key is a secret. Local servers accept any text as a key, and masking an
    ordinary word would garble texts."""
    return len(value) >= 8 and value not in _NO_KEYS and not is_placeholder(value)


def find_credentials(text: str) -> list[Credential]:
    """The credentials in a text, in order, without overlaps. Positions are in characters."""
    # `İ` is the only character whose lower case is longer: it would shift every later position.
    lowered, spans = text.replace("İ", "I").lower(), list[Credential]()
    for key in _KEYS:
        for match in re.finditer(re.escape(key), text) if key in text else ():
            spans.append(Credential(*match.span(), "key in use"))
    if "-----BEGIN " in text:
        spans += _find_private_keys(text)
    # Most words are too short to contain a token, so prefixes are searched only in the rest.
    long_words, rules = "\n".join(_LONG_WORD.findall(text)), dict[CredentialRule, None]()
    for hinted, words in ((TOKENS if long_words else (), long_words), (HINTED, lowered)):
        for hint, rule in hinted:
            if hint in words:
                rules[rule] = None
    for rule in rules:
        for match in filter(rule.judge, rule.pattern.finditer(text)):
            spans.append(Credential(*match.span(rule.group), rule.kind))
    spans += map(Credential._make, find_assigned(text, lowered))
    return _without_overlaps(spans) if spans else spans


def _without_overlaps(spans: Iterable[Credential]) -> list[Credential]:
    """Merges credentials that overlap, under the kind of the first or longer one."""
    credentials = list[Credential]()
    for credential in sorted(spans, key=lambda span: (span.start, -span.end)):
        if credentials and credential.start < credentials[-1].end:
            last = credentials.pop()
            credential = last._replace(end=max(last.end, credential.end))
        credentials.append(credential)
    return credentials


def _find_private_keys(text: str) -> Iterator[Credential]:
    position = searched = 0
    while begin := _KEY_BEGIN.search(text, position):
        position, limit = begin.end(), begin.end() + _MAX_KEY_CHARS
        end = text.find("-----END ", max(position, searched), limit)
        # Even if many beginnings have no end, each part of the text is searched only once.
        searched = limit - 8 if end < 0 else end
        if end < 0:
            body = _KEY_BODY.match(text, position, limit)
            end = body.end() if body else position
        else:
            close = text.find("-----", end + 9, end + 80)
            end = close + 5 if close >= 0 else end + 9
        if _KEY_LINE.search(text, position, end):
            yield Credential(begin.start(), end, "private key")
            position = end


def mask(text: str, values: Iterable[str]) -> str:
    """The text with each of these values masked, whatever they look like."""
    for value in values:
        text = text.replace(value, "[redacted]")
    return text


@lru_cache(maxsize=64)
def redact(text: str) -> str:
    """The text with every credential replaced by `[redacted KIND]`. Idempotent: repeats until a
    pass finds no more. Recent results are cached: each text is shown, sent and stored."""
    for _ in range(8):
        if len(text) < MIN_CHARS or not (credentials := find_credentials(text)):
            break
        pieces, position = [], 0
        for credential in credentials:
            pieces += [text[position : credential.start], f"[redacted {credential.kind}]"]
            position = credential.end
        text = "".join([*pieces, text[position:]])
    return text


def redact_secrets(value: Any) -> Any:
    """A JSON value in which every text is redacted."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list):
        return [*map(redact_secrets, value)]
    if isinstance(value, dict):
        return dict(zip(value, map(redact_secrets, value.values()), strict=True))
    return value
