"""What goes through a pipe, where it can be known: fixed text, or names of the project's files."""

import base64
import binascii
import re
from collections.abc import Sequence

from kode.permissions.shell_class import PartClass
from kode.permissions.shell_find import found_names
from kode.permissions.shell_words import FOUND, KEPT, UNKNOWN, Word, decoded_printf

MAX_TEXT = 20_000


def printed(words: list[str], given: str | None) -> str | None:
    """What a command with these words prints when it reads `given`; None when it is not known."""
    name, arguments = words[0].removeprefix("/usr/bin/").removeprefix("/bin/"), words[1:]
    match name:
        case "echo":
            return _echoed(arguments)
        case "printf":
            return _formatted(arguments)
    if given is None or len(given) > MAX_TEXT:
        return None
    match name, arguments:
        case (("cat" | "tee"), ([] | ["-"])):
            return given
        case "rev", []:
            return "\n".join(line[::-1] for line in given.split("\n"))
        case (("base64" | "gbase64"), ["-d" | "-D" | "--decode" | "-di" | "-id"]):
            return _decoded(given)
        case "xxd", (["-r", "-p"] | ["-rp"] | ["-p", "-r"] | ["-pr"] | ["-r", "-ps"]):
            return _unhexed(given)
    return None


def _echoed(arguments: list[str]) -> str:
    while arguments and re.fullmatch(r"-[neE]+", arguments[0]):
        arguments = arguments[1:]
    return decoded_printf(" ".join(arguments))


def _formatted(arguments: list[str]) -> str | None:
    if not arguments or arguments[0].startswith("-"):
        return None
    values = iter(arguments[1:])
    return decoded_printf(re.sub(r"%[-\d.]*[sbqdcx]", lambda _: next(values, ""), arguments[0]))


def _decoded(text: str) -> str | None:
    try:
        return base64.b64decode(text, validate=False).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return None


def _unhexed(text: str) -> str | None:
    try:
        return bytes.fromhex(text).decode("utf-8", "replace")
    except ValueError:
        return None


_FILTERS = frozenset({"sort", "head", "tail", "uniq", "grep", "sed", "tr", "wc"})


def lists_names(parts: Sequence[PartClass]) -> tuple[str, ...]:
    """Words for the files of the project whose names a pipe's commands print; none when they
    print something else."""
    argv = parts[0].argv if parts else None
    if argv is None or any(part.klass != "safe" or part.argv is None for part in parts):
        return ()
    if any(part.argv and part.argv[0] not in _FILTERS for part in parts[1:]):
        return ()
    if any(UNKNOWN in word for word in argv) or any(
        word.startswith(("/", "~")) or ".." in word for word in argv[1:]
    ):
        return ()
    every = (f"./{FOUND}",)
    kept = (f"./{FOUND}{KEPT}",)
    match argv[0]:
        case "find":
            folder = argv[1] if len(argv) > 1 and not argv[1].startswith(("-", "(", "!")) else "."
            conditions = [Word(word) for word in argv[1:]]
            return tuple(f"{folder}/{FOUND}{name}" for name in found_names(conditions))
        case "ls":
            return () if any(re.match(r"-\w*l", word) for word in argv[1:]) else every
        case "git" if argv[1:2] == ("ls-files",) or (
            argv[1:2] == ("diff",) and "--name-only" in argv
        ):
            return kept if not any(re.match(r"-\w*o|--others", w) for w in argv) else every
        case "fd":
            return every if any(re.match(r"-\w*[HIu]|--(hid|no-i|unr)", w) for w in argv) else kept
        case "rg" | "grep" if any(
            re.fullmatch(r"-\w*[lL]\w*|--files(-with-matches|-without-match)?", word)
            for word in argv[1:]
        ):
            return kept if argv[0] == "rg" and not any("u" in w for w in argv[1:]) else every
    return ()
