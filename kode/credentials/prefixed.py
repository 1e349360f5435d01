"""What begins in a way of its own: tokens of the table (`tokens`), and blocks of private keys."""

import re
from collections.abc import Iterator

from kode.credentials.tokens import COMPOUND, CONTINUES, SUBNAMES, TOKENS, Token
from kode.credentials.values import (
    Credential,
    is_placeholder,
    is_scrambled,
    looks_random,
)

_KEY_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_BODY = re.compile(r"[A-Za-z0-9+/=\s\\]+")
_KEY_LINE = re.compile(r"[A-Za-z0-9+/=]{16}")
_MAX_KEY_CHARS = 20_000


def private_keys(text: str) -> Iterator[Credential]:
    at = text.find("-----BEGIN ")
    searched = 0
    while at >= 0:
        begin = _KEY_BEGIN.match(text, at)
        if begin is None:
            at = text.find("-----BEGIN ", at + 11)
            continue
        limit = begin.end() + _MAX_KEY_CHARS
        end = text.find("-----END ", max(begin.end(), searched), limit)
        searched = limit - 9 if end < 0 else end
        if end >= 0:
            close = text.find("-----", end + 9, end + 80)
            end = close + 5 if close >= 0 else end + 9
        else:
            body = _KEY_BODY.match(text, begin.end(), begin.end() + _MAX_KEY_CHARS)
            end = body.end() if body else begin.end()
        if _KEY_LINE.search(text, begin.end(), end):
            yield Credential(at, end, "private key")
        at = text.find("-----BEGIN ", max(end, at + 11))


def prefixed_tokens(text: str, words: list[str]) -> Iterator[Credential]:
    # Nearly all of a text is words too short to hold a token: look for prefixes in the rest first.
    long_words = "\n".join(words)
    for token in [token for token in TOKENS if token.prefix in long_words]:
        prefix = token.prefix
        at = text.find(prefix)
        while at >= 0:
            end = at + len(prefix)
            if _starts_here(text, at, prefix):
                body = token.body.match(text, end)
                if body is not None:
                    end = body.end()
                    if _counts(token, body[0]):
                        yield Credential(_start(text, at, prefix), end, token.kind)
            at = text.find(prefix, end)


def _starts_here(text: str, at: int, prefix: str) -> bool:
    if at == 0 or prefix in SUBNAMES:
        return prefix != ":AA" or (at >= 6 and text[at - 6 : at].isdecimal())
    before = text[at - 1]
    return before not in CONTINUES and not (prefix in COMPOUND and before in "-_")


def _start(text: str, at: int, prefix: str) -> int:
    if prefix not in (":AA", ".atlasv1."):
        return at
    while at > 0 and text[at - 1] in CONTINUES:
        at -= 1
    return at


def _counts(token: Token, body: str) -> bool:
    if is_placeholder(body):
        return False
    return not token.random or looks_random(body, min_chars=10) or is_scrambled(body)
