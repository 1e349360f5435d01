"""A command's words told apart: its options, their values, and what is no option.

What an option does is for the command's judge.
"""

import re
from collections.abc import Iterable

from kode.permissions.shell.words import UNKNOWN, Word


def positionals(words: list[Word], takes_value: Iterable[str] = ()) -> list[Word]:
    """The words that are no options, without the values of options that take one. `--` ends
    options."""
    with_value = set(takes_value)
    out: list[Word] = []
    rest = iter(words)
    for word in rest:
        if word.text == "--":
            return [*out, *rest]
        if word.text.startswith("-") and word.text != "-":
            if word.text in with_value:
                next(rest, None)
            continue
        out.append(word)
    return out


def option_values(words: list[Word], names: Iterable[str]) -> list[Word]:
    """The values of options: `-o x`, `-ox`, `--output x`, `--output=x`, `--outp=x`."""
    out: list[Word] = []
    known = tuple(names)
    for index, word in enumerate(words):
        if word.text == "--":
            break
        for name in known:
            if word.text == name and index + 1 < len(words):
                out.append(words[index + 1])
            elif name.startswith("--") and _abbreviates(word.text, name):
                if "=" in word.text:
                    out.append(Word(word.text.split("=", 1)[1], word.glob))
                elif index + 1 < len(words):
                    out.append(words[index + 1])
            elif (
                len(name) == 2
                and word.text.startswith("-")
                and not word.text.startswith("--")
                and name[1] in word.text[1:]
                and word.text != name
            ):
                cluster = word.text.split(name[1], 1)[1]
                out.append(
                    Word(cluster, word.glob)
                    if cluster
                    else words[index + 1]
                    if index + 1 < len(words)
                    else Word(UNKNOWN)
                )
    return out


def has_option(words: list[Word], *names: str) -> bool:
    """Whether an option is given: alone, in a cluster (`-xvf`), with a value or abbreviated."""
    for word in words:
        text = word.text
        if text == "--":
            return False
        if not text.startswith("-"):
            continue
        for name in names:
            if text == name:
                return True
            if name.startswith("--"):
                if _abbreviates(text, name):
                    return True
            elif len(name) == 2 and not text.startswith("--") and name[1] in text[1:]:
                return True
    return False


def has_flag(words: list[Word], *names: str, valued: str = "") -> bool:
    """Whether an option without a value is surely given, for options that make a command milder:
    `has_option` says yes when in doubt, this says no. `valued` are the letters of the program's
    options that take a value, which is what follows such a letter: `-e.env` has no `-n`."""
    found = False
    rest = iter(words)
    for word in rest:
        text = word.text
        if text == "--":
            break
        if text.startswith("--"):
            if text.startswith("--no-") and f"--{text[5:]}" in names:
                return False
            found = found or any(n.startswith("--") and _abbreviates(text, n) for n in names)
        elif text.startswith("-"):
            letters = re.split(f"[{valued}]", text[1:], maxsplit=1)[0] if valued else text[1:]
            found = found or any(len(n) == 2 and n[1] in letters for n in names)
            if len(letters) == len(text) - 2:
                next(rest, None)
    return found


def _abbreviates(text: str, name: str) -> bool:
    """GNU tools take any beginning of a long option."""
    given = text.split("=", 1)[0]
    return len(given) > 3 and name.startswith(given)
