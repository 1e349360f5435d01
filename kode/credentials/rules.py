"""The forms of credentials that patterns recognize: tokens of providers by their prefix
(`tokens.json`), others by shape or by a telling word nearby (`forms.toml`), and values that a text
calls secret by assigning them to a name: `password = ...`, `the api key is ...`.

A token has a `kind`, `prefixes`, and a `body`, the pattern of what follows a prefix. `random`: the
prefix is common, so the body must look random to count. A prefix counts unless a letter or digit
precedes it. With `compound` the body has several parts, and `-` or `_` may not precede it either: a
run of such characters is tried once, not once for each time it has the prefix."""

import base64
import binascii
import itertools
import json
import math
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path

from kode.values import dataclass

Judge = Callable[[re.Match[str]], bool]
_TABLES = Path(__file__).parent


def _is_real(match: re.Match[str]) -> bool:
    value = match["value"]
    return not is_placeholder(value) and not value.startswith(("$", "%", "{", "<"))


def _is_user_and_password(match: re.Match[str]) -> bool:
    value = match["value"]
    try:
        decoded = base64.b64decode(value + "=" * (-len(value) % 4), validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        return False
    return decoded.isprintable() and ":" in decoded and not is_placeholder(decoded)


_DEFAULT_PASSWORDS = frozenset(
    "password pass passwd pw pwd secret postgres mysql root guest user username admin test example "
    "token key redis mongo dev local changeme".split()
)


def _is_password_of_url(match: re.Match[str]) -> bool:
    user, password = match["user"], match["value"]
    is_common = password == user or password.lower() in _DEFAULT_PASSWORDS
    is_reference = is_placeholder(password) or password.startswith(("$", "%", "{", "<", ":"))
    return not (is_common or is_reference)


def _is_random_body(body: str, min_chars: int = 16) -> bool:
    is_random = looks_random(body, min_chars=min_chars) or _is_scrambled(body)
    return is_random and not is_placeholder(body)


def _is_named_token(match: re.Match[str]) -> bool:
    return _is_random_body(match["body"]) and bool(match["named"] or _is_mixed(match["body"]))


_JUDGES: dict[str, Judge] = {
    "any": lambda match: True,
    "chosen": lambda match: _is_password(match["value"], is_assigned=True),
    "issued": lambda match: not is_placeholder(match["body"]),
    "issued_at_random": lambda match: _is_random_body(match["body"], min_chars=10),
    "named_token": _is_named_token,
    "password_of_url": _is_password_of_url,
    "random": lambda match: looks_random(match["value"]),
    "real": _is_real,
    "user_and_password": _is_user_and_password,
}


@dataclass(frozen=True, eq=False)
class CredentialRule:
    """One form of credential: the group `value` of its pattern, else the whole match."""

    source: str
    kind: str
    judge: Judge
    """Whether a match counts."""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(self.source)

    @cached_property
    def group(self) -> str | int:
        """The group of the pattern that is the credential."""
        return "value" if "value" in self.pattern.groupindex else 0


def _read_tokens() -> Iterator[tuple[str, CredentialRule]]:
    for row in json.loads(_TABLES.joinpath("tokens.json").read_bytes()):
        judge = _JUDGES["issued_at_random" if row.get("random") else "issued"]
        before = "[A-Za-z0-9_-]" if row.get("compound") else "[A-Za-z0-9]"
        for prefix in row["prefixes"]:
            begin = re.escape(prefix)  # first, since a search for a plain text is the fastest
            source = f"{begin}(?<!{before}{begin})(?P<body>{row['body']})"
            yield prefix, CredentialRule(source, row["kind"], judge)


def _read_forms() -> Iterator[tuple[str, CredentialRule]]:
    for row in tomllib.loads(_TABLES.joinpath("forms.toml").read_text("utf-8"))["form"]:
        kind, judge = row.get("kind", "password"), _JUDGES[row.get("judge", "chosen")]
        rule = CredentialRule(row["pattern"], kind, judge)
        yield from ((hint, rule) for hint in row["hints"])


TOKENS, HINTED = tuple(_read_tokens()), tuple(_read_forms())
"""A rule is tried only on a text that has its hint: a token's prefix, or a lower-case word."""


# Values that a text assigns to the name of a secret.

_FOREIGN_PASSWORDS = (
    "contraseña", "senha", "mot de passe", "kennwort", "wachtwoord", "lösenord", "hasło",
    "пароль", "密码", "密碼", "パスワード", "비밀번호",
)  # fmt: skip
_PASSWORD_NAME = re.compile(
    r"passwor[dt]|passwd|passphrase|passcode|passe|pass|pwd|" + "|".join(_FOREIGN_PASSWORDS)
)
_SECRET_NAME = re.compile(r"secrets?|tokens?|bearer|credentials?|sig|keys?|_pat(?![a-z])")
_KEY_OF = (
    "api", "access", "secret", "private", "signing", "encryption", "master", "account", "auth",
    "license", "deploy", "service", "client", "app", "admin", "subscription", "storage", "shared",
)  # fmt: skip
"""Words before `key` that make it a secret (`primary key` and `public key` are not)."""
_HINTS = (
    *("pass", "pwd", "secret", "token", "key", "credential", "bearer", "sig", "_pat"),
    *_FOREIGN_PASSWORDS,
)
_VALUE = re.compile(
    r"(?:[ \t]?\([^()\n]{1,16}\))?"
    r"(?:[ \t]{1,2}(?:for|of|to|on|at|in)(?:[ \t]{1,2}(?!(?:is|was|are)[ \t])[^\s:=]{1,40}){1,3})?"
    r"""[\\"'`\])]{0,4}[ \t]{0,4}"""
    r"(?P<sep>=>|:=|->|→|[:=＝：]=?|(?:is|was|are|ist|est|es|это|は|是)(?=[ \t:])|(?<=[ \t]))"
    r"""[ \t:]{0,4}(?P<quote>[\\"'`]{0,3})(?P<value>[^\s"'`<>]{6,256})"""
)

_ASSIGNS = frozenset(["=>", ":=", "->", "→", ":", "=", "==", ":=", "＝", "："])


def find_assigned(text: str, lowered: str) -> Iterator[tuple[int, int, str]]:
    """Yields the start, end and kind of each value that the text assigns to a secret's name."""
    done, hints = 0, list[int]()
    for word in _HINTS:  # searching word by word is far cheaper than one pattern
        if word in lowered:
            hints += map(re.Match.start, re.finditer(word, lowered))
    for hint in sorted(hints):
        password = _PASSWORD_NAME.match(lowered, hint)
        name = password or _SECRET_NAME.match(lowered, hint)
        if hint < done or name is None:
            continue
        before = lowered[max(0, hint - 24) : hint]
        if name[0].startswith("key") and not before[-16:].rstrip(" _-").endswith(_KEY_OF):
            continue
        match = _VALUE.match(lowered, name.end())
        if match is None:
            continue
        start, end = match.span("value")
        value = text[start:end]
        if not match["quote"]:
            value = re.split(r"[,;|&]", value, maxsplit=1)[0]
        value = value.rstrip(".,;:!?)]}\\|")
        kind = "password" if password else "secret"
        is_option = "--" in before.rsplit(" ", 1)[-1]
        if _is_assigned(match["sep"], kind, name[0], value, is_option=is_option):
            yield start, start + len(value), kind
        if match["sep"] in _ASSIGNS:
            done = start + len(value)


def _is_assigned(separator: str, kind: str, name: str, value: str, *, is_option: bool) -> bool:
    is_uuid = bool(_UUID.fullmatch(value))
    if not separator:
        # `password hunter2hunter2` is a sentence more often than a credential.
        is_random = looks_random(value, min_chars=8 if is_option else 12)
        return is_random and _is_value(value) and not is_uuid
    if kind == "password":
        return _is_password(value, is_assigned=not separator.isalpha())
    if name == "sig":
        return looks_random(value, min_chars=24)
    is_random = looks_random(value, min_chars=12 if _is_mixed(value) else 16)
    return _is_value(value) and (is_random or is_uuid)


# What one value looks like, without its context.

_PLACEHOLDER = re.compile(
    r"\$\{|\$\(|\{\{|\.\.\.|…|\*\*\*|••|xxxx|your|example|change-?me|redacted|masked|placeholder|"
    r"dummy|sample|replace|op://|vault:|secretsmanager|arn:aws|ssm:|env:|environ|process\.|getenv|"
    r"%\(|^%s|^\$[a-z_]|^\{[a-z_.]+\}|^\[|^<|^@|^none\b|^null\b|^true\b|^false\b"
)
_TECHNICAL = re.compile(
    r"(?:sha|md|argon|bcrypt|scrypt|pbkdf|base|utf|oauth|rsa|aes|hmac|hs|rs|es|ed|v|p|id|type|"
    r"version|level|step|line|page|test|user|admin|field|input|form|key|token|password)"
    r"-?_?\d{1,4}[a-z]{0,3}",
    re.IGNORECASE,
)
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_CALL_OR_PATH_OR_HASH = re.compile(
    r"[A-Za-z_][\w.]*[(\[]|(?i:sha\d{1,3}|md5|blake\w{1,3})[:-]|~/|\.{1,2}/|"
    r"/(?:home|usr|etc|var|tmp|opt|run|root|mnt|srv|app|dev|proc|Users|workspace)/"
)
_PARTS = re.compile(r"[-_./:@+=~#]+")
_WORD_PART = re.compile(r"[A-Za-z]?[a-z]*|[A-Z]+|\d{1,4}|[vV]\d{1,3}|[a-z]{2,}\d{1,2}")


def looks_random(value: str, *, min_chars: int = 16) -> bool:
    """Whether a value looks like an issued secret: mixed letters and digits that form no words."""
    if len(value) < min_chars or is_placeholder(value) or _consists_of_words(value):
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


def _is_scrambled(body: str) -> bool:
    """Whether a long run of letters and digits looks random by its mixed case."""
    if len(body) < 28 or not body.isalnum():
        return False
    upper = sum(c.isupper() for c in body)
    changes = sum(a.islower() != b.islower() for a, b in itertools.pairwise(body))
    return len(body) < 5 * upper < 4 * len(body) and changes * 3 >= len(body)


def _is_mixed(value: str) -> bool:
    """Whether a value has upper case, lower case and digits, as issued secrets have."""
    return all(any(map(has, value)) for has in (str.islower, str.isupper, str.isdigit))


def _is_password(value: str, *, is_assigned: bool) -> bool:
    """Whether a value looks like a password, in an assignment (`is_assigned`) or a sentence."""
    is_id = _UUID.fullmatch(value) or _TECHNICAL.fullmatch(value)
    if len(value) < (6 if is_assigned else 8) or not _is_value(value) or is_id:
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
    """Whether a value is all letters, in mixed case unlike that of words or identifiers."""
    if len(value) < 10 or not value.isalpha():
        return False
    ups = sum(a.islower() and b.isupper() for a, b in itertools.pairwise(value))
    downs = sum(a.isupper() and b.islower() for a, b in itertools.pairwise(value))
    short = sum(1 for part in re.findall(r"[A-Z]?[a-z]+", value) if len(part) < 4)
    return ups + downs >= len(value) // 3 and short * 2 > ups


def _is_value(value: str) -> bool:
    """Whether a value is no reference, call, path, hash or URL."""
    return not (is_placeholder(value) or _CALL_OR_PATH_OR_HASH.match(value) or "://" in value)


def _consists_of_words(value: str) -> bool:
    return all(map(_WORD_PART.fullmatch, _PARTS.split(value)))
