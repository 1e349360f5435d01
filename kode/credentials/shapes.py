"""Finds credentials by prefix (the table is `tokens`), by shape, or by a telling word nearby; and
blocks of private keys."""

import re
from collections.abc import Iterator

from kode.credentials.tokens import CONTINUES, TOKENS, Token
from kode.credentials.values import (
    Credential,
    is_password,
    is_placeholder,
    is_scrambled,
    looks_random,
)

_DISCORD = re.compile(r"[MNO][A-Za-z0-9_-]{17,30}\.[A-Za-z0-9_-]{6,7}\.[A-Za-z0-9_-]{25,50}")
_DOT_PART = re.compile(r"\.[A-Za-z0-9_-]{6,7}\.")
_AZURE_SECRET = re.compile(r"[A-Za-z0-9_~.-]{3}\dQ~[A-Za-z0-9_~.-]{30,36}")
_MAILCHIMP = re.compile(r"[0-9a-f]{32}-us[0-9]{1,2}(?![A-Za-z0-9])")

_HINTED: tuple[tuple[str, re.Pattern[str], str], ...] = (
    (
        "sshpass",
        re.compile(r"""sshpass\s+-p\s*["']?(?P<value>[^\s"']{4,128})"""),
        "SSH password",
    ),
    (
        "pw",
        re.compile(
            r"""\b[Pp][Ww]\b(?: (?:for|of|on|to)(?: [\w.-]{1,40}){1,3}?)?(?: is|[ \t]{0,2}[:=])"""
            r"""[ \t"']{0,3}(?P<value>[^\s"',;]{6,128})"""
        ),
        "password",
    ),
    (
        "login",
        re.compile(r"[Ll]ogin\b[:=]?[ \t]{1,2}\S{1,64}[ \t]{0,2}/[ \t]{0,2}(?P<value>\S{8,128})"),
        "password",
    ),
    (
        "define(",
        re.compile(
            r"""define\(\s*["']\w*(?:PASS|SECRET|KEY|TOKEN|SALT)\w*["']\s*,\s*["'](?P<value>[^"']{8,256})["']"""
        ),
        "password",
    ),
    (
        "secret_key_base",
        re.compile(r"secret_key_base\W{1,5}(?P<value>[0-9a-f]{64,})"),
        "secret",
    ),
    ("AC", re.compile(r"AC(?<![A-Za-z0-9_]AC)[0-9a-f]{32}:(?P<value>[0-9a-f]{32})\b"), "token"),
    (
        "cookie",
        re.compile(
            r"[Cc]ookie:\s*(?:[^;\n]{0,200};\s*)?[\w.-]{0,40}(?:[Ss]ess|[Ss]id|[Aa]uth|[Tt]oken|jwt)"
            r"[\w.-]{0,40}=(?P<value>[A-Za-z0-9%._~+/-]{20,})"
        ),
        "cookie",
    ),
    (
        ":$",
        re.compile(r"[\w.-]{1,64}:(?P<value>\$(?:apr1|1|2[abxy]|5|6|y|7)\$[./A-Za-z0-9$=,-]{20,})"),
        "password hash",
    ),
    (
        "putty-user-key",
        re.compile(
            r"PuTTY-User-Key-File[^\x00]{1,2000}?Private-Lines:\s*\d+\s+(?P<value>[A-Za-z0-9+/=]{16,})"
        ),
        "private key",
    ),
    (
        " phrase",
        re.compile(
            r"(?:[Ss]eed|[Rr]ecovery|[Mm]nemonic|[Bb]ackup|[Ww]allet) phrase\b"
            r"[^A-Za-z]{0,20}(?:is[^A-Za-z]{1,5})?"
            r"(?P<value>(?:[a-z]{3,8}[ ,]{1,2}){11,23}[a-z]{3,8})"
        ),
        "seed phrase",
    ),
    (
        "mnemonic",
        re.compile(
            r"[Mm]nemonic\b[^A-Za-z]{0,20}(?:is[^A-Za-z]{1,5})?"
            r"(?P<value>(?:[a-z]{3,8}[ ,]{1,2}){11,23}[a-z]{3,8})"
        ),
        "seed phrase",
    ),
)
"""A lower-case word to look for, then a pattern for the value."""

