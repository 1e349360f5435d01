"""Finds and masks credentials in a text, by their looks or because they are the key in use.

`rules` recognizes tokens and others that a pattern can tell; `assigned` what a text calls secret;
`values` says what a value must look like to count. Hashes, UUIDs, public keys, placeholders and
references to a vault do not. Patterns match forward from a rare text, so that the time is linear in
any text.
"""

import base64
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from kode.credentials.assigned import assignments
from kode.credentials.rules import HINTED, TOKENS
from kode.credentials.values import is_placeholder as is_placeholder
from kode.credentials.values import looks_random as looks_random

Value = TypeVar("Value")

MIN_CHARS = 8
"""No credential is shorter."""
_LONG_WORD = re.compile(r"\S{15,}")  # no token with a prefix is shorter

_KEYS: dict[str, None] = {}
"""The keys this process uses. Many have no telling shape: 32 hex digits could be a hash."""

_URL_SAFE = str.maketrans("+/", "-_")

_NO_KEYS = frozenset(("lm-studio", "not-needed", "no-key-required", "sk-no-key-required"))

_KEY_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_BODY = re.compile(r"[A-Za-z0-9+/=\s\\]+")
_KEY_LINE = re.compile(r"[A-Za-z0-9+/=]{16}")
_MAX_KEY_CHARS = 20_000  # an RSA key of 16,384 bits has about 13,000


@dataclass(frozen=True, slots=True)
class Credential:
    """One credential in a text: `text[start:end]` is the value, `kind` says whose it is."""

    start: int
    end: int
    kind: str


def keep_secret(key: str) -> None:
    """Makes `find` and `redact` recognize this key everywhere, in this process."""
    if is_key(key):
        _KEYS.update(dict.fromkeys(spellings(key)))


def spellings(key: str) -> tuple[str, ...]:
    """How a key may appear in a text: unchanged, and in the base64 of a text that contains it, such
    as a header quoted by a server. Of the latter only the part that the key alone determines."""
    data = key.encode("utf-8", "surrogatepass")
    texts = {key: None}
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + data).decode()
        middle = encoded[-(-8 * before // 6) : 8 * (before + len(data)) // 6]
        texts |= dict.fromkeys((middle, middle.translate(_URL_SAFE)))
    return tuple(texts)


def is_key(value: str) -> bool:
    """Whether a configured key is a secret. Local servers accept any text, and masking an ordinary
    word would damage texts."""
    return len(value) >= 8 and value not in _NO_KEYS and not is_placeholder(value)


def find(text: str) -> list[Credential]:
    """The credentials in a text, in order, without overlaps. Positions are in characters."""
    credentials: list[Credential] = []
    if len(text) < MIN_CHARS:
        return credentials
    # Of two that overlap, the earlier start wins, then the longer one.
    for start, end, kind in sorted(_spans(text), key=lambda span: (span[0], -span[1])):
        last = credentials[-1] if credentials else None
        if last is None or start >= last.end:
            credentials.append(Credential(start, end, kind))
        elif end > last.end:
            credentials[-1] = Credential(last.start, end, last.kind)
    return credentials


def _spans(text: str) -> list[tuple[int, int, str]]:
    """Start, end and kind of all that may be credentials."""
    spans: list[tuple[int, int, str]] = []
    # The only character whose lower case is longer would shift every position after it.
    lowered = text.replace("İ", "I").lower()
    for key in _KEYS:
        position = text.find(key)
        while position >= 0:
            spans.append((position, position + len(key), "key in use"))
            position = text.find(key, position + len(key))
    if "-----BEGIN " in text:
        spans += _private_keys(text)
    # Most words are too short to contain a token: search prefixes only in the rest.
    long_words = "\n".join(_LONG_WORD.findall(text))
    rules = [rule for rule in TOKENS if rule.hints[0] in long_words] if long_words else []
    rules += {rule: None for hint, rule in HINTED if hint in lowered}
    for rule in rules:
        for match in rule.pattern.finditer(text):
            if rule.judge(match):
                spans.append((*match.span(rule.group), rule.kind))
    spans += assignments(text, lowered)
    return spans


def _private_keys(text: str) -> Iterator[tuple[int, int, str]]:
    position = text.find("-----BEGIN ")
    searched = 0
    while position >= 0:
        begin = _KEY_BEGIN.match(text, position)
        if begin is None:
            position = text.find("-----BEGIN ", position + 11)
            continue
        limit = begin.end() + _MAX_KEY_CHARS
        end = text.find("-----END ", max(begin.end(), searched), limit)
        searched = limit - 9 if end < 0 else end
        if end >= 0:
            close = text.find("-----", end + 9, end + 80)
            end = close + 5 if close >= 0 else end + 9
        else:
            body = _KEY_BODY.match(text, begin.end(), limit)
            end = body.end() if body else begin.end()
        if _KEY_LINE.search(text, begin.end(), end):
            yield position, end, "private key"
        position = text.find("-----BEGIN ", max(end, position + 11))


def mask(text: str, values: Iterable[str]) -> str:
    """The text with each of these values masked, whatever they look like."""
    for value in values:
        text = text.replace(value, "[redacted]")
    return text


def redact(text: str) -> str:
    """The text with every credential replaced by `[redacted KIND]`. Idempotent: repeats until a
    pass finds no more."""
    for _ in range(8):
        credentials = find(text)
        if not credentials:
            break
        pieces, position = [], 0
        for credential in credentials:
            pieces += [text[position : credential.start], f"[redacted {credential.kind}]"]
            position = credential.end
        text = "".join([*pieces, text[position:]])
    return text


def redact_values(value: Value) -> Value:
    """A JSON value in which every text is redacted."""
    redacted: Any = value
    if isinstance(value, str):
        redacted = redact(value)
    elif isinstance(value, list):
        redacted = [redact_values(item) for item in value]
    elif isinstance(value, dict):
        redacted = {key: redact_values(item) for key, item in value.items()}
    return redacted  # type: ignore[no-any-return]
