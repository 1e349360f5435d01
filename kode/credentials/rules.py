"""The forms of credentials that a pattern can tell: tokens of providers by their prefix (the rows
of `tokens.json`), and others by shape or by a telling word nearby.

Of each row of the table: `kind`, `prefixes`, and `body`, the pattern of what follows a prefix.
`random`: the prefix is common, so the body must look random to count. A prefix counts unless a
letter or digit precedes it. With `compound` the body has several parts, and `-` or `_` may not
precede it either: a run of such characters is tried once, not once for each time it has the prefix.
"""

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib import resources

from kode.credentials.values import (
    is_mixed,
    is_password,
    is_placeholder,
    is_scrambled,
    looks_random,
)

Judge = Callable[[re.Match[str]], bool]


def _is_chosen(match: re.Match[str]) -> bool:
    return is_password(match["value"], is_assigned=True)


@dataclass(frozen=True, eq=False)
class Rule:
    """One form. The group `value` of the pattern is the credential, else all that it matches."""

    hints: tuple[str, ...]
    """The pattern is only searched in a text that has one of these in lower case."""
    source: str
    kind: str = "password"
    judge: Judge = _is_chosen

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(self.source)

    @cached_property
    def group(self) -> str | int:
        """The group of the pattern that is the credential."""
        return "value" if "value" in self.pattern.groupindex else 0


def _always(match: re.Match[str]) -> bool:
    return True


def _is_real(match: re.Match[str]) -> bool:
    value = match["value"]
    return not is_placeholder(value) and not value.startswith(("$", "%", "{", "<"))


def _is_random(match: re.Match[str]) -> bool:
    return looks_random(match["value"])


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
    if password == user or password.lower() in _DEFAULT_PASSWORDS:
        return False
    return not is_placeholder(password) and not password.startswith(("$", "%", "{", "<", ":"))


def _is_issued(match: re.Match[str]) -> bool:
    """Of a token with a prefix."""
    return not is_placeholder(match["body"])


def _is_issued_at_random(match: re.Match[str]) -> bool:
    body = match["body"]
    is_random = looks_random(body, min_chars=10) or is_scrambled(body)
    return is_random and not is_placeholder(body)


def _is_named_token(match: re.Match[str]) -> bool:
    body = match["body"]
    is_random = (looks_random(body) or is_scrambled(body)) and not is_placeholder(body)
    return is_random and (bool(match["named"]) or is_mixed(body))


def _tokens() -> Iterator[Rule]:
    text = resources.files("kode.credentials").joinpath("tokens.json").read_bytes()
    for row in json.loads(text):
        judge = _is_issued_at_random if row.get("random") else _is_issued
        before = "[A-Za-z0-9_-]" if row.get("compound") else "[A-Za-z0-9]"
        for prefix in row["prefixes"]:
            begin = re.escape(prefix)  # first, since a search for a plain text is the fastest
            source = f"{begin}(?<!{before}{begin})(?P<body>{row['body']})"
            yield Rule((prefix,), source, row["kind"], judge)


TOKENS = tuple(_tokens())

_AUTH = ("bearer", "basic", "authorization")
_WORDS = r"(?P<value>(?:[a-z]{3,8}[ ,]{1,2}){11,23}[a-z]{3,8})"