_IN_COLONS = (
    (
        re.compile(
            r"(?<![\w.-])[\w.*-]{3,64}:\d{2,5}:[\w*-]{1,40}:[\w*-]{1,40}:"
            r"(?P<value>(?=\S*\d)(?=\S*[A-Za-z])[^\s:\"'<>]{8,64})"
        ),
        "password",
    ),
    (re.compile(r"(?<![\w/])\d/\d{10,20}:(?P<value>[0-9a-f]{32})(?![0-9A-Za-z])"), "token"),
)
"""Matches within one long word with colons: a line of `.pgpass`, a token after its number."""

_MIN_NAMED_CHARS = 21
"""`acme_key_` and sixteen characters are not shorter."""

_NAMED_TOKEN = re.compile(
    r"(?<![A-Za-z0-9_/.-])(?!sha\d|md5|blake|crc)[a-z][a-z0-9]{1,14}[_-](?:(?P<named>(?:live|prod|secret|pat|api|key|token|"
    r"tok|tkn|sk|private|admin|access)[_-](?:[a-z0-9]{1,4}[_-])?)(?=[A-Za-z0-9_-]{16})|(?=[A-Za-z0-9]{32}))"
    r"(?P<value>[A-Za-z0-9]{16,}(?:[_-][A-Za-z0-9]+)*)"
)
"""`shippo_live_...`, `acme_key_...`; or a short name and a long random part."""


def shaped_tokens(text: str) -> Iterator[Credential]:
    """Tokens recognized by shape alone, each after a cheap search for its rarest part."""
    for dot in _DOT_PART.finditer(text):
        start = dot.start()
        while (
            start > 0
            and dot.start() - start < 31
            and (text[start - 1] in CONTINUES or text[start - 1] in "-_")
        ):
            start -= 1
        match = _DISCORD.match(text, start)
        if match and looks_random(match[0]):
            yield Credential(start, match.end(), "Discord token")
    at = text.find("Q~")
    while at >= 0:
        match = _AZURE_SECRET.match(text, max(0, at - 4))
        if match:
            yield Credential(match.start(), match.end(), "Azure client secret")
        at = text.find("Q~", at + 2)
    at = text.find("-us")
    while at >= 0:
        match = _MAILCHIMP.match(text, at - 32) if at >= 32 else None
        if match:
            yield Credential(match.start(), match.end(), "Mailchimp key")
        at = text.find("-us", at + 3)


def rarer_shapes(text: str, lowered: str, words: list[str]) -> Iterator[Credential]:
    """Shapes with a telling word, and tokens named the way providers name them."""
    for hint, pattern, kind in _HINTED:
        if hint not in lowered and hint not in text:
            continue
        for match in pattern.finditer(text):
            value = match["value"]
            if kind == "password hash" or _is_issued_value(kind, value):
                yield Credential(match.start("value"), match.end("value"), kind)
    at = 0
    for word in words:
        at = text.index(word, at)
        for shape, kind in _IN_COLONS if ":" in word else ():
            found = shape.search(text, at, at + len(word))
            if found and _is_issued_value(kind, found["value"]):
                yield Credential(found.start("value"), found.end("value"), kind)
        if len(word) < _MIN_NAMED_CHARS or not ("_" in word or "-" in word):
            at += len(word)
            continue
        for match in _NAMED_TOKEN.finditer(text, at, at + len(word)):
            if _is_issued(match["named"], match["value"]):
                yield Credential(match.start(), match.end(), "token")
        at += len(word)


def _is_issued_value(kind: str, value: str) -> bool:
    if is_placeholder(value) or value.startswith(("$", "%", "{", "<")):
        return False
    return kind != "password" or is_password(value, is_assigned=True)


def _is_issued(named: str | None, value: str) -> bool:
    if is_placeholder(value) or not (looks_random(value) or is_scrambled(value)):
        return False
    mixed = any(c.islower() for c in value) and any(c.isupper() for c in value)
    return bool(named) or (mixed and any(c.isdigit() for c in value))


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
    # Most words are too short to contain a token: search prefixes only in the rest.
    long_words = "\n".join(words)
    for token in [token for token in TOKENS if token.prefix in long_words]:
        prefix = token.prefix
        at = text.find(prefix)
        while at >= 0:
            end = at + len(prefix)
            if _starts_here(text, at, token):
                body = token.pattern.match(text, end)
                if body is not None:
                    end = body.end()
                    if _counts(token, body[0]):
                        yield Credential(_start(text, at, prefix), end, token.kind)
            at = text.find(prefix, end)


def _starts_here(text: str, at: int, token: Token) -> bool:
    if at == 0 or token.inside:
        return token.prefix != ":AA" or (at >= 6 and text[at - 6 : at].isdecimal())
    before = text[at - 1]
    return before not in CONTINUES and not (token.compound and before in "-_")


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
