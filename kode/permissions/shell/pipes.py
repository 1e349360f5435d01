"""What goes through a pipe, where it can be known: fixed text, or names of the project's files."""

import base64
import binascii
import os
import re
from collections.abc import Sequence

from kode.permissions.shell.classes import PartClass
from kode.permissions.shell.find import found_names
from kode.permissions.shell.words import FOUND, KEPT, UNKNOWN, Word, decoded_printf

MAX_TEXT = 20_000
MAX_ROUNDS = 100


def printed(words: list[str], given: str | None) -> str | None:
    """What a command with these words prints when it reads `given`; None when it is not known."""
    name, arguments = words[0].removeprefix("/usr/bin/").removeprefix("/bin/"), words[1:]
    match name:
        case "echo":
            return _echoed(arguments)
        case "printf":
            return _formatted(arguments)
    if len(words) < MAX_ROUNDS and (sample := _sample(name, arguments)) is not None:
        return sample
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


_REVISION = re.compile(r"--short(?:=\d+)?|--verify|[\w@][\w/.~^@{}-]*")


def _sample(name: str, arguments: list[str]) -> str | None:
    """A text that stands for what a command prints, which is one word of letters and figures."""
    match name, arguments:
        case "nproc", []:
            return "1"
        case "mktemp", ([] | ["-d"]):
            return "/tmp/tmp.0"
        case "date", [form] if re.fullmatch(r"\+[%\w.:-]+", form):
            return re.sub(r"%-?\w", "0", form[1:])
        case "basename", [path]:
            return os.path.basename(path.rstrip("/"))
        case "dirname", [path]:
            return os.path.dirname(path.rstrip("/")) or "."
        case "git", ["merge-base" | "rev-parse", *rest]:
            plain = rest and all(_REVISION.fullmatch(word) for word in rest)
            return "0000000" if plain else None
    return None


def _echoed(arguments: list[str]) -> str:
    while arguments and re.fullmatch(r"-[neE]+", arguments[0]):
        arguments = arguments[1:]
    return decoded_printf(" ".join(arguments))


def _formatted(arguments: list[str]) -> str | None:
    """`printf`, which begins its format again while there are arguments."""
    if not arguments or arguments[0].startswith("-"):
        return None
    form, values = arguments[0], arguments[1:]
    pieces = re.split(r"(%[sbd%])", form)
    if any("%" in piece for piece in pieces[::2]):
        return None
    taken = sum(piece != "%%" for piece in pieces[1::2])
    rounds = -(-len(values) // taken) if taken and values else 1
    given = iter(values)
    made = [
        piece if "%" not in piece else "%" if piece == "%%" else next(given, "")
        for piece in pieces * min(rounds, MAX_ROUNDS)
    ]
    return decoded_printf("".join(made)) if rounds <= MAX_ROUNDS else None


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


_FILTERS = frozenset({"sort", "head", "tail", "uniq", "grep", "wc"})
_PRINTS_OTHERWISE = re.compile(
    r"-(?:printf|fprint\w*|fls|ls|exec\w*|ok\w*)$|--(?:format|label|path-sep|base-dir|strip|repl)"
)
"""Options with which a program that lists names prints something else."""


def _only_chooses(part: PartClass) -> bool:
    """Whether a filter lets lines through as they are, and has no lines of its own."""
    argv = part.argv or ("",)
    if part.reads:
        return False
    if argv[0] == "sed":
        script = " ".join(argv[1:])
        return re.fullmatch(r"-n [\d,$;p]+|[\d,$]+[dq]", script) is not None
    if argv[0] == "tr":
        return argv[1:] in (("\\n", "\\0"), ("\\0", "\\n"), ("\\n", " "))
    if argv[0] == "grep" and any(re.match(r"-\w*[ocbn]|--(?:o|c|b|l)", word) for word in argv[1:]):
        return False
    return argv[0] in _FILTERS


def lists_names(parts: Sequence[PartClass]) -> tuple[str, ...]:
    """Words for the files of the project whose names a pipe's commands print; none when they
    print something else."""
    argv = parts[0].argv if parts else None
    if argv is None or any(part.klass != "safe" or part.argv is None for part in parts):
        return ()
    if not all(_only_chooses(part) for part in parts[1:]):
        return ()
    if any(_PRINTS_OTHERWISE.match(word) for word in argv[1:]):
        return ()
    if any(UNKNOWN in word for word in argv) or any(
        word.startswith(("/", "~")) or ".." in word.split("/") for word in argv[1:]
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