RULES = (
    Rule(
        ("hooks.slack.com/",),
        r"hooks\.slack\.com/services/(?P<body>[A-Za-z0-9/]{20,})",
        kind="Slack webhook",
        judge=_is_issued_at_random,
    ),
    Rule(
        ("webhook.office.com/",),
        r"webhook\.office\.com/webhookb2/(?P<body>[A-Za-z0-9@/-]{40,})",
        kind="Teams webhook",
        judge=_is_issued,
    ),
    Rule(
        (".atlasv1.",),
        r"(?<![A-Za-z0-9])[A-Za-z0-9]*\.atlasv1\.(?P<body>[A-Za-z0-9_=-]{30,})",
        kind="Terraform token",
        judge=_is_issued,
    ),
    Rule(
        (":aa",),
        r"(?<![A-Za-z0-9])[A-Za-z0-9]*\d{6}:AA(?P<body>[A-Za-z0-9_-]{32,})(?![A-Za-z0-9_-])",
        kind="Telegram token",
        judge=_is_issued,
    ),
    Rule(
        (".",),
        r"(?P<value>[MNO](?<![A-Za-z0-9_-][MNO])[\w-]{17,30}\.[\w-]{6,7}\.[\w-]{25,50})",
        kind="Discord token",
        judge=_is_random,
    ),
    Rule(("q~",), r"[\w~.-]{3}\dQ~[\w~.-]{30,36}", kind="Azure client secret", judge=_always),
    Rule(
        ("-us",), r"[0-9a-f]{32}-us[0-9]{1,2}(?![A-Za-z0-9])", kind="Mailchimp key", judge=_always
    ),
    Rule(
        ("sshpass",),
        r"sshpass\s+-p\s*[\"']?(?P<value>[^\s\"']{4,128})",
        kind="SSH password",
        judge=_is_real,
    ),
    Rule(
        ("pw",),
        r"\b[Pp][Ww]\b(?: (?:for|of|on|to)(?: [\w.-]{1,40}){1,3}?)?(?: is|[ \t]{0,2}[:=])"
        r"[ \t\"']{0,3}(?P<value>[^\s\"',;]{6,128})",
    ),
    Rule(("login",), r"[Ll]ogin\b[:=]?[ \t]{1,2}\S{1,64}[ \t]{0,2}/[ \t]{0,2}(?P<value>\S{8,128})"),
    Rule(
        ("define(",),
        r"define\(\s*[\"']\w*(?:PASS|SECRET|KEY|TOKEN|SALT)\w*[\"']\s*,"
        r"\s*[\"'](?P<value>[^\"']{8,256})[\"']",
    ),
    Rule(
        ("secret_key_base",),
        r"secret_key_base\W{1,5}(?P<value>[0-9a-f]{64,})",
        kind="secret",
        judge=_is_real,
    ),
    Rule(
        ("ac",), r"AC(?<!\wAC)[0-9a-f]{32}:(?P<value>[0-9a-f]{32})\b", kind="token", judge=_is_real
    ),
    Rule(
        ("cookie",),
        r"[Cc]ookie:\s*(?:[^;\n]{0,200};\s*)?[\w.-]{0,40}(?:[Ss]ess|[Ss]id|[Aa]uth|[Tt]oken|jwt)"
        r"[\w.-]{0,40}=(?P<value>[A-Za-z0-9%._~+/-]{20,})",
        kind="cookie",
        judge=_is_real,
    ),
    Rule(
        (":$",),
        r"[\w.-]{1,64}:(?P<value>\$(?:apr1|1|2[abxy]|5|6|y|7)\$[./A-Za-z0-9$=,-]{20,})",
        kind="password hash",
        judge=_always,
    ),
    Rule(
        ("putty-user-key",),
        r"PuTTY-User-Key-File[^\0]{1,2000}?Private-Lines:\s*\d+\s+(?P<value>[A-Za-z0-9+/=]{16,})",
        kind="private key",
        judge=_is_real,
    ),
    Rule(
        (" phrase", "mnemonic"),
        r"(?:(?:[Ss]eed|[Rr]ecovery|[Mm]nemonic|[Bb]ackup|[Ww]allet) phrase|[Mm]nemonic)\b"
        rf"[^A-Za-z]{{0,20}}(?:is[^A-Za-z]{{1,5}})?{_WORDS}",
        kind="seed phrase",
        judge=_is_real,
    ),
    # a line of `.pgpass`
    Rule(
        (":",),
        r":(?<=[\w.*-]{3}:)\d{2,5}:[\w*-]{1,40}:[\w*-]{1,40}:"
        r"(?P<value>(?=\S{0,63}\d)(?=\S{0,63}[A-Za-z])[^\s:\"'<>]{8,64})",
    ),
    Rule(
        (":",),
        r"/(?<=(?<![\w/])\d/)\d{10,20}:(?P<value>[0-9a-f]{32})(?![0-9A-Za-z])",
        kind="token",
        judge=_is_real,
    ),
    # `shippo_live_...`, `acme_key_...`; or a short name and a long random part
    Rule(
        ("",),
        r"(?<![A-Za-z0-9_/.-])(?!sha\d|md5|blake|crc)[a-z][a-z0-9]{1,14}[_-](?:(?P<named>(?:live|prod|"
        r"secret|pat|api|key|token|tok|tkn|sk|private|admin|access)[_-](?:[a-z0-9]{1,4}[_-])?)"
        r"(?=[A-Za-z0-9_-]{16})|(?=[A-Za-z0-9]{32}))(?P<body>[A-Za-z0-9]{16,}(?:[_-][A-Za-z0-9]+)*)",
        kind="token",
        judge=_is_named_token,
    ),
    Rule(
        ("://",),
        r"://(?P<user>[^\s:/@?#\"'<>`]{0,128}):(?P<value>[^\s/@\"'<>`]{1,256})@",
        judge=_is_password_of_url,
    ),
    Rule(
        _AUTH,
        r"(?i:bearer|digest|token)[ \t]{1,4}(?P<value>[A-Za-z0-9._~+/=-]{8,})",
        kind="authorization",
        judge=_is_random,
    ),
    Rule(
        _AUTH,
        r"(?i:basic)[ \t]{1,4}(?P<value>[A-Za-z0-9._~+/=-]{8,})",
        kind="authorization",
        judge=_is_user_and_password,
    ),
    Rule(
        ('auth"', "auth\\", "auth'"),
        r"(?i:auth)\\?[\"'][ \t]{0,4}:[ \t]{0,4}\\?[\"'](?P<value>[A-Za-z0-9+/=]{8,})",
        kind="authorization",
        judge=_is_user_and_password,
    ),
    Rule(("login",), r"login[ \t]{1,4}\S{1,128}[ \t\n]{1,4}password[ \t]{1,4}(?P<value>\S{4,256})"),
    Rule(
        ("-u", "--user"),
        r"(?:\s-u|--user)[ =]{1,4}[\"']?[^\s:\"']{1,128}:(?P<value>[^\s\"']{4,256})",
    ),
)

HINTED = tuple((hint, rule) for rule in RULES for hint in rule.hints)
