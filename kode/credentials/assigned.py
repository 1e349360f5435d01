"""Finds values that a text calls secret by assigning them to a name: `password = ...`, `the api key
is ...`."""

import re
from collections.abc import Iterator

from kode.credentials.values import UUID, is_mixed, is_password, is_value, looks_random

_PASSWORD_NAME = re.compile(
    r"passwor[dt]|passwd|passphrase|passcode|passe|pass|pwd|contraseña|senha|mot de passe|kennwort|"
    r"wachtwoord|lösenord|hasło|пароль|密码|密碼|パスワード|비밀번호"
)
_SECRET_NAME = re.compile(r"secrets?|tokens?|bearer|credentials?|sig|keys?|_pat(?![a-z])")
_KEY_OF = (
    "api", "access", "secret", "private", "signing", "encryption", "master", "account", "auth",
    "license", "deploy", "service", "client", "app", "admin", "subscription", "storage", "shared",
)  # fmt: skip
"""Words before `key` that make it a secret (`primary key` and `public key` are not)."""
_HINTS = ("pass", "pwd", "secret", "token", "key", "credential", "bearer", "sig", "senha",
          "kennwort", "wachtwoord", "_pat")  # fmt: skip
_FOREIGN_HINTS = (
    "contraseña", "senha", "mot de passe", "kennwort", "wachtwoord", "lösenord", "hasło",
    "пароль", "密码", "密碼", "パスワード", "비밀번호",
)  # fmt: skip
_VALUE = re.compile(
    r"(?:[ \t]?\([^()\n]{1,16}\))?"
    r"(?:[ \t]{1,2}(?:for|of|to|on|at|in)(?:[ \t]{1,2}(?!(?:is|was|are)[ \t])[^\s:=]{1,40}){1,3})?"
    r"""[\\"'`\])]{0,4}[ \t]{0,4}"""
    r"(?P<sep>=>|:=|->|→|[:=＝：]=?|(?:is|was|are|ist|est|es|это|は|是)(?=[ \t:])|(?<=[ \t]))"
    r"""[ \t:]{0,4}(?P<quote>[\\"'`]{0,3})(?P<value>[^\s"'`<>]{6,256})"""
)

_LIST_SEPARATOR = re.compile(r"[,;|&]")
_ASSIGNS = frozenset(["=>", ":=", "->", "→", ":", "=", "==", ":=", "＝", "："])


def assignments(text: str, lowered: str) -> Iterator[tuple[int, int, str]]:
    """Start, end and kind of each value."""
    done = 0
    for hint in _hints(lowered):
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
            value = _LIST_SEPARATOR.split(value, maxsplit=1)[0]
        value = value.rstrip(".,;:!?)]}\\|")
        kind = "password" if password else "secret"
        is_option = "--" in before.rsplit(" ", 1)[-1]
        if _is_assigned(match["sep"], kind, name[0], value, is_option=is_option):
            yield start, start + len(value), kind
        if match["sep"] in _ASSIGNS:
            done = start + len(value)


def _hints(lowered: str) -> list[int]:
    """Where the name of a secret may be. One find per word is far cheaper than one pattern for
    all."""
    places = []
    for hint in _HINTS if lowered.isascii() else _HINTS + _FOREIGN_HINTS:
        position = lowered.find(hint)
        while position >= 0:
            places.append(position)
            position = lowered.find(hint, position + len(hint))
    return sorted(places)


def _is_assigned(separator: str, kind: str, name: str, value: str, *, is_option: bool) -> bool:
    is_uuid = bool(UUID.fullmatch(value))
    if not separator:
        # `password hunter2hunter2` is a sentence more often than a credential.
        is_random = looks_random(value, min_chars=8 if is_option else 12)
        return is_random and is_value(value) and not is_uuid
    if kind == "password":
        return is_password(value, is_assigned=not separator.isalpha())
    if name == "sig":
        return looks_random(value, min_chars=24)
    is_random = looks_random(value, min_chars=12 if is_mixed(value) else 16)
    return is_value(value) and (is_random or is_uuid)
