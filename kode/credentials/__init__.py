"""Finds and masks credentials in a text, by their looks or because they are the key in use.

`shapes` recognizes tokens by prefix (the table is `tokens`) or shape, and blocks of private keys;
`assigned` recognizes passwords in URLs, headers and assignments; `values` says what a value must
look like to count. Hashes, UUIDs, public keys, placeholders and references to a vault do not. Rules
start from `str.find` and match forward, so that the time is linear in any text.
"""

import base64
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from kode.credentials.assigned import assignments, headers, url_passwords
from kode.credentials.shapes import prefixed_tokens, private_keys, rarer_shapes, shaped_tokens
from kode.credentials.tokens import MIN_TOKEN_CHARS
from kode.credentials.values import Credential, is_placeholder, looks_random

__all__ = [
    "Credential",
    "find",
    "is_key",
    "is_placeholder",
    "keep_secret",
    "looks_random",
    "mask",
    "redact",
    "redact_values",
    "spellings",
]

Value = TypeVar("Value")

_KEYS: dict[str, None] = {}
"""The keys this process uses. Many have no telling shape: 32 hex digits could be a hash."""

_URL_SAFE = str.maketrans("+/", "-_")

_NO_KEYS = frozenset(("lm-studio", "not-needed", "no-key-required", "sk-no-key-required"))


def keep_secret(key: str) -> None:
    """Makes `find` and `redact` recognize this key everywhere, in this process."""
    if is_key(key):
        _KEYS.update(dict.fromkeys(spellings(key)))


def spellings(key: str) -> tuple[str, ...]:
    """How a key may appear in a text: unchanged, and in the base64 of a text that contains it, such
    as a header quoted by a server. Of the latter only the part that the key alone determines."""
    data = key.encode("utf-8", "surrogatepass")
    found = {key: None}
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + data).decode()
        middle = encoded[-(-8 * before // 6) : 8 * (before + len(data)) // 6]
        found |= dict.fromkeys((middle, middle.translate(_URL_SAFE)))
    return tuple(found)


def is_key(value: str) -> bool:
    """Whether a configured key is a secret. Local servers accept any text, and masking an ordinary
    word would damage texts."""
    return len(value) >= 8 and value not in _NO_KEYS and not is_placeholder(value)


def find(text: str) -> list[Credential]:
    """The credentials in a text, in order, without overlaps. Positions are in characters."""
    if len(text) < 8:
        return []
    # The only character whose lower case is longer would shift every position after it.
    lowered = text.replace("İ", "I").lower()
    words: list[str] = []
    if len(text) >= MIN_TOKEN_CHARS:
        words = [word for word in text.split() if len(word) >= MIN_TOKEN_CHARS]
    found = [
        *(_keys_in_use(text) if _KEYS else ()),
        *(private_keys(text) if "-----BEGIN " in text else ()),
        *(prefixed_tokens(text, words) if words else ()),
        *(shaped_tokens(text) if words else ()),
        *rarer_shapes(text, lowered, words),
        *(url_passwords(text) if "://" in text else ()),
        *headers(text, lowered),
        *assignments(text, lowered),
    ]
    return _without_overlaps(found) if found else found


def _keys_in_use(text: str) -> Iterator[Credential]:
    for key in _KEYS:
        position = text.find(key)
        while position >= 0:
            yield Credential(position, position + len(key), "key in use")
            position = text.find(key, position + len(key))


def mask(text: str, values: Iterable[str]) -> str:
    """The text with each of these values masked, whatever they look like."""
    for value in values:
        text = text.replace(value, "[redacted]")
    return text


def redact(text: str) -> str:
    """The text with every credential replaced by `[redacted KIND]`. Idempotent: repeats until a
    pass finds no more."""
    for _ in range(8):
        credentials = find(text) if len(text) >= 8 else []
        if not credentials:
            break
        pieces = []
        position = 0
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


def _without_overlaps(credentials: list[Credential]) -> list[Credential]:
    """In order; of two that overlap, the earlier start wins, then the longer one."""
    kept_credentials: list[Credential] = []
    for credential in sorted(credentials, key=lambda c: (c.start, -c.end)):
        if not kept_credentials or credential.start >= kept_credentials[-1].end:
            kept_credentials.append(credential)
        elif credential.end > kept_credentials[-1].end:
            first = kept_credentials[-1]
            kept_credentials[-1] = Credential(first.start, credential.end, first.kind)
    return kept_credentials
