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
    position = text.find("Q~")
    while position >= 0:
        match = _AZURE_SECRET.match(text, max(0, position - 4))
        if match:
            yield Credential(match.start(), match.end(), "Azure client secret")
        position = text.find("Q~", position + 2)
    position = text.find("-us")
    while position >= 0:
        match = _MAILCHIMP.match(text, position - 32) if position >= 32 else None
        if match:
            yield Credential(match.start(), match.end(), "Mailchimp key")
        position = text.find("-us", position + 3)


def rarer_shapes(text: str, lowered: str, words: list[str]) -> Iterator[Credential]:
    """Shapes with a telling word, and tokens named the way providers name them."""
    for hint, pattern, kind in _HINTED:
        if hint not in lowered and hint not in text:
            continue
        for match in pattern.finditer(text):
            value = match["value"]
            if kind == "password hash" or _is_issued_value(kind, value):
                yield Credential(match.start("value"), match.end("value"), kind)
    position = 0
    for word in words:
        position = text.index(word, position)
        for shape, kind in _IN_COLONS if ":" in word else ():
            shaped = shape.search(text, position, position + len(word))
            if shaped and _is_issued_value(kind, shaped["value"]):
                yield Credential(shaped.start("value"), shaped.end("value"), kind)
        if len(word) < _MIN_NAMED_CHARS or not ("_" in word or "-" in word):
            position += len(word)
            continue
        for match in _NAMED_TOKEN.finditer(text, position, position + len(word)):
            if _is_issued(match["named"], match["value"]):
                yield Credential(match.start(), match.end(), "token")
        position += len(word)


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
_MAX_KEY_CHARS = 20_000  # an RSA key of 16,384 bits has about 13,000


def private_keys(text: str) -> Iterator[Credential]:
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
            body = _KEY_BODY.match(text, begin.end(), begin.end() + _MAX_KEY_CHARS)
            end = body.end() if body else begin.end()
        if _KEY_LINE.search(text, begin.end(), end):
            yield Credential(position, end, "private key")
        position = text.find("-----BEGIN ", max(end, position + 11))


def prefixed_tokens(text: str, words: list[str]) -> Iterator[Credential]:
    # Most words are too short to contain a token: search prefixes only in the rest.
    long_words = "\n".join(words)
    for token in [token for token in TOKENS if token.prefix in long_words]:
        prefix = token.prefix
        position = text.find(prefix)
        while position >= 0:
            end = position + len(prefix)
            if _starts_here(text, position, token):
                body = token.pattern.match(text, end)
                if body is not None:
                    end = body.end()
                    if _counts(token, body[0]):
                        yield Credential(_start(text, position, prefix), end, token.kind)
            position = text.find(prefix, end)


def _starts_here(text: str, position: int, token: Token) -> bool:
    if position == 0 or token.inside:
        return token.prefix != ":AA" or (
            position >= 6 and text[position - 6 : position].isdecimal()
        )
    before = text[position - 1]
    return before not in CONTINUES and not (token.compound and before in "-_")


def _start(text: str, position: int, prefix: str) -> int:
    if prefix not in (":AA", ".atlasv1."):
        return position
    while position > 0 and text[position - 1] in CONTINUES:
        position -= 1
    return position


def _counts(token: Token, body: str) -> bool:
    if is_placeholder(body):
        return False
    return not token.random or looks_random(body, min_chars=10) or is_scrambled(body)
