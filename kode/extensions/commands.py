"""Prompt commands, written as Markdown: `/review 12` stands for the text of `review.md`.

What a text runs first, between !` and `, passes the gate like any command; see
`kode.conversation.turns`.
"""

import contextlib
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kode.errors import ConfigError
from kode.extensions.places import Document, Place, files_below, read_document, read_text
from kode.extensions.trust import Item
from kode.messages import shorten
from kode.permissions.rules import parse
from kode.permissions.tool_names import rules_of

MAX_DESCRIPTION_CHARS = 200  # a line or two of a menu
MAX_FILES = 20
"""Limit of files that a command may include with `@`."""

_ARGUMENT = re.compile(r"\$(?:ARGUMENTS\b|([1-9])(?!\d))")
_RUN = re.compile(r"(?:^|(?<=[\s(]))!`([^`\n]+)`", re.MULTILINE)
_FILE = re.compile(r"(?:^|(?<=[\s(`\"']))@((?:~/)?[\w./-]*\w)")
_NAME = re.compile(r"[\w.-]+(?::[\w.-]+)*")


@dataclass(frozen=True, kw_only=True)
class Command:
    item: Item
    place: Place
    description: str
    body: str
    argument_hint: str = ""
    model: str = ""
    """For the turn it starts; "": the current one."""
    allowed: tuple[str, ...] | None = None
    """Rules that the calls of its turn must match; None: no such limit. They allow nothing."""


@dataclass(frozen=True)
class Piece:
    """A part of a command's text."""

    text: str
    runs: bool = False
    """Whether it is a command line, to be replaced by its output."""


def list_commands(folder: Path) -> Iterator[tuple[str, Path]]:
    """The files of commands in a folder, with their names."""
    for path in files_below(folder, ".md"):
        yield path.relative_to(folder).with_suffix("").as_posix().replace("/", ":"), path


def read_command(path: Path, place: Place, name: str) -> Command:
    """Raises: ConfigError that says in a few words why it cannot be used."""
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{path} has a name that cannot be typed as a command")
    text = read_text(path, place)
    document = read_document(text)
    if document.problem:  # without its limits it would do more than intended
        raise ConfigError(f"{path}: {document.problem}")
    first_line = document.body.partition("\n")[0].lstrip("# ")
    return Command(
        item=Item(kind="command", name=name, origin=path, scope=place.scope, content=text),
        place=place,
        description=shorten(document.text("description") or first_line, MAX_DESCRIPTION_CHARS),
        body=document.body,
        argument_hint=document.text("argument-hint"),
        model=document.text("model"),
        allowed=_read_allowed(document),
    )


def files_named(body: str, arguments: str, cwd: Path) -> list[str]:
    """The files that a command names after `@`, relative to the working directory; anything else is
    just a word."""
    text = _fill(_RUN.sub("", body), arguments, _words(arguments))
    names = dict.fromkeys(match[1] for match in _FILE.finditer(text))
    return [name for name in names if (cwd / name).is_file()][:MAX_FILES]


def _read_allowed(document: Document) -> tuple[str, ...] | None:
    """The rules in `allowed-tools`; an invalid one matches nothing. Never raises."""
    if "allowed-tools" not in document.fields:
        return None
    pieces = []
    for text in rules_of(document.text("allowed-tools")):
        with contextlib.suppress(ConfigError):
            pieces.append(str(parse(text)))
    return tuple(pieces)


def pieces(body: str, arguments: str) -> list[Piece]:
    """Expands a body with these arguments, in order. Substituted words for `$ARGUMENTS` and `$1` to
    `$9` are not expanded again. Arguments without a placeholder follow at the end."""
    words = _words(arguments)
    pieces: list[Piece] = []
    position = 0
    for match in _RUN.finditer(body):
        pieces.append(Piece(_fill(body[position : match.start()], arguments, words)))
        pieces.append(Piece(_fill(match[1], arguments, words), runs=True))
        position = match.end()
    pieces.append(Piece(_fill(body[position:], arguments, words)))
    if arguments and not _ARGUMENT.search(body):
        pieces.append(Piece(f"\n\nARGUMENTS: {arguments}"))
    return [piece for piece in pieces if piece.text]


def _fill(text: str, arguments: str, words: Sequence[str]) -> str:
    def value(match: re.Match[str]) -> str:
        if match[1] is None:
            return arguments
        number = int(match[1])
        return words[number - 1] if number <= len(words) else ""

    return _ARGUMENT.sub(value, text)


def _words(arguments: str) -> list[str]:
    try:
        return shlex.split(arguments)
    except ValueError:  # an unclosed quote, as in "don't"
        return arguments.split()
